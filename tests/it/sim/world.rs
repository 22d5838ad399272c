//! The world around the gates of one simulation: a store and an upstream, at which nothing happens by itself.
//!
//! Promises: whatever a gate asks for waits here until the schedule says what becomes of it; what is on its way when a
//! gate dies may still arrive; times are the store's; every promise that a step could break is checked at that step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncegate::domain::audit::AuditEvent;
use oncegate::domain::ledger::{Claim, Expect, Status};
use oncegate::domain::time::Timestamp;
use oncegate::layers::forward::Forwarded;
use oncegate::store::{Seen, StoreError, Swap, Write};
use tokio::sync::oneshot;
use uuid::Uuid;

/// How a store can be broken, or the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// The store writes over whatever stands there.
    IgnoresTheRevision,
    /// A claim is taken for committed before it is: the call goes out first.
    ForwardsBeforeTheCommit,
    /// What got lost is reported as not sent.
    ReleasesWhatIsLost,
}

/// What a gate asks of the store.
#[derive(Clone, Debug)]
pub(super) enum What {
    Swap(Box<Write>),
    Read,
    Append(Box<AuditEvent>),
}

/// What it hears.
#[derive(Debug)]
pub(super) enum Heard {
    Swap(Swap),
    Read(Box<Seen>),
    Append,
}

/// Something on its way to the store, or back.
pub(super) struct Op {
    pub(super) gate: usize,
    /// The task that asks: what it has heard decides what it does next.
    pub(super) asker: u64,
    pub(super) what: What,
    /// What the store has answered, once it has.
    pub(super) done: Option<Heard>,
    /// Who waits for it.
    pub(super) answer: Option<oneshot::Sender<Result<Heard, StoreError>>>,
}

/// A request at the upstream, or on its way there.
pub(super) struct Sent {
    pub(super) gate: usize,
    pub(super) attempt: Uuid,
    /// Whose call.
    pub(super) caller: String,
    /// Nothing of it runs later, by the store's clock.
    pub(super) until: i64,
    pub(super) ran: bool,
    pub(super) answer: Option<oneshot::Sender<Forwarded>>,
}

impl Op {
    /// Whether somebody still waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }
}

impl Sent {
    /// Whether somebody still waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }
}

pub(super) struct State {
    pub(super) sabotage: Sabotage,
    pub(super) now: i64,
    pub(super) row: Option<Claim>,
    pub(super) events: Vec<AuditEvent>,
    pub(super) ops: Vec<Op>,
    pub(super) sent: Vec<Sent>,
    /// Whose call ran: one at most.
    pub(super) effects: Vec<(Uuid, String)>,
    /// What each asker has heard so far.
    pub(super) heard: Vec<(u64, String)>,
    pub(super) faults: Vec<String>,
}

/// Shared by everybody in a simulation.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<State>>);

impl World {
    pub(super) fn new(sabotage: Sabotage) -> Self {
        Self(Arc::new(Mutex::new(State {
            sabotage,
            now: 1_000_000_000_000_000,
            row: None,
            events: Vec::new(),
            ops: Vec::new(),
            sent: Vec::new(),
            effects: Vec::new(),
            heard: Vec::new(),
            faults: Vec::new(),
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now)
    }

    /// The store does what it was asked.
    pub(super) fn carry_out(&mut self, nth: usize) {
        let what = self.ops[nth].what.clone();
        let heard = match what {
            What::Read => Heard::Read(Box::new(Seen { row: self.row.clone(), now: self.now() })),
            What::Append(event) => {
                self.events.push(*event);
                Heard::Append
            }
            What::Swap(write) => Heard::Swap(self.swap(*write)),
        };
        self.ops[nth].done = Some(heard);
    }

    fn swap(&mut self, write: Write) -> Swap {
        let now = self.now();
        if let Some(row) = self.row.as_ref().filter(|row| write.next.is_own(write.expect, row)) {
            return Swap::Applied { now: write.next.written_at(write.expect, row) };
        }
        let stands = self.row.as_ref().map_or(Expect::Absent, |row| Expect::Revision(row.revision));
        if stands != write.expect && self.sabotage != Sabotage::IgnoresTheRevision {
            return Swap::Mismatch { row: self.row.clone().map(Box::new), now };
        }
        if self.row.as_ref().is_some_and(|row| row.status == Status::Completed && !row.is_expired(now)) {
            self.faults.push("a completed claim changed".to_owned());
        }
        let failed = write.next.status == Status::Failed;
        if failed && (!self.effects.is_empty() || self.may_run_yet(write.next.attempt_id)) {
            self.faults.push("a claim that may have run became failed".to_owned());
        }
        self.row = Some(write.next.at(now, write.expect));
        self.events.extend(write.event);
        Swap::Applied { now }
    }

    fn may_run_yet(&self, except: Uuid) -> bool {
        self.sent.iter().any(|sent| sent.attempt != except && !sent.ran && self.now < sent.until)
    }

    /// The upstream runs a request.
    pub(super) fn run(&mut self, nth: usize) {
        let sent = &mut self.sent[nth];
        sent.ran = true;
        self.effects.push((sent.attempt, sent.caller.clone()));
        if self.effects.len() > 1 {
            self.faults.push("the upstream ran it a second time".to_owned());
        }
    }

    /// Notes what an asker hears: it decides what it does next.
    pub(super) fn note(&mut self, asker: u64, word: &str) {
        match self.heard.iter_mut().find(|(other, _)| *other == asker) {
            Some((_, words)) => words.push_str(word),
            None => self.heard.push((asker, word.to_owned())),
        }
    }

    /// What dies with a gate: nobody waits any more for what it asked, but that may still arrive.
    pub(super) fn bury(&mut self, gate: usize) {
        for op in self.ops.iter_mut().filter(|op| op.gate == gate) {
            op.answer = None;
        }
        self.ops.retain(|op| op.gate != gate || op.done.is_none());
        for sent in self.sent.iter_mut().filter(|sent| sent.gate == gate) {
            sent.answer = None;
        }
    }
}
