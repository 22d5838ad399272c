//! What an orchestrator asks: whether the gate lives, whether it may be sent calls, and what it counted.
//!
//! Promises: `/livez` answers as long as the process runs; `/readyz` answers 200 once the policy is loaded and the
//! store's schema was seen to fit, and 503 from the moment the gate drains. Neither asks store or upstream: or all pods
//! would leave at once. Its body names the policy in force and, where the last reload failed, says that and where to
//! look: the gate is ready all the same, by what was in force before. `/metrics` is what Prometheus scrapes, and names no tenant, user or key.
//!
//! Absent on purpose: everything else; this listener has no token.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::service_fn;
use tower::util::ServiceFn;

use super::policy::{InForce, PolicyStatus};
use crate::meter::{Format, Meter};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Of so many mistakes it is told where they stand.
const MOST_PLACES: usize = 5;

/// Whether the gate may be sent calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    fits: AtomicBool,
    leaves: AtomicBool,
}

impl Readiness {
    /// It may: its store fits. Unless it is about to stop.
    pub fn fits(&self) {
        self.0.fits.store(true, Ordering::SeqCst);
    }

    /// It may not any more, for good.
    pub fn leaves(&self) {
        self.0.leaves.store(true, Ordering::SeqCst);
    }

    /// Whether it may.
    pub fn is_ready(&self) -> bool {
        self.0.fits.load(Ordering::SeqCst) && !self.0.leaves.load(Ordering::SeqCst)
    }
}

/// An answer that is there at once.
type AtOnce = Ready<Result<Response<Full<Bytes>>, Infallible>>;

/// The service of the health listener.
pub fn health(
    readiness: Readiness,
    in_force: InForce,
    meter: Arc<Meter>,
) -> ServiceFn<impl FnMut(Request<Incoming>) -> AtOnce + Clone> {
    service_fn(move |request: Request<Incoming>| {
        let said = |status, text: &'static str| (status, PLAIN, Bytes::from_static(text.as_bytes()));
        let (status, kind, body) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/livez") => said(StatusCode::OK, "alive\n"),
            (&Method::GET | &Method::HEAD, "/readyz") if readiness.is_ready() => {
                (StatusCode::OK, PLAIN, Bytes::from(ready_by(&in_force.status())))
            }
            (&Method::GET | &Method::HEAD, "/readyz") => said(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
                let format = Format::wanted(accept);
                let kind = HeaderValue::from_static(format.media_type());
                (StatusCode::OK, kind, Bytes::from(meter.text(format)))
            }
            _ => said(StatusCode::NOT_FOUND, "only /livez, /readyz and /metrics are here\n"),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, kind);
        ready(Ok(response))
    })
}

/// What a gate says that is ready. Nobody has shown a token here: of a mistake it is told where it stands, no more.
fn ready_by(status: &PolicyStatus) -> String {
    let mut lines = vec!["ready".to_owned(), format!("policy {}", status.front.version)];
    let listeners = status.listeners.iter();
    lines.extend(listeners.map(|one| format!("policy of {} {}", one.name, one.policy.version)));
    let attempt = &status.last_attempt;
    if attempt.has_failed() {
        lines.push(format!("the reload at {} failed, and what was in force before still is:", attempt.at));
        lines.extend(attempt.mistakes.iter().take(MOST_PLACES).map(|mistake| format!("  {}", mistake.place)));
        lines.push("what is wrong there: oncegate policy status, or the log".to_owned());
    }
    lines.join("\n") + "\n"
}
