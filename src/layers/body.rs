//! A request's body, read whole.
//!
//! Promises: never more of it in memory than the limit.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// It is larger than the limit.
    TooLarge,
    /// The client did not send it whole.
    Cut,
}

/// The whole body, at most `limit` bytes of it in memory.
pub(super) async fn read_body<B>(body: B, limit: u64) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(fault) if fault.is::<LengthLimitError>() => Err(BodyFault::TooLarge),
        Err(_) => Err(BodyFault::Cut),
    }
}

/// The most that is read of a body which nobody wants, in bytes.
const MOST_FORGOTTEN: usize = 64 * 1024;

/// How long is waited for it.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(1);

/// Reads a body that nobody wants to its end, if that is near. Where a request is answered before its body has come,
/// the connection has to be closed: under the feet of a client that took the answer and sends its next request there.
pub(super) async fn forget(body: impl Body<Data = Bytes>) {
    let mut body = pin!(body);
    let reading = async {
        let mut left = MOST_FORGOTTEN;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
            left = rest;
        }
    };
    let _in_time = tokio::time::timeout(FORGOTTEN_WITHIN, reading).await.is_ok();
}
