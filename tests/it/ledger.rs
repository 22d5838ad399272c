//! The ledger's decisions, row by row of the table.

mod inquiry;
mod schedules;

use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::{
    Admission, Ask, AskedRound, Attempt, AttemptKind, Came, Claim, Conflict, Downstream, Expect, Expects,
    Held, Resolution, ResolveFault, Round, RoundId, Settling, Status, Terms, admit, proven, renew, resolve,
    settle,
};
use oncegate::domain::time::Timestamp;
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
        facts: Facts {
            user_id: user.to_owned(),
            forwarded_key: Some("acme/refund/k1".to_owned()),
            ..Facts::default()
        },
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

/// A claim whose outcome became unknown at `T0`.
fn settled_unknown() -> Claim {
    settled(&Came::Unknown, &TERMS)
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
    let other_round = Ask { round: round("1", "aa", true), ..ask("u", "a") };
    check(Some(&row), &other_round, secs(300), &terms, "unknown");
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
        assert_eq!(*proven(&held.attempt.kind, &came), Came::Unknown, "the caller hears no more than that");
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
    let again = Claim { round: Round { id: RoundId::from_hex("1"), ..row.round.clone() }, ..row.clone() };
    check(Some(&again), &with(round("1", "aa", true)), secs(0), &TERMS, "replay");
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
fn an_upstream_that_sheds_load_is_asked_again_with_the_same_state() {
    let sheds =
        Came::AwaitingInput { response: None, expects: Expects { state: "aa".into(), inputs: false } };
    let mut row = settled(&sheds, &TERMS);
    let again = Ask { round: round("1", "aa", false), ..ask("u", "a") };
    for _ in 0..3 {
        let Admission::Run { expect, draft, attempt } = admit(Some(&row), &again, T0, &TERMS) else {
            panic!("state alone continues");
        };
        let held = Held { claim: draft.at(T0, expect), attempt };
        row = written(settle(Some(&held.claim), &held, &sheds, &TERMS), T0);
    }
    check(Some(&row), &ask("u", "a"), secs(0), &TERMS, "replay");
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
    let failed = written(settle(Some(&held.claim), &held, &Came::NotRun, &TERMS), T0);
    let asked = written(settle(Some(&held.claim), &held, &awaiting(), &TERMS), T0);
    for row in [failed, asked] {
        assert_eq!(settle(Some(&row), &held, &completed(), &TERMS), Settling::TooLate);
    }
    assert_eq!(renew(&done, &held.attempt, TERMS.lease), None);
    assert_eq!(renew(&held.claim, &other.attempt, TERMS.lease), None);
}

#[test]
fn a_first_attempts_own_words_are_its_answer() {
    let held = claimed(&TERMS);
    let doubtful = Came::Completed { response: None, doubtful_in_rerun: true };
    assert_eq!(written(settle(Some(&held.claim), &held, &doubtful, &TERMS), T0).status, Status::Completed);
}

#[test]
fn a_writer_knows_its_own_write_and_no_other() {
    let held = claimed(&TERMS);
    let Settling::Write { expect, draft } = settle(Some(&held.claim), &held, &completed(), &TERMS) else {
        panic!("a settlement is written");
    };
    let own = draft.at(T0.plus(secs(9)), expect);
    assert!(draft.is_own(expect, &own));
    let foreign = [
        Claim { attempt_id: Uuid::new_v4(), ..own.clone() },
        Claim { status: Status::Unknown, ..own.clone() },
        Claim { revision: own.revision + 1, ..own.clone() },
        // A person resolved it in between: the audit row of this attempt is not written yet.
        Claim { response: None, ..own },
    ];
    for row in foreign {
        assert!(!draft.is_own(expect, &row), "{row:?}");
    }
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
