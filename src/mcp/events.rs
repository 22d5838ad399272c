//! An upstream's event stream, event by event.
//!
//! Promises: an event is handed on as soon as its blank line came; nothing is read ahead of whoever takes the events, so
//! a slow reader slows the upstream; memory is bounded by [`MAX_ANSWER_BYTES`].
//!
//! Absent on purpose: what the events mean.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::collect::MAX_ANSWER_BYTES;
use super::sse::{Decoder, Event};

/// The stream broke off, or is none that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event stream broke off")]
pub struct Cut;

/// Reads the events of one response.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    decoder: Decoder,
    waiting: VecDeque<Event>,
}

impl Events {
    /// The events of `body`.
    pub fn of(body: Incoming) -> Self {
        Self { body, decoder: Decoder::new(MAX_ANSWER_BYTES), waiting: VecDeque::new() }
    }

    /// The next event; none at the stream's end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Event>, Cut> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let Ok(data) = frame.map_err(|_| Cut)?.into_data() else { continue };
            self.waiting.extend(self.decoder.feed(&data).map_err(|_| Cut)?);
        }
    }
}
