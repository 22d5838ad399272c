//! What becomes of a claim by itself, and what a person may do about it.
//!
//! Promises: said from the row, the store's time and the policy at hand; where the policy is not at hand or does not know
//! the operation, nothing is said that only it could tell.
//!
//! Absent on purpose: escaping. Names in these texts are as somebody sent them; whoever shows them knows where.

use std::time::Duration;

use super::words::{about, time};
use crate::domain::ledger::{Claim, ClaimId, Downstream, Status};
use crate::domain::policy::{About, Forwarded as KeyParts, Mutation, Operation};
use crate::domain::time::Timestamp;

/// A line of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A sentence.
    Say(String),
    /// A command.
    Command {
        /// As it is typed.
        typed: String,
        /// When it is the one to type.
        means: String,
    },
}

/// A few words for a list.
pub fn next(id: &ClaimId, claim: &Claim, now: Timestamp, operation: Option<&Operation>) -> String {
    let left = |until: Option<Timestamp>| until.map_or(Duration::ZERO, |until| until.since(now));
    if claim.is_expired(now) {
        return "expired: the key is free".to_owned();
    }
    match claim.status {
        Status::InFlight if left(claim.lease_until).is_zero() => {
            "its gate is gone: becomes unknown soon".to_owned()
        }
        Status::InFlight => format!("runs; lease for {}", about(left(claim.lease_until))),
        Status::AwaitingInput => format!("waits for input for {}", about(left(claim.expires_at))),
        Status::Completed if claim.response.is_none() => {
            format!("answer not kept; remembered for {}", about(left(claim.expires_at)))
        }
        Status::Completed => format!("replays for {}", about(left(claim.expires_at))),
        Status::Failed => "the same key may try again".to_owned(),
        Status::Unknown => match way_out(id, claim, operation) {
            Some(Way::RunsAgain { .. }) => "a retry may run it again".to_owned(),
            Some(Way::Asked { whom }) if left(claim.lease_until).is_zero() => format!("{whom} is asked soon"),
            Some(Way::Asked { whom }) => format!("{whom} is asked in {}", about(left(claim.lease_until))),
            None => "look, then claims resolve".to_owned(),
        },
    }
}

/// How an unknown claim of an operation is settled without a person.
pub(super) enum Way {
    /// The backend honours the key, for so long.
    RunsAgain {
        /// After the first sending.
        retention: Duration,
    },
    /// The app is asked.
    Asked {
        /// By which request.
        whom: String,
    },
}

/// None where the app could not know this call by what it heard of it, or the question lacks what it needs.
pub(super) fn way_out(id: &ClaimId, claim: &Claim, operation: Option<&Operation>) -> Option<Way> {
    let terms = operation.filter(|operation| !operation.is_observed())?.mutation()?;
    let forwarded_key = claim.facts.forwarded_key.as_deref()?;
    if let Downstream::Idempotent { retention } = terms.terms(Duration::ZERO).downstream {
        let key = KeyParts { service: &id.service, tenant: &id.tenant, tool: &id.tool, key: &id.key };
        return (terms.forward_key().render(key) == forwarded_key).then_some(Way::RunsAgain { retention });
    }
    let how = terms.reconcile()?;
    how.question(&About { key: &id.key, forwarded_key, facts: &claim.facts }).ok()?;
    Some(Way::Asked { whom: how.asked() })
}

/// What to do about an unknown claim; nothing for any other. `named` is the claim's name in a command; `signed` is put
/// behind the command where it must say who types it.
pub fn advice(
    id: &ClaimId,
    claim: &Claim,
    (named, signed): (&str, &str),
    now: Timestamp,
    operation: Option<&Operation>,
) -> Vec<Line> {
    if claim.status != Status::Unknown {
        return Vec::new();
    }
    let say = |text: &str| Line::Say(text.to_owned());
    let mut lines = vec![say("Nobody knows whether this call ran. Nothing runs under its key by itself.")];
    lines.push(match way_out(id, claim, operation) {
        Some(Way::RunsAgain { retention }) => {
            let until = claim.first_sent_at.map(|sent| time(sent.plus(retention))).unwrap_or_default();
            Line::Say(format!(
                "The app honours the key: until {until} a retry runs it again, and only once."
            ))
        }
        Some(Way::Asked { whom }) => {
            let from = claim.lease_until.filter(|until| *until > now).map_or("now".to_owned(), time);
            let every = operation.and_then(Operation::mutation).and_then(Mutation::reconcile);
            let every = every.map(|how| about(how.every())).unwrap_or_default();
            Line::Say(format!(
                "The app is asked ({whom}): by the gates themselves from {from} on, by a retry {every} after the last time."
            ))
        }
        None => say("Nobody asks the app: look there whether it ran, then say so:"),
    });
    let command = |outcome: &str, means: &str| Line::Command {
        typed: format!("oncegate claims resolve {named} --{outcome} --because '…'{signed}"),
        means: means.to_owned(),
    };
    lines.push(command("completed", "it ran (--response FILE: what retries get)"));
    lines.push(command("released", "it did not"));
    if let Some(until) = claim.attempt_until.filter(|until| *until > now) {
        lines.push(Line::Say(format!(
            "It may still be running until {}; --released is refused until then (with --force it is not, and a retry may run it twice).",
            time(until)
        )));
    }
    lines
}
