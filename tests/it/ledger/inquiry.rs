//! Whose turn it is to ask the app about an unknown claim.

use std::time::Duration;

use oncegate::domain::ledger::{Claim, Status, may_ask_in, take_turn};
use oncegate::domain::time::Timestamp;
use proptest::prelude::*;

use super::{T0, settled_unknown};

const EVERY: Duration = Duration::from_secs(10);

/// The row once somebody took the turn, `after` it became unknown.
fn asked(row: &Claim, after: Duration) -> Claim {
    let now = T0.plus(after);
    let (expect, draft) = take_turn(row, now, EVERY, Duration::ZERO).expect("an unknown claim");
    let asked = draft.at(now, expect);
    assert_eq!((asked.status, asked.attempt_id, asked.expires_at), (Status::Unknown, row.attempt_id, None));
    assert!(asked.revision > row.revision);
    asked
}

fn by_itself_in(row: &Claim, now: Timestamp) -> Duration {
    row.lease_until.expect("it was asked about").since(now)
}

#[test]
fn an_unknown_claim_may_be_asked_about_at_once_and_then_not_for_a_while() {
    let row = settled_unknown();
    assert_eq!(may_ask_in(&row, T0, EVERY), Some(Duration::ZERO));
    let row = asked(&row, Duration::ZERO);
    assert_eq!(may_ask_in(&row, T0, EVERY), Some(EVERY));
    assert_eq!(may_ask_in(&row, T0.plus(EVERY), EVERY), Some(Duration::ZERO));
}

#[test]
fn a_claim_that_stays_unknown_is_asked_about_less_often_by_itself_and_as_often_by_retries() {
    let mut row = settled_unknown();
    for (after, left_alone) in [(0, 10), (40, 10), (80, 20), (3600, 900), (1_000_000, 900)] {
        let after = Duration::from_secs(after);
        row = asked(&row, after);
        let now = T0.plus(after);
        assert_eq!(by_itself_in(&row, now), Duration::from_secs(left_alone), "after {after:?}");
        assert_eq!(may_ask_in(&row, now, EVERY), Some(EVERY), "after {after:?}");
        assert_eq!(may_ask_in(&row, now.plus(EVERY), EVERY), Some(Duration::ZERO), "after {after:?}");
    }
}

#[test]
fn nobody_asks_about_a_claim_that_is_not_unknown() {
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Unknown) {
        let row = Claim { status, ..settled_unknown() };
        assert_eq!(may_ask_in(&row, T0, EVERY), None);
        assert!(take_turn(&row, T0, EVERY, Duration::ZERO).is_none());
    }
}

#[test]
fn of_two_that_take_the_turn_at_once_only_one_takes_the_row_for_its_own() {
    let row = settled_unknown();
    let (expect, one) = take_turn(&row, T0, EVERY, Duration::from_micros(1)).expect("a turn");
    let (_, other) = take_turn(&row, T0, EVERY, Duration::from_micros(2)).expect("a turn");
    let stored = one.at(T0, expect);
    assert!(one.is_own(expect, &stored) && !other.is_own(expect, &stored));
}

proptest! {
    #[test]
    fn a_retry_waits_as_the_policy_says_whenever_the_claim_was_asked_about(
        after in 0_u64..10_000_000, every in 1_u64..3600,
    ) {
        let every = Duration::from_secs(every);
        let now = T0.plus(Duration::from_secs(after));
        let row = settled_unknown();
        let (expect, draft) = take_turn(&row, now, every, Duration::ZERO).expect("an unknown claim");
        let wait = may_ask_in(&draft.at(now, expect), now, every).expect("an unknown claim");
        // Microseconds are lost in the division.
        prop_assert!(every.abs_diff(wait) < Duration::from_millis(1), "{wait:?}");
    }
}
