//! The ledger's decisions: the table row by row, then random schedules against a model that knows the truth.
//!
//! The model is one key's row, a clock, the attempts that are under way and what the upstream really did. It knows no
//! rule of the ledger: it only carries out what `admit`, `settle`, `renew` and `resolve` say, and counts.

use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::{
    Admission, Ask, AskedRound, Attempt, AttemptKind, Came, Claim, Conflict, Downstream, Expect, Expects,
    Held, Resolution, ResolveFault, RoundId, Settling, Status, Terms, admit, renew, resolve, settle,
};
use oncegate::domain::time::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

const T0: Timestamp = Timestamp::from_micros(1_000_000_000);

const TERMS: Terms = Terms {
    ttl: secs(3600),
    lease: secs(60),
    upstream_timeout: secs(300),
    downstream: Downstream::Unsafe,
    shared_within_tenant: false,
};

fn idempotent() -> Terms {
    Terms { downstream: Downstream::Idempotent { retention: secs(3000) }, ..TERMS }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ask(user: &str, args: &str) -> Ask {
    Ask {
        args_hash: args.to_owned(),
        accepted_hashes: vec![args.to_owned()],
        round: AskedRound::default(),
        attempt_id: Uuid::new_v4(),
        facts: Facts { user_id: user.to_owned(), ..Facts::default() },
    }
}

fn round(id: &str, state: &str, inputs: bool) -> AskedRound {
    AskedRound { id: RoundId::from_hex(id), state: state.to_owned(), inputs }
}

/// A claim of user `u` with arguments `a`, freshly made at `T0`, and the attempt that owns it.
fn claimed(terms: &Terms) -> Held {
    let Admission::Run { expect, draft, attempt } = admit(None, &ask("u", "a"), T0, terms) else {
        panic!("a call without a row must run");
    };
    Held { claim: draft.at(T0, expect), attempt }
}

fn settled(came: &Came, terms: &Terms) -> Claim {
    let held = claimed(terms);
    written(settle(Some(&held.claim), &held, came, terms), T0)
}

fn written(settling: Settling, now: Timestamp) -> Claim {
    match settling {
        Settling::Write { expect, draft } => draft.at(now, expect),
        Settling::TooLate => panic!("a settlement must be written"),
    }
}

fn completed() -> Came {
    Came::Completed { response: Some(Bytes::from_static(b"answer")), doubtful_in_rerun: false }
}

fn awaiting() -> Came {
    Came::AwaitingInput {
        response: Some(Bytes::from_static(b"question")),
        expects: Expects { state: "aa".into(), inputs: true },
    }
}

fn word(admission: &Admission) -> &'static str {
    match admission {
        Admission::Run { attempt, .. } => match attempt.kind {
            AttemptKind::First => "fresh",
            AttemptKind::Rerun => "take over",
            AttemptKind::Continuation { .. } => "continue",
        },
        Admission::Abandon { .. } => "abandon",
        Admission::Replay => "replay",
        Admission::Conflict(Conflict::OtherArguments) => "conflict",
        Admission::Conflict(Conflict::OtherUser) => "other user",
        Admission::InFlight { .. } => "in flight",
        Admission::Unknown { take_over_in: Some(_) } => "unknown, later",
        Admission::Unknown { take_over_in: None } => "unknown",
    }
}

/// Holds that a call with these arguments by this user meets this, `after` the row was written.
#[track_caller]
fn check(row: Option<&Claim>, ask: &Ask, after: Duration, terms: &Terms, expected: &str) {
    assert_eq!(word(&admit(row, ask, T0.plus(after), terms)), expected);
}

#[test]
fn a_call_without_a_row_is_fresh() {
    check(None, &ask("u", "a"), secs(0), &TERMS, "fresh");
}

#[test]
fn a_running_call_is_in_flight_until_its_lease_lapses() {
    let row = claimed(&TERMS).claim;
    check(Some(&row), &ask("u", "a"), secs(59), &TERMS, "in flight");
    check(Some(&row), &ask("u", "a"), secs(60), &TERMS, "abandon");
    check(Some(&row), &ask("u", "b"), secs(0), &TERMS, "conflict");
    check(Some(&row), &ask("u", "b"), secs(61), &TERMS, "conflict");
    check(Some(&row), &ask("v", "a"), secs(0), &TERMS, "other user");
}

#[test]
fn an_abandoned_claim_is_unknown_and_never_expires() {
    let row = claimed(&TERMS).claim;
    let Admission::Abandon { expect, draft } = admit(Some(&row), &ask("u", "a"), T0.plus(secs(61)), &TERMS)
    else {
        panic!("a lapsed lease is abandoned");
    };
    let row = draft.at(T0.plus(secs(61)), expect);
    assert_eq!((row.status, row.expires_at), (Status::Unknown, None));
    check(Some(&row), &ask("u", "a"), secs(100_000_000), &TERMS, "unknown");
}

#[test]
fn a_completed_call_is_replayed_until_it_expires() {
    let row = settled(&completed(), &TERMS);
    assert_eq!(row.response.as_deref(), Some(&b"answer"[..]));
    check(Some(&row), &ask("u", "a"), secs(3599), &TERMS, "replay");
    check(Some(&row), &ask("u", "b"), secs(0), &TERMS, "conflict");
    check(Some(&row), &ask("v", "a"), secs(0), &TERMS, "other user");
    check(Some(&row), &ask("v", "b"), secs(3600), &TERMS, "fresh");
}

#[test]
fn a_tenants_shared_key_is_any_users() {
    let shared = Terms { shared_within_tenant: true, ..TERMS };
    check(Some(&settled(&completed(), &shared)), &ask("v", "a"), secs(0), &shared, "replay");
    check(Some(&settled(&completed(), &shared)), &ask("v", "b"), secs(0), &shared, "conflict");
}

#[test]
fn a_failed_call_runs_again_for_any_user_but_not_with_other_arguments() {
    let row = settled(&Came::NotRun, &TERMS);
    assert_eq!(row.status, Status::Failed);
    check(Some(&row), &ask("u", "a"), secs(0), &TERMS, "fresh");
    check(Some(&row), &ask("v", "a"), secs(0), &TERMS, "fresh");
    check(Some(&row), &ask("u", "b"), secs(0), &TERMS, "conflict");
    check(Some(&row), &ask("u", "b"), secs(3600), &TERMS, "fresh");
}

#[test]
fn an_unknown_outcome_stays_unknown_where_downstream_is_not_idempotent() {
    let row = settled(&Came::Unknown, &TERMS);
    assert_eq!((row.status, row.expires_at), (Status::Unknown, None));
    check(Some(&row), &ask("u", "a"), secs(1_000_000), &TERMS, "unknown");
    check(Some(&row), &ask("u", "b"), secs(0), &TERMS, "conflict");
    check(Some(&row), &ask("v", "a"), secs(0), &TERMS, "other user");
}

#[test]
fn a_take_over_waits_for_the_earlier_attempts_timeout_and_ends_with_the_retention() {
    let terms = idempotent();
    let row = settled(&Came::Unknown, &terms);
    check(Some(&row), &ask("u", "a"), secs(299), &terms, "unknown, later");
    check(Some(&row), &ask("u", "a"), secs(300), &terms, "take over");
    // The re-run itself may take 300 s, and must end within 3000 s of the first attempt.
    check(Some(&row), &ask("u", "a"), secs(2700), &terms, "take over");
    check(Some(&row), &ask("u", "a"), secs(2701), &terms, "unknown");
}

#[test]
fn a_re_run_that_says_it_did_not_run_leaves_the_outcome_unknown() {
    let terms = idempotent();
    let row = settled(&Came::Unknown, &terms);
    let now = T0.plus(secs(400));
    let Admission::Run { expect, draft, attempt } = admit(Some(&row), &ask("u", "a"), now, &terms) else {
        panic!("a take-over runs");
    };
    let held = Held { claim: draft.at(now, expect), attempt };
    assert_eq!(held.claim.first_sent_at, row.first_sent_at, "the retention counts from the first attempt");
    let doubtful = Came::Completed { response: None, doubtful_in_rerun: true };
    for came in [Came::NotRun, doubtful, Came::Unknown] {
        assert_eq!(written(settle(Some(&held.claim), &held, &came, &terms), now).status, Status::Unknown);
    }
    assert_eq!(
        written(settle(Some(&held.claim), &held, &completed(), &terms), now).status,
        Status::Completed
    );
}

#[test]
fn an_input_request_is_replayed_to_its_own_round_and_continued_by_the_next() {
    let row = settled(&awaiting(), &TERMS);
    assert_eq!(row.status, Status::AwaitingInput);
    check(Some(&row), &ask("u", "a"), secs(0), &TERMS, "replay");
    let with = |round| Ask { round, ..ask("u", "a") };
    check(Some(&row), &with(round("1", "aa", true)), secs(0), &TERMS, "continue");
    check(Some(&row), &with(round("1", "aa", false)), secs(0), &TERMS, "conflict");
    check(Some(&row), &with(round("1", "bb", true)), secs(0), &TERMS, "conflict");
    check(Some(&row), &Ask { round: round("1", "aa", true), ..ask("u", "b") }, secs(0), &TERMS, "conflict");
    check(Some(&row), &with(round("1", "aa", true)), secs(3600), &TERMS, "fresh");
}

#[test]
fn a_continued_round_meets_other_inputs_as_a_conflict_and_returns_when_it_did_not_run() {
    let asked = settled(&awaiting(), &TERMS);
    let first_inputs = Ask { round: round("1", "aa", true), ..ask("u", "a") };
    let Admission::Run { expect, draft, attempt } = admit(Some(&asked), &first_inputs, T0, &TERMS) else {
        panic!("the next round continues");
    };
    let held = Held { claim: draft.at(T0, expect), attempt };
    check(Some(&held.claim), &first_inputs, secs(0), &TERMS, "in flight");
    check(Some(&held.claim), &ask("u", "a"), secs(0), &TERMS, "in flight");
    check(
        Some(&held.claim),
        &Ask { round: round("2", "aa", true), ..ask("u", "a") },
        secs(0),
        &TERMS,
        "conflict",
    );

    let back = written(settle(Some(&held.claim), &held, &Came::NotRun, &TERMS), T0);
    assert_eq!(
        (back.status, &back.round, &back.response),
        (Status::AwaitingInput, &asked.round, &asked.response)
    );

    let done = written(settle(Some(&held.claim), &held, &completed(), &TERMS), T0);
    for any_round in [AskedRound::default(), round("1", "aa", true), round("2", "cc", true)] {
        check(Some(&done), &Ask { round: any_round, ..ask("u", "a") }, secs(0), &TERMS, "replay");
    }
}

#[test]
fn only_the_owner_settles_and_only_once() {
    let held = claimed(&TERMS);
    let other = Held { attempt: Attempt { id: Uuid::new_v4(), kind: AttemptKind::First }, ..held.clone() };
    assert_eq!(settle(Some(&held.claim), &other, &completed(), &TERMS), Settling::TooLate);
    let done = written(settle(Some(&held.claim), &held, &completed(), &TERMS), T0);
    for came in [completed(), Came::NotRun, Came::Unknown] {
        assert_eq!(settle(Some(&done), &held, &came, &TERMS), Settling::TooLate);
    }
    assert_eq!(renew(&done, &held.attempt, TERMS.lease), None);
    assert_eq!(renew(&held.claim, &other.attempt, TERMS.lease), None);
}

#[test]
fn a_late_answer_completes_its_own_unknown_claim() {
    let held = claimed(&TERMS);
    let lost = written(settle(Some(&held.claim), &held, &Came::Unknown, &TERMS), T0);
    assert_eq!(written(settle(Some(&lost), &held, &completed(), &TERMS), T0).status, Status::Completed);
    assert_eq!(settle(Some(&lost), &held, &Came::Unknown, &TERMS), Settling::TooLate);
}

#[test]
fn a_settlement_whose_row_is_gone_writes_it_anew() {
    let held = claimed(&TERMS);
    let Settling::Write { expect, draft } = settle(None, &held, &completed(), &TERMS) else {
        panic!("it is written anew");
    };
    assert_eq!((expect, draft.status), (Expect::Absent, Status::Completed));
}

#[test]
fn a_renewal_prolongs_the_lease_and_nothing_else() {
    let held = claimed(&TERMS);
    let (expect, draft) = renew(&held.claim, &held.attempt, TERMS.lease).expect("the owner renews");
    let renewed = draft.at(T0.plus(secs(30)), expect);
    assert_eq!(renewed.lease_until, Some(T0.plus(secs(90))));
    assert_eq!(
        Claim { lease_until: held.claim.lease_until, revision: held.claim.revision, ..renewed },
        held.claim
    );
}

#[test]
fn only_unknown_claims_are_resolved_and_a_release_waits_for_the_attempt() {
    let released = Resolution::Released { force: false };
    let done = settled(&completed(), &TERMS);
    assert_eq!(resolve(&done, &released, T0, TERMS.ttl), Err(ResolveFault::NotUnknown(Status::Completed)));
    let running = claimed(&TERMS).claim;
    assert_eq!(resolve(&running, &released, T0, TERMS.ttl), Err(ResolveFault::StillOwned(secs(60))));
    let lost = settled(&Came::Unknown, &TERMS);
    assert_eq!(resolve(&lost, &released, T0, TERMS.ttl), Err(ResolveFault::MayStillRun(secs(300))));
    let (_, draft) =
        resolve(&lost, &released, T0.plus(secs(300)), TERMS.ttl).expect("its timeout has passed");
    assert_eq!(draft.status, Status::Failed);
    let (_, draft) =
        resolve(&lost, &Resolution::Released { force: true }, T0, TERMS.ttl).expect("it is forced");
    assert_eq!(draft.status, Status::Failed);
    let (expect, draft) = resolve(&lost, &Resolution::Completed { response: None }, T0, TERMS.ttl)
        .expect("it is known to have run");
    check(Some(&draft.at(T0, expect)), &ask("u", "a"), secs(1), &TERMS, "replay");
}

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
                    self.row = None;
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
