//! One operation as the rest of the program sees it.
//!
//! Promises: every value here was checked. A mutation has at least one scope, a lease that can be renewed, and a
//! `ttl` that outlasts what the backend remembers; only a mutation has terms.
//!
//! Absent on purpose: `Deserialize`. What stands in the files is in `raw`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::answers::Answers;
use super::argument_rule::ArgumentRule;
use super::forward_key::ForwardKey;
use super::reconcile::Reconcile;
use super::route::Route;
use super::runs::Runs;
use crate::domain::call::{drop_tenant, take_key};
use crate::domain::json::{Json, Object, folded};
use crate::domain::key::Key;
use crate::domain::ledger::{Downstream, Terms};
use crate::domain::mistake::Place;
use crate::domain::mode::Mode;
use crate::domain::redact::Redactor;
use crate::domain::refusal::Refusal;

/// What an operation is called through. All kinds share one name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A tool, through `tools/call`.
    Tool,
    /// Another MCP method, under its own name.
    Method,
    /// A plain HTTP request, by its method and path.
    Route,
    /// Work that runs later than the request that asked for it, claimed over the admin listener.
    Job,
}

impl Kind {
    /// The table of the policy files that names it.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Method => "methods",
            Self::Route => "routes",
            Self::Job => "jobs",
        }
    }
}

/// What a call does to the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It changes nothing: no key, no claim.
    Read,
    /// It changes something: once for each key.
    Mutation,
    /// Nobody may call it.
    Deny,
    /// It runs other tools, each of which has an effect of its own. Files say it as `runs = "tools"`.
    #[serde(skip)]
    Runs,
}

impl Effect {
    /// The word in the policy files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutation => "mutation",
            Self::Deny => "deny",
            Self::Runs => "runs",
        }
    }
}

/// What a retry meets while the first call is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// A refusal at once.
    Refuse,
    /// The first call's answer, if it comes in time.
    Wait {
        /// How long a retry waits.
        up_to: Duration,
    },
}

/// How a missing scope is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenyAs {
    /// HTTP 403 with a challenge that names the scopes.
    #[default]
    Challenge,
    /// A tool result with `isError`, for clients whose session a 403 would end.
    ToolError,
}

/// What becomes of a mutation that the tool answered with `isError`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnToolError {
    /// It is an answer: kept and replayed.
    #[default]
    Keep,
    /// It says that nothing was done: the key may try again.
    Release,
}

/// What becomes of a new key that carries the arguments of another call of a moment ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicate {
    /// It runs, and is marked.
    #[default]
    Flag,
    /// It is refused.
    Refuse,
}

/// The look-out for a model that makes a new key for every retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// How far back to look.
    pub window: Duration,
    /// What to do about one.
    pub then: Duplicate,
}

/// A field inside arguments or a result, by the names that lead to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path that `text` writes with dots between names; none where a name is empty or has blanks around it.
    pub fn parse(text: &str) -> Option<Self> {
        let sound = |name: &str| !name.is_empty() && name.trim() == name;
        text.split('.').all(sound).then(|| Self(text.to_owned()))
    }
}

/// As it is written.
impl AsRef<str> for FieldPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// What a mutation has beyond what every operation has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub(super) ttl: Duration,
    pub(super) lease: Duration,
    pub(super) in_flight: InFlight,
    pub(super) forward_argument: bool,
    pub(super) forward_key: ForwardKey,
    pub(super) downstream: Downstream,
    pub(super) on_tool_error: OnToolError,
    pub(super) twin: Option<Twin>,
    pub(super) shared_within_tenant: bool,
    pub(super) destructive: Option<bool>,
    pub(super) reconcile: Option<Reconcile>,
    pub(super) answers: Answers,
    pub(super) timeout: Option<Duration>,
}

impl Mutation {
    /// The ledger's terms, for a gate whose attempts may take this long.
    pub fn terms(&self, upstream_timeout: Duration) -> Terms {
        Terms {
            ttl: self.ttl,
            lease: self.lease,
            upstream_timeout,
            downstream: self.downstream,
            shared_within_tenant: self.shared_within_tenant,
        }
    }

    /// How long an attempt owns its claim without renewing it.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// What a retry meets while the first call is still running.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// Whether the app wants the key argument too.
    pub fn forward_argument(&self) -> bool {
        self.forward_argument
    }

    /// The key that the app hears.
    pub fn forward_key(&self) -> &ForwardKey {
        &self.forward_key
    }

    /// What becomes of it when the tool answers with `isError`.
    pub fn on_tool_error(&self) -> OnToolError {
        self.on_tool_error
    }

    /// Whether it takes something away rather than adding to it, where the policy says.
    pub fn destructive(&self) -> Option<bool> {
        self.destructive
    }

    /// How the app is asked what became of a call, where the policy says.
    pub fn reconcile(&self) -> Option<&Reconcile> {
        self.reconcile.as_ref()
    }

    /// What a plain answer's status says about whether it ran.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// How long one attempt at a job may take, whole; none for what the gate itself sends upstream.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The look-out for the same arguments under another key, where the policy asks for one.
    pub fn twin(&self) -> Option<Twin> {
        self.twin
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    pub(super) rule: Rule,
    pub(super) scopes: Vec<String>,
    pub(super) argument_rule: Option<Box<ArgumentRule>>,
    pub(super) deny_as: DenyAs,
    pub(super) key_argument: String,
    pub(super) tenant_arguments: Vec<String>,
    pub(super) redactor: Redactor,
    pub(super) summary: Vec<FieldPath>,
    pub(super) reasons: BTreeMap<String, String>,
    pub(super) route: Option<Box<Route>>,
}

/// The effect, with what only that effect has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Read,
    Mutation(Box<Mutation>),
    Deny,
    Runs(Box<Runs>),
}

impl Operation {
    /// Its name: the audit's `tool`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is named.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What it is called through.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its methods and path; none for what is no plain request.
    pub fn route(&self) -> Option<&Route> {
        self.route.as_deref()
    }

    /// Whether what is decided about it is only written down: its scopes, its key, its claim.
    pub fn is_observed(&self) -> bool {
        self.mode == Mode::Observe
    }

    /// What it does to the app.
    pub fn effect(&self) -> Effect {
        match self.rule {
            Rule::Read => Effect::Read,
            Rule::Mutation(_) => Effect::Mutation,
            Rule::Deny => Effect::Deny,
            Rule::Runs(_) => Effect::Runs,
        }
    }

    /// What it has as a mutation; none for reads and for what is denied.
    pub fn mutation(&self) -> Option<&Mutation> {
        match &self.rule {
            Rule::Mutation(mutation) => Some(mutation),
            Rule::Read | Rule::Deny | Rule::Runs(_) => None,
        }
    }

    /// Where the calls inside its calls stand; none for a tool that runs no others.
    pub fn runs(&self) -> Option<&Runs> {
        match &self.rule {
            Rule::Runs(runs) => Some(runs),
            Rule::Read | Rule::Mutation(_) | Rule::Deny => None,
        }
    }

    /// Every scope that a caller must hold, sorted. Empty only where every actor may read.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// What its arguments must be, where the policy says.
    pub fn argument_rule(&self) -> Option<&ArgumentRule> {
        self.argument_rule.as_deref()
    }

    /// How a missing scope is said.
    pub fn deny_as(&self) -> DenyAs {
        self.deny_as
    }

    /// The argument that carries the key. Reads lose it unused.
    pub fn key_argument(&self) -> &str {
        &self.key_argument
    }

    /// The arguments that would name a tenant: dropped from calls and from schemas.
    pub fn tenant_arguments(&self) -> &[String] {
        &self.tenant_arguments
    }

    /// Whether what stands under this name would name a tenant, to some app at least.
    pub fn names_a_tenant(&self, name: &str) -> bool {
        let name = folded(name);
        self.tenant_arguments.iter().any(|own| folded(own) == name)
    }

    /// Every argument that does not go on to the app: those that name a tenant, and the key, unless the app wants it.
    pub fn taken_arguments(&self) -> impl Iterator<Item = &str> {
        let keeps_key = self.mutation().is_some_and(Mutation::forward_argument);
        let key = Some(self.key_argument.as_str()).filter(|_| !keeps_key);
        self.tenant_arguments.iter().map(String::as_str).chain(key)
    }

    /// Takes key and tenant out of the parameters of a call of it, whatever is wrong with the key.
    pub fn take_out(&self, params: &mut Object, headers: &[&str]) -> Result<Option<Key>, Refusal> {
        let tool = self.kind == Kind::Tool;
        let taken = take_key(params, headers, tool.then_some(self.key_argument.as_str()));
        let arguments =
            if tool { params.get_mut("arguments").and_then(Json::as_object_mut) } else { Some(params) };
        if let Some(arguments) = arguments {
            drop_tenant(arguments, &self.tenant_arguments);
        }
        taken
    }

    /// What masks its private fields, and secrets, in arguments and results.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// What of a result the audit keeps.
    pub fn summary(&self) -> &[FieldPath] {
        &self.summary
    }

    /// Whether its results must be read: to mask, to summarise, or to find a tool error's code in them.
    pub fn reads_results(&self) -> bool {
        !self.redactor.has_no_paths() || !self.summary.is_empty() || !self.reasons.is_empty()
    }

    /// What of a result the audit keeps, as redacted JSON text.
    pub fn summary_of(&self, result: &Json) -> Option<String> {
        self.redactor.summary(result, &self.summary)
    }

    /// The audit's reason for a tool error's code.
    pub fn reason_for(&self, code: &str) -> Option<&str> {
        self.reasons.get(code).map(String::as_str)
    }
}
