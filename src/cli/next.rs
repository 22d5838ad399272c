//! What becomes of a claim by itself, and what a person may do about it.
//!
//! Promises: said from the row, the store's time and the policy at hand; where the policy is not at hand or does not know
//! the operation, nothing is said that only it could tell.

use std::time::Duration;

use super::{rows, screen};
use crate::domain::ledger::{Downstream, Status};
use crate::domain::policy::{About, Forwarded as KeyParts, Mutation, Operation};
use crate::domain::time::Timestamp;
use crate::store::ListedClaim;

/// A few words for a list.
pub(super) fn next(found: &ListedClaim, now: Timestamp, operation: Option<&Operation>) -> String {
    let claim = &found.claim;
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
        Status::Unknown => match way_out(found, operation) {
            Some(Way::RunsAgain { .. }) => "a retry may run it again".to_owned(),
            Some(Way::Asked { whom }) if left(claim.lease_until).is_zero() => format!("{whom} is asked soon"),
            Some(Way::Asked { whom }) => format!("{whom} is asked in {}", about(left(claim.lease_until))),
            None => "look, then claims resolve".to_owned(),
        },
    }
}

/// How an unknown claim of an operation is settled without a person.
enum Way {
    /// The backend honours the key, for so long.
    RunsAgain { retention: Duration },
    /// The app is asked.
    Asked { whom: String },
}

/// None where the app could not know this call by what it heard of it, or the question lacks what it needs.
fn way_out(found: &ListedClaim, operation: Option<&Operation>) -> Option<Way> {
    let ListedClaim { id, claim } = found;
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

/// Whole sentences for one unknown claim; nothing for any other. `named` is the claim's name in a command.
pub(super) fn advice(
    found: &ListedClaim,
    named: &str,
    now: Timestamp,
    operation: Option<&Operation>,
) -> Option<String> {
    let claim = &found.claim;
    if claim.status != Status::Unknown {
        return None;
    }
    let mut lines =
        vec!["Nobody knows whether this call ran. Nothing runs under its key by itself.".to_owned()];
    match way_out(found, operation) {
        Some(Way::RunsAgain { retention }) => {
            let until = claim.first_sent_at.map(|sent| rows::time(sent.plus(retention))).unwrap_or_default();
            lines.push(format!(
                "The app honours the key: until {until} a retry runs it again, and only once."
            ));
        }
        Some(Way::Asked { whom }) => {
            let from = claim.lease_until.filter(|until| *until > now).map_or("now".to_owned(), rows::time);
            let every = operation.and_then(Operation::mutation).and_then(Mutation::reconcile);
            let every = every.map(|how| about(how.every())).unwrap_or_default();
            lines.push(format!(
                "The app is asked ({whom}): by the gates themselves from {from} on, by a retry {every} after the last time."
            ));
        }
        None => lines.push("Nobody asks the app: look there whether it ran, then say so:".to_owned()),
    }
    let operator = if has_name() { "" } else { " --operator NAME" };
    lines.push(format!("  oncegate claims resolve {named} --completed --because '…'{operator}   # it ran (--response FILE: what retries get)"));
    lines.push(format!(
        "  oncegate claims resolve {named} --released --because '…'{operator}    # it did not"
    ));
    if let Some(until) = claim.attempt_until.filter(|until| *until > now) {
        lines.push(format!(
            "It may still be running until {}; --released is refused until then (with --force it is not, and a retry may run it twice).",
            rows::time(until)
        ));
    }
    Some(lines.iter().map(|line| screen::plain(line) + "\n").collect())
}

/// Whether the environment says who the operator is.
fn has_name() -> bool {
    std::env::var("USER").is_ok_and(|name| !name.trim().is_empty())
}

/// A time for a person: its two largest units.
pub(super) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    let units: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let Some(first) = units.iter().position(|(_, size)| seconds >= *size) else { return "0s".to_owned() };
    let mut rest = seconds;
    let mut text = String::new();
    for (unit, size) in units.iter().skip(first).take(2) {
        if rest / size > 0 {
            text.extend([(rest / size).to_string().as_str(), *unit]);
        }
        rest %= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_two_largest_units() {
        for (seconds, told) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_725, "1h2m"), (90_000, "1d1h"), (86_459, "1d")]
        {
            assert_eq!(about(Duration::from_secs(seconds)), told);
        }
    }
}
