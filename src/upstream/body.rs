//! A request's body on its way out, whole or streamed.
//!
//! Promises: whether the client began to read it is known exactly. A body that was not begun can be offered again, a
//! streamed one too: it is taken out of its place by the first read, and by nothing before.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

/// Any error, with its sources.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// A body that comes bit by bit.
pub type Source = UnsyncBoxBody<Bytes, AnyError>;

/// What is to be sent, for as many offers as it takes.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// These bytes.
    Whole(Bytes),
    /// What comes, as it comes.
    Streamed(Shared),
}

/// A stream that waits for its first read.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    source: Arc<Mutex<Option<Source>>>,
    size: SizeHint,
    is_empty: bool,
}

impl Shared {
    pub(super) fn new(source: Source) -> Self {
        let (size, is_empty) = (source.size_hint(), source.is_end_stream());
        Self { source: Arc::new(Mutex::new(Some(source))), size, is_empty }
    }

    fn take(&self) -> Option<Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request body that remembers whether the client began to read it.
#[derive(Debug)]
pub(super) struct WatchedBody {
    content: Unread,
    begun: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Unread {
    Whole(Option<Bytes>),
    Waiting(Shared),
    Streaming(Source),
    Gone,
}

impl WatchedBody {
    /// This content, for one offer.
    pub(super) fn new(content: &Content, begun: &Arc<AtomicBool>) -> Self {
        let content = match content {
            Content::Whole(bytes) => Unread::Whole(Some(bytes.clone())),
            Content::Streamed(shared) => Unread::Waiting(shared.clone()),
        };
        Self { content, begun: Arc::clone(begun) }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        self.begun.store(true, Ordering::SeqCst);
        if let Unread::Waiting(shared) = &self.content {
            self.content = shared.take().map_or(Unread::Gone, Unread::Streaming);
        }
        match &mut self.content {
            Unread::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Unread::Streaming(source) => Pin::new(source).poll_frame(cx),
            Unread::Waiting(_) | Unread::Gone => Poll::Ready(Some(Err("the body was read before".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Unread::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Unread::Waiting(shared) => shared.is_empty,
            Unread::Streaming(source) => source.is_end_stream(),
            Unread::Gone => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Unread::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Unread::Waiting(shared) => shared.size,
            Unread::Streaming(source) => source.size_hint(),
            Unread::Gone => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn streamed() -> Content {
        let source = Full::new(Bytes::from_static(b"once")).map_err(|never| match never {}).boxed_unsync();
        Content::Streamed(Shared::new(source))
    }

    #[tokio::test]
    async fn a_streamed_body_that_was_not_begun_is_offered_whole_again() {
        let (content, begun) = (streamed(), Arc::new(AtomicBool::new(false)));
        let first = WatchedBody::new(&content, &begun);
        assert_eq!((first.size_hint().exact(), first.is_end_stream()), (Some(4), false));
        drop(first);
        assert!(!begun.load(Ordering::SeqCst), "asking for its size is not reading it");
        let second = WatchedBody::new(&content, &begun).collect().await.unwrap();
        assert_eq!(second.to_bytes(), "once");
        assert!(begun.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_streamed_body_that_was_begun_is_never_sent_as_an_empty_one() {
        let (content, begun) = (streamed(), Arc::new(AtomicBool::new(false)));
        let mut first = WatchedBody::new(&content, &begun);
        assert!(first.frame().await.is_some());
        let second = WatchedBody::new(&content, &begun).collect().await;
        assert!(second.is_err());
    }
}
