//! Cases: calls with the decision that the policy must come to.
//!
//! Promises: a case is decided by the functions that decide calls; a denial must be for the reason that the case
//! gives, so that a slip in a tool's name does not pass for a denied refund.
//!
//! Absent on purpose: everything that needs a ledger or an app. A case asks what a first call meets. Headers and bodies of
//! plain requests: what they can be refused for is no policy's to say, but for the tenant that they name.

mod request;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use request::Request;

use super::Policy;
use super::argument_rule::Arguments;
use super::operation::{Kind, Operation};
use super::runs::{Runs, need_keys};
use crate::domain::actor::Actor;
use crate::domain::audit::Decision;
use crate::domain::call::{drop_tenant, take_key};
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::key::{Key, KeyFault};
use crate::domain::mistake::{Mistake, Mistakes, Place, Source, nearest};

/// The reasons that a first call can be denied for.
const REASONS: [&str; 12] = [
    "not_in_policy",
    "no_such_endpoint",
    "path_not_normal",
    "method_not_allowed",
    "foreign_tenant",
    "denied_by_policy",
    "argument_rule",
    "missing_scope",
    "missing_idempotency_key",
    "idempotency_key_invalid",
    "idempotency_key_ambiguous",
    UNREADABLE,
];

/// The reason for which a call is denied that runs others which cannot be read.
const UNREADABLE: &str = "inner_calls_unreadable";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    actor: RawActor,
    call: RawCall,
    expect: RawExpect,
    reason: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawActor {
    tenant: String,
    user: String,
    scopes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: Option<String>,
    method: Option<String>,
    request: Option<String>,
    job: Option<String>,
    #[serde(default)]
    arguments: BTreeMap<String, toml::Value>,
    key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawExpect {
    Allowed,
    Denied,
}

/// What the policy comes to, or must come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Allowed or denied.
    pub decision: Decision,
    /// The audit's reason, where it is denied.
    pub reason: Option<String>,
}

impl std::fmt::Display for Ruling {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.reason {
            Some(reason) => write!(to, "{} ({reason})", self.decision.as_str()),
            None => to.write_str(self.decision.as_str()),
        }
    }
}

/// What is called.
#[derive(Clone, Debug)]
enum Asked {
    Named(Kind, String),
    Request(Request),
}

/// A call, and what must come of it.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    place: Place,
    actor: Actor,
    asked: Asked,
    arguments: BTreeMap<String, toml::Value>,
    key: Option<String>,
    expected: Ruling,
}

impl Case {
    /// The cases in these files: path and text of each.
    pub fn from_sources(sources: &[(PathBuf, String)]) -> Result<Vec<Self>, Mistakes> {
        let (mut cases, mut mistakes) = (Vec::new(), Vec::new());
        for (path, text) in sources {
            read_file(path, text, &mut cases, &mut mistakes);
        }
        Mistakes::none_in(mistakes)?;
        Ok(cases)
    }

    /// What it promises, in the words of its author.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the policy must come to.
    pub fn expected(&self) -> &Ruling {
        &self.expected
    }

    /// The operation that is called, where the policy names it.
    pub fn operation<'a>(&self, policy: &'a Policy) -> Option<&'a Arc<Operation>> {
        match &self.asked {
            Asked::Named(kind, name) => policy.named(*kind, name),
            Asked::Request(request) => request.operation(policy),
        }
    }

    /// What the policy comes to.
    pub fn run(&self, policy: &Policy) -> Ruling {
        let reason = match &self.asked {
            Asked::Named(kind, name) => self.fault_of(policy, *kind, name),
            Asked::Request(request) => self.fault_of_request(policy, request),
        };
        let decision = if reason.is_some() { Decision::Denied } else { Decision::Allowed };
        Ruling { decision, reason: reason.map(str::to_owned) }
    }

    /// The reason for which what is called by its name is refused.
    fn fault_of(&self, policy: &Policy, kind: Kind, name: &str) -> Option<&'static str> {
        let named = policy.named(kind, name);
        if let Some((outer, runs)) = named.and_then(|operation| Some((operation, operation.runs()?))) {
            return self.fault_inside(policy, outer, runs);
        }
        let asked = go_on(self.given(), named.map(AsRef::as_ref));
        match policy.decide(&self.actor, kind, name, Arguments::Given(Some(&asked))) {
            Ok(operation) => self.fault_of_key(operation),
            Err(denial) => Some(denial.reason()),
        }
    }

    /// The reason for which a call is refused that runs others.
    fn fault_inside(&self, policy: &Policy, outer: &Operation, runs: &Runs) -> Option<&'static str> {
        let Ok(inner) = runs.inner(Some(&self.given())) else { return Some(UNREADABLE) };
        let tools = inner.iter().map(|inner| inner.tool.as_str());
        let operations = match policy.decide_inner(&self.actor, outer, tools) {
            Err(denial) => return Some(denial.reason()),
            Ok(operations) => operations,
        };
        let keyed = need_keys(&operations);
        inner.into_iter().zip(&operations).find_map(|(inner, operation)| {
            let mut params = Object::new();
            params.insert("arguments", inner.arguments.clone());
            match take_key(&mut params, &[], Some(operation.key_argument())) {
                Err(_) if keyed => return Some("idempotency_key_invalid"),
                Ok(None) if keyed => return Some("missing_idempotency_key"),
                Ok(_) | Err(_) => {}
            }
            let asked = go_on(inner.arguments, Some(operation));
            let arguments = Arguments::Given(Some(&asked));
            policy
                .decide(&self.actor, Kind::Tool, operation.name(), arguments)
                .err()
                .map(|denial| denial.reason())
        })
    }

    /// The arguments, as the call brings them.
    fn given(&self) -> Object {
        let bytes = serde_json::to_vec(&self.arguments).unwrap_or_default();
        match Json::parse(&bytes, MAX_DEPTH) {
            Ok(Json::Object(arguments)) => arguments,
            Ok(_) | Err(_) => Object::new(),
        }
    }

    /// The reason for which a mutation's key is refused; reads need none.
    fn fault_of_key(&self, operation: &Operation) -> Option<&'static str> {
        operation.mutation()?;
        let in_arguments = match operation.kind() {
            Kind::Tool | Kind::Method => self.arguments.get(operation.key_argument()),
            Kind::Route | Kind::Job => None,
        };
        let argument = in_arguments.map(|value| value.as_str());
        let named = [argument, self.key.as_deref().map(Some)];
        let mut keys = Vec::new();
        for text in named.into_iter().flatten() {
            match text.map(Key::parse) {
                Some(Ok(key)) => keys.push(key),
                Some(Err(KeyFault::Missing)) => {}
                Some(Err(KeyFault::TooLong | KeyFault::Unprintable | KeyFault::BadQuoting)) | None => {
                    return Some("idempotency_key_invalid");
                }
            }
        }
        match keys.as_slice() {
            [] => Some("missing_idempotency_key"),
            [one, other] if one != other => Some("idempotency_key_ambiguous"),
            [_, ..] => None,
        }
    }
}

/// What of a call's arguments goes on.
fn go_on(mut arguments: Object, operation: Option<&Operation>) -> Json {
    // Of what a job is given, and of a plain request, nothing is taken out.
    if let Some(operation) = operation.filter(|own| matches!(own.kind(), Kind::Tool | Kind::Method)) {
        drop_tenant(&mut arguments, operation.tenant_arguments());
        arguments.remove(operation.key_argument());
    }
    Json::Object(arguments)
}

fn read_file(path: &Path, text: &str, cases: &mut Vec<Case>, mistakes: &mut Vec<Mistake>) {
    let source = Source::new(path, text);
    let raw: RawFile = match toml::from_str(text) {
        Ok(raw) => raw,
        Err(error) => return mistakes.push(source.of_toml(&error)),
    };
    for case in raw.case {
        let place = source.place(&case.span());
        match checked(source, place, case.into_inner()) {
            Ok(case) => cases.push(case),
            Err(mistake) => mistakes.push(mistake),
        }
    }
}

fn checked(source: Source<'_>, place: Place, raw: RawCase) -> Result<Case, Mistake> {
    let RawActor { tenant, user, scopes } = raw.actor;
    let actor = Actor::new(&tenant, &user, None, scopes)
        .map_err(|fault| Mistake::new(place.clone(), format!("no token can carry this actor: {fault}")))?;
    let asked = match (raw.call.tool, raw.call.method, raw.call.request, raw.call.job) {
        (Some(tool), None, None, None) => Asked::Named(Kind::Tool, tool),
        (None, Some(method), None, None) => Asked::Named(Kind::Method, method),
        (None, None, Some(request), None) => {
            let request = Request::parse(&request)
                .map_err(|(message, help)| Mistake::new(place.clone(), message).with_help(help))?;
            Asked::Request(request)
        }
        (None, None, None, Some(job)) => Asked::Named(Kind::Job, job),
        (..) => return Err(Mistake::new(place, "a call names one tool, method, request or job")),
    };
    let decision = match (raw.expect, &raw.reason) {
        (RawExpect::Allowed, None) => Decision::Allowed,
        (RawExpect::Denied, Some(_)) => Decision::Denied,
        (RawExpect::Allowed, Some(reason)) => {
            return Err(source.mistake(&reason.span(), "a call that is allowed has no reason"));
        }
        (RawExpect::Denied, None) => {
            let mistake = Mistake::new(place, "a denied call needs the reason for which it must be denied");
            return Err(mistake.with_help("a denial for another reason proves something else"));
        }
    };
    if let Some(reason) = raw.reason.as_ref().filter(|reason| !REASONS.contains(&reason.get_ref().as_str())) {
        let mistake = source.mistake(&reason.span(), format!("unknown reason \"{}\"", reason.get_ref()));
        return Err(match nearest(reason.get_ref(), &REASONS) {
            Some(help) => mistake.with_help(help),
            None => mistake,
        });
    }
    Ok(Case {
        name: raw.name,
        place,
        actor,
        asked,
        arguments: raw.call.arguments,
        key: raw.call.key,
        expected: Ruling { decision, reason: raw.reason.map(Spanned::into_inner) },
    })
}
