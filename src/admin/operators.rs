//! What whoever runs the gate may ask and do.
//!
//! Promises: nothing is done, and nothing told, not even which paths there are, without the token; comparing it takes the
//! same time wherever it is wrong. `GET /drain` says how far the gate has come on its way out, `POST /drain?settle=5s`
//! sends it there. `GET /policy` says which policy is in force, and how the last reload went.
//!
//! Absent on purpose: sessions and cookies. Whoever asks carries the token; what a cookie opens is [`super::console`].

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use tracing::warn;

use super::drain::{Drain, Standing};
use super::policy::InForce;
use crate::config::AdminToken;
use crate::domain::units::parse_duration;
use crate::wire::envelope::{Body, full};

/// How long calls are served after a gate was told to drain, where nobody says.
const SETTLE: Duration = Duration::from_secs(5);

/// The longest time that makes sense for that.
const LONGEST_SETTLE: Duration = Duration::from_mins(10);

/// The operators' token in force.
pub type OperatorsToken = Arc<ArcSwap<AdminToken>>;

/// What operators' requests need.
pub struct Operators {
    /// What every request must carry, by now.
    pub token: OperatorsToken,
    /// The way out.
    pub drain: Drain,
    /// The policy in force.
    pub in_force: InForce,
}

impl Operators {
    /// The answer to a request.
    pub(super) fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        if !bears(request.headers(), &self.token.load()) {
            return stranger(request.uri().path());
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
            (&Method::GET, "/policy") => respond(StatusCode::OK, &json!(*self.in_force.status())),
            (_, "/policy") => fault(StatusCode::METHOD_NOT_ALLOWED, "GET tells; files, or SIGHUP, change it"),
            _ => fault(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }
}

/// Whether whoever asks carries the token.
pub(super) fn bears(headers: &HeaderMap, token: &AdminToken) -> bool {
    let given = headers.get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let (scheme, given) = given.split_at_checked(7).unwrap_or_default();
    token.is(given) && scheme.eq_ignore_ascii_case(b"Bearer ")
}

/// The answer to whoever does not.
pub(super) fn stranger(path: &str) -> Response<Body> {
    warn!(path, "An operator's request came without the admin token.");
    let mut refused = fault(StatusCode::UNAUTHORIZED, "this needs the admin token: Authorization: Bearer …");
    refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refused
}

fn settle(query: Option<&str>) -> Option<Duration> {
    let Some(query) = query else { return Some(SETTLE) };
    let settle = parse_duration(query.strip_prefix("settle=")?).ok()?;
    (settle <= LONGEST_SETTLE).then_some(settle)
}

fn standing(standing: &Standing) -> Response<Body> {
    respond(StatusCode::OK, &json!(standing))
}

fn fault(status: StatusCode, text: &str) -> Response<Body> {
    respond(status, &json!({ "error": text }))
}

fn respond(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(full(format!("{body}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
