//! What an attempt came to, and what may be written of it.
//!
//! Promises: only the attempt that owns a claim settles it; a claim whose earlier attempt may have run never becomes
//! failed; a late answer completes its own unknown claim and nothing else.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Draft, Expect, Expects, Round, Status};
use super::terms::{Attempt, AttemptKind, Terms};
use crate::domain::answer::as_text;
use crate::domain::time::{Timestamp, When};

/// The owner's own view of its claim: the row as it wrote it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The attempt.
    pub attempt: Attempt,
    /// The row.
    pub claim: Claim,
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// The upstream answered.
    Completed {
        /// The encoded answer; none where it may not or cannot be kept.
        #[serde(with = "as_text")]
        response: Option<Bytes>,
        /// Whether in a re-run it may speak of the retry rather than of the first attempt (409, `isError`, …).
        doubtful_in_rerun: bool,
    },
    /// The upstream certainly did not run it.
    NotRun,
    /// It may have run, and no trustworthy answer came.
    Unknown,
    /// The upstream asks for input.
    AwaitingInput {
        /// The encoded answer; none where it may not or cannot be kept.
        #[serde(with = "as_text")]
        response: Option<Bytes>,
        /// What it asks for.
        expects: Expects,
    },
}

/// What may be written of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settling {
    /// This.
    Write {
        /// What must stand there.
        expect: Expect,
        /// What shall stand there.
        draft: Box<Draft>,
    },
    /// Nothing: the claim was settled, resolved or taken over. The attempt is only audited.
    TooLate,
}

/// Decides what an attempt may write, given the row as it stands.
///
/// | row | this attempt's |
/// |---|---|
/// | gone | written anew |
/// | another attempt's | too late |
/// | its own, in flight | what came |
/// | its own, unknown (declared dead too early) | an answer, or that it certainly did not run |
/// | its own, settled or resolved | too late |
pub fn settle(seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
    let came = proven(&held.attempt.kind, came);
    let Some(row) = seen else {
        return Settling::Write {
            expect: Expect::Absent,
            draft: Box::new(outcome(&held.claim, held, came, terms)),
        };
    };
    let open = match row.status {
        Status::InFlight => true,
        Status::Unknown => *came != Came::Unknown,
        Status::AwaitingInput | Status::Completed | Status::Failed => false,
    };
    if row.attempt_id != held.attempt.id || !open {
        return Settling::TooLate;
    }
    let expect = Expect::Revision(row.revision);
    Settling::Write { expect, draft: Box::new(outcome(row, held, came, terms)) }
}

/// What an attempt's end proves of its claim, stored or not. In a re-run, "it did not run" and the like may speak of
/// the retry: of the first attempt they prove nothing.
pub fn proven<'a>(kind: &AttemptKind, came: &'a Came) -> &'a Came {
    let proves_nothing = matches!(came, Came::NotRun | Came::Completed { doubtful_in_rerun: true, .. });
    if *kind == AttemptKind::Rerun && proves_nothing { &Came::Unknown } else { came }
}

/// Where an attempt's end leaves its claim, if it is still that attempt's.
pub fn comes_to(kind: &AttemptKind, came: &Came) -> Status {
    match (proven(kind, came), kind) {
        (Came::Completed { .. }, _) => Status::Completed,
        (Came::AwaitingInput { .. }, _) | (Came::NotRun, AttemptKind::Continuation { .. }) => {
            Status::AwaitingInput
        }
        (Came::NotRun, AttemptKind::First | AttemptKind::Rerun) => Status::Failed,
        (Came::Unknown, _) => Status::Unknown,
    }
}

fn outcome(row: &Claim, held: &Held, came: &Came, terms: &Terms) -> Draft {
    let settled = Draft {
        status: Status::Unknown,
        lease_until: When::Never,
        response: None,
        settled_at: When::NOW,
        expires_at: When::In(terms.ttl),
        ..row.redraft()
    };
    match came {
        Came::Completed { response, .. } => {
            Draft { status: Status::Completed, response: response.clone(), ..settled }
        }
        Came::AwaitingInput { response, expects } => Draft {
            status: Status::AwaitingInput,
            response: response.clone(),
            round: Round { id: row.round.id.clone(), expects: Some(expects.clone()) },
            ..settled
        },
        Came::NotRun => match &held.attempt.kind {
            AttemptKind::Continuation { round, response } => Draft {
                status: Status::AwaitingInput,
                response: response.clone(),
                round: round.clone(),
                ..settled
            },
            AttemptKind::First | AttemptKind::Rerun => Draft { status: Status::Failed, ..settled },
        },
        Came::Unknown => Draft { expires_at: When::Never, ..settled },
    }
}

/// The write that prolongs the lease of a claim that its attempt still owns; none where it does not own it any more.
pub fn renew(seen: &Claim, attempt: &Attempt, lease: Duration) -> Option<(Expect, Draft)> {
    let owned = seen.status == Status::InFlight && seen.attempt_id == attempt.id;
    owned.then(|| (Expect::Revision(seen.revision), Draft { lease_until: When::In(lease), ..seen.redraft() }))
}

/// What a person or a reconciler found out about an unknown claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It ran.
    Completed {
        /// Its encoded answer, where somebody has it.
        response: Option<Bytes>,
    },
    /// It did not run.
    Released {
        /// Even though the attempt's `upstream.timeout` has not passed.
        force: bool,
    },
}

/// Why a claim cannot be resolved so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveFault {
    /// Only unknown claims can be resolved.
    #[error("the claim is {}, not unknown", .0.as_str())]
    NotUnknown(Status),
    /// Its owner may still settle it.
    #[error("the claim is in flight, and its lease holds for another {} s", .0.as_secs() + 1)]
    StillOwned(Duration),
    /// The call may still be running upstream.
    #[error("the attempt may still run for another {} s", .0.as_secs() + 1)]
    MayStillRun(Duration),
}

/// Decides what a resolution writes.
pub fn resolve(
    row: &Claim,
    resolution: &Resolution,
    now: Timestamp,
    ttl: Duration,
) -> Result<(Expect, Draft), ResolveFault> {
    match row.status {
        Status::Unknown => {}
        Status::InFlight => {
            if let Some(left) = row.lease_until.map(|until| until.since(now)).filter(|left| !left.is_zero()) {
                return Err(ResolveFault::StillOwned(left));
            }
        }
        Status::AwaitingInput | Status::Completed | Status::Failed => {
            return Err(ResolveFault::NotUnknown(row.status));
        }
    }
    let settled =
        Draft { lease_until: When::Never, settled_at: When::NOW, expires_at: When::In(ttl), ..row.redraft() };
    let draft = match resolution {
        Resolution::Completed { response } => {
            Draft { status: Status::Completed, response: response.clone(), ..settled }
        }
        Resolution::Released { force } => {
            let left = row.attempt_until.map_or(Duration::ZERO, |until| until.since(now));
            if !left.is_zero() && !force {
                return Err(ResolveFault::MayStillRun(left));
            }
            Draft { status: Status::Failed, response: None, ..settled }
        }
    };
    Ok((Expect::Revision(row.revision), draft))
}
