//! What an answer is made of besides its row: a body, an address, marks.
//!
//! Promises: plain values; nothing here decides.

use std::error::Error;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

use crate::domain::json::Json;
use crate::mcp::message::Era;

/// Any error, with its sources.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// A response body, whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, AnyError>;

/// A body of these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// How an answer must be addressed.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The request's id; none for what wants no answer.
    pub id: Option<Json>,
    /// The rules that it follows.
    pub era: Era,
    /// Whether it is a `tools/call`, so that a refusal can be a tool error.
    pub is_tool_call: bool,
}

/// How an answer differs from a plain one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is the first call's answer, given again.
    pub replayed: bool,
    /// It could not be recorded (yet): a retry may hear that the outcome is unknown.
    pub not_recorded: bool,
    /// Another key carried the same arguments a moment ago: that key.
    pub possible_duplicate: Option<String>,
}
