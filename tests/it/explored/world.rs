//! What is explored: one key's row, its callers, what is on its way, and the truth.
//!
//! Promises: each step is one that the real parts can take, and cannot be divided by another's. A write lands at one
//! moment, whenever that is; its sender hears of it, or not. What happens at the upstream happens before the attempt's
//! time is over: DESIGN counts on that, and so does this.
//!
//! Absent on purpose: rules. They are asked.

use std::rc::Rc;

use oncegate::domain::ledger::{Ask, Attempt, Came, Claim, Draft, Expect, Held, Terms};
use oncegate::domain::time::Timestamp;
use uuid::Uuid;

/// What the upstream is able to do in one exploration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moods {
    /// It may ask for input.
    pub(super) asks: bool,
    /// It may answer in a way that proves nothing in a re-run (409, `isError`).
    pub(super) doubts: bool,
}

/// What may happen in one exploration. All of it at once, for two callers, is a million worlds and more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Powers {
    /// Leases are renewed.
    pub(super) renews: bool,
    /// The store's answers get lost.
    pub(super) loses_answers: bool,
    /// A write is on its way for longer than its sender waits, and may land afterwards.
    pub(super) strands: bool,
}

/// What stays the same through one exploration.
pub(super) struct Scene {
    pub(super) terms: Terms,
    /// One per caller: what it asks for, each time.
    pub(super) asks: Vec<Ask>,
    /// How often each calls.
    pub(super) calls: u8,
    pub(super) moods: Moods,
    pub(super) powers: Powers,
    /// Whether there are two callers that ask for the same.
    pub(super) are_twins: bool,
    /// Whether the janitor and the operator take their time between reading and writing.
    pub(super) slow_hands: bool,
}

/// A write on its way.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) expect: Expect,
    pub(super) draft: Rc<Draft>,
    /// Whose, where it makes a claim.
    pub(super) claims: Option<Rc<Attempt>>,
    pub(super) by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum By {
    Claiming,
    Renewing,
    Settling,
    Abandoning,
    Resolving,
}

/// A committed claim, as its owner knows it.
#[derive(Clone)]
pub(super) struct Owning {
    pub(super) held: Rc<Held>,
    /// Nothing of the attempt is running later.
    pub(super) deadline: Timestamp,
    /// Whether it has gone out.
    pub(super) sent: bool,
    /// Which retention window it belongs to.
    pub(super) window: u32,
}

/// Where a caller stands.
#[derive(Clone)]
pub(super) enum At {
    Idle,
    /// It writes a claim; its attempt's time ends then.
    Claiming(Pending, Timestamp),
    Abandoning(Pending),
    Owns(Owning),
    Ended {
        held: Rc<Held>,
        came: Rc<Came>,
        row: Option<Rc<Claim>>,
    },
    /// Its claim was not confirmed.
    Unsure {
        attempt: Rc<Attempt>,
        expect: Expect,
        draft: Rc<Draft>,
    },
}

#[derive(Clone)]
pub(super) struct Caller {
    pub(super) calls_left: u8,
    pub(super) at: At,
}

/// A request at the upstream, or on its way there.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) attempt: Uuid,
    pub(super) window: u32,
    pub(super) deadline: Timestamp,
    pub(super) ran: bool,
}

/// What really happened in one retention window.
#[derive(Clone)]
pub(super) struct Truth {
    pub(super) window: u32,
    pub(super) first: Timestamp,
    /// The attempt of which the backend has the answer.
    pub(super) answer: Uuid,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) row: Option<Rc<Claim>>,
    pub(super) callers: Vec<Caller>,
    /// A write that may still land though nobody waits for it any more.
    pub(super) late: Option<Pending>,
    pub(super) upstream: Vec<Sent>,
    pub(super) janitor: Option<Pending>,
    pub(super) operator: Option<Pending>,
    pub(super) window: u32,
    pub(super) truths: Vec<Truth>,
    pub(super) attempts: u128,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Call(usize),
    Commit(usize),
    /// It is committed, and its sender does not hear of it.
    CommitUnheard(usize),
    /// It is on its way for longer than its sender waits.
    Strand(usize),
    Confirm(usize),
    Send(usize),
    RunsOutUnsent(usize),
    Renew(usize),
    RenewLate(usize),
    Crash(usize),
    Effect(usize),
    Answer(usize),
    Doubt(usize),
    Ask(usize),
    Refuse(usize),
    Lose(usize),
    Land,
    Vanish,
    JanitorLooks,
    JanitorWrites,
    OperatorLooks,
    OperatorWrites,
    Prune,
    Tick,
}

impl Step {
    /// Whether it is a step that happens by itself where nothing goes wrong any more and nobody calls.
    pub(super) fn goes_on(self) -> bool {
        !matches!(
            self,
            Self::Call(_)
                | Self::CommitUnheard(_)
                | Self::Strand(_)
                | Self::RenewLate(_)
                | Self::Crash(_)
                | Self::Vanish
        )
    }
}

impl World {
    pub(super) fn new(scene: &Scene, now: Timestamp) -> Self {
        let caller = Caller { calls_left: scene.calls, at: At::Idle };
        Self {
            now,
            row: None,
            callers: vec![caller; scene.asks.len()],
            late: None,
            upstream: Vec::new(),
            janitor: None,
            operator: None,
            window: 0,
            truths: Vec::new(),
            attempts: 0,
        }
    }

    pub(super) fn truth(&self, window: u32) -> Option<&Truth> {
        self.truths.iter().find(|truth| truth.window == window)
    }

    /// Whether anything of this window ran, or still may, but for what `except` may do.
    pub(super) fn may_have_run(&self, window: u32, except: Uuid) -> bool {
        let running = |sent: &Sent| sent.window == window && !sent.ran && self.now < sent.deadline;
        let unsent = |caller: &Caller| match &caller.at {
            At::Owns(owning) => {
                owning.window == window
                    && !owning.sent
                    && self.now < owning.deadline
                    && owning.held.attempt.id != except
            }
            At::Idle | At::Claiming(..) | At::Abandoning(_) | At::Ended { .. } | At::Unsure { .. } => false,
        };
        self.truth(window).is_some() || self.upstream.iter().any(running) || self.callers.iter().any(unsent)
    }

    /// Forgets what nothing can depend on any more; writes that can never be applied too, where revisions only rise.
    pub(super) fn tidy(&mut self, revisions_rise: bool) {
        let hopeless = |pending: &Pending| match (pending.expect, self.row.as_deref()) {
            (Expect::Revision(revision), Some(row)) => revision < row.revision,
            (Expect::Revision(_), None) => true,
            (Expect::Absent, _) => false,
        };
        let (late, janitor, operator) = (
            self.late.as_ref().is_some_and(hopeless),
            self.janitor.as_ref().is_some_and(hopeless),
            self.operator.as_ref().is_some_and(hopeless),
        );
        if revisions_rise {
            self.late.take_if(|_| late);
            self.janitor.take_if(|_| janitor);
            self.operator.take_if(|_| operator);
        }
        let owned: Vec<Uuid> = self
            .callers
            .iter()
            .filter_map(|caller| match &caller.at {
                At::Owns(owning) => Some(owning.held.attempt.id),
                At::Idle | At::Claiming(..) | At::Abandoning(_) | At::Ended { .. } | At::Unsure { .. } => {
                    None
                }
            })
            .collect();
        let now = self.now;
        self.upstream.retain(|sent| owned.contains(&sent.attempt) || (!sent.ran && now < sent.deadline));
        let (window, upstream) = (self.window, &self.upstream);
        self.truths.retain(|truth| {
            truth.window == window || upstream.iter().any(|sent| sent.window == truth.window)
        });
    }
}
