//! What is wrong between routes, or may not be meant by one.
//!
//! Promises: no request is two routes' own; two paths that many apps take for one, and a route that lets through what its
//! method says it should not, are told.

use std::collections::BTreeMap;

use super::{Findings, Named};
use crate::domain::mistake::{Mistake, Place};
use crate::domain::policy::Warning;
use crate::domain::policy::answers::Meaning;
use crate::domain::policy::operation::{Effect, Mutation};
use crate::domain::policy::route::Route;

/// Methods that ask for nothing to be changed.
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Methods that ask for a change, and for nothing else.
const CHANGING: [&str; 3] = ["DELETE", "PATCH", "PUT"];

impl Findings {
    /// Two routes of equal specificity that answer one method.
    pub(super) fn refuse_same_requests(&mut self) {
        let mut first: BTreeMap<(String, &str), &Named> = BTreeMap::new();
        for named in &self.named {
            let Some(route) = named.operation.route() else { continue };
            for method in route.methods() {
                let Some(other) = first.insert((route.template().shape(), method), named) else { continue };
                let message = format!(
                    "\"{}\" and \"{}\" at {} are both {method} {}",
                    named.operation.name(),
                    other.operation.name(),
                    other.place,
                    route.template().as_str()
                );
                let help = "a request is one operation: take the method, or the route, out of one of them";
                self.mistakes.push(Mistake::new(named.path_at.clone(), message).with_help(help));
                break;
            }
        }
    }

    pub(super) fn warn_of_routes(&mut self) {
        let mut told = Vec::new();
        for named in &self.named {
            let Some(route) = named.operation.route() else { continue };
            match named.operation.effect() {
                Effect::Read => told.extend(reads_by_a_changing_method(named, route)),
                Effect::Mutation => told.extend(releases_when_too_busy(named)),
                Effect::Deny | Effect::Runs => {}
            }
        }
        told.extend(self.named.iter().filter_map(literals_like_parameters));
        told.extend(self.taken_for_one());
        self.warnings.extend(told);
    }

    /// Paths that differ only in what many apps do not look at, and are ruled differently.
    fn taken_for_one(&self) -> Vec<Warning> {
        let mut first: BTreeMap<String, (&Named, &Route)> = BTreeMap::new();
        let mut told = Vec::new();
        for named in &self.named {
            let Some(route) = named.operation.route() else { continue };
            let (other, known) = *first.entry(route.template().folded_shape()).or_insert((named, route));
            let ruled = |one: &Named| (one.operation.effect(), one.operation.scopes().to_vec());
            if known.template().shape() == route.template().shape() || ruled(named) == ruled(other) {
                continue;
            }
            let message = format!(
                "many apps take {} for {}, which is ruled otherwise at {}",
                route.template().as_str(),
                known.template().as_str(),
                other.place
            );
            told.push(warning(
                &named.path_at,
                message,
                "name the one that the app means, and leave the other out",
            ));
        }
        told
    }
}

fn reads_by_a_changing_method(named: &Named, route: &Route) -> Option<Warning> {
    let name = named.operation.name();
    if route.template().opens_a_prefix() {
        let method = route.methods().find(|method| !SAFE.contains(method))?;
        let message = format!(
            "\"{name}\" lets {method} through to whatever stands under {}",
            route.template().as_str()
        );
        return Some(warning(&named.path_at, message, "name the paths that only read, one by one"));
    }
    let method = route.methods().find(|method| CHANGING.contains(method))?;
    let message = format!("\"{name}\" is a read by {method}: it runs as often as it is asked for");
    Some(warning(&named.path_at, message, "say effect = \"mutation\" if it changes something"))
}

fn releases_when_too_busy(named: &Named) -> Option<Warning> {
    let answers = named.operation.mutation().map(Mutation::answers)?;
    let message = "a 503 may also come from a proxy that has sent the call on";
    let help = "let it release only where the app alone answers so, before it begins anything";
    (answers.of(503) == Meaning::Releases).then(|| warning(&named.releases_at, message.to_owned(), help))
}

fn warning(place: &Place, message: String, help: &str) -> Warning {
    Warning(Mistake::new(place.clone(), message).with_help(help))
}

/// `/orders/:id` is how other routers write a parameter, and a literal here.
fn literals_like_parameters(named: &Named) -> Option<Warning> {
    let path = named.operation.route()?.template().as_str();
    let segment = path.split('/').find(|segment| segment.len() > 1 && segment.starts_with(':'))?;
    let message = format!("\"{segment}\" is a literal: only a request with that very word has this path");
    let help = format!("a parameter is written {{{}}}", segment.trim_start_matches(':'));
    Some(warning(&named.path_at, message, &help))
}
