//! A plain request that nobody sends: `"POST /api/orders/o1/refunds"`.
//!
//! Promises: it finds its route as requests do, and is refused for what its path or its fields say as they are.

use std::sync::Arc;

use super::{Asking, fault_of_key};
use crate::domain::json::{Json, Object};
use crate::domain::policy::operation::{Kind, Operation};
use crate::domain::policy::route::{KeyRule, NormalPath, Routed};
use crate::domain::policy::{Arguments, Policy};

/// The methods whose requests have no body that apps look at.
const BODILESS: [&str; 4] = ["GET", "HEAD", "DELETE", "OPTIONS"];

/// What stands in a path, by the names of its template.
pub(in crate::domain::policy) type Parameters = Vec<(String, String)>;

/// Its method and its path.
#[derive(Clone, Debug)]
pub(in crate::domain::policy) struct Request {
    method: String,
    path: String,
}

impl Request {
    /// What is wrong with it, and how to put it right, otherwise.
    pub(in crate::domain::policy) fn parse(text: &str) -> Result<Self, (String, &'static str)> {
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
        self.find(policy).ok().map(|(operation, _)| operation)
    }

    /// Its route, and what stands in its path; the reason for which it is refused, otherwise.
    pub(in crate::domain::policy) fn find<'a>(
        &self,
        policy: &'a Policy,
    ) -> Result<(&'a Arc<Operation>, Parameters), &'static str> {
        let path = NormalPath::parse(&self.path).map_err(|_| "path_not_normal")?;
        match policy.route(&self.method, &path) {
            Routed::Matched { operation, parameters } => Ok((operation, parameters)),
            Routed::OtherMethod { .. } => Err("method_not_allowed"),
            Routed::Unmatched if !policy.has_routes() => Err("no_such_endpoint"),
            Routed::Unmatched | Routed::Lookalike => Err("not_in_policy"),
        }
    }
}

impl Asking {
    /// The reason for which a plain request is refused.
    pub(super) fn fault_of_request(&self, policy: &Policy, request: &Request) -> Option<&'static str> {
        let (operation, parameters) = match request.find(policy) {
            Ok(found) => found,
            Err(reason) => return Some(reason),
        };
        let asked = self.plain_arguments(request, &parameters);
        let arguments = Arguments::Given(Some(&asked));
        if let Err(denial) = policy.decide(&self.actor, Kind::Route, operation.name(), arguments) {
            return Some(denial.reason());
        }
        let fields = self.arguments.iter().map(|(name, value)| (name.to_owned(), as_field(value)));
        if parameters
            .into_iter()
            .chain(fields)
            .any(|(name, value)| operation.names_a_tenant(&name) && value != self.actor.tenant())
        {
            return Some("foreign_tenant");
        }
        let optional = operation.route().is_some_and(|route| route.key() == KeyRule::Optional);
        let fault = fault_of_key(operation, self.parted(Some(operation)).key);
        fault.filter(|fault| !(optional && *fault == "missing_idempotency_key"))
    }

    /// What a plain request's rule is asked about.
    pub(in crate::domain::policy) fn plain_arguments(
        &self,
        request: &Request,
        parameters: &[(String, String)],
    ) -> Json {
        let path = parameters.iter().map(|(name, value)| (name.as_str(), Json::from(value.as_str())));
        let mut asked = Object::new();
        asked.insert("path", Json::Object(path.collect()));
        if BODILESS.contains(&request.method.as_str()) {
            let texts = self.arguments.iter().map(|(name, value)| (name, Json::from(as_field(value))));
            asked.insert("query", Json::Object(texts.collect()));
        } else {
            asked.insert("query", Json::Object(Object::new()));
            asked.insert("body", Json::Object(self.arguments.clone()));
        }
        Json::Object(asked)
    }
}

/// As a form would have it.
fn as_field(value: &Json) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&value.to_bytes()).into_owned(),
    }
}
