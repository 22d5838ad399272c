//! The life of one key, as a timeline.
//!
//! Promises: the same words as `oncegate story` says; of an answer that is stored only its status and its size.
//!
//! Absent on purpose: the answer itself. Whoever may have it calls with the key.

use maud::{Markup, html};

use super::search::row_link;
use super::words::{self, Outcome};
use super::{Ruled, claims};
use crate::domain::answer::Kept;
use crate::store::StoreError;
use crate::story::{Moment, Of, Story};

/// The page's body.
pub(super) fn body(of: &Of, told: &Result<Vec<Story>, StoreError>, policies: &[Ruled]) -> Markup {
    html! {
        h1 { "The story of " code { (words::value(&of.key)) } }
        @match told {
            Err(fault) => (super::overview::missing(fault)),
            Ok(stories) if stories.is_empty() => (nothing(of)),
            Ok(stories) => {
                @if stories.len() > 1 { p { "Several calls have this key: " (stories.len()) " stories." } }
                @for story in stories { (one(story, policies)) }
            }
        }
    }
}

fn nothing(of: &Of) -> Markup {
    let anywhere = words::link("/console/search", [("q", of.key.as_str()), ("since", "all")]);
    html! {
        div class="empty" {
            p { strong { "No claim and no row has this key." } " A key is found whole, as its client sent it." }
            p { a href=(anywhere) { "Look for it as a part of anything" } }
        }
    }
}

fn one(story: &Story, policies: &[Ruled]) -> Markup {
    let Story { id, claim, moments, left_out_after, now } = story;
    let operation = super::operation(policies, &id.service, &id.tool);
    let operation = operation.as_deref();
    html! {
        section class="story" {
            h2 { (words::operation(&id.service, &id.tool)) span class="faint" { " of " (words::value(&id.tenant)) } }
            p class="stands" { (words::plain(&story.stands(operation))) }
            @if let Some(claim) = claim {
                (claims::advice(id, claim, *now, operation))
                @if let Some(answer) = claim.response.as_ref() {
                    p class="faint" {
                        "An answer is stored: "
                        @if let Ok(kept) = Kept::decode(answer) { "status " (kept.status) ", " }
                        (words::number(u64::try_from(answer.len()).unwrap_or(u64::MAX))) " bytes. It is not shown here."
                    }
                }
            }
            ol class="timeline" {
                @for (place, moment) in moments.iter().enumerate() {
                    (at(moment, *now))
                    @if left_out_after.is_some_and(|after| after == place + 1) {
                        li class="gap" { "There is too much between to tell it all. " a href=(all_of(story)) { "Search its rows" } "." }
                    }
                }
            }
        }
    }
}

fn at(moment: &Moment, now: crate::domain::time::Timestamp) -> Markup {
    let event = &moment.row.event;
    let outcome = Outcome::of_row(event);
    html! {
        li class=(outcome.class()) {
            p class="head" { a href=(row_link(&moment.row)) { (words::time(moment.row.at, now)) } " " (outcome.mark()) }
            p { (words::plain(&moment.sentence)) }
            p class="faint" { (words::plain(&moment.who())) }
            @if let Some(args) = event.facts.args.as_deref() { p class="faint mono" { (words::listed(args)) } }
        }
    }
}

fn all_of(story: &Story) -> String {
    let id = &story.id;
    words::link(
        "/console/search",
        [("key", id.key.as_str()), ("tenant", &id.tenant), ("tool", &id.tool), ("since", "all")],
    )
}
