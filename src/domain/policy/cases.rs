//! Cases: calls with the decision that the policy must come to.
//!
//! Promises: a case is decided by the functions that decide calls; a denial must be for the reason that the case
//! gives, so that a slip in a tool's name does not pass for a denied refund.
//!
//! Absent on purpose: what [`super::asking`] leaves out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::Policy;
use super::asking::{Asked, Asking, Request, UNREADABLE};
use super::operation::{Kind, Operation};
use crate::domain::actor::Actor;
use crate::domain::audit::Decision;
use crate::domain::json::{Json, MAX_DEPTH, Object};
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    /// What must hold of the policy beside it.
    #[serde(default)]
    #[schemars(with = "Vec<RawCase>")]
    case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawCase {
    /// What it promises, in the words of its author.
    name: String,
    /// Who calls.
    actor: RawActor,
    /// What is called: one of tool, method, request and job.
    call: RawCall,
    /// What the policy must come to.
    expect: RawExpect,
    /// The audit's reason of a denial.
    #[schemars(with = "Option<String>")]
    reason: Option<Spanned<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawActor {
    tenant: String,
    user: String,
    scopes: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: Option<String>,
    method: Option<String>,
    request: Option<String>,
    job: Option<String>,
    /// The arguments, or the fields of a plain request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    arguments: BTreeMap<String, toml::Value>,
    key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
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

/// A call, and what must come of it.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    place: Place,
    asking: Asking,
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
        self.asking.operation(policy)
    }

    /// What the policy comes to.
    pub fn run(&self, policy: &Policy) -> Ruling {
        let reason = self.asking.fault(policy);
        let decision = if reason.is_some() { Decision::Denied } else { Decision::Allowed };
        Ruling { decision, reason: reason.map(str::to_owned) }
    }
}

/// A case's arguments, as a call would bring them.
fn as_json(arguments: &BTreeMap<String, toml::Value>) -> Object {
    let bytes = serde_json::to_vec(arguments).unwrap_or_default();
    match Json::parse(&bytes, MAX_DEPTH) {
        Ok(Json::Object(arguments)) => arguments,
        Ok(_) | Err(_) => Object::new(),
    }
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
        asking: Asking { actor, asked, arguments: as_json(&raw.call.arguments), key: raw.call.key },
        expected: Ruling { decision, reason: raw.reason.map(Spanned::into_inner) },
    })
}
