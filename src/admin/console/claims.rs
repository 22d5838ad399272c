//! Claims that nobody settled: the unknown ones with what can be done about each, and those that run.
//!
//! Promises: pure; the one that has waited longest comes first; a command that is shown can be copied whole, whatever the
//! claim is called.
//!
//! Absent on purpose: doing it. The console is read-only; who resolves a claim says so in the audit, by the command.

use maud::{Markup, html};

use super::{Ruled, operation, words};
use crate::domain::ledger::{Claim, ClaimId};
use crate::domain::policy::Operation;
use crate::domain::time::Timestamp;
use crate::store::ListedClaim;
use crate::story::next::{self, Line};
use crate::story::words::named;

/// How many of each kind the overview shows.
pub(super) const SHOWN: u32 = 50;

/// Claims whose outcome nobody knows.
pub(super) fn unknown(found: &[ListedClaim], now: Timestamp, policies: &[Ruled]) -> Markup {
    html! {
        @if found.is_empty() {
            p class="calm" { "Every outcome is known. Nothing waits for a person." }
        } @else {
            p { "An answer got lost on its way, so nobody knows whether these calls ran. Nothing runs under their keys "
                "until somebody has looked in the app and says what became of them." }
            ol class="cards" { @for one in found { (card(one, now, policies)) } }
            (more(found))
        }
    }
}

fn card(ListedClaim { id, claim }: &ListedClaim, now: Timestamp, policies: &[Ruled]) -> Markup {
    let since = claim.settled_at.unwrap_or(claim.created_at);
    html! {
        li class="card unknown" {
            h3 { (words::operation(&id.service, &id.tool)) " " span class="age" { "for " (words::about(now.since(since))) } }
            (facts(id, &claim.user, Some(claim.created_at).zip(Some(now)), claim.facts.args.as_deref()))
            details { summary { "What can be done" } (advice(id, claim, now, operation(policies, &id.service, &id.tool).as_deref())) }
        }
    }
}

/// Claims that some gate runs now.
pub(super) fn running(found: &[ListedClaim], now: Timestamp) -> Markup {
    html! {
        @if found.is_empty() {
            p class="calm" { "No call runs at this moment." }
        } @else {
            ol class="lines" {
                @for ListedClaim { id, claim } in found {
                    li {
                        span class="what" { (words::operation(&id.service, &id.tool)) }
                        (facts(id, &claim.user, None, None))
                        span class="age" { "for " (words::about(now.since(claim.created_at))) }
                        span class="faint" { (words::plain(&next::next(id, claim, now, None))) }
                    }
                }
            }
            (more(found))
        }
    }
}

fn more(found: &[ListedClaim]) -> Markup {
    let full = u32::try_from(found.len()).is_ok_and(|count| count >= SHOWN);
    html! { @if full { p class="faint" { "The " (SHOWN) " that have waited longest are shown." } } }
}

/// Who called, with what.
fn facts(id: &ClaimId, user: &str, called: Option<(Timestamp, Timestamp)>, args: Option<&str>) -> Markup {
    html! {
        dl class="facts" {
            div { dt { "Tenant" } dd { (words::listed(&id.tenant)) } }
            div { dt { "User" } dd { (words::listed(user)) } }
            div { dt { "Key" } dd { a href=(story(id)) { (words::listed(&id.key)) } } }
            @if let Some((at, now)) = called { div { dt { "Called" } dd { (words::time(at, now)) } } }
            @if let Some(args) = args { div class="wide" { dt { "Arguments" } dd { code { (words::listed(args)) } } } }
        }
    }
}

/// Where a claim's story is told.
pub(super) fn story(id: &ClaimId) -> String {
    words::link(
        "/console/story",
        [
            ("key", id.key.as_str()),
            ("tenant", id.tenant.as_str()),
            ("service", id.service.as_str()),
            ("tool", id.tool.as_str()),
        ],
    )
}

/// What a person may do about an unknown claim; nothing for any other.
pub(super) fn advice(id: &ClaimId, claim: &Claim, now: Timestamp, operation: Option<&Operation>) -> Markup {
    let lines = next::advice(id, claim, (&named(id), " --operator NAME"), now, operation);
    html! {
        // The first one says that nobody knows: so does whatever this stands under.
        @for line in lines.iter().skip(1) {
            @match line {
                Line::Say(text) => { p { (words::plain(text)) } }
                Line::Command { typed, means } => {
                    pre tabindex="0" { code { (words::plain(typed)) } }
                    p class="means" { (words::plain(means)) }
                }
            }
        }
    }
}
