//! How a key stands now, in a sentence or two: the first thing that somebody at 3am wants to know.

use std::time::Duration;

use super::next::{Way, way_out};
use super::words::{about, time};
use super::{Story, sentence};
use crate::domain::audit::{Decision, Executed};
use crate::domain::ledger::{Claim, Status};
use crate::domain::policy::Operation;
use crate::domain::time::Timestamp;

/// What to say of it.
pub(super) fn stands(story: &Story, operation: Option<&Operation>) -> String {
    let Some(claim) = &story.claim else { return without_claim(story) };
    let now = story.now;
    let left = |until: Option<Timestamp>| until.map_or(Duration::ZERO, |until| until.since(now));
    let since = |from: Option<Timestamp>| about(now.since(from.unwrap_or(claim.created_at)));
    if claim.is_expired(now) {
        return format!(
            "The key is free: what was remembered of it expired {} ago. A call under it would run.",
            about(now.since(claim.expires_at.unwrap_or(now)))
        );
    }
    let told = match claim.status {
        Status::InFlight if left(claim.lease_until).is_zero() => format!(
            "It began {} ago, and its gate is gone, or paused: nobody knows whether it ran. The next gate that looks, or \
             the next retry, marks it unknown.",
            since(claim.first_sent_at)
        ),
        Status::InFlight => format!(
            "It is running, since {}. Nobody else can start it. Should its gate die, it is marked unknown in {}.",
            since(claim.first_sent_at),
            about(left(claim.lease_until))
        ),
        Status::AwaitingInput => format!(
            "The app waits for an answer of the caller's, for another {}. A retry gets the same question.",
            about(left(claim.expires_at))
        ),
        Status::Completed if claim.response.is_none() => format!(
            "It ran. Its answer was not kept: for another {} a retry hears that, and nothing runs again.",
            about(left(claim.expires_at))
        ),
        Status::Completed => format!(
            "It ran. For another {} a retry gets the same answer, and nothing runs again.",
            about(left(claim.expires_at))
        ),
        Status::Failed => "It did not run. The same key may try again.".to_owned(),
        Status::Unknown => unknown(story, claim, operation),
    };
    if operation.is_some_and(Operation::is_observed) {
        return format!("{told} (The gate only observes this operation: a retry would run all the same.)");
    }
    told
}

fn unknown(story: &Story, claim: &Claim, operation: Option<&Operation>) -> String {
    let since = about(story.now.since(claim.settled_at.unwrap_or(claim.created_at)));
    let lost = format!("Nobody knows whether it ran, since {since}.");
    match way_out(&story.id, claim, operation) {
        Some(Way::RunsAgain { retention }) => {
            let until = claim.first_sent_at.map(|sent| time(sent.plus(retention))).unwrap_or_default();
            format!("{lost} The app honours the key: until {until} a retry may run it again, and only once.")
        }
        Some(Way::Asked { whom }) => {
            format!("{lost} Nothing runs under this key meanwhile. The gates ask the app ({whom}).")
        }
        None => format!(
            "{lost} Nothing runs under this key until somebody has looked in the app, and said whether it ran."
        ),
    }
}

/// Of a key that has rows only.
fn without_claim(story: &Story) -> String {
    let ago = sentence::newest(&story.moments).map(|at| about(story.now.since(at))).unwrap_or_default();
    let ran = story.moments.iter().rev().find(|moment| {
        moment.row.event.decision == Decision::Allowed && moment.row.event.executed == Executed::Yes
    });
    match ran {
        Some(moment) => format!(
            "It ran {} ago, and is not remembered any more: its claim expired and was deleted. A call under this key would \
             run.",
            about(story.now.since(moment.row.at))
        ),
        None => format!(
            "No call under this key ran, as far as the audit knows; it was heard of last {ago} ago. A call under it that is \
             allowed would run."
        ),
    }
}
