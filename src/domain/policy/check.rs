//! From the files as they are written to operations as the gate uses them.
//!
//! Promises: every mistake of every file is found in one go, as far as the reader gets: a file that is not TOML gives
//! one, an operation whose keys or types are wrong gives one, an operation that reads well gives all that are in it.

mod inside;
mod routes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::build::{self, Defaults};
use super::operation::{Effect, Kind, Mutation, Operation};
use super::raw::{RawDefaults, RawOperation};
use super::{Warning, is_housekeeping};
use crate::domain::ledger::Downstream;
use crate::domain::mistake::{Mistake, Mistakes, Place, Source, nearest};
use crate::domain::mode::Mode;

const TABLES: [&str; 5] = ["defaults", "tools", "methods", "routes", "jobs"];

/// The longest name of an operation, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A table of a file: where its keys stand.
pub(super) struct Table<'a> {
    source: Source<'a>,
    whole: Range<usize>,
    /// Of each key, where it stands, and where what it says does.
    keys: BTreeMap<String, (Range<usize>, Range<usize>)>,
}

impl<'a> Table<'a> {
    fn new(source: Source<'a>, value: &Spanned<DeValue<'_>>) -> Self {
        let keys = value.get_ref().as_table().map(|table| {
            table
                .iter()
                .map(|(key, value)| (key.get_ref().clone().into_owned(), (key.span(), value.span())))
                .collect::<BTreeMap<_, _>>()
        });
        Self { source, whole: value.span(), keys: keys.unwrap_or_default() }
    }

    /// The keys that it has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// A mistake at a key, or at the table's head where it has no such key.
    pub(super) fn mistake(&self, key: &str, message: impl Into<String>) -> Mistake {
        self.source.mistake(self.keys.get(key).map_or(&self.whole, |(key, _)| key), message)
    }

    /// A mistake at a byte of the text that a key says.
    pub(super) fn mistake_inside(&self, key: &str, at: usize, message: impl Into<String>) -> Mistake {
        let value = self.keys.get(key).map_or(&self.whole, |(_, value)| value);
        let at = inside::place(self.source.text(), value, at);
        self.source.mistake(&(at..at), message)
    }
}

/// An operation, and where it is named.
struct Named {
    operation: Operation,
    place: Place,
    /// Where it says that the backend honours the key.
    idempotent_at: Option<Place>,
    /// Where it says how the app is asked.
    reconcile_at: Place,
    /// Where it says which requests are its own, and which answers release them.
    path_at: Place,
    releases_at: Place,
}

#[derive(Default)]
struct Findings {
    named: Vec<Named>,
    warnings: Vec<Warning>,
    mistakes: Vec<Mistake>,
}

/// The operations of all files, or every mistake in them.
pub(super) fn operations(sources: &[(PathBuf, String)]) -> Result<(Vec<Operation>, Vec<Warning>), Mistakes> {
    let mut findings = Findings::default();
    for (path, text) in sources {
        findings.read_file(Source::new(path, text));
    }
    findings.refuse_same_names();
    findings.refuse_same_forwarded_keys();
    findings.refuse_questions_that_change_something();
    findings.refuse_same_requests();
    findings.warn_of_routes();
    let Findings { named, mut warnings, mistakes } = findings;
    Mistakes::none_in(mistakes)?;
    if named.is_empty() {
        warnings.push(Warning(Mistake::new(
            Place::Settings,
            "the policy names no operation, so every call will be denied",
        )));
    }
    warnings.sort();
    Ok((named.into_iter().map(|one| one.operation).collect(), warnings))
}

impl Findings {
    fn read_file(&mut self, source: Source<'_>) {
        let root = match DeTable::parse(source.text()) {
            Ok(root) => root.into_inner(),
            Err(error) => return self.mistakes.push(source.of_toml(&error)),
        };
        let mut raw_defaults = None;
        let mut entries = Vec::new();
        for (key, value) in root {
            match key.get_ref().as_ref() {
                "defaults" => raw_defaults = Some(value),
                "tools" => entries.push((Kind::Tool, value)),
                "methods" => entries.push((Kind::Method, value)),
                "routes" => entries.push((Kind::Route, value)),
                "jobs" => entries.push((Kind::Job, value)),
                other => {
                    let mistake = source.mistake(&key.span(), format!("unknown table or key \"{other}\""));
                    self.mistakes.push(match nearest(other, &TABLES) {
                        Some(help) => mistake.with_help(help),
                        None => mistake,
                    });
                }
            }
        }
        let defaults = raw_defaults.map_or_else(Defaults::default, |value| self.read_defaults(source, value));
        for (kind, value) in entries {
            self.read_operations(source, kind, value, &defaults);
        }
    }

    fn read_defaults(&mut self, source: Source<'_>, value: Spanned<DeValue<'_>>) -> Defaults {
        let table = Table::new(source, &value);
        match RawDefaults::deserialize(ValueDeserializer::from(value)) {
            Ok(raw) => {
                if raw.mode == Some(Mode::Observe) {
                    let what = "what says nothing else in this file is only observed";
                    self.warnings.push(observed(&table, what));
                }
                build::defaults(&table, raw, &mut self.mistakes)
            }
            Err(error) => {
                self.mistakes.push(source.of_toml(&error));
                Defaults::default()
            }
        }
    }

    fn read_operations(
        &mut self,
        source: Source<'_>,
        kind: Kind,
        value: Spanned<DeValue<'_>>,
        defaults: &Defaults,
    ) {
        let span = value.span();
        let DeValue::Table(operations) = value.into_inner() else {
            let message = format!("[{0}.NAME] tables are due here, one for each of the {0}", kind.table());
            return self.mistakes.push(source.mistake(&span, message));
        };
        for (key, value) in operations {
            let name = key.get_ref().clone().into_owned();
            if let Some(fault) = fault_of_name(kind, &name) {
                self.mistakes.push(source.mistake(&key.span(), fault));
            }
            let table = Table::new(source, &value);
            let raw = match RawOperation::deserialize(ValueDeserializer::from(value)) {
                Ok(raw) => raw,
                Err(error) => {
                    self.mistakes.push(source.of_toml(&error));
                    continue;
                }
            };
            if raw.mode == Some(Mode::Observe) {
                self.warnings.push(observed(&table, &format!("\"{name}\" is only observed")));
            }
            let before = self.mistakes.len();
            let named = (name, source.place(&key.span()));
            let operation = build::operation(&table, kind, named, &raw, defaults, &mut self.mistakes);
            let Some(operation) = operation.filter(|_| self.mistakes.len() == before) else { continue };
            let idempotent = operation.mutation().is_some_and(|m| m.downstream != Downstream::Unsafe);
            let place_of = |key: &str| table.mistake(key, "").place().clone();
            self.named.push(Named {
                operation,
                place: source.place(&key.span()),
                idempotent_at: idempotent.then(|| place_of("forward_key")),
                reconcile_at: place_of("reconcile"),
                path_at: place_of("path"),
                releases_at: place_of("releases"),
            });
        }
    }

    /// One name, one operation, over all files and kinds: the name is what the claim and the audit row bear.
    fn refuse_same_names(&mut self) {
        let mut first_places: BTreeMap<&str, &Place> = BTreeMap::new();
        for Named { operation, place, .. } in &self.named {
            if let Some(first) = first_places.get(operation.name()) {
                let message = format!("\"{}\" is named already at {first}", operation.name());
                let help = "tools, methods, routes and jobs of all files share one name space";
                self.mistakes.push(Mistake::new(place.clone(), message).with_help(help));
            } else {
                first_places.insert(operation.name(), place);
            }
        }
    }

    /// A backend that honours keys would answer the second operation with the first one's result.
    fn refuse_same_forwarded_keys(&mut self) {
        let mut seen: Vec<&Named> = Vec::new();
        for named in &self.named {
            let (Some(mutation), Some(place)) = (named.operation.mutation(), &named.idempotent_at) else {
                continue;
            };
            let key = mutation.forward_key();
            let twin = seen
                .iter()
                .find(|other| {
                    other.operation.mutation().is_some_and(|m| m.forward_key().template() == key.template())
                })
                .filter(|_| !key.tells_tools_apart());
            if let Some(twin) = twin {
                let message = format!(
                    "\"{}\" and \"{}\" would forward the same key, and the backend would take one for the other",
                    named.operation.name(),
                    twin.operation.name()
                );
                let help = "put {tool} into forward_key, or use {digest}";
                self.mistakes.push(Mistake::new(place.clone(), message).with_help(help));
            }
            if !key.tells_tenants_apart() {
                let message = "two tenants that choose one key would forward the same";
                let help = "put {tenant} into forward_key, or use {digest}, unless the backend keeps tenants' keys apart";
                self.warnings.push(Warning(Mistake::new(place.clone(), message).with_help(help)));
            }
            seen.push(named);
        }
    }
}

impl Findings {
    /// A question is asked any number of times, so whoever is asked may change nothing.
    fn refuse_questions_that_change_something(&mut self) {
        for named in &self.named {
            let Some(reconcile) = named.operation.mutation().and_then(Mutation::reconcile) else { continue };
            let mistake = |message: String| Mistake::new(named.reconcile_at.clone(), message);
            for (message, help) in reconcile.warnings() {
                self.warnings.push(Warning(mistake(message.to_owned()).with_help(help)));
            }
            let Some(tool) = reconcile.tool() else { continue };
            let asked = self.named.iter().map(|other| &other.operation);
            let asked = asked.filter(|other| other.kind() == Kind::Tool).find(|other| other.name() == tool);
            self.mistakes.extend(match asked.map(Operation::effect) {
                Some(Effect::Read) => None,
                Some(Effect::Mutation | Effect::Deny | Effect::Runs) => Some(
                    mistake(format!("\"{tool}\" is asked what became of a call, and is no read"))
                        .with_help("ask a tool with effect = \"read\""),
                ),
                None => Some(
                    mistake(format!("\"{tool}\" is asked what became of a call, and no file names it"))
                        .with_help(format!("name it: [tools.{tool}] with effect = \"read\"")),
                ),
            });
        }
    }
}

fn observed(table: &Table<'_>, what: &str) -> Warning {
    let help = "it is written down what would be refused; take the line out to refuse it";
    Warning(
        table
            .mistake(
                "mode",
                format!("{what}: no call of it that has a token is refused, unless another tool runs it"),
            )
            .with_help(help),
    )
}

fn fault_of_name(kind: Kind, name: &str) -> Option<String> {
    if name.is_empty()
        || name.len() > MAX_NAME_BYTES
        || name.trim() != name
        || name.chars().any(char::is_control)
    {
        return Some(format!("a name has 1 to {MAX_NAME_BYTES} characters, and no blanks around them"));
    }
    match kind {
        Kind::Method if name == "tools/call" => {
            Some("tools/call is ruled tool by tool, under [tools.NAME]".to_owned())
        }
        Kind::Method if is_housekeeping(name) => {
            Some(format!("\"{name}\" passes for every authenticated actor; the policy cannot rule it"))
        }
        Kind::Method | Kind::Tool | Kind::Route | Kind::Job => None,
    }
}
