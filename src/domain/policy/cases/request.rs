//! A plain request in a case: `"POST /api/orders/o1/refunds"`.
//!
//! Promises: it finds its route as requests do, and is refused for what its path or its fields say as they are.

use std::sync::Arc;

use super::Case;
use crate::domain::json::{Json, Object};
use crate::domain::policy::operation::{Kind, Operation};
use crate::domain::policy::route::{KeyRule, NormalPath, Routed};
use crate::domain::policy::{Arguments, Policy};

/// Its method and its path.
#[derive(Clone, Debug)]
pub(super) struct Request {
    method: String,
    path: String,
}

impl Request {
    /// What is wrong with it, and how to put it right, otherwise.
    pub(super) fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        let Some((method, path)) =
            text.split_once(' ').filter(|(method, path)| !method.is_empty() && !path.is_empty())
        else {
            let message = format!("\"{text}\" is no request");
            return Err((message, "write method and path: \"POST /api/orders/o1/refunds\""));
        };
        if path.contains('?') {
            let message = format!("the query of \"{text}\" finds no route");
            return Err((message, "fields of a query or of a body stand in arguments = { … }"));
        }
        Ok(Self { method: method.to_owned(), path: path.to_owned() })
    }

    pub(super) fn operation<'a>(&self, policy: &'a Policy) -> Option<&'a Arc<Operation>> {
        let path = NormalPath::parse(&self.path).ok()?;
        match policy.route(&self.method, &path) {
            Routed::Matched { operation, .. } => Some(operation),
            Routed::OtherMethod { .. } | Routed::Lookalike | Routed::Unmatched => None,
        }
    }
}

impl Case {
    /// The reason for which a plain request is refused.
    pub(super) fn fault_of_request(&self, policy: &Policy, request: &Request) -> Option<&'static str> {
        let Ok(path) = NormalPath::parse(&request.path) else { return Some("path_not_normal") };
        let (operation, parameters) = match policy.route(&request.method, &path) {
            Routed::Matched { operation, parameters } => (operation, parameters),
            Routed::OtherMethod { .. } => return Some("method_not_allowed"),
            Routed::Unmatched if !policy.has_routes() => return Some("no_such_endpoint"),
            Routed::Unmatched | Routed::Lookalike => return Some("not_in_policy"),
        };
        let asked = self.plain_arguments(request, &parameters);
        let arguments = Arguments::Given(Some(&asked));
        if let Err(denial) = policy.decide(&self.actor, Kind::Route, operation.name(), arguments) {
            return Some(denial.reason());
        }
        let fields = self.arguments.iter().map(|(name, value)| (name.clone(), as_field(value)));
        if parameters
            .into_iter()
            .chain(fields)
            .any(|(name, value)| operation.names_a_tenant(&name) && value != self.actor.tenant())
        {
            return Some("foreign_tenant");
        }
        let optional = operation.route().is_some_and(|route| route.key() == KeyRule::Optional);
        self.fault_of_key(operation).filter(|fault| !(optional && *fault == "missing_idempotency_key"))
    }
}

/// The methods whose requests have no body that apps look at.
const BODILESS: [&str; 4] = ["GET", "HEAD", "DELETE", "OPTIONS"];

impl Case {
    /// What a plain request's rule is asked about: the case's arguments are fields of its query where it has no body.
    fn plain_arguments(&self, request: &Request, parameters: &[(String, String)]) -> Json {
        let path = parameters.iter().map(|(name, value)| (name.as_str(), Json::from(value.as_str())));
        let texts = self.arguments.iter().map(|(name, value)| (name.as_str(), Json::from(as_field(value))));
        let mut asked = Object::new();
        asked.insert("path", Json::Object(path.collect()));
        if BODILESS.contains(&request.method.as_str()) {
            asked.insert("query", Json::Object(texts.collect()));
        } else {
            asked.insert("query", Json::Object(Object::new()));
            asked.insert("body", Json::Object(self.given()));
        }
        Json::Object(asked)
    }
}

/// As a form would have it.
fn as_field(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
