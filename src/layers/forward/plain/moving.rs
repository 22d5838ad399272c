//! The patience with what comes bit by bit: a request's body, and an answer's.
//!
//! Promises: an upload and a download may take as long as they move; once nothing moved for the whole time that an
//! upstream has to answer, waiting is over.
//!
//! Absent on purpose: a limit to the whole, which would cut a large upload on a slow line.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::upstream::{AnyError, Source};

/// When a body moved last.
#[derive(Clone)]
pub(super) struct Pace(Arc<Mutex<Instant>>);

impl Pace {
    /// Of a body that is there already.
    pub(super) fn standing() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Of a body that comes, and the body.
    pub(super) fn of(source: Source) -> (Self, Source) {
        let pace = Self::standing();
        let body = Moving { inner: source, pace: pace.clone() };
        (pace, body.boxed_unsync())
    }

    fn moves(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn moved_at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes of the work; none once nothing has moved for so long.
    ///
    /// # Cancel safety
    /// As the work's.
    pub(super) async fn keep<T>(&self, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let until = self.moved_at() + patience;
            if until <= Instant::now() {
                return None;
            }
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = sleep_until(until) => {}
            }
        }
    }
}

struct Moving {
    inner: Source,
    pace: Pace,
}

impl Body for Moving {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let next = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        self.pace.moves();
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer's body, for as long as it moves.
pub(super) struct Flowing {
    inner: Incoming,
    patience: Duration,
    /// Since it moved last.
    silence: Pin<Box<Sleep>>,
}

impl Flowing {
    /// Which may be silent for so long.
    pub(super) fn new(inner: Incoming, patience: Duration) -> Self {
        Self { inner, patience, silence: Box::pin(sleep(patience)) }
    }
}

impl Body for Flowing {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        if let Poll::Ready(next) = Pin::new(&mut self.inner).poll_frame(cx) {
            let until = Instant::now() + self.patience;
            self.silence.as_mut().reset(until);
            return Poll::Ready(next.map(|frame| frame.map_err(AnyError::from)));
        }
        self.silence.as_mut().poll(cx).map(|()| Some(Err("the upstream's answer stood still".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
