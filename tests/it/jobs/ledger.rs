//! What the ledger allows a worker's report, row by row.

use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::{
    Admission, Ask, AskedRound, Came, Claim, Downstream, Expect, Report, Resolution, Sign, Status, Terms,
    abandon, admit, hand_out, report, resolve, sign,
};
use oncegate::domain::time::Timestamp;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

const TERMS: Terms = Terms {
    ttl: Duration::from_hours(24),
    lease: Duration::from_mins(1),
    upstream_timeout: Duration::from_mins(15),
    downstream: Downstream::Idempotent { retention: Duration::from_hours(12) },
    shared_within_tenant: false,
};

fn after(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

/// The row of a claim that this attempt was given at this time, over what stood there.
fn handed(over: Option<&Claim>, now: Timestamp) -> Claim {
    let facts = Facts { user_id: "worker".into(), forwarded_key: Some("k".into()), ..Facts::default() };
    let ask = Ask {
        args_hash: "k1:aa".into(),
        accepted_hashes: vec!["k1:aa".into()],
        round: AskedRound::default(),
        attempt_id: Uuid::new_v4(),
        facts,
    };
    let Admission::Run { expect, draft, attempt } = admit(over, &ask, now, &TERMS) else {
        panic!("the claim may be handed out")
    };
    hand_out(*draft, &attempt, None).at(now, expect)
}

fn done(answer: &'static str) -> Came {
    Came::Completed { response: Some(Bytes::from_static(answer.as_bytes())), doubtful_in_rerun: false }
}

/// The row that a report leaves; what it is told where it writes none.
fn reported(row: &Claim, came: &Came) -> Result<Claim, Report> {
    match report(Some(row), row.attempt_id, came, &TERMS) {
        Report::Write { expect, draft } => Ok(draft.at(after(1), expect)),
        told @ (Report::Again(_) | Report::Over) => Err(told),
    }
}

fn abandoned(row: &Claim) -> Claim {
    let (expect, draft) = abandon(row, after(60)).expect("its lease is up");
    draft.at(after(60), expect)
}

#[test]
fn a_report_writes_what_came_once() {
    let row = handed(None, NOW);
    for (came, status) in
        [(done("a"), Status::Completed), (Came::NotRun, Status::Failed), (Came::Unknown, Status::Unknown)]
    {
        let settled = reported(&row, &came).expect("it is open");
        assert_eq!(settled.status, status);
        assert_eq!(reported(&settled, &came), Err(Report::Again(status)));
    }
    let settled = reported(&row, &done("a")).expect("it is open");
    for other in
        [done("b"), Came::Completed { response: None, doubtful_in_rerun: false }, Came::NotRun, Came::Unknown]
    {
        assert_eq!(reported(&settled, &other), Err(Report::Over), "{other:?}");
    }
}

#[test]
fn of_a_rerun_that_did_nothing_the_claim_stays_unknown() {
    let first = abandoned(&handed(None, NOW));
    let second = handed(Some(&first), after(15 * 60));
    let settled = reported(&second, &Came::NotRun).expect("it is open");
    assert_eq!(settled.status, Status::Unknown);
    assert_eq!(reported(&settled, &Came::NotRun), Err(Report::Again(Status::Unknown)));
    assert_eq!(report(Some(&second), first.attempt_id, &done("late"), &TERMS), Report::Over);
}

#[test]
fn an_attempt_of_which_nobody_knows_what_went_before_is_taken_for_a_rerun() {
    let mut row = handed(None, NOW);
    row.facts.handed_out = None;
    assert_eq!(reported(&row, &Came::NotRun).expect("it is open").status, Status::Unknown);
    assert_eq!(reported(&row, &done("a")).expect("it is open").status, Status::Completed);
}

#[test]
fn what_somebody_else_decided_stands() {
    let lost = abandoned(&handed(None, NOW));
    for resolution in [Resolution::Completed { response: None }, Resolution::Released { force: true }] {
        let (expect, draft) = resolve(&lost, &resolution, after(61), TERMS.ttl).expect("it is unknown");
        let resolved = draft.at(after(61), expect);
        assert_eq!(reported(&resolved, &done("late")), Err(Report::Over), "{resolution:?}");
    }
    assert_eq!(report(None, lost.attempt_id, &done("late"), &TERMS), Report::Over, "of what is gone");
    let late = reported(&lost, &done("late")).expect("nobody has decided");
    assert_eq!(late.status, Status::Completed);
}

#[test]
fn a_lease_is_prolonged_while_it_is_the_attempts_and_its_time_lasts() {
    let row = handed(None, NOW);
    let signs = |row: &Claim, now| sign(Some(row), row.attempt_id, now, TERMS.lease);
    for now in [NOW, after(59), after(61), after(15 * 60 - 1)] {
        let Sign::Write { expect, draft } = signs(&row, now) else { panic!("it is owned") };
        assert_eq!(expect, Expect::Revision(row.revision));
        let renewed = draft.at(now, expect);
        assert_eq!(renewed.lease_until, Some(now.plus(TERMS.lease)));
        assert_eq!(renewed.attempt_until, row.attempt_until, "its whole time is as it was");
    }
    assert_eq!(signs(&row, after(15 * 60)), Sign::Lost);
    assert_eq!(signs(&abandoned(&row), after(61)), Sign::Lost);
    assert_eq!(signs(&reported(&row, &done("a")).expect("it is open"), after(2)), Sign::Over);
    assert_eq!(sign(Some(&row), Uuid::new_v4(), NOW, TERMS.lease), Sign::Over);
    assert_eq!(sign(None, row.attempt_id, NOW, TERMS.lease), Sign::Over);
}
