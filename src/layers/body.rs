//! A request's body: read whole, or ahead while its call waits.
//!
//! Promises: never more of it in memory than the limit and what one read brings.

use std::collections::VecDeque;
use std::error::Error;
use std::future::pending;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::domain::refusal::Refusal;

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

/// A body that can be read ahead of whoever it is for, and comes to it whole all the same.
#[derive(Debug)]
pub(super) struct Ahead<B> {
    front: VecDeque<Bytes>,
    /// How many bytes were read ahead.
    read: usize,
    rest: Pin<Box<B>>,
    ended: bool,
}

impl<B: Body<Data = Bytes>> Ahead<B> {
    pub(super) fn new(rest: B) -> Self {
        Self { front: VecDeque::new(), read: 0, rest: Box::pin(rest), ended: false }
    }

    /// Reads a little further; for ever pending once `limit` bytes, or all, are there.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn read_ahead(&mut self, limit: usize) -> Result<(), Refusal> {
        if self.ended || self.read >= limit {
            return pending().await;
        }
        match self.rest.frame().await {
            None => self.ended = true,
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    self.read += bytes.len();
                    self.front.push_back(bytes);
                }
            }
            Some(Err(_)) => return Err(Refusal::BodyCut),
        }
        Ok(())
    }
}

impl<B: Body<Data = Bytes>> Body for Ahead<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.front.pop_front() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.ended => Poll::Ready(None),
            None => self.rest.as_mut().poll_frame(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let front: usize = self.front.iter().map(Bytes::len).sum();
        let (front, rest) = (front as u64, self.rest.size_hint());
        let mut size = SizeHint::new();
        size.set_lower(rest.lower().saturating_add(front));
        if let Some(upper) = rest.upper() {
            size.set_upper(upper.saturating_add(front));
        }
        size
    }
}
