//! The policy in force: which operations there are, who may call each, and on what terms.
//!
//! Promises: what is shown is what decides at this moment, of the gate before the app and of each listener; what is not
//! named is denied, and the page says so.
//!
//! Absent on purpose: the files' text. What they came to is here; they may hold comments that are nobody's here.

use std::time::Duration;

use maud::{Markup, html};

use super::Ruled;
use super::words::{self, about};
use crate::admin::policy::PolicyStatus;
use crate::domain::ledger::Downstream;
use crate::domain::policy::{Duplicate, Effect, InFlight, KeyRule, Kind, OnToolError, Operation, Policy};

/// The page's body.
pub(super) fn body(policies: &[Ruled], status: &PolicyStatus) -> Markup {
    html! {
        h1 { "Policy in force" }
        (reload(status))
        @for Ruled { service, policy } in policies { (one(service, &policy.load())) }
    }
}

/// How the last reload went, and what waits for the next start.
fn reload(status: &PolicyStatus) -> Markup {
    let attempt = &status.last_attempt;
    html! {
        section aria-label="Last reload" {
            p { "In force since " (words::value(&status.front.since)) ", read from " code { (words::value(&status.front.dir)) } "." }
            @if attempt.has_failed() {
                div class="card unknown" {
                    h2 { "The reload at " (words::value(&attempt.at)) " failed" }
                    p { "What was in force before still is. Mend these, and the gate reads the files again by itself:" }
                    ul { @for mistake in &attempt.mistakes {
                        li {
                            code { (words::value(&mistake.place)) } " " (words::plain(&mistake.message))
                            @if let Some(help) = &mistake.help { span class="faint" { " (" (words::plain(help)) ")" } }
                        }
                    } }
                }
            } @else {
                p class="faint" { "The files were last read at " (words::value(&attempt.at)) ", and all is well." }
            }
            @if !status.waits_for_restart.is_empty() {
                p class="warn" { "Changed, and in force with the next start only: " (words::plain(&status.waits_for_restart.join(", "))) "." }
            }
        }
    }
}

fn one(service: &str, policy: &Policy) -> Markup {
    let listener = service.split_once(':').map(|(_, listener)| listener);
    html! {
        section class="policy" {
            h2 {
                @match listener { None => "Before the app", Some(name) => { "At the listener " (words::value(name)) } }
                " " span class="faint" { "version " code { (policy.version()) } }
            }
            @if policy.operations().next().is_none() {
                p class="empty" { "It names no operation: every call is denied." }
            } @else {
                p class="faint" { "What is not named here is denied." }
                table class="rows policy" role="table" {
                    thead role="rowgroup" { tr role="row" {
                        @for head in ["Operation", "Effect", "Scopes", "Terms"] { th scope="col" role="columnheader" { (head) } }
                    } }
                    tbody role="rowgroup" { @for operation in policy.operations() { (line(operation)) } }
                }
            }
        }
    }
}

fn line(operation: &Operation) -> Markup {
    html! {
        tr role="row" {
            td role="cell" class="first" {
                strong { (words::listed(operation.name())) } " " span class="faint" { (kind(operation.kind())) }
                @if let Some(route) = operation.route() {
                    br; code { (route.methods().collect::<Vec<_>>().join(", ")) " " (words::value(route.template().as_str())) }
                }
            }
            td role="cell" {
                (effect(operation.effect()))
                @if operation.is_observed() { " " span class="warn" { "only observed" } }
            }
            td role="cell" data-name="Scopes" {
                @if operation.effect() == Effect::Deny { span class="faint" { "none helps" } }
                @else if operation.scopes().is_empty() { "none: every caller with a token" }
                @else { ul class="plain" { @for scope in operation.scopes() { li { code { (words::listed(scope)) } } } } }
            }
            td role="cell" data-name="Terms" { ul class="plain" { @for term in terms(operation) { li { (words::plain(&term)) } } } }
        }
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tool",
        Kind::Method => "MCP method",
        Kind::Route => "route",
        Kind::Job => "job",
    }
}

fn effect(effect: Effect) -> Markup {
    let (class, told) = match effect {
        Effect::Read => ("effect", "read"),
        Effect::Mutation => ("effect strong", "mutation: once for each key"),
        Effect::Deny => ("effect denied", "denied to everyone"),
        Effect::Runs => ("effect", "runs other tools"),
    };
    html! { span class=(class) { (told) } }
}

/// What else holds, a sentence each.
fn terms(operation: &Operation) -> Vec<String> {
    let mut terms = Vec::new();
    if let Some(rule) = operation.argument_rule() {
        terms.push(format!("only where {}", rule.text()));
    }
    if let Some(mutation) = operation.mutation() {
        let kept = mutation.terms(Duration::ZERO);
        terms.push(format!("remembered for {}", about(kept.ttl)));
        terms.push(match mutation.in_flight() {
            InFlight::Refuse => "a retry of a running call is refused".to_owned(),
            InFlight::Wait { up_to } => format!("a retry of a running call waits up to {}", about(up_to)),
        });
        if let Downstream::Idempotent { retention } = kept.downstream {
            terms.push(format!(
                "the backend honours the key for {}: an unknown call may run again",
                about(retention)
            ));
        }
        if let Some(how) = mutation.reconcile() {
            terms.push(format!("the app is asked about unknown calls: {}", how.asked()));
        }
        if let Some(twin) = mutation.twin() {
            let then = match twin.then {
                Duplicate::Flag => "marked",
                Duplicate::Refuse => "refused",
            };
            terms.push(format!(
                "the same arguments under another key within {} are {then}",
                about(twin.window)
            ));
        }
        if mutation.on_tool_error() == OnToolError::Release {
            terms.push("a tool error gives the key back".to_owned());
        }
        if kept.shared_within_tenant {
            terms.push("keys are shared by the users of a tenant".to_owned());
        }
        terms.push(format!("a lease lasts {}", about(mutation.lease())));
    }
    if operation.route().is_some_and(|route| route.key() == KeyRule::Optional) {
        terms.push("runs without a key, too".to_owned());
    }
    if !operation.redactor().has_no_paths() {
        terms.push("some fields are masked in arguments and results".to_owned());
    }
    terms
}
