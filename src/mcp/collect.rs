//! An upstream's answer that is no stream, read whole.
//!
//! Promises: [`Collected::reply`] is there only if one well-formed JSON-RPC response with the call's own id came, whole;
//! memory is bounded by [`MAX_ANSWER_BYTES`].
//!
//! Absent on purpose: event streams, which are read event by event ([`crate::mcp::events`]), and judgement: what an answer
//! proves is in [`crate::mcp::judge`].

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::judge::{Reply, reply_to};
use crate::domain::json::{Json, MAX_DEPTH};

/// The largest answer that is read into memory, in bytes. A larger one is not understood, and so proves nothing.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// What a body is, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// An event stream.
    Events,
    /// Anything else, or anything compressed.
    Other,
}

/// What a body is, by its headers.
pub fn media(headers: &HeaderMap) -> Media {
    let plain = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Media::Other;
    }
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => Media::Json,
        "text/event-stream" => Media::Events,
        _ => Media::Other,
    }
}

/// What was read.
#[derive(Debug)]
pub struct Collected {
    /// The response with the call's id, if one came.
    pub reply: Option<Reply>,
    /// The body as it came.
    pub bytes: Bytes,
}

/// Reads `body` to its end, and the response with this id in it. None where it was cut, or is too large.
///
/// # Cancel safety
/// Dropping the future loses what was read.
pub async fn collect(media: Media, body: Incoming, id: &Json) -> Option<Collected> {
    let bytes = whole(body).await?;
    let json = (media == Media::Json).then(|| Json::parse(&bytes, MAX_DEPTH).ok()).flatten();
    Some(Collected { reply: json.and_then(|json| reply_to(json, id, true)), bytes })
}

async fn whole(mut body: Incoming) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if bytes.len() + data.len() > MAX_ANSWER_BYTES {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
    }
    Some(bytes.freeze())
}
