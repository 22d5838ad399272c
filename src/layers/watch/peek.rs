//! A request's body, read as far as a decision needs it, and whole again for whoever it was meant for.
//!
//! Promises: what comes out of [`Peeked::body`] is byte for byte what came in, however far it was read; never more of it
//! is in memory than the limit and what one read brings.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::domain::refusal::Refusal;
use crate::upstream::{AnyError, Source};

/// A body that was looked at.
pub(super) struct Peeked {
    /// The whole of it; or why it was not read to its end.
    pub read: Result<Bytes, Refusal>,
    /// The whole of it, to send.
    pub body: Source,
}

/// Reads a body, at most `limit` bytes of it, and for no longer than `patience`.
pub(super) async fn peek(mut body: Incoming, limit: u64, patience: Duration) -> Peeked {
    let (until, mut front) = (Instant::now() + patience, BytesMut::new());
    let (fault, rest) = loop {
        match timeout_at(until, body.frame()).await {
            Ok(None) => {
                let bytes = front.freeze();
                let body = Full::new(bytes.clone()).map_err(|never| match never {}).boxed_unsync();
                return Peeked { read: Ok(bytes), body };
            }
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    front.extend_from_slice(&data);
                }
                if front.len() as u64 > limit {
                    break (Refusal::BodyTooLarge { limit }, Some(body));
                }
            }
            Ok(Some(Err(_))) => break (Refusal::BodyCut, None),
            Err(_) => break (Refusal::BodyCut, Some(body)),
        }
    };
    let body = Again { front: Some(front.freeze()), rest }.boxed_unsync();
    Peeked { read: Err(fault), body }
}

/// What was read, then the rest; without a rest, the cut that the client made.
struct Again {
    front: Option<Bytes>,
    rest: Option<Incoming>,
}

impl Body for Again {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        if let Some(front) = self.front.take().filter(|front| !front.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(front))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx).map_err(AnyError::from),
            None => Poll::Ready(Some(Err("the client did not send the whole body".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.front.is_none() && self.rest.as_ref().is_some_and(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(rest) = &self.rest else { return SizeHint::default() };
        let front = self.front.as_ref().map_or(0, Bytes::len) as u64;
        let mut size = rest.size_hint();
        if let Some(upper) = size.upper() {
            size.set_upper(upper.saturating_add(front));
        }
        size.set_lower(size.lower().saturating_add(front));
        size
    }
}
