//! What a call's caller hears when it hears more than one thing: events on their way, and how it ended.
//!
//! Promises: what ends the words of a call that wants an answer is its [`End`](Word::End), or the client is told to come
//! back for it on another stream ([`Word::Elsewhere`]).
//!
//! Absent on purpose: JSON and SSE of the end; [`super::reply`] writes it.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use tokio::sync::OwnedSemaphorePermit;

use super::Answer;
use crate::domain::refusal::Refusal;

/// One thing that the caller hears.
#[derive(Debug)]
pub enum Word {
    /// An event, as it goes on the stream. It holds its share of the memory that one caller may cost until it is sent.
    Event(Box<(Bytes, Option<OwnedSemaphorePermit>)>),
    /// How the call ended. Nothing comes after it.
    End(Box<Result<Answer, Refusal>>),
    /// The stream ends without an answer: there is none to come, or it comes on another stream.
    Elsewhere,
}

impl Word {
    /// An event, and its share. Boxed: a queue of words takes the room of its largest kind for each that it may hold.
    pub fn event(bytes: Bytes, share: Option<OwnedSemaphorePermit>) -> Self {
        Self::Event(Box::new((bytes, share)))
    }
}

/// All that the caller hears, in order.
pub type Words = Pin<Box<dyn Stream<Item = Word> + Send>>;

/// An answer that comes in pieces.
pub struct Spoken {
    /// The upstream's headers that a client may see.
    pub headers: HeaderMap,
    /// The pieces.
    pub words: Words,
}

impl Spoken {
    /// The same answer, which keeps this until it is over.
    #[must_use]
    pub fn keeping<T: Send + 'static>(self, kept: T) -> Self {
        let words = unfold((self.words, kept), async |(mut words, kept)| {
            let word = words.next().await?;
            Some((word, (words, kept)))
        });
        Self { words: Box::pin(words), ..self }
    }
}

impl std::fmt::Debug for Spoken {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Spoken").field("headers", &self.headers).finish_non_exhaustive()
    }
}
