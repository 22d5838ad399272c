//! What a route says beyond other operations: its methods, its path, and what its answers mean.
//!
//! Promises: a route that could never be reached, or whose answers would let a mutation run twice, cannot be built.

use std::collections::BTreeSet;

use super::Checks;
use crate::domain::policy::answers::{Answers, Statuses};
use crate::domain::policy::operation::Effect;
use crate::domain::policy::raw::RawOperation;
use crate::domain::policy::route::{Route, Template};

/// The only status of the server's own faults that may say that nothing was done.
const TOO_BUSY: Statuses = Statuses::One(503);

impl Checks<'_> {
    pub(super) fn route(&mut self, raw: &RawOperation, effect: Effect) -> Option<Route> {
        let methods = self.methods(raw);
        let template = self.template(raw);
        let (methods, template) = (methods?, template?);
        if template.opens_a_prefix() && effect == Effect::Mutation {
            let help = "name each of its paths; a prefix can be opened for reads, or denied";
            self.found("path", "a mutation cannot be a whole prefix", help);
            return None;
        }
        if let Some(provider) = raw.provider
            && methods.iter().any(|method| method != "POST")
        {
            let message = format!("{} looks at the key of a POST only", provider.name());
            let help = "give the other methods a route of their own, without provider";
            self.found("provider", message, help);
            return None;
        }
        Some(Route { methods, template, key: raw.key.unwrap_or_default() })
    }

    fn methods(&mut self, raw: &RawOperation) -> Option<BTreeSet<String>> {
        let before = self.count();
        let methods = raw.method.as_ref().map(|methods| methods.0.as_slice()).unwrap_or_default();
        if methods.is_empty() {
            self.found("method", "a route needs a method", "say which: method = \"POST\"");
        }
        let mut known = BTreeSet::new();
        for method in methods {
            let capitals = method.to_ascii_uppercase();
            if method.is_empty() || !capitals.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
                self.found(
                    "method",
                    format!("\"{method}\" is no method"),
                    "the usual ones are GET, POST, PUT, PATCH and DELETE",
                );
            } else if *method != capitals {
                let message = format!("no request has the method \"{method}\": methods have capitals");
                self.found("method", message, &format!("write \"{capitals}\""));
            } else if matches!(method.as_str(), "CONNECT" | "TRACE") {
                let help = "it would open a tunnel, or show a client what the gate tells the app";
                self.found("method", format!("the gate serves no {method}"), help);
            } else if !known.insert(method.clone()) {
                self.found("method", format!("\"{method}\" stands in it twice"), "once is enough");
            }
        }
        (self.count() == before).then_some(known)
    }

    fn template(&mut self, raw: &RawOperation) -> Option<Template> {
        let help = "write it as requests have it: \"/api/orders/{order}/refunds\"";
        let Some(text) = &raw.path else {
            self.found("path", "a route needs a path", help);
            return None;
        };
        match Template::parse(text) {
            Ok(template) => Some(template),
            Err(fault) => {
                self.found("path", format!("\"{text}\" is no path of a route: {fault}"), help);
                None
            }
        }
    }

    /// What a mutation's answers mean.
    pub(super) fn answers(&mut self, raw: &RawOperation) -> Answers {
        let completes = self.statuses("completes", raw.completes.as_deref());
        let releases = self.statuses("releases", raw.releases.as_deref());
        for both in
            releases.iter().flatten().filter(|one| completes.iter().flatten().any(|other| other == *one))
        {
            let message = format!("\"{both}\" both completes and releases");
            self.found("releases", message, "a status says one of the two");
        }
        for one in releases.iter().flatten().filter(|one| one.class() != 4 && **one != TOO_BUSY) {
            let message =
                format!("\"{one}\" does not say that nothing was done, so the call could run twice");
            self.found(
                "releases",
                message,
                "a 4xx may say so, or a 503 of an app that turns calls away before it begins",
            );
        }
        Answers::new(completes.as_deref(), releases.as_deref(), raw.provider)
    }

    fn statuses(&mut self, key: &str, texts: Option<&[String]>) -> Option<Vec<Statuses>> {
        let texts = texts?;
        if texts.is_empty() {
            self.found(key, "an empty list is easily misread", "leave it out, or name a status");
        }
        let mut found = Vec::new();
        for text in texts {
            match Statuses::parse(text) {
                Some(statuses) => found.push(statuses),
                None => self.found(
                    key,
                    format!("\"{text}\" is no answer's status"),
                    "write \"404\" for one, \"4xx\" for all that begin so",
                ),
            }
        }
        Some(found)
    }
}
