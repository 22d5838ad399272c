//! Random schedules of calls, answers, losses, waits, crashes and resolutions, against a model that knows the truth.
//!
//! The model is one key's row, a clock, the attempts that are under way and what the upstream really did. It knows no
//! rule of the ledger: it only carries out what `admit`, `settle`, `renew` and `resolve` say, and counts.

use bytes::Bytes;
use oncegate::domain::ledger::{
    Admission, Ask, AskedRound, AttemptKind, Came, Claim, Downstream, Expect, Held, Resolution, Settling,
    Status, Terms, admit, renew, resolve, settle,
};
use oncegate::domain::time::Timestamp;
use proptest::prelude::*;

use super::{T0, TERMS, ask, awaiting, idempotent, round, secs};

/// What the upstream makes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It runs, and the answer arrives.
    Answers,
    /// It runs, and the answer gets lost.
    RunsAndIsLost,
    /// It does not run, and nobody can tell.
    IsLost,
    /// It certainly does not run.
    IsRefused,
    /// It runs, asks for input, and nothing has happened yet.
    Asks,
}

#[derive(Clone, Debug)]
enum Step {
    /// Somebody calls: user, arguments, whether it brings the round's inputs.
    Call(u8, u8, bool),
    /// An attempt that claimed is sent.
    Send(usize, Fate),
    /// An attempt that was sent hears its end and settles.
    Settle(usize),
    /// An attempt renews its lease.
    Renew(usize),
    /// An attempt's process dies.
    Crash(usize),
    /// Time passes, in seconds.
    Wait(u16),
    /// A person who knows the truth resolves the claim.
    Resolve,
    /// The row is pruned if it has expired.
    Prune,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![
        4 => Just(Fate::Answers),
        2 => Just(Fate::RunsAndIsLost),
        2 => Just(Fate::IsLost),
        2 => Just(Fate::IsRefused),
        1 => Just(Fate::Asks),
    ];
    let step = prop_oneof![
        6 => (0..2u8, 0..6u8, any::<bool>()).prop_map(|(user, args, inputs)| Step::Call(user, args / 5, inputs)),
        5 => (0..4usize, fate).prop_map(|(which, fate)| Step::Send(which, fate)),
        4 => (0..4usize).prop_map(Step::Settle),
        1 => (0..4usize).prop_map(Step::Renew),
        2 => (0..4usize).prop_map(Step::Crash),
        3 => prop_oneof![1..70u16, 250..400u16, 2000..4000u16].prop_map(Step::Wait),
        1 => Just(Step::Resolve),
        1 => Just(Step::Prune),
    ];
    prop::collection::vec(step, 1..60)
}

struct Running {
    held: Held,
    /// The gate does not send an attempt later than this.
    send_before: Timestamp,
    came: Option<Came>,
}

/// One key's row, the world around it, and the truth.
struct World {
    terms: Terms,
    now: Timestamp,
    row: Option<Claim>,
    running: Vec<Running>,
    /// When the upstream ran it, in this retention window.
    runs: Vec<Timestamp>,
    /// The answer that the first completion stored.
    answer: Option<Bytes>,
}

impl World {
    fn new(terms: Terms) -> Self {
        Self { terms, now: T0, row: None, running: Vec::new(), runs: Vec::new(), answer: None }
    }

    fn write(&mut self, expect: Expect, next: Claim) {
        let found = self.row.as_ref().map_or(Expect::Absent, |row| Expect::Revision(row.revision));
        assert_eq!(found, expect, "the model writes at once, so a decision never meets another row");
        if let (Some(old), Some(_)) = (&self.row, &self.answer)
            && old.status == Status::Completed
            && !old.is_expired(self.now)
        {
            panic!("a completed claim must not change: {old:?} became {next:?}");
        }
        if let Some(old) = &self.row {
            assert!(next.revision > old.revision, "every write raises the revision");
        }
        self.row = Some(next);
    }

    fn window_is_over(&self) -> bool {
        self.row.as_ref().is_none_or(|row| row.is_expired(self.now) && row.status != Status::Failed)
    }

    fn call(&mut self, user: u8, args: u8, inputs: bool) {
        let round = if inputs { round("1", "aa", true) } else { AskedRound::default() };
        let ask = Ask { round, ..ask(if user == 0 { "u" } else { "v" }, if args == 0 { "a" } else { "b" }) };
        loop {
            match admit(self.row.as_ref(), &ask, self.now, &self.terms) {
                Admission::Run { expect, draft, attempt } => {
                    if attempt.kind == AttemptKind::First && self.window_is_over() {
                        self.runs.clear();
                        self.answer = None;
                    }
                    let claim = draft.at(self.now, expect);
                    self.write(expect, claim.clone());
                    let send_before = self.now.plus(self.terms.upstream_timeout);
                    self.running.push(Running { held: Held { attempt, claim }, send_before, came: None });
                    return;
                }
                Admission::Abandon { expect, draft } => self.write(expect, draft.at(self.now, expect)),
                Admission::Replay => {
                    let row = self.row.as_ref().expect("a replay has a row");
                    if row.status == Status::Completed && self.answer.is_some() {
                        assert_eq!(row.response, self.answer, "every replay is the first answer");
                    }
                    return;
                }
                Admission::Conflict(_) | Admission::InFlight { .. } | Admission::Unknown { .. } => return,
            }
        }
    }

    fn send(&mut self, which: usize, fate: Fate) {
        let (now, runs, idempotent) =
            (self.now, self.runs.len(), self.terms.downstream != Downstream::Unsafe);
        let Some(attempt) = self.running.get_mut(which).filter(|attempt| attempt.came.is_none()) else {
            return;
        };
        if now >= attempt.send_before {
            attempt.came = Some(Came::NotRun);
            return;
        }
        let known = idempotent && runs > 0;
        let answer = Came::Completed {
            response: Some(Bytes::from(format!("answer {}", if known { 1 } else { runs + 1 }))),
            doubtful_in_rerun: false,
        };
        attempt.came = Some(match fate {
            Fate::Answers => answer,
            Fate::RunsAndIsLost | Fate::IsLost => Came::Unknown,
            Fate::IsRefused => Came::NotRun,
            Fate::Asks if known => answer,
            Fate::Asks => awaiting(),
        });
        if matches!(fate, Fate::Answers | Fate::RunsAndIsLost) {
            self.ran();
        }
    }

    /// The promise.
    fn ran(&mut self) {
        match self.terms.downstream {
            Downstream::Unsafe => {
                assert!(self.runs.is_empty(), "the upstream ran a second time, first at {:?}", self.runs);
            }
            Downstream::Idempotent { retention } => {
                if let Some(first) = self.runs.first() {
                    assert!(self.now < first.plus(retention), "the backend had forgotten the key");
                }
            }
        }
        self.runs.push(self.now);
    }

    fn settle(&mut self, which: usize) {
        if self.running.get(which).is_none_or(|attempt| attempt.came.is_none()) {
            return;
        }
        let Running { held, came, .. } = self.running.remove(which);
        let came = came.expect("checked above");
        if let Settling::Write { expect, draft } = settle(self.row.as_ref(), &held, &came, &self.terms) {
            let claim = draft.at(self.now, expect);
            if claim.status == Status::Failed {
                assert!(self.runs.is_empty(), "a claim that may have run became failed");
            }
            if claim.status == Status::Completed {
                self.answer.clone_from(&claim.response);
            }
            self.write(expect, claim);
        }
    }

    fn renew(&mut self, which: usize) {
        let Some(attempt) = self.running.get(which) else { return };
        let Some(row) = &self.row else { return };
        if let Some((expect, draft)) = renew(row, &attempt.held.attempt, self.terms.lease) {
            let claim = draft.at(self.now, expect);
            self.write(expect, claim);
        }
    }

    /// A person looks at the upstream's own books, and never releases what may still be on its way.
    fn resolve(&mut self) {
        let Some(row) = self.row.clone() else { return };
        let resolution = if self.runs.is_empty() {
            Resolution::Released { force: false }
        } else {
            Resolution::Completed { response: None }
        };
        if let Ok((expect, draft)) = resolve(&row, &resolution, self.now, self.terms.ttl) {
            self.answer = None;
            self.write(expect, draft.at(self.now, expect));
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call(user, args, inputs) => self.call(user, args, inputs),
            Step::Send(which, fate) => self.send(which, fate),
            Step::Settle(which) => self.settle(which),
            Step::Renew(which) => self.renew(which),
            Step::Crash(which) => {
                if which < self.running.len() {
                    self.running.remove(which);
                }
            }
            Step::Wait(seconds) => self.now = self.now.plus(secs(seconds.into())),
            Step::Resolve => self.resolve(),
            Step::Prune => {
                let prunable = |row: &Claim| {
                    row.is_expired(self.now) && !matches!(row.status, Status::InFlight | Status::Unknown)
                };
                if self.row.as_ref().is_some_and(prunable) {
                    // With its row the retention window is over: whoever settles now finds nothing to protect.
                    (self.row, self.answer) = (None, None);
                    self.runs.clear();
                }
            }
        }
        if let Some(row) = &self.row
            && matches!(row.status, Status::InFlight | Status::Unknown)
        {
            assert_eq!(row.expires_at, None, "what may have run never expires");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_upstream_runs_it_once(steps in steps()) {
        let mut world = World::new(TERMS);
        for step in &steps {
            world.step(step);
        }
    }

    #[test]
    fn whatever_happens_an_idempotent_backend_still_knows_the_key(steps in steps()) {
        let mut world = World::new(idempotent());
        for step in &steps {
            world.step(step);
        }
    }
}
