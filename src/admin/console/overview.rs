//! The first page: what needs a person, what goes on now, and what went on.
//!
//! Promises: what needs a person comes first; where the store does not answer one question, the rest of the page is there,
//! and says what is missing and why.

use std::time::Duration;

use maud::{Markup, html};

use super::plot::{self, Range};
use super::{Ruled, claims, words};
use crate::admin::drain::{Standing, State};
use crate::admin::policy::PolicyStatus;
use crate::domain::chain::Chain;
use crate::domain::ledger::Status;
use crate::domain::time::Timestamp;
use crate::store::{Counted, ListedClaim, OpenClaims, StoreError};

/// What was found out for it.
pub(super) struct Overview<'a> {
    /// Over which time.
    pub(super) range: Range,
    /// Whether it comes anew by itself.
    pub(super) refreshes: bool,
    /// The store's time.
    pub(super) now: Result<Timestamp, StoreError>,
    /// The counts.
    pub(super) counted: Result<Counted, StoreError>,
    /// Unknown claims, those first that have waited longest.
    pub(super) unknown: Result<Vec<ListedClaim>, StoreError>,
    /// Claims in flight, likewise.
    pub(super) running: Result<Vec<ListedClaim>, StoreError>,
    /// How many there are of both, the listeners' too.
    pub(super) open: Result<Vec<OpenClaims>, StoreError>,
    /// This gate's own calls.
    pub(super) standing: Standing,
    /// The policy, and how its last reload went.
    pub(super) in_force: &'a PolicyStatus,
    /// By which it is known what becomes of a claim.
    pub(super) policies: &'a [Ruled],
}

impl Overview<'_> {
    /// The page.
    pub(super) fn body(&self) -> Markup {
        html! {
            h1 class="unseen" { "Overview" }
            (search_box("", &html! {}))
            (self.tiles())
            section aria-labelledby="unknown" {
                h2 id="unknown" { "Unknown outcomes" }
                (part(&self.unknown, |found, now| claims::unknown(found, now, self.policies), &self.now))
            }
            section aria-labelledby="over-time" {
                div class="heading" { h2 id="over-time" { "Calls over time" } (self.ranges()) }
                @match &self.counted {
                    Ok(counted) => { (plot::figure(self.range, &plot::pieces(self.range, counted))) }
                    Err(fault) => { (missing(fault)) }
                }
            }
            section aria-labelledby="running" {
                h2 id="running" { "In flight" }
                (part(&self.running, |found, now| claims::running(found, now), &self.now))
            }
            p class="faint" {
                @if self.refreshes {
                    "This page comes anew every 30 s. " a href=(here(self.range, false)) { "Stop that" } "."
                } @else {
                    a href=(here(self.range, true)) { "Refresh this page every 30 s" } "."
                }
            }
        }
    }

    fn ranges(&self) -> Markup {
        html! {
            nav class="ranges" aria-label="Time range" {
                @for range in Range::ALL {
                    a href=(here(range, self.refreshes)) aria-current=[(range == self.range).then_some("true")] {
                        (range.as_str())
                    }
                }
            }
        }
    }

    /// How many claims are in a state, and how long ago the oldest was made.
    fn open(&self, status: Status) -> (Option<u64>, Option<Duration>) {
        let Ok(open) = &self.open else { return (None, None) };
        let of = || open.iter().filter(|open| open.status == status);
        (Some(of().map(|open| open.count).sum()), of().map(|open| open.oldest).max())
    }

    /// The numbers of this moment.
    fn tiles(&self) -> Markup {
        let (unknown, oldest) = self.open(Status::Unknown);
        let (running, _) = self.open(Status::InFlight);
        let needs_a_person = unknown.is_some_and(|count| count > 0);
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), words::number);
        let Standing { state, calls_running, calls_waiting, spooled } = self.standing;
        html! {
            ul class="tiles" aria-label="Now" {
                (tile(needs_a_person, "Unknown outcomes", &count(unknown), &oldest.map_or_else(
                    || "none waits for a person".to_owned(), |age| format!("the oldest is {} old", words::about(age)))))
                (tile(false, "In flight", &count(running), &format!(
                    "here: {calls_running} running, {calls_waiting} waiting")))
                (tile(spooled > 0, "Spooled rows", &words::number(spooled),
                    if spooled > 0 { "wait on disk for the store" } else { "all are stored" }))
                (match &self.now {
                    Ok(_) => tile(false, "Store", "reachable", "claims and audit are there"),
                    Err(fault) => tile(true, "Store", "away", &Chain(fault).to_string()),
                })
                (match self.in_force.last_attempt.has_failed() {
                    false => tile(false, "Policy", &self.in_force.front.version, "version in force"),
                    true => tile(true, "Policy", &self.in_force.front.version, "still in force: the last reload failed"),
                })
                (match state {
                    State::Serving => tile(false, "This gate", "serving", "it takes calls"),
                    State::Settling => tile(true, "This gate", "draining", "it takes calls, and wants no more"),
                    State::Closed => tile(true, "This gate", "closed", "it takes no calls"),
                })
            }
        }
    }
}

/// This page, over another time, or coming anew by itself.
fn here(range: Range, refreshes: bool) -> String {
    words::link("/", [("range", range.as_str()), ("refresh", if refreshes { "on" } else { "" })])
}

/// Where somebody asks who it was, with more fields or without.
pub(super) fn search_box(text: &str, more: &Markup) -> Markup {
    html! {
        form class="ask" method="get" action="/console/search" role="search" {
            label for="q" { "Who asked for it?" }
            div class="row" {
                input id="q" name="q" type="search" value=(text) autocomplete="off" spellcheck="false"
                    autocapitalize="off" maxlength="300" placeholder="ord_9f2" aria-describedby="q-help";
                button { "Search" }
            }
            p id="q-help" class="faint" {
                "Any part of an order's number, a key, a user, a tool, a reason or a trace. Exactly one argument: "
                code { "order_id=ord_9f2" } "."
            }
            (more)
        }
    }
}

fn tile(alarms: bool, name: &str, value: &str, told: &str) -> Markup {
    html! {
        li class=(if alarms { "tile alarms" } else { "tile" }) {
            span class="name" { (name) }
            strong { (words::listed(value)) }
            span class="told" { (words::plain(told)) }
        }
    }
}

fn part<T>(
    found: &Result<T, StoreError>,
    show: impl FnOnce(&T, Timestamp) -> Markup,
    now: &Result<Timestamp, StoreError>,
) -> Markup {
    match (found, now) {
        (Ok(found), Ok(now)) => show(found, *now),
        (Err(fault), _) | (Ok(_), Err(fault)) => missing(fault),
    }
}

/// In place of what the store did not tell.
pub(super) fn missing(fault: &StoreError) -> Markup {
    html! {
        p class="warn" role="status" {
            "The store did not tell this: " (words::plain(&Chain(fault).to_string())) ". Load the page again to ask again."
        }
    }
}
