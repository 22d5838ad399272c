//! `allow`: the rule about an operation's arguments.
//!
//! Promises: a rule that looks where nothing can stand is a mistake, with its place inside of the rule.

use super::Checks;
use crate::domain::json::folded;
use crate::domain::mistake::nearest;
use crate::domain::policy::argument_rule::{ArgumentRule, Fault};
use crate::domain::policy::operation::Kind;
use crate::domain::policy::route::Route;

/// The parts of a plain request, as its rule sees them.
const PARTS: [&str; 3] = ["path", "query", "body"];

/// What does not reach a rule.
pub(super) struct TakenOut<'a> {
    pub(super) key_argument: &'a str,
    pub(super) tenant_arguments: &'a [String],
    pub(super) forwards_key: bool,
}

impl Checks<'_> {
    /// None where there is no rule, or a mistake in it.
    pub(super) fn argument_rule(
        &mut self,
        text: Option<&str>,
        kind: Kind,
        taken: &TakenOut<'_>,
        route: Option<&Route>,
    ) -> Option<Box<ArgumentRule>> {
        let rule = match ArgumentRule::read(text?) {
            Ok(rule) => rule,
            Err(Fault { at, message, help }) => {
                self.found_inside("allow", at, message, help);
                return None;
            }
        };
        let before = self.count();
        for (way, at) in rule.ways() {
            let found = match (kind, route) {
                (Kind::Tool | Kind::Method, _) => fault_of_argument(way, taken),
                (Kind::Route, Some(route)) => fault_of_part(way, route),
                (Kind::Route, None) | (Kind::Job, _) => None,
            };
            if let Some((message, help)) = found {
                self.found_inside("allow", at, message, help);
            }
        }
        (self.count() == before).then(|| Box::new(rule))
    }
}

fn fault_of_argument(way: &[String], taken: &TakenOut<'_>) -> Option<(String, Option<String>)> {
    let name = way.first()?;
    let plain = folded(name);
    if taken.tenant_arguments.iter().any(|tenant| folded(tenant) == plain) {
        let message = format!("\"{name}\" is taken out of the arguments before the rule is asked");
        return Some((message, Some("the caller's tenant is actor.tenant".to_owned())));
    }
    if plain == folded(taken.key_argument) {
        let message = format!("\"{name}\" is the key, which the rule does not see");
        let help =
            if taken.forwards_key { "the app is the one to look at it" } else { "it does not reach the app" };
        return Some((message, Some(help.to_owned())));
    }
    None
}

fn fault_of_part(way: &[String], route: &Route) -> Option<(String, Option<String>)> {
    let (part, name) = (way.first()?, way.get(1));
    if !PARTS.contains(&part.as_str()) {
        let message = format!("a plain request's arguments have no \"{part}\"");
        return Some((message, nearest(part, &PARTS)));
    }
    let name =
        name.filter(|name| part == "path" && !route.template().names().any(|own| own == name.as_str()))?;
    let known: Vec<&str> = route.template().names().collect();
    Some((format!("the path has no parameter \"{name}\""), nearest(name, &known)))
}
