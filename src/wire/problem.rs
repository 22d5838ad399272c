//! Rows of the table as `application/problem+json` (RFC 9457), for whoever speaks plain HTTP.
//!
//! Promises: the status is the table's; what a program needs is what a tool's refusal holds as well (`code`, `executed`,
//! `retry` and what belongs to them), and `instance` names the audit row that tells of the same refusal. A `type` is a
//! URN, for ever the same for its code: as a URL it would have to stand under a name that somebody else could own.
//!
//! Absent on purpose: titles of their own. A code is words already.

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use uuid::Uuid;

use super::envelope::{Body, full};
use super::{Retry, Row, render};
use crate::auth::Resource;
use crate::domain::json::{Json, Object};

/// What every `type` begins with; the code follows.
pub const TYPE: &str = "urn:oncegate:problem:";

/// A refusal as a problem. `instance` is its audit row's id.
pub fn problem(row: &Row, instance: Uuid) -> Json {
    let mut problem = Object::default();
    problem.insert("type", Json::from(format!("{TYPE}{}", row.code)));
    problem.insert("title", Json::from(title(row.code)));
    problem.insert("status", Json::from(i64::from(row.plain_status())));
    problem.insert("detail", Json::from(row.text.as_str()));
    problem.insert("instance", Json::from(instance.urn().to_string()));
    for (name, value) in render::told_to_programs(row) {
        problem.insert(name, value);
    }
    problem.insert("retryable", Json::Bool(row.retry == Retry::SameKey));
    Json::Object(problem)
}

/// The response that tells a refusal.
pub fn response(row: &Row, instance: Uuid, resource: Option<&Resource>) -> Response<Body> {
    let mut response = Response::new(full(problem(row, instance).to_bytes()));
    *response.status_mut() =
        StatusCode::from_u16(row.plain_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    // Caches may keep a 404 or a 405 that says nothing of it: this one is of this request alone.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    render::add_headers(row, resource, headers);
    response
}

/// The same response to a request that wants its head alone.
pub fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, full(""))
}

/// A code in words: `outcome_unknown` is "Outcome unknown".
fn title(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
