//! Whose turn it is to ask the app about an unknown claim.
//!
//! Promises: about one claim at most one question is asked in the time that the policy names, by all gates together: who
//! asks says so on the row first. The longer a claim stays unknown, the less often it is asked about by itself; a retry
//! waits no longer for that than the policy says.
//!
//! Absent on purpose: any bearing on who may run the call. An unknown claim is nobody's; its `lease_until` only says
//! before when nobody needs to ask again.

use std::time::Duration;

use super::claim::{Claim, Draft, Expect, Status};
use crate::domain::time::{Timestamp, When};

/// The longest that a claim is left alone by itself, unless the policy says longer.
const LONGEST: Duration = Duration::from_mins(15);

/// By how much of a claim's age it is left alone.
const SHARE: u32 = 4;

/// How long until a call that meets this unknown claim may ask; none where nobody asks about such a claim.
pub fn may_ask_in(row: &Claim, now: Timestamp, every: Duration) -> Option<Duration> {
    if row.status != Status::Unknown {
        return None;
    }
    let next = asked_at(row, every).map_or(now, |asked| asked.plus(every));
    Some(next.since(now))
}

/// The write by which somebody takes the turn to ask, now. `apart` is random and short: it tells this write from that of
/// another who takes the turn at the same time.
pub fn take_turn(row: &Claim, now: Timestamp, every: Duration, apart: Duration) -> Option<(Expect, Draft)> {
    let until = now.plus(pause(now.since(unknown_since(row)), every)).plus(apart);
    (row.status == Status::Unknown)
        .then(|| (Expect::Revision(row.revision), Draft { lease_until: When::At(until), ..row.redraft() }))
}

/// How long a claim is left alone that has been unknown for so long.
fn pause(age: Duration, every: Duration) -> Duration {
    (age / SHARE).clamp(every, LONGEST.max(every))
}

/// When it was asked about last: the time from which its pause led to what the row says.
fn asked_at(row: &Claim, every: Duration) -> Option<Timestamp> {
    let until = row.lease_until?;
    let whole = until.since(unknown_since(row));
    // Of age + age / SHARE.
    let share = whole / (SHARE + 1);
    Some(until.minus(share.clamp(every, LONGEST.max(every))))
}

fn unknown_since(row: &Claim) -> Timestamp {
    row.settled_at.unwrap_or(row.created_at)
}
