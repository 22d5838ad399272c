//! What a call meets at the gate.
//!
//! Promises: a pure function of the row, the call and the store's now; every path through it is one row of the table
//! in [`admit`]'s documentation.

use std::time::Duration;

use uuid::Uuid;

use super::claim::{Claim, Draft, Expect, Round, RoundId, Status};
use super::terms::{Attempt, AttemptKind, Downstream, Terms};
use crate::domain::audit::Facts;
use crate::domain::time::{Timestamp, When};

/// The round that a call brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRound {
    /// Hash of its `inputResponses` and `requestState`.
    pub id: RoundId,
    /// Hash of its `requestState`; empty where it has none.
    pub state: String,
    /// Whether it brings inputs.
    pub inputs: bool,
}

/// A call that wants to run.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The fingerprint to write; tagged with the id of the secret that signs.
    pub args_hash: String,
    /// The fingerprints under every accepted secret, the signing one too.
    pub accepted_hashes: Vec<String>,
    /// Which round of the call this is.
    pub round: AskedRound,
    /// A new random id, for the attempt if there is to be one.
    pub attempt_id: Uuid,
    /// What the attempt's audit row needs; its `user_id` is the caller.
    pub facts: Facts,
}

/// Why a key cannot be used for this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Other arguments.
    OtherArguments,
    /// Another user of the tenant.
    OtherUser,
}

/// What a call meets.
#[derive(Clone, Debug)]
pub enum Admission {
    /// It may run once this write is committed.
    Run {
        /// What must stand there.
        expect: Expect,
        /// What shall stand there.
        draft: Box<Draft>,
        /// The proof of ownership.
        attempt: Attempt,
    },
    /// The owner is gone: write this (with the dead attempt's row, `abandoned`), then ask again.
    Abandon {
        /// What must stand there.
        expect: Expect,
        /// What shall stand there.
        draft: Box<Draft>,
    },
    /// The first answer again: `response` is on the row; none means that it was not kept.
    Replay,
    /// The key is taken.
    Conflict(Conflict),
    /// The first attempt is running.
    InFlight {
        /// How long its lease still holds.
        lease_left: Duration,
    },
    /// The first attempt may have run.
    Unknown {
        /// How long until a retry would take over, where the backend honours the key.
        take_over_in: Option<Duration>,
    },
}

/// Decides what a call meets.
///
/// | row | same fingerprint, same user | other |
/// |---|---|---|
/// | none, expired | run | run |
/// | failed | run | conflict by fingerprint; another user runs |
/// | in flight, lease alive | in flight | conflict |
/// | in flight, lease lapsed | abandon, then as unknown | conflict |
/// | awaiting input | replay its round, or continue it | conflict |
/// | completed | replay | conflict |
/// | unknown | unknown, or take over where downstream is idempotent | conflict |
pub fn admit(seen: Option<&Claim>, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
    let Some(row) = seen else {
        return first(Expect::Absent, ask, terms);
    };
    let expect = Expect::Revision(row.revision);
    if row.is_expired(now) {
        return first(expect, ask, terms);
    }
    // Before the arguments: whether they agree with another user's is nobody's business.
    let bound_to_user = row.status != Status::Failed && !terms.shared_within_tenant;
    if bound_to_user && row.user != ask.facts.user_id {
        return Admission::Conflict(Conflict::OtherUser);
    }
    if !ask.accepted_hashes.contains(&row.args_hash) {
        return Admission::Conflict(Conflict::OtherArguments);
    }
    match row.status {
        Status::Failed => first(expect, ask, terms),
        Status::Completed => Admission::Replay,
        Status::AwaitingInput => next_round(row, ask, terms),
        Status::InFlight if !is_of_round(row, ask) => Admission::Conflict(Conflict::OtherArguments),
        Status::InFlight => match abandon(row, now) {
            Some((expect, draft)) => Admission::Abandon { expect, draft: Box::new(draft) },
            None => Admission::InFlight {
                lease_left: row.lease_until.map_or(Duration::ZERO, |until| until.since(now)),
            },
        },
        Status::Unknown => after_unknown(row, ask, now, terms),
    }
}

/// A new claim, or an old name claimed anew: nothing of the old row stays.
fn first(expect: Expect, ask: &Ask, terms: &Terms) -> Admission {
    run(expect, ask, terms, AttemptKind::First, None, When::NOW)
}

fn next_round(row: &Claim, ask: &Ask, terms: &Terms) -> Admission {
    // An upstream that sheds load asks for the same state again and for no inputs: the same request is the next round.
    let sheds_load = row.round.expects.as_ref().is_some_and(|expects| {
        !expects.inputs && !expects.state.is_empty() && expects.state == ask.round.state && !ask.round.inputs
    });
    if ask.round.id.is_first() || (ask.round.id == row.round.id && !sheds_load) {
        return Admission::Replay;
    }
    let continues = row
        .round
        .expects
        .as_ref()
        .is_some_and(|expects| expects.state == ask.round.state && (ask.round.inputs || !expects.inputs));
    if !continues {
        return Admission::Conflict(Conflict::OtherArguments);
    }
    let kind = AttemptKind::Continuation { round: row.round.clone(), response: row.response.clone() };
    run(Expect::Revision(row.revision), ask, terms, kind, Some(row.created_at), row.first_sent_at.into())
}

/// While a round runs, its own retry and a retry of the first round (an earlier request of the same client, still
/// on its way) find it in flight. Any other round brings other inputs.
fn is_of_round(row: &Claim, ask: &Ask) -> bool {
    ask.round.id == row.round.id || ask.round.id.is_first()
}

fn after_unknown(row: &Claim, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
    let Downstream::Idempotent { retention } = terms.downstream else {
        return Admission::Unknown { take_over_in: None };
    };
    // The backend knows the first attempt by the key that it heard then, and by no other.
    let forwarded = row.facts.forwarded_key.as_ref();
    if forwarded.is_none() || forwarded != ask.facts.forwarded_key.as_ref() {
        return Admission::Unknown { take_over_in: None };
    }
    // Only the round that may have run may run again, and only if even a slow re-run ends while the backend still
    // knows the key.
    let last_start = row.first_sent_at.map(|sent| sent.plus(retention).minus(terms.upstream_timeout));
    let (Some(last_start), Some(quiet_from)) = (last_start, row.attempt_until) else {
        return Admission::Unknown { take_over_in: None };
    };
    if ask.round.id != row.round.id || now.max(quiet_from) > last_start {
        return Admission::Unknown { take_over_in: None };
    }
    // A reset does not prove that the backend stopped: its whole timeout must have passed.
    if now < quiet_from {
        return Admission::Unknown { take_over_in: Some(quiet_from.since(now)) };
    }
    let expect = Expect::Revision(row.revision);
    run(expect, ask, terms, AttemptKind::Rerun, Some(row.created_at), row.first_sent_at.into())
}

fn run(
    expect: Expect,
    ask: &Ask,
    terms: &Terms,
    kind: AttemptKind,
    created_at: Option<Timestamp>,
    first_sent_at: When,
) -> Admission {
    let draft = Draft {
        user: ask.facts.user_id.clone(),
        args_hash: ask.args_hash.clone(),
        status: Status::InFlight,
        attempt_id: ask.attempt_id,
        facts: Facts { attempt_id: Some(ask.attempt_id), ..ask.facts.clone() },
        round: Round { id: ask.round.id.clone(), expects: None },
        lease_until: When::In(terms.lease),
        attempt_until: When::In(terms.upstream_timeout),
        first_sent_at,
        response: None,
        created_at,
        settled_at: When::Never,
        expires_at: When::Never,
    };
    Admission::Run { expect, draft: Box::new(draft), attempt: Attempt { id: ask.attempt_id, kind } }
}

/// The write that declares an owner dead whose lease has lapsed: unknown, and from now on without an end. None where
/// it still owns its claim, or no attempt does.
pub fn abandon(row: &Claim, now: Timestamp) -> Option<(Expect, Draft)> {
    let owned = row.lease_until.is_some_and(|until| now < until);
    if row.status != Status::InFlight || owned {
        return None;
    }
    let draft =
        Draft { status: Status::Unknown, lease_until: When::Never, settled_at: When::NOW, ..row.redraft() };
    Some((Expect::Revision(row.revision), draft))
}
