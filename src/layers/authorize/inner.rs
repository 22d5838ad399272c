//! A call that runs others, taken apart.
//!
//! Promises: each call inside goes on by itself, as if it had been made directly: with its own rule, key, fingerprint and
//! row, and on its way upstream alone in the outer call. None of them does unless all of them may.
//!
//! Where one of them changes something, each needs a key of its own. A key for the whole would not do: the outer tool
//! stops at the first error, and nobody could say afterwards which of its calls had run. Taken apart, the ledger says it
//! of each, and whoever repeats the whole gets what ran replayed and what did not run run.
//!
//! Absent on purpose: a change to what a framework's own search tells of the tools inside; that is a read like any
//! other, and a model that did not learn of a key there learns of it from the refusal. And a row for the outer call
//! where it is allowed. Those of its calls tell all that was done, and bear its trace; where it is denied there is one
//! row, the outer call's, since nothing inside was tried.

use std::sync::Arc;

use super::{Allowed, AllowedWhat, Court};
use crate::domain::call::{OTHER_KEY, drop_tenant};
use crate::domain::json::{Json, Object};
use crate::domain::policy::{Inner, Kind, Operation, Policy, Runs, need_keys};
use crate::domain::redact::omitted;
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::mcp::message::Request;
use crate::mcp::shell::Shell;

/// What belongs to the outer call's answer, which the gate composes: no call inside can be asked about, or be a task.
const OF_THE_OUTER: [&str; 3] = ["inputResponses", "requestState", "task"];

/// The calls of one that runs others.
#[derive(Debug)]
pub struct Several {
    /// Where their results are listed.
    pub runs: Runs,
    /// Each with its tool's name, in order.
    pub calls: Vec<(String, Allowed)>,
    /// Whether one of them changes something.
    pub mutates: bool,
}

impl Court {
    /// Takes a call of `outer` apart.
    pub(super) fn take_apart(
        &self,
        head: &Head,
        policy: &Policy,
        request: &Request,
        outer: &Operation,
        runs: &Runs,
    ) -> Result<AllowedWhat, Refusal> {
        let arguments = arguments_of(request);
        let inner = runs.inner(arguments).map_err(|detail| Refusal::InnerCalls { detail })?;
        let tools = inner.iter().map(|inner| inner.tool.as_str());
        let operations = policy.decide_inner(head.caller.actor(), outer, tools)?;
        let mutates = need_keys(&operations);
        let calls = inner.into_iter().zip(&operations).map(|(mut inner, operation)| {
            // What stands beside the arguments goes on, but no more than they may it name a tenant, or a key.
            drop_tenant(&mut inner.beside, operation.tenant_arguments());
            inner.beside.retain(|name| name != operation.key_argument() && name != OTHER_KEY);
            let mut head = head.inside();
            let shell = Shell::new(outer.name(), runs, arguments, &inner);
            let request = request_for(request, inner, shell);
            let weighed = self.weigh(
                &mut head,
                policy,
                request,
                Kind::Tool,
                operation.name(),
                Some(operation.as_ref()),
            );
            if mutates && weighed.taken.clone()?.is_none() {
                return Err(Refusal::KeyRequired { place: place_of_key(operation, runs) });
            }
            let what = self.decide(&head, policy, weighed, Kind::Tool, operation.name())?;
            Ok((operation.name().to_owned(), Allowed { head, what }))
        });
        let calls = calls.collect::<Result<_, Refusal>>()?;
        Ok(AllowedWhat::Several(Box::new(Several { runs: runs.clone(), calls, mutates })))
    }
}

fn arguments_of(request: &Request) -> Option<&Object> {
    request.params()?.get("arguments")?.as_object()
}

/// A call of the inner tool itself, which knows in what it stands.
fn request_for(outer: &Request, inner: Inner, shell: Shell) -> Request {
    let mut request = Request { inside: Some(shell), ..outer.clone() };
    if let Some(params) = request.params_mut() {
        params.retain(|name| !OF_THE_OUTER.contains(&name));
        params.insert("name", inner.tool);
        params.insert("arguments", inner.arguments);
    }
    request
}

fn place_of_key(operation: &Operation, runs: &Runs) -> String {
    format!("the argument {} of every call in \"{}\"", operation.key_argument(), runs.calls())
}

/// The arguments of a call that runs others, as its row may tell them: those inside masked as their own tools' rules
/// say; where they cannot be found, only their size and hash.
pub(super) fn shown(policy: &Policy, runs: &Runs, mut arguments: Json, hash: &str) -> Result<Json, String> {
    let Ok(inner) = runs.inner(arguments.as_object()) else {
        return Err(omitted(arguments.to_bytes().len(), hash));
    };
    let calls = arguments.get_mut(runs.calls()).and_then(Json::as_array_mut);
    for (call, inner) in calls.into_iter().flatten().zip(inner) {
        let rule: Option<&Arc<Operation>> = policy.named(Kind::Tool, &inner.tool);
        if let (Some(rule), Some(arguments)) = (rule, call.get_mut(runs.arguments())) {
            rule.redactor().mask(arguments);
        }
    }
    Ok(arguments)
}
