//! A tool that runs other tools: where its calls stand, and whether they may run.
//!
//! Promises: what such a tool would run is read exactly, or nothing is run; each call inside is decided like a call of
//! its own, and one that is denied denies the whole; whoever lacks scopes hears at once of all that the whole needs.
//!
//! Absent on purpose: such tools inside such tools. No agent needs them, and nobody could read their audit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::operation::{DenyAs, Effect, Kind, Operation};
use super::{Denial, Policy};
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Object, folded};

/// How many calls may stand inside one.
pub const MOST_CALLS: usize = 100;

/// Where the calls inside, and their results, stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    pub(super) calls: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) results: String,
}

impl Default for Runs {
    fn default() -> Self {
        let [calls, name, arguments, results] = ["calls", "name", "arguments", "results"].map(str::to_owned);
        Self { calls, name, arguments, results }
    }
}

/// One call inside, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Object,
    /// What else stands beside them.
    pub beside: Object,
}

impl Runs {
    /// The argument that holds the list of calls.
    pub fn calls(&self) -> &str {
        &self.calls
    }

    /// The member of a call, and of its result, that names the tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The member of a call that holds its arguments.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The member of the answer that lists the calls' results.
    pub fn results(&self) -> &str {
        &self.results
    }

    /// The calls in such a tool's arguments. What cannot be read in one way only is not read at all: `Err` says why.
    pub fn inner(&self, arguments: Option<&Object>) -> Result<Vec<Inner>, String> {
        let calls = arguments.map(|arguments| member(arguments, &self.calls)).transpose()?.flatten();
        let Some(Json::Array(calls)) = calls else { return Err(format!("\"{}\" is not a list", self.calls)) };
        if calls.is_empty() || calls.len() > MOST_CALLS {
            return Err(format!("\"{}\" must hold 1 to {MOST_CALLS} calls", self.calls));
        }
        calls.iter().map(|call| self.read(call)).collect()
    }

    fn read(&self, call: &Json) -> Result<Inner, String> {
        let call =
            call.as_object().ok_or_else(|| format!("a call in \"{}\" is not an object", self.calls))?;
        let tool = member(call, &self.name)?.and_then(Json::as_str).filter(|tool| !tool.is_empty());
        let tool = tool.ok_or_else(|| format!("a call's \"{}\" is not a string", self.name))?;
        let arguments = match member(call, &self.arguments)? {
            None | Some(Json::Null) => Object::new(),
            // PHP writes an empty object as an empty array.
            Some(Json::Array(empty)) if empty.is_empty() => Object::new(),
            Some(Json::Object(arguments)) => arguments.clone(),
            Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
                return Err(format!("a call's \"{}\" is not an object", self.arguments));
            }
        };
        let mut beside = call.clone();
        beside.retain(|name| name != self.name && name != self.arguments);
        Ok(Inner { tool: tool.to_owned(), arguments, beside })
    }
}

/// A member, where none stands beside it that some backend takes for it.
fn member<'a>(object: &'a Object, name: &str) -> Result<Option<&'a Json>, String> {
    let plain = folded(name);
    if object.iter().any(|(other, _)| other != name && folded(other) == plain) {
        return Err(format!("a member's name is almost \"{name}\""));
    }
    Ok(object.get(name))
}

impl Policy {
    /// Whether this actor may run all of these tools through `outer`: their operations, in order.
    pub fn decide_inner<'a>(
        &self,
        actor: &Actor,
        outer: &Operation,
        tools: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Arc<Operation>>, Denial> {
        let mut inner = Vec::new();
        for tool in tools {
            let operation = self.named(Kind::Tool, tool).ok_or(Denial::NotInPolicy)?;
            match operation.effect() {
                Effect::Read | Effect::Mutation => inner.push(Arc::clone(operation)),
                Effect::Deny | Effect::Runs => return Err(Denial::DeniedByPolicy),
            }
        }
        let all = || std::iter::once(outer).chain(inner.iter().map(AsRef::as_ref));
        let lacks = |operation: &&Operation| !operation.scopes().iter().all(|scope| actor.has_scope(scope));
        let Some(first) = all().find(lacks) else { return Ok(inner) };
        let needed: BTreeSet<&String> = all().flat_map(Operation::scopes).collect();
        Err(Denial::MissingScope {
            needed: needed.into_iter().cloned().collect(),
            as_tool_error: first.deny_as() == DenyAs::ToolError,
        })
    }
}

/// Whether each of these calls needs a key of its own: one of them changes something, and whoever repeats the whole
/// must be able to say of each that it is the same one.
pub fn need_keys(inner: &[Arc<Operation>]) -> bool {
    inner.iter().any(|operation| operation.effect() == Effect::Mutation)
}
