//! A request's body, read whole.
//!
//! Promises: never more of it in memory than the limit.

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// It is larger than the limit.
    TooLarge,
    /// The client did not send it whole.
    Cut,
}

/// The whole body, at most `limit` bytes of it in memory.
pub(super) async fn read_body(body: Incoming, limit: u64) -> Result<Bytes, BodyFault> {
    let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(fault) if fault.is::<LengthLimitError>() => Err(BodyFault::TooLarge),
        Err(_) => Err(BodyFault::Cut),
    }
}
