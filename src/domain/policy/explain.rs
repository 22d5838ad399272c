//! Why a call would be allowed or denied, step by step.
//!
//! Promises: the decision is [`Asking::fault`]'s, which calls are decided by; each step shows what went into it, and the
//! arguments as the audit would have them.
//!
//! Absent on purpose: the ledger. Whether a key was used already only a gate's store knows.

use std::sync::Arc;

use super::Policy;
use super::asking::{Asked, Asking};
use super::facets::facets;
use super::forward_key::Forwarded;
use super::operation::{Effect, Operation};
use crate::domain::json::Json;

/// The aspects that say on what terms a mutation runs.
const TERMS: [&str; 9] = [
    "ttl",
    "lease",
    "timeout",
    "in_flight",
    "downstream",
    "on_tool_error",
    "duplicate_window",
    "shared_within_tenant",
    "key",
];

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is about.
    pub about: &'static str,
    /// Whether it speaks for the call; none where it decides nothing.
    pub holds: Option<bool>,
    /// What it says, line by line.
    pub lines: Vec<String>,
}

/// The whole way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Every step, in the order of deciding.
    pub steps: Vec<Step>,
    /// The audit's reason for which the call is denied; none where it is allowed.
    pub reason: Option<&'static str>,
    /// Whether a call of it goes on all the same.
    pub observed: bool,
}

fn step(about: &'static str, holds: Option<bool>, lines: Vec<String>) -> Step {
    Step { about, holds, lines }
}

impl Asking {
    /// Explains what the policy makes of it, for a gate with this `service`.
    pub fn explain(&self, policy: &Policy, service: &str) -> Explanation {
        let mut steps = vec![self.caller()];
        let reason = self.fault(policy);
        let operation = self.operation(policy);
        steps.push(self.named_step(operation, reason));
        if let Some(operation) = operation {
            self.steps_of(policy, operation, service, reason, &mut steps);
        }
        Explanation { steps, reason, observed: operation.is_some_and(|operation| operation.is_observed()) }
    }

    fn caller(&self) -> Step {
        let session = self.actor.session().map(|session| format!(", session {session}"));
        let who = format!(
            "tenant {}, user {}{}",
            self.actor.tenant(),
            self.actor.user(),
            session.unwrap_or_default()
        );
        let scopes = self.actor.scopes_joined();
        let scopes = if scopes.is_empty() { "no scopes".to_owned() } else { format!("scopes {scopes}") };
        step("caller", None, vec![who, scopes])
    }

    fn named_step(&self, operation: Option<&Arc<Operation>>, reason: Option<&'static str>) -> Step {
        let Some(operation) = operation else {
            let what = match (&self.asked, reason) {
                (Asked::Named(kind, name), _) => {
                    format!("no file names [{}.{name}], so it is denied", kind.table())
                }
                (Asked::Request(_), Some("method_not_allowed")) => {
                    "a route has this path, and another method".to_owned()
                }
                (Asked::Request(_), Some("path_not_normal")) => {
                    "the path is not in its normal form: apps could read another one in it".to_owned()
                }
                (Asked::Request(_), Some("no_such_endpoint")) => "the policy has no routes".to_owned(),
                (Asked::Request(_), _) => {
                    "no route has this path, or it looks like a narrower route's".to_owned()
                }
            };
            return step("operation", Some(false), vec![what]);
        };
        let effect = match operation.effect() {
            Effect::Read => "a read: no key, no claim",
            Effect::Mutation => "a mutation: once for each key",
            Effect::Deny => "denied to everybody",
            Effect::Runs => "it runs other tools, each by its own rules",
        };
        let mut lines = vec![
            format!("[{}.{}] at {}", operation.kind().table(), operation.name(), operation.place()),
            effect.to_owned(),
        ];
        if let Some(route) = operation.route() {
            let methods: Vec<&str> = route.methods().collect();
            lines.push(format!("{} {}", methods.join(", "), route.template().as_str()));
        }
        if operation.is_observed() {
            lines.push("only observed: what is decided is written down, and not carried out".to_owned());
        }
        step("operation", Some(operation.effect() != Effect::Deny), lines)
    }

    fn steps_of(
        &self,
        policy: &Policy,
        operation: &Arc<Operation>,
        service: &str,
        reason: Option<&'static str>,
        steps: &mut Vec<Step>,
    ) {
        steps.push(self.scopes_step(operation));
        let parted = self.parted(Some(operation));
        let arguments = match &self.asked {
            Asked::Named(..) => parted.arguments,
            Asked::Request(request) => match request.find(policy) {
                Ok((_, parameters)) => self.plain_arguments(request, &parameters),
                Err(_) => parted.arguments,
            },
        };
        steps.push(self.arguments_step(operation, &arguments));
        if let Some(rule) = operation.argument_rule() {
            steps.push(self.rule_step(operation, rule, &arguments));
        }
        if reason == Some("foreign_tenant") {
            let line = "the request names another tenant than the caller's".to_owned();
            steps.push(step("tenant", Some(false), vec![line]));
        }
        if let Some(mutation) = operation.mutation() {
            let key = parted.key;
            let (lines, holds) = match &key {
                Ok(Some(key)) => (vec![format!("\"{}\"", key.as_str())], true),
                Ok(None) if reason.is_none() => (vec!["none: it runs without a claim".to_owned()], true),
                Ok(None) => (vec!["none, and a mutation needs one".to_owned()], false),
                Err(_) => (vec!["it cannot be a key, or two places name different ones".to_owned()], false),
            };
            steps.push(step("key", Some(holds), lines));
            if let Ok(Some(key)) = &key {
                let (tenant, tool, key) = (self.actor.tenant(), operation.name(), key.as_str());
                let heard = mutation.forward_key().header_value(Forwarded { service, tenant, tool, key });
                steps.push(step(
                    "claim",
                    None,
                    vec![
                        format!("tenant {tenant}, service {service}, tool {tool}, key {key}"),
                        format!("the app hears Idempotency-Key: {heard}"),
                    ],
                ));
            }
            let facets = facets(operation);
            let terms = TERMS.iter().filter_map(|key| Some(format!("{key}: {}", facets.get(key)?)));
            steps.push(step("terms", None, terms.collect()));
        }
        let paths = operation.redactor().paths();
        if !paths.is_empty() {
            steps.push(step("masked", None, vec![paths.join(", ")]));
        }
    }

    fn scopes_step(&self, operation: &Operation) -> Step {
        let needed = operation.scopes();
        let missing: Vec<&str> =
            needed.iter().map(String::as_str).filter(|scope| !self.actor.has_scope(scope)).collect();
        let mut lines = vec![if needed.is_empty() {
            "none are needed".to_owned()
        } else {
            format!("needed: {}", needed.join(" "))
        }];
        if !missing.is_empty() {
            lines.push(format!("missing: {}", missing.join(" ")));
        }
        step("scopes", Some(missing.is_empty()), lines)
    }

    fn arguments_step(&self, operation: &Operation, arguments: &Json) -> Step {
        let left = arguments.as_object();
        let is_left = |name: &str| left.is_some_and(|left| left.contains(name));
        let taken: Vec<&str> = match self.asked {
            Asked::Named(..) => {
                self.arguments.iter().map(|(name, _)| name).filter(|name| !is_left(name)).collect()
            }
            Asked::Request(_) => Vec::new(),
        };
        let mut lines = Vec::new();
        if !taken.is_empty() {
            lines.push(format!("taken out: {}", taken.join(", ")));
        }
        lines.push(operation.redactor().audit_arguments(&masked(operation, arguments)));
        step("arguments", None, lines)
    }

    fn rule_step(&self, operation: &Operation, rule: &super::ArgumentRule, arguments: &Json) -> Step {
        let masked = masked(operation, arguments);
        let mut lines = vec![rule.text().trim().to_owned()];
        let shown = rule.findings(&self.actor, Some(&masked));
        let found = rule.findings(&self.actor, Some(arguments));
        // What is decided is decided of the arguments; what is shown is what the audit would have of them.
        for (finding, shown) in found.into_iter().zip(shown) {
            let said = match &finding.says {
                Ok(said) => said.to_string(),
                Err(unclear) => format!("says nothing, since {unclear}"),
            };
            lines.push(format!("{}: {said}", finding.part));
            lines.extend(shown.seen.iter().map(|(way, found)| format!("  {way} is {found}")));
        }
        let said = rule.says(&self.actor, Some(arguments));
        step("rule", Some(said == Ok(true)), lines)
    }
}

/// As the audit has them: the parts of a plain request masked each by itself.
fn masked(operation: &Operation, arguments: &Json) -> Json {
    let mut masked = arguments.clone();
    match masked.as_object_mut().filter(|_| operation.route().is_some()) {
        Some(parts) => parts.iter_mut().for_each(|(_, part)| {
            operation.redactor().mask(part);
        }),
        None => {
            operation.redactor().mask(&mut masked);
        }
    }
    masked
}
