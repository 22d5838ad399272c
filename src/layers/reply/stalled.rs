//! A body whose client does not read it any more.
//!
//! Promises: whatever a streamed answer holds (its call's place among the concurrent ones, its row's place in the queue,
//! the upstream's connection) is given back once its client has taken nothing of what is there for it for [`PATIENCE`].
//! A client that waits for what is not there yet may wait as long as it likes.
//!
//! Absent on purpose: answers that come whole. They hold nothing but their own bytes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::layers::Asked;
use crate::wire::envelope::{AnyError, Body};

/// How long a client may leave untaken what is there for it.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What is no longer goes out at once, and is not worth a look, in bytes.
const SHORT: u64 = 64 * 1024;

/// A plain answer's body, with its call's notes and what they hold, until its client has it or stops reading.
pub(super) fn held(body: Body, asked: &Asked) -> Body {
    if body.size_hint().upper().is_some_and(|most| most <= SHORT) {
        return body;
    }
    watched(Held { body, _asked: asked.clone() }.boxed_unsync())
}

struct Held {
    body: Body,
    _asked: Asked,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body, until its client stops reading.
pub fn watched(body: Body) -> Body {
    let state = Arc::new(Mutex::new(State { body: Some(body), full_since: None }));
    tokio::spawn(watch(Arc::downgrade(&state)));
    Watched(state).boxed_unsync()
}

struct State {
    body: Option<Body>,
    /// Since when nobody has asked for more, though more may be there.
    full_since: Option<Instant>,
}

struct Watched(Arc<Mutex<State>>);

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let mut state = lock(&self.0);
        let Some(body) = &mut state.body else {
            return Poll::Ready(Some(Err("the client has stopped reading".into())));
        };
        let next = Pin::new(body).poll_frame(cx);
        state.full_since = next.is_ready().then(Instant::now);
        next
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks after a body until it is gone.
async fn watch(body: Weak<Mutex<State>>) {
    loop {
        sleep(PATIENCE / 4).await;
        let Some(state) = body.upgrade() else { return };
        let mut state = lock(&state);
        if state.full_since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            info!("A client has stopped reading its stream; the stream is let go.");
            let _gone = state.body.take();
            return;
        }
    }
}
