//! Rows of the table, and answers, as responses.
//!
//! Promises: `content-type: application/json`, the request's own id wherever it is known, `resultType` for modern
//! callers, no `structuredContent` in a refusal (one SDK would throw), a stored result untouched but for its marks.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Response, StatusCode};

use super::envelope::{Body, Envelope, Marks, full};
use super::row::in_seconds;
use super::{Row, Shape};
use crate::auth::Resource;
use crate::domain::answer::{Kept, Kind};
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::mcp::message::Era;

/// Says that an answer is the first call's, given again.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Says that an answer could not be recorded.
pub const NOT_RECORDED: HeaderName = HeaderName::from_static("oncegate-not-recorded");

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What a mark in a header says.
pub const YES: HeaderValue = HeaderValue::from_static("true");

/// The JSON-RPC message that tells a refusal.
pub fn refusal_message(row: &Row, envelope: Option<&Envelope>) -> Json {
    let id = envelope.and_then(|envelope| envelope.id.clone());
    let code = match (row.shape, envelope) {
        (Shape::Told { .. }, Some(envelope)) if envelope.is_tool_call && id.is_some() => {
            return rpc(id, "result", Json::Object(told(row, envelope.era)));
        }
        (Shape::Http { code, .. } | Shape::Told { code }, _) => code,
        (Shape::Challenge { status }, _) => i64::from(status) * 100,
        (Shape::Fault, _) => -32603,
    };
    rpc(id, "error", error_member(code, row))
}

/// The response that tells a refusal.
pub fn refusal(row: &Row, envelope: Option<&Envelope>, resource: Option<&Resource>) -> Response<Body> {
    let awaited = envelope.is_some_and(|envelope| envelope.id.is_some());
    let status = match row.shape {
        Shape::Http { status, .. } | Shape::Challenge { status } => status,
        // Where nobody waits for an answer by id a status must tell.
        Shape::Told { .. } => {
            if awaited {
                200
            } else {
                400
            }
        }
        Shape::Fault => {
            if awaited {
                200
            } else {
                500
            }
        }
    };
    let mut response = respond(status, &refusal_message(row, envelope));
    add_headers(row, resource, response.headers_mut());
    response
}

/// What a refusal says in headers, whatever its body is.
pub(super) fn add_headers(row: &Row, resource: Option<&Resource>, headers: &mut HeaderMap) {
    if let Some(challenge) = challenge(row, resource) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if let Some(allow) = row.allow.as_deref().and_then(|allow| HeaderValue::try_from(allow).ok()) {
        headers.insert(ALLOW, allow);
    }
    if let Some(wait) = row.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(in_seconds(wait).max(1)));
    }
}

fn challenge(row: &Row, resource: Option<&Resource>) -> Option<HeaderValue> {
    let Shape::Challenge { status } = row.shape else {
        return None;
    };
    let (resource, scopes) = (resource?, row.scopes.iter().map(String::as_str));
    Some(match status {
        403 => resource.insufficient_scope(scopes),
        _ => resource.unauthorized(scopes, row.token_fault.as_deref()),
    })
}

/// The response that gives a public document.
pub fn document(json: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(full(json.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The JSON-RPC message that gives a claimed call's answer.
pub fn answer_message(kept: &Kept, marks: &Marks, envelope: Option<&Envelope>) -> Json {
    let id = envelope.and_then(|envelope| envelope.id.clone());
    let modern = envelope.is_some_and(|envelope| envelope.era == Era::Modern);
    let member = match kept.kind {
        Kind::Result | Kind::Plain => "result",
        Kind::Error => "error",
    };
    // What was kept was written by this program from a parsed value.
    let mut value = Json::parse(&kept.body, MAX_DEPTH).unwrap_or(Json::Null);
    if let (Kind::Result, Some(result)) = (kept.kind, value.as_object_mut()) {
        mark(result, marks);
        if modern && !result.contains("resultType") {
            result.insert("resultType", Json::from("complete"));
        }
    }
    rpc(id, member, value)
}

/// The response that gives a claimed call's answer.
pub fn answer(kept: &Kept, marks: &Marks, envelope: Option<&Envelope>) -> Response<Body> {
    let mut response = respond(200, &answer_message(kept, marks, envelope));
    let headers = response.headers_mut();
    for (name, text) in &kept.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(text)) else {
            continue;
        };
        if name != CONTENT_TYPE {
            headers.append(name, value);
        }
    }
    if marks.replayed {
        headers.insert(REPLAYED, YES);
    }
    if marks.not_recorded {
        headers.insert(NOT_RECORDED, YES);
    }
    response
}

/// Says in a result how it differs from a plain one.
pub fn mark(result: &mut Object, marks: &Marks) {
    let mut said = Vec::new();
    if marks.replayed {
        said.push(("oncegate/replayed", Json::Bool(true)));
    }
    if marks.not_recorded {
        said.push(("oncegate/not_recorded", Json::Bool(true)));
    }
    if let Some(earlier) = &marks.possible_duplicate {
        said.push((
            "oncegate/possible_duplicate",
            Json::object([("earlier_key", Json::from(earlier.as_str()))]),
        ));
    }
    if said.is_empty() {
        return;
    }
    if result.get("_meta").and_then(Json::as_object).is_none() {
        result.insert("_meta", Json::Object(Object::default()));
    }
    if let Some(meta) = result.get_mut("_meta").and_then(Json::as_object_mut) {
        for (name, value) in said {
            meta.insert(name, value);
        }
    }
}

/// Marks a result as the first call's, given again.
pub fn mark_replayed(result: &mut Object) {
    mark(result, &Marks { replayed: true, ..Marks::default() });
}

/// A refusal as a tool's result.
pub fn told(row: &Row, era: Era) -> Object {
    let text = Json::object([("type", Json::from("text")), ("text", Json::from(row.text.as_str()))]);
    let mut result = Object::default();
    if era == Era::Modern {
        result.insert("resultType", Json::from("complete"));
    }
    result.insert("content", Json::Array(vec![text]));
    result.insert("isError", Json::Bool(true));
    result.insert("_meta", Json::object([("oncegate/refusal", Json::Object(told_to_programs(row)))]));
    result
}

fn error_member(code: i64, row: &Row) -> Json {
    let mut told = Object::default();
    told.insert("oncegate/refusal", Json::Object(told_to_programs(row)));
    if let Some(extension) = row.lacks {
        let extensions = Json::object([(extension, Json::Object(Object::default()))]);
        told.insert("requiredCapabilities", Json::object([("extensions", extensions)]));
    }
    Json::object([
        ("code", Json::from(code)),
        ("message", Json::from(row.text.as_str())),
        ("data", Json::Object(told)),
    ])
}

/// The machine's part of a refusal.
pub(super) fn told_to_programs(row: &Row) -> Object {
    let mut data = Object::default();
    data.insert("code", Json::from(row.code));
    data.insert("executed", Json::from(row.executed.as_str()));
    data.insert("retry", Json::from(row.retry.as_str()));
    if let Some(wait) = row.retry_after {
        data.insert("retry_after_ms", Json::from(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
    }
    if let Some(first_seen) =
        row.first_seen.and_then(|at| jiff::Timestamp::from_microsecond(at.as_micros()).ok())
    {
        data.insert("first_seen", Json::from(first_seen.to_string()));
    }
    if let Some(earlier) = &row.earlier_key {
        data.insert("earlier_key", Json::from(earlier.as_str()));
    }
    data
}

/// The response to what wants no answer.
pub fn accepted() -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The response that opens an event stream, with the upstream's own headers.
pub fn stream(upstream: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    *headers = upstream;
    headers.remove(ETAG);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Proxies on the way that hold responses back would hold every event back.
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// One JSON-RPC response. Where no id is known it has none: MCP's schema knows no `null` there.
pub fn rpc(id: Option<Json>, member: &str, value: Json) -> Json {
    let mut response = Object::default();
    response.insert("jsonrpc", Json::from("2.0"));
    if let Some(id) = id {
        response.insert("id", id);
    }
    response.insert(member, value);
    Json::Object(response)
}

/// A JSON response.
pub fn respond(status: u16, json: &Json) -> Response<Body> {
    let mut response = Response::new(full(json.to_bytes()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
