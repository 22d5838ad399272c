//! For which kinds of operations, and with which effects, a key has a meaning.
//!
//! Promises: a key that has none is a mistake, since what it was meant to do would not be done.

use super::Checks;
use crate::domain::policy::operation::{Effect, Kind};

use Effect::{Deny, Mutation, Read, Runs};
use Kind::{Job, Method, Route, Tool};

const ALL: &[Kind] = &[Tool, Method, Route, Job];
/// What the gate itself sends on.
const SENT: &[Kind] = &[Tool, Method, Route];
const MCP: &[Kind] = &[Tool, Method];

/// Only a tool answers with a tool error, and only tools are listed with annotations. A job is decided by whoever asks
/// for its claim, so there is nothing to observe, and no app that the gate could ask.
const KEYS: [(&str, &[Kind], &[Effect]); 34] = [
    ("effect", ALL, &[Read, Mutation, Deny]),
    ("runs", &[Tool], &[Runs]),
    ("members", &[Tool], &[Runs]),
    ("mode", SENT, &[Read, Mutation, Deny]),
    ("scopes", ALL, &[Read, Mutation, Runs]),
    ("allow", ALL, &[Read, Mutation]),
    ("deny_as", MCP, &[Read, Mutation, Runs]),
    ("redact", ALL, &[Read, Mutation]),
    ("summary", ALL, &[Read, Mutation]),
    ("reasons", &[Tool], &[Read, Mutation]),
    ("tenant_arguments", SENT, &[Read, Mutation, Runs]),
    ("key_argument", MCP, &[Read, Mutation, Runs]),
    ("method", &[Route], &[Read, Mutation, Deny]),
    ("path", &[Route], &[Read, Mutation, Deny]),
    ("key", &[Route], &[Mutation]),
    ("forward_argument", MCP, &[Mutation]),
    ("ttl", ALL, &[Mutation]),
    ("lease", ALL, &[Mutation]),
    ("timeout", &[Job], &[Mutation]),
    ("in_flight", SENT, &[Mutation]),
    ("wait_up_to", SENT, &[Mutation]),
    ("forward_key", ALL, &[Mutation]),
    ("forward_key_quoted", ALL, &[Mutation]),
    ("downstream", ALL, &[Mutation]),
    ("downstream_retention", ALL, &[Mutation]),
    ("completes", &[Route], &[Mutation]),
    ("releases", &[Route], &[Mutation]),
    ("provider", &[Route], &[Mutation]),
    ("on_tool_error", &[Tool], &[Mutation]),
    ("duplicate_window", ALL, &[Mutation]),
    ("duplicate", ALL, &[Mutation]),
    ("shared_within_tenant", ALL, &[Mutation]),
    ("reconcile", SENT, &[Mutation]),
    ("destructive", &[Tool], &[Mutation]),
];

/// The kinds of operations for which a key has a meaning.
pub(in crate::domain::policy) fn kinds_of(key: &str) -> &'static [Kind] {
    KEYS.iter().find(|(known, ..)| *known == key).map_or(&[], |(_, kinds, _)| *kinds)
}

impl Checks<'_> {
    /// `None` where a key has no meaning.
    pub(super) fn keys_have_meaning(&mut self, kind: Kind, effect: Effect) -> Option<()> {
        let before = self.mistakes.len();
        for key in self.table.keys() {
            let row = KEYS.iter().find(|(known, ..)| *known == key);
            let (kinds, effects) =
                row.map_or((&[] as &[_], &[] as &[_]), |(_, kinds, effects)| (*kinds, *effects));
            let message = if !effects.contains(&effect) {
                let with = match effect {
                    Read | Mutation | Deny => format!("effect = \"{}\"", effect.as_str()),
                    Runs => "runs = \"tools\"".to_owned(),
                };
                format!("\"{key}\" has no meaning with {with}")
            } else if !kinds.contains(&kind) {
                format!("\"{key}\" has a meaning for {} only", listed(kinds))
            } else {
                continue;
            };
            self.mistakes.push(self.table.mistake(key, message));
        }
        (self.mistakes.len() == before).then_some(())
    }
}

/// "tools", "tools and methods", "tools, methods and routes".
fn listed(kinds: &[Kind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.table()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}
