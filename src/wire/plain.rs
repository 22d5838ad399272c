//! A plain route's kept answer as a response.
//!
//! Promises: the status and the bytes that were kept, exactly, now and again; the kept headers, and for the first client
//! those beside them; marks as headers. Where there was no `Content-Type` there is none, and where a status has no body
//! none is sent.
//!
//! Absent on purpose: lengths and codings of the transfer. The connection says those of its own.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use super::envelope::{Body, Marks, full};
use super::render::{NOT_RECORDED, REPLAYED, YES};
use crate::domain::answer::Kept;

/// Names the earlier key of a possible duplicate.
pub const POSSIBLE_DUPLICATE: HeaderName = HeaderName::from_static("oncegate-possible-duplicate");

/// The response that gives a claimed request's answer. What is kept stands above what is beside it.
pub fn answer(kept: &Kept, marks: &Marks, beside: HeaderMap) -> Response<Body> {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if bodiless { full("") } else { full(kept.body.clone()) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    *headers = beside;
    let kept = || {
        let named = kept.headers.iter();
        named.filter_map(|(name, text)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(text).ok()?))
        })
    };
    for (name, _) in kept() {
        headers.remove(name);
    }
    for (name, value) in kept() {
        headers.append(name, value);
    }
    if marks.replayed {
        headers.insert(REPLAYED, YES);
    }
    if marks.not_recorded {
        headers.insert(NOT_RECORDED, YES);
    }
    if let Some(earlier) = marks.possible_duplicate.as_ref().and_then(|key| HeaderValue::try_from(key).ok()) {
        headers.insert(POSSIBLE_DUPLICATE, earlier);
    }
    response
}
