//! A call that nobody sends: what the policy would make of it.
//!
//! Promises: it is decided by the functions that decide calls, about the arguments as they would go on.
//!
//! Absent on purpose: everything that needs a ledger or an app. What is asked is what a first call meets. Headers and
//! bodies of plain requests: what they can be refused for is no policy's to say, but for the tenant that they name, and
//! for what a rule says of their fields.

mod request;

use std::sync::Arc;

use super::argument_rule::Arguments;
use super::operation::{Kind, Operation};
use super::runs::{Runs, need_keys};
use super::{Denial, Policy};
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Object};
use crate::domain::key::Key;
use crate::domain::refusal::Refusal;

pub(super) use request::Request;

/// The reason for which a call is denied that runs others which cannot be read.
pub(super) const UNREADABLE: &str = "inner_calls_unreadable";

/// What is called.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Named(Kind, String),
    Request(Request),
}

/// Who asks for what.
#[derive(Clone, Debug)]
pub struct Asking {
    pub(super) actor: Actor,
    pub(super) asked: Asked,
    pub(super) arguments: Object,
    pub(super) key: Option<String>,
}

/// A call with what does not go on taken out.
pub(super) struct Parted {
    pub(super) key: Result<Option<Key>, Refusal>,
    pub(super) arguments: Json,
}

impl Asking {
    /// A call of an operation by its name.
    pub fn named(actor: Actor, kind: Kind, name: &str, arguments: Object, key: Option<String>) -> Self {
        Self { actor, asked: Asked::Named(kind, name.to_owned()), arguments, key }
    }

    /// A plain request: its method and path, and the fields of its body, or of its query where it has none.
    ///
    /// # Errors
    /// What is wrong with `line`, and how to put it right.
    pub fn request(
        actor: Actor,
        line: &str,
        arguments: Object,
        key: Option<String>,
    ) -> Result<Self, (String, &'static str)> {
        Ok(Self { actor, asked: Asked::Request(Request::parse(line)?), arguments, key })
    }

    /// The operation that is called, where the policy names it.
    pub fn operation<'a>(&self, policy: &'a Policy) -> Option<&'a Arc<Operation>> {
        match &self.asked {
            Asked::Named(kind, name) => policy.named(*kind, name),
            Asked::Request(request) => request.operation(policy),
        }
    }

    /// The audit's reason for which it is denied; none where it is allowed.
    pub fn fault(&self, policy: &Policy) -> Option<&'static str> {
        match &self.asked {
            Asked::Named(kind, name) => self.fault_of(policy, *kind, name),
            Asked::Request(request) => self.fault_of_request(policy, request),
        }
    }

    /// The reason for which what is called by its name is refused.
    fn fault_of(&self, policy: &Policy, kind: Kind, name: &str) -> Option<&'static str> {
        let named = policy.named(kind, name);
        if let Some((outer, runs)) = named.and_then(|operation| Some((operation, operation.runs()?))) {
            return self.fault_inside(policy, outer, runs);
        }
        let parted = self.parted(named.map(AsRef::as_ref));
        match policy.decide(&self.actor, kind, name, Arguments::Given(Some(&parted.arguments))) {
            Ok(operation) => fault_of_key(operation, parted.key),
            Err(denial) => Some(denial.reason()),
        }
    }

    /// The reason for which a call is refused that runs others.
    fn fault_inside(&self, policy: &Policy, outer: &Operation, runs: &Runs) -> Option<&'static str> {
        let Ok(inner) = runs.inner(Some(&self.arguments)) else { return Some(UNREADABLE) };
        let tools = inner.iter().map(|inner| inner.tool.as_str());
        let operations = match policy.decide_inner(&self.actor, outer, tools) {
            Err(denial) => return Some(denial.reason()),
            Ok(operations) => operations,
        };
        let keyed = need_keys(&operations);
        inner.into_iter().zip(&operations).find_map(|(inner, operation)| {
            let inside = Self::named(self.actor.clone(), Kind::Tool, &inner.tool, inner.arguments, None);
            let parted = inside.parted(Some(operation));
            match parted.key {
                Err(refusal) if keyed => return Some(word_of(&refusal)),
                Ok(None) if keyed => return Some("missing_idempotency_key"),
                Ok(_) | Err(_) => {}
            }
            let arguments = Arguments::Given(Some(&parted.arguments));
            let decided = policy.decide(&self.actor, Kind::Tool, operation.name(), arguments);
            decided.err().as_ref().map(Denial::reason)
        })
    }

    /// The call as it would go on; of an operation that no file names, as it came.
    pub(super) fn parted(&self, operation: Option<&Operation>) -> Parted {
        let headers: Vec<&str> = self.key.iter().map(String::as_str).collect();
        match operation {
            Some(operation) if operation.kind() == Kind::Tool => {
                let mut params = Object::new();
                params.insert("arguments", Json::Object(self.arguments.clone()));
                let key = operation.take_out(&mut params, &headers);
                Parted { key, arguments: params.remove("arguments").unwrap_or(Json::Null) }
            }
            Some(operation) if operation.kind() == Kind::Method => {
                let mut params = self.arguments.clone();
                let key = operation.take_out(&mut params, &headers);
                params.remove("_meta");
                Parted { key, arguments: Json::Object(params) }
            }
            Some(_) | None => {
                let key = crate::domain::call::take_key(&mut Object::new(), &headers, None);
                Parted { key, arguments: Json::Object(self.arguments.clone()) }
            }
        }
    }
}

/// The reason for which a mutation's key is refused; reads need none.
pub(super) fn fault_of_key(operation: &Operation, key: Result<Option<Key>, Refusal>) -> Option<&'static str> {
    operation.mutation()?;
    match key {
        Ok(Some(_)) => None,
        Ok(None) => Some("missing_idempotency_key"),
        Err(refusal) => Some(word_of(&refusal)),
    }
}

fn word_of(refusal: &Refusal) -> &'static str {
    if matches!(refusal, Refusal::KeyAmbiguous { .. }) {
        "idempotency_key_ambiguous"
    } else {
        "idempotency_key_invalid"
    }
}
