//! What an orchestrator asks: whether the gate lives, and whether it may be sent calls.
//!
//! Promises: `/livez` answers as long as the process runs; `/readyz` answers 200 once the policy is loaded and the
//! store's schema was seen to fit, and 503 from the moment the gate drains. Neither asks store or upstream: or all pods
//! would leave at once.
//!
//! Absent on purpose: everything else; this listener has no token.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::service_fn;
use tower::util::ServiceFn;

/// Whether the gate may be sent calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// From now on it may, or may not.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::SeqCst);
    }

    /// Whether it may.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// An answer that is there at once.
type AtOnce = Ready<Result<Response<Full<Bytes>>, Infallible>>;

/// The service of the health listener.
pub fn health(readiness: Readiness) -> ServiceFn<impl FnMut(Request<Incoming>) -> AtOnce + Clone> {
    service_fn(move |request: Request<Incoming>| {
        let (status, text) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/livez") => (StatusCode::OK, "alive\n"),
            (&Method::GET | &Method::HEAD, "/readyz") if readiness.is_ready() => (StatusCode::OK, "ready\n"),
            (&Method::GET | &Method::HEAD, "/readyz") => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            _ => (StatusCode::NOT_FOUND, "only /livez and /readyz are here\n"),
        };
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        ready(Ok(response))
    })
}
