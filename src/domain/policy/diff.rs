//! What the change from one policy to another opens, closes, and changes otherwise.
//!
//! Promises: whatever lets a call through that was not let through before, runs one again that ran only once, or shows
//! what was masked, is among what opens. A rule that became another one opens: nobody can say which calls it lets
//! through more. What differs is found by [`super::facets`], so that no key goes without a word.
//!
//! Absent on purpose: routes that take requests from one another by their paths, which are told as they are named.

mod aspects;

use super::Policy;
use super::operation::{Effect, Kind, Operation};

/// One thing that is different.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What it comes to.
    pub kind: ChangeKind,
    /// The operation, as `tools.refund_order`.
    pub operation: String,
    /// What is different, in words.
    pub what: String,
}

/// What a change comes to, the most dangerous first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Something can be called that could not.
    OpensCall,
    /// It can be called by more.
    OpensToMore,
    /// A mutation runs without its guard.
    OpensUnguarded,
    /// It can be called with other arguments.
    OpensArguments,
    /// It may run again sooner, or shows more.
    OpensTerms,
    /// Less is possible than before.
    Closes,
    /// It is done otherwise.
    Changes,
}

impl ChangeKind {
    /// Whether something is possible that was not.
    pub const fn opens(self) -> bool {
        match self {
            Self::OpensCall
            | Self::OpensToMore
            | Self::OpensUnguarded
            | Self::OpensArguments
            | Self::OpensTerms => true,
            Self::Closes | Self::Changes => false,
        }
    }
}

/// Every change, the most dangerous first.
pub fn diff(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = Vec::new();
    for before in old.operations() {
        match new.named(before.kind(), before.name()) {
            Some(after) => aspects::compare(before, after, &mut changes),
            None if before.effect() == Effect::Deny => {
                say(&mut changes, ChangeKind::Changes, before, "is not named any more, and stays denied");
            }
            None => {
                let what = "cannot be called any more: no file names it";
                say(&mut changes, ChangeKind::Closes, before, what);
            }
        }
    }
    for after in new.operations() {
        if old.named(after.kind(), after.name()).is_none() {
            added(after, &mut changes);
        }
    }
    changes.sort();
    changes
}

fn added(after: &Operation, changes: &mut Vec<Change>) {
    if after.effect() == Effect::Deny {
        return say(changes, ChangeKind::Changes, after, "is named now, and stays denied");
    }
    let mut at = String::new();
    if let Some(route) = after.route() {
        let methods: Vec<&str> = route.methods().collect();
        at = format!(", at {} {}", methods.join(", "), route.template().as_str());
    }
    let rule = after.argument_rule().map(|rule| format!(", where {}", rule.text())).unwrap_or_default();
    let mut what = format!("can be called now: {}, {}{at}{rule}", effect_of(after), by_whom(after));
    if after.is_observed() {
        what += "; it is only observed, so nothing of it is refused";
    }
    if after.kind() != Kind::Route && after.effect() == Effect::Mutation {
        what += ". If it is another operation under a new name, keys that ran under the old one run again";
    }
    say(changes, ChangeKind::OpensCall, after, what);
}

fn say(changes: &mut Vec<Change>, kind: ChangeKind, operation: &Operation, what: impl Into<String>) {
    let operation = format!("{}.{}", operation.kind().table(), operation.name());
    changes.push(Change { kind, operation, what: what.into() });
}

fn effect_of(operation: &Operation) -> &'static str {
    match operation.effect() {
        Effect::Read => "a read",
        Effect::Mutation => "a mutation",
        Effect::Deny => "denied",
        Effect::Runs => "a tool that runs others",
    }
}

fn by_whom(operation: &Operation) -> String {
    match operation.scopes() {
        [] => "by everybody who has a token".to_owned(),
        scopes => format!("by who holds {}", scopes.join(" and ")),
    }
}
