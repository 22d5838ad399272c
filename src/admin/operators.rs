//! What whoever runs the gate may ask and do.
//!
//! Promises: nothing is done, and nothing told, not even which paths there are, without the token; comparing it takes the
//! same time wherever it is wrong. `GET /drain` says how far the gate has come on its way out, `POST /drain?settle=5s`
//! sends it there.
//!
//! Absent on purpose: sessions and cookies. Whoever asks carries the token.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tower::service_fn;
use tower::util::ServiceFn;
use tracing::warn;

use super::drain::{Drain, Standing};
use crate::config::AdminToken;
use crate::domain::units::parse_duration;

/// How long calls are served after a gate was told to drain, where nobody says.
const SETTLE: Duration = Duration::from_secs(5);

/// The longest time that makes sense for that.
const LONGEST_SETTLE: Duration = Duration::from_mins(10);

/// An answer that is there at once.
type AtOnce = Ready<Result<Response<Full<Bytes>>, Infallible>>;

/// What the listener needs.
pub struct Operators {
    /// What every request must carry.
    pub token: AdminToken,
    /// The way out.
    pub drain: Drain,
}

/// The service of the listener for operators.
pub fn operators(operators: Operators) -> ServiceFn<impl FnMut(Request<Incoming>) -> AtOnce + Clone> {
    let operators = Arc::new(operators);
    service_fn(move |request: Request<Incoming>| ready(Ok(operators.answer(&request))))
}

impl Operators {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !self.knows(request) {
            warn!(path = request.uri().path(), "An operator's request came without the admin token.");
            let mut refused =
                fault(StatusCode::UNAUTHORIZED, "this needs the admin token: Authorization: Bearer …");
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/drain") => standing(&self.drain.standing()),
            (&Method::POST, "/drain") => match settle(request.uri().query()) {
                Some(settle) => {
                    self.drain.begin(settle);
                    standing(&self.drain.standing())
                }
                None => fault(StatusCode::BAD_REQUEST, "write it like /drain?settle=5s, up to 10m"),
            },
            (_, "/drain") => fault(StatusCode::METHOD_NOT_ALLOWED, "GET tells, POST does"),
            _ => fault(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    /// Hashes are compared: so the time tells nothing of the length either.
    fn knows(&self, request: &Request<Incoming>) -> bool {
        let given = request.headers().get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        let (scheme, token) = given.split_at_checked(7).unwrap_or_default();
        let same = Sha256::digest(token).ct_eq(&Sha256::digest(self.token.text()));
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(same)
    }
}

fn settle(query: Option<&str>) -> Option<Duration> {
    let Some(query) = query else { return Some(SETTLE) };
    let settle = parse_duration(query.strip_prefix("settle=")?).ok()?;
    (settle <= LONGEST_SETTLE).then_some(settle)
}

fn standing(standing: &Standing) -> Response<Full<Bytes>> {
    respond(StatusCode::OK, &json!(standing))
}

fn fault(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, &json!({ "error": text }))
}

fn respond(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
