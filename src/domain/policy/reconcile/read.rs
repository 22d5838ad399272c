//! From the table `reconcile` as it is written to a checked one.
//!
//! Promises: a question that could not be asked, or an answer that could not be understood, is a mistake when the policy
//! is read, with the way out; what may be meant and is dangerous is a warning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::question::{Argument, Ask, Template};
use super::{Part, Proof, Reconcile, Wanted};
use crate::domain::json::Json;
use crate::domain::policy::build::Checks;
use crate::domain::policy::operation::{FieldPath, Kind};
use crate::domain::policy::raw::RawReconcile;

/// The key in whose place mistakes are told.
const KEY: &str = "reconcile";

/// Any value but null.
const ANYTHING: &str = "*";

/// All of an answer.
const WHOLE: &str = "*";

const SECOND: Duration = Duration::from_secs(1);

/// The table, checked; none where it has a mistake. `private` are the paths that the operation masks.
pub(in crate::domain::policy) fn reconcile(
    checks: &mut Checks<'_>,
    raw: &RawReconcile,
    kind: Kind,
    private: &[FieldPath],
) -> Option<Reconcile> {
    let before = checks.count();
    if kind == Kind::Route && raw.tool.is_some() {
        let help = "ask one of the app's own paths: get = \"/internal/refunds?key={forwarded_key}\"";
        checks.found(KEY, "what became of a plain request is asked by get", help);
    }
    let ask = ask(checks, raw);
    let completed = proof(checks, "completed", raw.completed.as_ref());
    let absent = proof(checks, "absent", raw.absent.as_ref());
    let of_tool = raw.tool.is_some();
    if of_tool && raw.absent_status.is_some() {
        checks.found(
            KEY,
            "\"absent_status\" has a meaning for a route only",
            "a tool's error has a code: absent_errors = [\"…\"]",
        );
    }
    if !of_tool && raw.absent_errors.is_some() {
        checks.found(
            KEY,
            "\"absent_errors\" has a meaning for a tool only",
            "a route answers with a status: absent_status = [404]",
        );
    }
    let absent_errors: BTreeSet<String> = raw.absent_errors.iter().flatten().cloned().collect();
    let absent_status: BTreeSet<u16> = raw.absent_status.iter().flatten().copied().collect();
    if let Some(bad) = absent_status.iter().find(|status| !(400..500).contains(*status)) {
        let message = format!("{bad} cannot prove that a call did not run");
        checks.found(
            KEY,
            message,
            "an app that knows answers 404 or 410; of an answer with 200, name members: absent = { … }",
        );
    }
    let says_nothing =
        |members: Option<&BTreeMap<String, toml::Value>>| members.is_none_or(BTreeMap::is_empty);
    let members = says_nothing(raw.completed.as_ref()) && says_nothing(raw.absent.as_ref());
    if members && absent_errors.is_empty() && absent_status.is_empty() {
        checks.found(
            KEY,
            "no answer would prove anything",
            "say which members do: completed = { status = [\"succeeded\"] }",
        );
    }
    let result = raw.result.as_deref().and_then(|text| part(checks, text));
    if raw.result.is_some() && completed.0.is_empty() {
        checks.found(
            KEY,
            "nothing is ever found completed here, so there is no result",
            "say completed = { … } as well",
        );
    }
    let reconcile = Reconcile {
        every: checks
            .span_in("reconcile.every", KEY, raw.every, SECOND, 3600 * SECOND)
            .unwrap_or(10 * SECOND),
        timeout: checks
            .span_in("reconcile.timeout", KEY, raw.timeout, SECOND / 10, 60 * SECOND)
            .unwrap_or(10 * SECOND),
        ask: ask?,
        completed,
        absent,
        absent_errors,
        absent_status,
        result,
    };
    arguments_are_kept(checks, &reconcile.ask, &as_kept(kind, private));
    (checks.count() == before).then_some(reconcile)
}

fn ask(checks: &mut Checks<'_>, raw: &RawReconcile) -> Option<Ask> {
    match (&raw.tool, &raw.get) {
        (Some(name), None) => {
            let empty = BTreeMap::new();
            let mut arguments = BTreeMap::new();
            for (name, value) in raw.arguments.as_ref().unwrap_or(&empty) {
                let argument = match value.as_str() {
                    Some(text) => Argument::Text(template(checks, text)?),
                    None => Argument::Value(scalar(checks, "arguments", value)?),
                };
                arguments.insert(name.clone(), argument);
            }
            Some(Ask::Tool { name: name.clone(), arguments })
        }
        (None, Some(path)) => {
            if raw.arguments.is_some() {
                checks.found(
                    KEY,
                    "\"arguments\" has a meaning for a tool only",
                    "put them into the path of get, or its query",
                );
            }
            let literal =
                path.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, after)| after));
            let is_sound = path.starts_with('/')
                && literal
                    .flat_map(str::bytes)
                    .all(|byte| byte.is_ascii_graphic() && !b"#\\<>\"^`|".contains(&byte));
            let (before_query, _) = path.split_once('?').unwrap_or((path, ""));
            let leads_elsewhere = |segment| matches!(segment, "." | "..");
            if !is_sound || before_query.contains("//") || before_query.split('/').any(leads_elsewhere) {
                let message = format!("\"{path}\" is not a path of the app");
                checks.found(
                    KEY,
                    message,
                    "write it like \"/internal/refunds/{forwarded_key}\"; the host is upstream.url's",
                );
                return None;
            }
            Some(Ask::Get { path: template(checks, path)? })
        }
        (Some(_), Some(_)) => {
            checks.found(KEY, "it asks a tool and a route", "leave one of tool and get out");
            None
        }
        (None, None) => {
            checks.found(KEY, "it says nobody to ask", "name a tool that reads, tool = \"get_refund\", or a route, get = \"/refunds/{forwarded_key}\"");
            None
        }
    }
}

fn template(checks: &mut Checks<'_>, text: &str) -> Option<Template> {
    let parsed = Template::parse(text);
    if let Err(fault) = &parsed {
        checks.found(KEY, format!("\"{text}\" cannot be filled in: {fault}"), "see \"{forwarded_key}\"");
    }
    parsed.ok()
}

fn proof(checks: &mut Checks<'_>, key: &str, raw: Option<&BTreeMap<String, toml::Value>>) -> Proof {
    let mut members = Vec::new();
    for (path, value) in raw.into_iter().flatten() {
        let one = std::slice::from_ref(value);
        let values = value.as_array().map_or(one, Vec::as_slice);
        let wanted: Vec<Wanted> = values
            .iter()
            .filter_map(|value| match value.as_str() {
                Some(ANYTHING) => Some(Wanted::Anything),
                _ => scalar(checks, key, value).map(Wanted::Value),
            })
            .collect();
        if values.is_empty() {
            let message = format!("no value of \"{path}\" proves anything in \"{key}\"");
            checks.found(KEY, message, "name those that do, or \"*\" for any but null");
        }
        match FieldPath::parse(path) {
            Some(path) => members.push((path, wanted)),
            None => not_a_path(checks, path),
        }
    }
    Proof(members)
}

fn part(checks: &mut Checks<'_>, text: &str) -> Option<Part> {
    if text == WHOLE {
        return Some(Part::Whole);
    }
    let path = FieldPath::parse(text);
    if path.is_none() {
        not_a_path(checks, text);
    }
    path.map(Part::At)
}

fn not_a_path(checks: &mut Checks<'_>, text: &str) {
    let message = format!("\"{text}\" is not a path to a member of the answer");
    checks.found(KEY, message, "write the names that lead to it with dots between them: \"refund.status\"");
}

fn scalar(checks: &mut Checks<'_>, key: &str, value: &toml::Value) -> Option<Json> {
    match value {
        toml::Value::String(text) => Some(Json::from(text.as_str())),
        toml::Value::Integer(number) => Some(Json::from(*number)),
        toml::Value::Boolean(flag) => Some(Json::from(*flag)),
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            let message = format!("a {} cannot stand in \"{key}\"", value.type_str());
            checks.found(KEY, message, "strings, integers and true or false can");
            None
        }
    }
}

/// A claim keeps its call's arguments masked: one that is private could not be asked with.
/// Where the claim has what these paths lead to. Each part of a plain request is masked as a root of its own.
fn as_kept(kind: Kind, private: &[FieldPath]) -> Vec<FieldPath> {
    match kind {
        Kind::Tool | Kind::Method | Kind::Job => private.to_vec(),
        Kind::Route => {
            let under = |part| {
                private.iter().filter_map(move |path| FieldPath::parse(&format!("{part}.{}", path.as_ref())))
            };
            ["path", "query", "body"].into_iter().flat_map(under).collect()
        }
    }
}

fn arguments_are_kept(checks: &mut Checks<'_>, ask: &Ask, private: &[FieldPath]) {
    let names: Vec<String> =
        ask.templates().iter().flat_map(|one| one.arguments()).map(str::to_owned).collect();
    for name in names {
        let inside = |one: &str, other: &str| {
            one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
        };
        let hides = |path: &FieldPath| inside(&name, path.as_ref()) || inside(path.as_ref(), &name);
        if private.iter().any(hides) {
            let message =
                format!("{{args.{name}}} is masked by \"redact\", so the gate does not have it to ask with");
            checks.found(KEY, message, "ask by {key} or {forwarded_key}");
        }
    }
}

impl Reconcile {
    /// What is allowed here and may still not be meant: what it is, and the way out.
    pub(in crate::domain::policy) fn warnings(&self) -> Vec<(&'static str, &'static str)> {
        let proves_absence =
            !self.absent.0.is_empty() || !self.absent_errors.is_empty() || !self.absent_status.is_empty();
        let mut found = Vec::new();
        if !self.ask.templates().iter().any(|template| template.names_the_key()) {
            found.push((
                "the question does not name the call's key, so another call with the same arguments would answer for it",
                "put {key} or {forwarded_key} into it, unless its arguments name this one call",
            ));
        }
        if !self.absent_status.is_empty() && self.absent.0.is_empty() {
            found.push((
                "a status alone proves that a call did not run; an app that lost the route would say so of every call",
                "name a member of that answer as well: absent = { code = \"refund_not_found\" }",
            ));
        }
        if !proves_absence {
            found.push((
                "no answer proves that a call did not run, so such a call stays unknown until a person resolves it",
                "say which one does: absent, absent_errors or absent_status",
            ));
        }
        if self.completed.0.is_empty() {
            found.push((
                "no answer proves that a call ran, so such a call stays unknown until a person resolves it",
                "say which members do: completed = { status = [\"succeeded\"] }",
            ));
        }
        found
    }
}
