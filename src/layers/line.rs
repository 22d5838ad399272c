//! The line between a claimed call and its caller.
//!
//! Promises: a call waits for its caller no longer than `PATIENCE` in all; after that, an event that does not fit at once
//! is dropped. The call's end always has its place. One caller costs at most `ROOM` bytes of waiting events, and as much
//! of those that it may ask for again.
//! Whoever comes back with the id of the last event it saw takes the line over and hears the rest.
//!
//! Absent on purpose: the end, kept. Whoever comes back after it meets the ledger.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Answer;
use super::words::{Spoken, Word, Words};
use crate::domain::refusal::Refusal;

/// How long a call waits for one slow reader, all waits together.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes of events wait for one caller.
const ROOM: usize = 16 * 1024;

/// How many words wait for one caller: its end has a place of its own.
const PLACES: usize = 16;

/// The call's side. Shared by the call and by whoever connects a caller that came back.
#[derive(Debug)]
pub struct Line {
    /// Whether the caller takes events.
    takes_events: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ear: Option<Ear>,
    /// How long the reader may still be waited for.
    patience: Duration,
    /// Events that a caller who comes back may have missed: each with its id upstream.
    recent: VecDeque<(String, Bytes)>,
    recent_bytes: usize,
    ended: bool,
}

/// One caller's end of the line, seen from the call.
#[derive(Debug)]
struct Ear {
    words: mpsc::Sender<Word>,
    end: mpsc::OwnedPermit<Word>,
    room: Arc<Semaphore>,
}

/// The caller's side.
#[derive(Debug)]
pub struct Listener(mpsc::Receiver<Word>);

impl Line {
    /// A line to a caller who takes events, or not.
    pub fn open(takes_events: bool) -> (Arc<Self>, Listener) {
        let (ear, listener) = Ear::new();
        let state = State { ear, patience: PATIENCE, recent: VecDeque::new(), recent_bytes: 0, ended: false };
        (Arc::new(Self { takes_events, state: Mutex::new(state) }), listener)
    }

    /// Whether nobody listens.
    pub fn is_deserted(&self) -> bool {
        self.state().ear.as_ref().is_none_or(|ear| ear.words.is_closed())
    }

    /// Passes an event on, which had this id upstream.
    pub async fn pass(&self, event: Bytes, id: Option<String>) {
        if !self.takes_events {
            return;
        }
        let (words, room, patience) = {
            let mut state = self.state();
            if let Some(id) = id {
                state.remember(id, event.clone());
            }
            let Some(ear) = state.ear.as_ref().filter(|ear| !ear.words.is_closed()) else { return };
            (ear.words.clone(), Arc::clone(&ear.room), state.patience)
        };
        let began = Instant::now();
        let sent = tokio::time::timeout(patience, send(&words, room, event)).await.is_ok();
        if !sent && !patience.is_zero() {
            warn!("The caller reads too slowly; events on the way are dropped.");
        }
        self.state().patience = if sent { patience.saturating_sub(began.elapsed()) } else { Duration::ZERO };
    }

    /// Tells the caller how the call ended, once; whoever hung up hears nothing.
    pub fn end(&self, verdict: Result<Answer, Refusal>) {
        let mut state = self.state();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let Some(ear) = state.ear.take() else { return };
        if ear.words.is_closed() {
            info!("The caller had hung up; the call was carried to its end.");
        }
        ear.end.send(Word::End(Box::new(verdict)));
    }

    /// The line for a caller who came back, from after the event with this id upstream. None where the call has ended.
    pub fn take_over(&self, after: &str) -> Option<Listener> {
        let (ear, listener) = Ear::new();
        let mut state = self.state();
        if state.ended {
            return None;
        }
        if let Some(before) = std::mem::replace(&mut state.ear, ear) {
            before.end.send(Word::Elsewhere);
        }
        state.patience = PATIENCE;
        let missed = state.recent.iter().position(|(id, _)| id == after).map_or(0, |at| at + 1);
        let ear = state.ear.as_ref()?;
        for (_, event) in state.recent.iter().skip(missed) {
            // What does not fit at once is dropped, as for every slow reader.
            let _fits = ear.try_send(event.clone());
        }
        Some(listener)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, id: String, event: Bytes) {
        self.recent_bytes += event.len();
        self.recent.push_back((id, event));
        while self.recent_bytes > ROOM || self.recent.len() > PLACES {
            let Some((_, oldest)) = self.recent.pop_front() else { return };
            self.recent_bytes -= oldest.len();
        }
    }
}

impl Ear {
    fn new() -> (Option<Self>, Listener) {
        let (words, listener) = mpsc::channel(PLACES + 1);
        // An empty channel has a place.
        let end = words.clone().try_reserve_owned().ok();
        let room = Arc::new(Semaphore::new(ROOM));
        (end.map(|end| Self { words, end, room }), Listener(listener))
    }

    fn try_send(&self, event: Bytes) -> bool {
        let permit = Arc::clone(&self.room).try_acquire_many_owned(share(&event));
        permit.is_ok_and(|permit| self.words.try_send(Word::event(event, Some(permit))).is_ok())
    }
}

/// What an event takes of [`ROOM`]; one that is larger goes alone.
fn share(event: &Bytes) -> u32 {
    u32::try_from(event.len().clamp(1, ROOM)).unwrap_or(1)
}

async fn send(words: &mpsc::Sender<Word>, room: Arc<Semaphore>, event: Bytes) {
    let permit: Option<OwnedSemaphorePermit> = room.acquire_many_owned(share(&event)).await.ok();
    // Whoever hung up hears nothing.
    let _heard = words.send(Word::event(event, permit)).await;
}

impl Listener {
    /// What the caller is answered with: the end, where nothing comes before it, or all that comes.
    pub async fn answer(mut self) -> Result<Answer, Refusal> {
        match self.0.recv().await {
            Some(Word::End(verdict)) => *verdict,
            Some(word @ (Word::Event(..) | Word::Elsewhere)) => Ok(self.spoken(Some(word))),
            // The call ends without a word only if it panicked; its claim is then found unknown.
            None => Err(Refusal::Internal),
        }
    }

    /// All that comes, as a stream that is opened at once.
    pub fn stream(self) -> Answer {
        self.spoken(None)
    }

    fn spoken(self, first: Option<Word>) -> Answer {
        let words: Words =
            Box::pin(futures_util::stream::unfold((first, Some(self.0)), |(first, listener)| async {
                let mut listener = listener?;
                let word = match first {
                    Some(word) => word,
                    None => {
                        listener.recv().await.unwrap_or_else(|| Word::End(Box::new(Err(Refusal::Internal))))
                    }
                };
                let more = matches!(word, Word::Event(..)).then_some(listener);
                Some((word, (None, more)))
            }));
        Answer::Spoken(Spoken { headers: HeaderMap::new(), words })
    }
}
