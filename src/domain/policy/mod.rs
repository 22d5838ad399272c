//! The policy: which operations exist, who may call them, and on what terms.
//!
//! Promises: what no file names is denied; a policy with a mistake in it never comes to be; what the files said is
//! all that decides, so that annotations, names and HTTP verbs never make a call allowed.
//!
//! The files' own form is in `raw`; `check` and `build` make of it what the rest of the program sees, and find the
//! mistakes. Absent on purpose: reading directories (see [`crate::config`]) and watching them.

mod answers;
mod argument_rule;
mod asking;
mod build;
mod cases;
mod check;
mod diff;
mod explain;
mod facets;
mod forward_key;
mod operation;
mod provider;
mod raw;
mod reconcile;
mod route;
mod runs;
mod schema;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::domain::actor::Actor;
use crate::domain::mistake::{Mistake, Mistakes};
use crate::domain::refusal::Refusal;
use route::Routes;

pub use answers::{Answers, Meaning};
pub use argument_rule::{ArgumentRule, Arguments, Finding, MOST_BRACKETS, MOST_BYTES, MOST_STEPS};
pub use asking::Asking;
pub use cases::{Case, Ruling};
pub use diff::{Change, ChangeKind, diff};
pub use explain::{Explanation, Step};
pub use forward_key::{ForwardKey, ForwardKeyFault, Forwarded};
pub use provider::Provider;
pub use reconcile::{About, Proven, Question, Reconcile, Told, Unaskable};
pub use route::{KeyRule, NormalPath, PathFault, Route, Routed, Template};
pub use runs::{Inner, MOST_CALLS, Runs, need_keys};
pub use schema::{cases_schema, policy_schema};

pub use operation::{
    DenyAs, Duplicate, Effect, FieldPath, InFlight, Kind, Mutation, OnToolError, Operation, Twin,
};

/// How many hexadecimal digits of the sources' hash name a version.
const VERSION_DIGITS: usize = 12;

/// MCP methods that every authenticated actor may call. The policy cannot name them: a file that denied one of them
/// would be believed, and would change nothing.
const HOUSEKEEPING: [&str; 9] = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
    "logging/setLevel",
];

/// The reasons that the gate itself writes into the audit.
pub const GATE_REASONS: &[&str] = &[
    "missing_idempotency_key",
    "idempotency_key_invalid",
    "idempotency_key_ambiguous",
    "missing_scope",
    "not_in_policy",
    "denied_by_policy",
    "argument_rule",
    "inner_calls_unreadable",
    "idempotency_payload_mismatch",
    "idempotency_key_of_another_user",
    "idempotency_in_flight",
    "outcome_unknown",
    "abandoned",
    "answer_not_kept",
    "answer_not_for_client",
    "possible_duplicate",
    "upstream_unreachable",
    "store_unavailable",
    "overloaded",
    "draining",
    "execution_failed",
    "late_answer",
    "lease_lost",
    "attempt_over",
    "resolved_completed",
    "resolved_released",
    "reconciled_completed",
    "reconciled_released",
    "internal_error",
    "malformed_request",
    "body_too_large",
    "unsupported_media_type",
    "header_mismatch",
    "no_such_session",
    "no_such_task",
    "host_not_allowed",
    "origin_not_allowed",
    "no_such_event",
    "unauthenticated",
    "invalid_token",
    "keys_unavailable",
    "upstream_unauthorized",
    "upstream_forbidden",
    "no_such_endpoint",
    "method_not_allowed",
    "path_not_normal",
    "method_override",
    "foreign_tenant",
    "caller_unknown",
    "unkeyed",
    "read_failed",
    "client_gone",
    "no_gateway",
    "input_required",
];

/// Whether a method passes for every authenticated actor, whatever the policy says. Notifications do.
pub fn is_housekeeping(method: &str) -> bool {
    HOUSEKEEPING.contains(&method) || method.starts_with("notifications/")
}

/// Every operation, from all files.
#[derive(Clone, Debug)]
pub struct Policy {
    operations: BTreeMap<String, Arc<Operation>>,
    routes: Routes,
    version: String,
}

/// Something that is allowed and may still not be meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning(Mistake);

impl Warning {
    /// Where it stands and what it says.
    pub fn mistake(&self) -> &Mistake {
        &self.0
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} (warning)", self.0)
    }
}

/// Why an actor may not call an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No file names it.
    NotInPolicy,
    /// A file names it and denies it to everyone.
    DeniedByPolicy,
    /// Its rule does not allow these arguments.
    ArgumentRule,
    /// The actor lacks at least one scope.
    MissingScope {
        /// All scopes that the operation needs, those held too: a client asks for all of them at once.
        needed: Vec<String>,
        /// Whether the policy wants a tool error rather than a challenge.
        as_tool_error: bool,
    },
}

impl Denial {
    /// The audit row's reason.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotInPolicy => "not_in_policy",
            Self::DeniedByPolicy => "denied_by_policy",
            Self::ArgumentRule => "argument_rule",
            Self::MissingScope { .. } => "missing_scope",
        }
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::NotInPolicy => Self::NotInPolicy,
            Denial::DeniedByPolicy => Self::DeniedByPolicy,
            Denial::ArgumentRule => Self::ArgumentRule,
            Denial::MissingScope { needed, as_tool_error } => Self::MissingScope { needed, as_tool_error },
        }
    }
}

impl Policy {
    /// The policy that these files make together: path and text of each. All mistakes are reported at once, in the
    /// order of the files.
    pub fn from_sources(sources: &[(PathBuf, String)]) -> Result<(Self, Vec<Warning>), Mistakes> {
        let (operations, warnings) = check::operations(sources)?;
        let operations: BTreeMap<_, _> =
            operations.into_iter().map(|one| (one.name().to_owned(), Arc::new(one))).collect();
        let routes = Routes::of(operations.values());
        Ok((Self { operations, routes, version: version_of(sources) }, warnings))
    }

    /// A short hash of the files' texts, the same in whatever order they came.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether this actor may call this operation with these arguments, as they go on: key and tenant taken out.
    /// [`Policy::admit`] says whether that is carried out.
    pub fn decide(
        &self,
        actor: &Actor,
        kind: Kind,
        name: &str,
        arguments: Arguments<'_>,
    ) -> Result<&Arc<Operation>, Denial> {
        let operation = self.named(kind, name).ok_or(Denial::NotInPolicy)?;
        if operation.effect() == Effect::Deny {
            return Err(Denial::DeniedByPolicy);
        }
        if !operation.scopes().iter().all(|scope| actor.has_scope(scope)) {
            return Err(Denial::MissingScope {
                needed: operation.scopes().to_vec(),
                as_tool_error: operation.deny_as() == DenyAs::ToolError,
            });
        }
        match operation.argument_rule() {
            Some(rule) if !rule.allows(actor, arguments) => Err(Denial::ArgumentRule),
            Some(_) | None => Ok(operation),
        }
    }

    /// Whether this actor's call goes on: as it is decided, or whatever is decided where the operation is only observed.
    pub fn admit(
        &self,
        actor: &Actor,
        kind: Kind,
        name: &str,
        arguments: Arguments<'_>,
    ) -> Result<&Arc<Operation>, Denial> {
        match self.named(kind, name) {
            Some(operation) if operation.is_observed() => Ok(operation),
            Some(_) | None => self.decide(actor, kind, name, arguments),
        }
    }

    /// Whether `tools/list` shows this tool to this actor: only what it may call.
    pub fn may_see(&self, actor: &Actor, tool: &str) -> bool {
        self.admit(actor, Kind::Tool, tool, Arguments::Unasked).is_ok()
    }

    /// The operation of this kind and name, whoever asks.
    pub fn named(&self, kind: Kind, name: &str) -> Option<&Arc<Operation>> {
        self.operations.get(name).filter(|operation| operation.kind() == kind)
    }

    /// The operation of this name, of whatever kind: they share one name space.
    pub fn of_name(&self, name: &str) -> Option<&Arc<Operation>> {
        self.operations.get(name)
    }

    /// Every operation, by name.
    pub fn operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.values()
    }
}

/// The texts' own hashes are sorted and hashed again, so that neither order nor file names count.
fn version_of(sources: &[(PathBuf, String)]) -> String {
    let mut hashes: Vec<[u8; 32]> = sources.iter().map(|(_, text)| Sha256::digest(text).into()).collect();
    hashes.sort_unstable();
    let mut version = hex::encode(Sha256::digest(hashes.concat()));
    version.truncate(VERSION_DIGITS);
    version
}
