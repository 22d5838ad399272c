//! An upstream's answer, read to its result.
//!
//! Promises: [`Collected::reply`] is there only if one well-formed JSON-RPC response with the call's own id came, whole,
//! as JSON or as the message of an event stream; memory is bounded by [`MAX_ANSWER_BYTES`].
//!
//! Absent on purpose: judgement. What an answer proves is in [`crate::mcp::judge`].

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::judge::{Reply, reply_to};
use super::sse;
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
    /// The body as it came; empty for an event stream.
    pub bytes: Bytes,
    /// Whether the body came whole, or at least to the response.
    pub whole: bool,
    /// Whether other messages came before the response: the call had begun.
    pub begun: bool,
}

/// Reads `body` to the response with this id.
///
/// # Cancel safety
/// Dropping the future loses what was read.
pub async fn collect(media: Media, body: Incoming, id: &Json) -> Collected {
    match media {
        Media::Events => from_events(body, id).await,
        Media::Json | Media::Other => {
            let Some(bytes) = whole(body).await else {
                return Collected { reply: None, bytes: Bytes::new(), whole: false, begun: false };
            };
            let json = (media == Media::Json).then(|| Json::parse(&bytes, MAX_DEPTH).ok()).flatten();
            Collected { reply: json.and_then(|json| reply_to(json, id)), bytes, whole: true, begun: false }
        }
    }
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

/// Events before the result (progress, log messages) are read and dropped; see the README's limits.
async fn from_events(mut body: Incoming, id: &Json) -> Collected {
    let mut collected = Collected { reply: None, bytes: Bytes::new(), whole: false, begun: false };
    let mut decoder = sse::Decoder::new(MAX_ANSWER_BYTES);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return collected };
        let Ok(data) = frame.into_data() else { continue };
        let Ok(events) = decoder.feed(&data) else { return collected };
        for event in events {
            let Ok(json) = Json::parse(event.data.as_bytes(), MAX_DEPTH) else { continue };
            collected.reply = reply_to(json, id);
            if collected.reply.is_some() {
                collected.whole = true;
                return collected;
            }
            collected.begun = true;
        }
    }
    collected.whole = true;
    collected
}
