//! An operation in words, aspect by aspect: for whoever explains a decision, or compares two policies.
//!
//! Promises: every key that a table of the policy files may say shows in one aspect; two operations with the same aspects
//! are decided, kept and told alike.

use std::collections::BTreeMap;

use super::answers::Meaning;
use super::operation::{DenyAs, Duplicate, Effect, InFlight, Mutation, OnToolError, Operation};
use super::route::KeyRule;
use crate::domain::ledger::Downstream;
use crate::domain::units::duration_text;

/// The aspects by the keys that say them, each as text. What an operation does not have is left out.
pub(super) fn facets(operation: &Operation) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    let mut say = |key: &'static str, text: String| {
        if !text.is_empty() {
            found.insert(key, text);
        }
    };
    say("effect", operation.effect().as_str().to_owned());
    say("mode", if operation.is_observed() { "observe" } else { "enforce" }.to_owned());
    say("scopes", operation.scopes().join(" "));
    say("allow", operation.argument_rule().map(|rule| rule.text().to_owned()).unwrap_or_default());
    say("redact", operation.redactor().paths().join(", "));
    say("summary", operation.summary().iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", "));
    let reasons = operation.reasons.iter().map(|(code, reason)| format!("{code} as {reason}"));
    say("reasons", reasons.collect::<Vec<_>>().join(", "));
    if operation.effect() != Effect::Deny {
        say("tenant_arguments", operation.tenant_arguments().join(", "));
        say("key_argument", operation.key_argument().to_owned());
        let as_error = operation.deny_as() == DenyAs::ToolError;
        say("deny_as", if as_error { "tool_error" } else { "challenge" }.to_owned());
    }
    if let Some(runs) = operation.runs() {
        let members = [runs.calls(), runs.name(), runs.arguments(), runs.results()];
        say("members", members.join(", "));
    }
    if let Some(route) = operation.route() {
        say("method", route.methods().collect::<Vec<_>>().join(", "));
        say("path", route.template().as_str().to_owned());
        let optional = route.key() == KeyRule::Optional;
        say("key", if optional { "optional" } else { "required" }.to_owned());
    }
    if let Some(mutation) = operation.mutation() {
        terms(mutation, &mut say);
    }
    found
}

fn terms(mutation: &Mutation, say: &mut impl FnMut(&'static str, String)) {
    say("ttl", duration_text(mutation.ttl));
    say("lease", duration_text(mutation.lease));
    say("timeout", mutation.timeout().map(duration_text).unwrap_or_default());
    say(
        "in_flight",
        match mutation.in_flight() {
            InFlight::Refuse => "refuse".to_owned(),
            InFlight::Wait { up_to } => format!("wait up to {}", duration_text(up_to)),
        },
    );
    say("forward_argument", mutation.forward_argument().to_string());
    let quoted = if mutation.forward_key().is_quoted() { ", quoted" } else { "" };
    say("forward_key", format!("{}{quoted}", mutation.forward_key().template()));
    say(
        "downstream",
        match mutation.downstream {
            Downstream::Unsafe => "unsafe".to_owned(),
            Downstream::Idempotent { retention } => format!("idempotent for {}", duration_text(retention)),
        },
    );
    let releases = mutation.on_tool_error() == OnToolError::Release;
    say("on_tool_error", if releases { "release" } else { "keep" }.to_owned());
    let twin = mutation.twin().map(|twin| {
        let then = if twin.then == Duplicate::Refuse { "refuse" } else { "flag" };
        format!("{then} within {}", duration_text(twin.window))
    });
    say("duplicate_window", twin.unwrap_or_default());
    say("shared_within_tenant", mutation.shared_within_tenant.to_string());
    say("destructive", mutation.destructive().map(|is| is.to_string()).unwrap_or_default());
    say("reconcile", mutation.reconcile().map(|ask| format!("{ask:?}")).unwrap_or_default());
    let statuses = |wanted: Meaning| {
        let statuses = (200..600).filter(|status| mutation.answers().of(*status) == wanted);
        in_runs(&statuses.collect::<Vec<u16>>())
    };
    say("completes", statuses(Meaning::Completes));
    say("releases", statuses(Meaning::Releases));
}

/// Numbers in a row as one: `200-299, 404`.
fn in_runs(numbers: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == *number => *end = *number,
            Some(_) | None => runs.push((*number, *number)),
        }
    }
    let text = |(begin, end): &(u16, u16)| {
        if begin == end { begin.to_string() } else { format!("{begin}-{end}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}
