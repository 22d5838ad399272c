//! An attempt that runs elsewhere: a worker was told its id, and reports by it.
//!
//! Promises: the id alone settles and prolongs what it was given for; a report that comes again, since its answer got
//! lost, finds what it wrote before and changes nothing; nothing here allows what [`settle`] and [`renew`] would not.
//!
//! What went before an attempt stands on its row, put there by the write that made the attempt: a worker need not be
//! trusted to remember it, and no other column tells. (The times do not: how far apart they are depends on a setting that
//! may have changed since.) Where the note is missing (a program that does not know it wrote the row anew) the attempt is
//! taken for a re-run, of which less is believed.
//!
//! Absent on purpose: memory. Between two reports nothing is known of an attempt but its row.

use std::time::Duration;

use uuid::Uuid;

use super::claim::{Claim, Draft, Expect, Status};
use super::settle::{Came, Held, Settling, comes_to, renew, settle};
use super::terms::{Attempt, AttemptKind, Terms};
use crate::domain::audit::{Facts, HandedOut};
use crate::domain::time::Timestamp;

/// What a report of an attempt's end may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// This.
    Write {
        /// What must stand there.
        expect: Expect,
        /// What shall stand there.
        draft: Box<Draft>,
    },
    /// Nothing: it stands there already, since the same was reported before.
    Again(Status),
    /// Nothing: the claim was settled otherwise, resolved or taken over, or is gone.
    Over,
}

/// What a sign of life may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// This: the lease begins anew.
    Write {
        /// What must stand there.
        expect: Expect,
        /// What shall stand there.
        draft: Box<Draft>,
    },
    /// Nothing: the claim is nobody else's, but the attempt's lease has lapsed, or its time is over. What comes of it is
    /// heard all the same.
    Lost,
    /// Nothing: as for [`Report::Over`].
    Over,
}

/// A claim as it is written for an attempt that a worker carries out. `twin` is another key with the same arguments.
pub fn hand_out(draft: Draft, attempt: &Attempt, twin: Option<String>) -> Draft {
    let handed_out = Some(HandedOut { is_first: attempt.kind == AttemptKind::First, twin });
    Draft { facts: Facts { handed_out, ..draft.facts }, ..draft }
}

/// The attempt that a worker speaks of, where the claim is that attempt's.
fn held(row: Option<&Claim>, attempt: Uuid) -> Option<Held> {
    let claim = row.filter(|row| row.attempt_id == attempt)?.clone();
    let is_first = claim.facts.handed_out.as_ref().is_some_and(|handed| handed.is_first);
    let kind = if is_first { AttemptKind::First } else { AttemptKind::Rerun };
    Some(Held { attempt: Attempt { id: attempt, kind }, claim })
}

/// Decides what a worker's report of its attempt's end may write, given the row as it stands.
///
/// | row | this attempt's |
/// |---|---|
/// | gone, or another attempt's | over: whose it was is not known any more |
/// | its own, open as [`settle`] has it | what came |
/// | its own, and what came stands there | again |
/// | its own, settled or resolved otherwise | over |
pub fn report(row: Option<&Claim>, attempt: Uuid, came: &Came, terms: &Terms) -> Report {
    let Some(held) = held(row, attempt) else { return Report::Over };
    match settle(Some(&held.claim), &held, came, terms) {
        Settling::Write { expect, draft } => Report::Write { expect, draft },
        Settling::TooLate if stands(&held, came) => Report::Again(held.claim.status),
        Settling::TooLate => Report::Over,
    }
}

/// Whether the row says already what came.
fn stands(held: &Held, came: &Came) -> bool {
    let same_answer = match came {
        Came::Completed { response, .. } => *response == held.claim.response,
        Came::NotRun | Came::Unknown => true,
        Came::AwaitingInput { .. } => false,
    };
    same_answer && comes_to(&held.attempt.kind, came) == held.claim.status
}

/// Decides what a worker's sign of life may write. A lease is not prolonged once the attempt's whole time has passed: the
/// worker was told that time, and whoever waits for its end counts on it.
pub fn sign(row: Option<&Claim>, attempt: Uuid, now: Timestamp, lease: Duration) -> Sign {
    let Some(held) = held(row, attempt) else { return Sign::Over };
    match held.claim.status {
        Status::InFlight if held.claim.attempt_until.is_some_and(|until| until <= now) => Sign::Lost,
        Status::InFlight => match renew(&held.claim, &held.attempt, lease) {
            Some((expect, draft)) => Sign::Write { expect, draft: Box::new(draft) },
            None => Sign::Over,
        },
        Status::Unknown => Sign::Lost,
        Status::AwaitingInput | Status::Completed | Status::Failed => Sign::Over,
    }
}
