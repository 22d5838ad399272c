//! What is known of a call so far, for whoever must answer it or write it down.
//!
//! Promises: each slot is written once, by the step that learned it, and whatever a row or a log shows of them holds
//! nothing secret: arguments are redacted before they come here. So even a call that panics is answered with its own id.
//!
//! Absent on purpose: anything that a later step decides by. Proofs travel in the requests' types.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use crate::domain::actor::Actor;
use crate::domain::audit::Facts;
use crate::domain::json::Object;
use crate::domain::policy::Kind;
use crate::layers::observe::Trace;
use crate::mcp::message::{self, Era};
use crate::wire::envelope::Envelope;

/// One call's notes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asked(Arc<Notes>);

#[derive(Debug)]
struct Notes {
    began: Instant,
    peer: IpAddr,
    trace: Trace,
    had_room: bool,
    room: Mutex<Option<OwnedSemaphorePermit>>,
    may_speak: AtomicBool,
    envelope: OnceLock<Envelope>,
    wanted: OnceLock<(Kind, String)>,
    wanted_arguments: OnceLock<Object>,
    actor: OnceLock<Actor>,
    facts: OnceLock<Facts>,
    audited: AtomicBool,
}

impl Asked {
    /// Notes for a call that begins now. `room` is its place among the concurrent calls; none where all are taken.
    pub(super) fn begin(peer: IpAddr, trace: Trace, room: Option<OwnedSemaphorePermit>) -> Self {
        Self(Arc::new(Notes {
            began: Instant::now(),
            peer,
            trace,
            had_room: room.is_some(),
            room: Mutex::new(room),
            may_speak: AtomicBool::new(false),
            envelope: OnceLock::new(),
            wanted: OnceLock::new(),
            wanted_arguments: OnceLock::new(),
            actor: OnceLock::new(),
            facts: OnceLock::new(),
            audited: AtomicBool::new(false),
        }))
    }

    /// Notes for a call that stands inside this one: it came from there, and is answered with it, but has a row of its
    /// own.
    pub(super) fn inside(&self) -> Self {
        let outer = &self.0;
        let inner = Self::begin(outer.peer, outer.trace.clone(), None);
        if let Some(envelope) = outer.envelope.get() {
            inner.learn_envelope(envelope.clone());
        }
        if let Some(actor) = outer.actor.get() {
            inner.learn_actor(actor.clone());
        }
        inner
    }

    /// How long ago it began.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// The client's address.
    pub fn peer(&self) -> IpAddr {
        self.0.peer
    }

    /// Its trace context.
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// Whether there was room for it among the concurrent calls.
    pub fn has_room(&self) -> bool {
        self.0.had_room
    }

    /// Whether its client takes an event stream in place of one answer, should it take long.
    pub fn may_speak(&self) -> bool {
        self.0.may_speak.load(Ordering::SeqCst)
    }

    /// How to address its answer, once known.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.0.envelope.get()
    }

    /// The operation that a caller without a good token asked for, where that much of its body could be read.
    pub fn wanted(&self) -> Option<&(Kind, String)> {
        self.0.wanted.get()
    }

    /// Who calls, once known.
    pub fn actor(&self) -> Option<&Actor> {
        self.0.actor.get()
    }

    /// What its audit row will say, once known.
    pub fn facts(&self) -> Option<&Facts> {
        self.0.facts.get()
    }

    /// Whether its audit row was written, or is being written with its claim.
    pub fn is_audited(&self) -> bool {
        self.0.audited.load(Ordering::SeqCst)
    }

    /// Gives its place among the concurrent calls up: it will only listen from now on.
    pub(super) fn leave_room(&self) {
        drop(self.0.room.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(super) fn let_speak(&self) {
        self.0.may_speak.store(true, Ordering::SeqCst);
    }

    pub(super) fn learn_envelope(&self, envelope: Envelope) {
        self.0.envelope.get_or_init(|| envelope);
    }

    /// The arguments of what such a caller asked for: where it runs others, they say which. Never written down.
    pub(super) fn wanted_arguments(&self) -> Option<&Object> {
        self.0.wanted_arguments.get()
    }

    pub(super) fn learn_wanted_arguments(&self, arguments: &Object) {
        self.0.wanted_arguments.get_or_init(|| arguments.clone());
    }

    pub(super) fn learn_wanted(&self, kind: Kind, name: &str) {
        self.0.wanted.get_or_init(|| (kind, name.to_owned()));
    }

    /// Notes the id of what is no message, where it has one all the same.
    pub(super) fn learn_id(&self, bytes: &[u8]) {
        let id = message::id_in(bytes);
        if id.is_some() {
            self.learn_envelope(Envelope { id, era: Era::Modern, is_tool_call: false });
        }
    }

    pub(super) fn learn_actor(&self, actor: Actor) {
        self.0.actor.get_or_init(|| actor);
    }

    pub(super) fn learn_facts(&self, facts: Facts) {
        self.0.facts.get_or_init(|| facts);
    }

    pub(super) fn mark_audited(&self) {
        self.0.audited.store(true, Ordering::SeqCst);
    }
}
