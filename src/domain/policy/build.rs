//! One operation: from what its table says, and its file's defaults, to a checked value.
//!
//! Promises: a key that has no meaning for the operation's effect or kind is a mistake, never ignored; a mutation
//! without a scope cannot be built.

mod allow;
mod backend;
mod meaning;
mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::allow::TakenOut;
pub(super) use self::meaning::kinds_of;
use super::GATE_REASONS;
use super::check::Table;
use super::operation::{Effect, FieldPath, InFlight, Kind, Mutation, Operation, Rule, Twin};
use super::raw::{RawDefaults, RawInFlight, RawMembers, RawOperation, RawRuns};
use super::reconcile::reconcile;
use super::runs::Runs;
use crate::domain::actor::is_scope;
use crate::domain::json::folded;
use crate::domain::mistake::{Mistake, Place};
use crate::domain::mode::{Mode, WOULD};
use crate::domain::redact::Redactor;
use crate::domain::units::{Span, duration_text};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const YEAR: Duration = Duration::from_hours(366 * 24);
/// Beyond this, every client has given up.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// A job whose worker is silent for longer is dead, and one that works for longer should be cut in two.
const LONGEST_JOB: Duration = Duration::from_hours(7 * 24);
const JOB: Duration = Duration::from_mins(15);

/// What holds where an operation says nothing.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    ttl: Duration,
    lease: Duration,
    in_flight: RawInFlight,
    wait_up_to: Duration,
    tenant_arguments: Vec<String>,
    key_argument: String,
    pub(super) mode: Mode,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            ttl: 24 * HOUR,
            lease: 60 * SECOND,
            in_flight: RawInFlight::Refuse,
            wait_up_to: 10 * SECOND,
            tenant_arguments: vec!["tenant_id".to_owned()],
            key_argument: "idempotency_key".to_owned(),
            mode: Mode::Enforce,
        }
    }
}

/// Collects the mistakes of one table.
pub(super) struct Checks<'a> {
    table: &'a Table<'a>,
    mistakes: &'a mut Vec<Mistake>,
}

pub(super) fn defaults(table: &Table<'_>, raw: RawDefaults, mistakes: &mut Vec<Mistake>) -> Defaults {
    let mut checks = Checks { table, mistakes };
    let house = Defaults::default();
    let tenant_arguments = raw.tenant_arguments.unwrap_or(house.tenant_arguments);
    let key_argument = raw.key_argument.unwrap_or(house.key_argument);
    checks.arguments(&key_argument, &tenant_arguments);
    Defaults {
        ttl: checks.span("ttl", raw.ttl, SECOND, YEAR).unwrap_or(house.ttl),
        lease: checks.span("lease", raw.lease, SECOND, HOUR).unwrap_or(house.lease),
        in_flight: raw.in_flight.unwrap_or(house.in_flight),
        wait_up_to: checks
            .span("wait_up_to", raw.wait_up_to, MILLISECOND, LONGEST_WAIT)
            .unwrap_or(house.wait_up_to),
        tenant_arguments,
        key_argument,
        mode: raw.mode.unwrap_or(house.mode),
    }
}

/// The operation that a table makes; none where a mistake was found that the rest depends on.
pub(super) fn operation(
    table: &Table<'_>,
    kind: Kind,
    (name, place): (String, Place),
    raw: &RawOperation,
    defaults: &Defaults,
    mistakes: &mut Vec<Mistake>,
) -> Option<Operation> {
    let mut checks = Checks { table, mistakes };
    let effect = checks.effect(raw, kind)?;
    checks.keys_have_meaning(kind, effect)?;
    let scopes = checks.scopes(effect, raw.scopes.as_deref());
    let redact = checks.paths("redact", raw.redact.as_deref());
    let summary = checks.paths("summary", raw.summary.as_deref());
    let reasons = checks.reasons(raw.reasons.clone().unwrap_or_default());
    let tenant_arguments = raw.tenant_arguments.clone().unwrap_or_else(|| defaults.tenant_arguments.clone());
    let key_argument = raw.key_argument.clone().unwrap_or_else(|| defaults.key_argument.clone());
    checks.arguments(&key_argument, &tenant_arguments);
    let rule = match effect {
        Effect::Read => Rule::Read,
        Effect::Deny => Rule::Deny,
        Effect::Runs => Rule::Runs(Box::new(checks.runs(raw.members.clone().unwrap_or_default())?)),
        Effect::Mutation => Rule::Mutation(Box::new(checks.mutation(raw, kind, defaults, &redact)?)),
    };
    let route = if kind == Kind::Route { Some(Box::new(checks.route(raw, effect)?)) } else { None };
    let taken = TakenOut {
        key_argument: &key_argument,
        tenant_arguments: &tenant_arguments,
        forwards_key: raw.forward_argument.unwrap_or_default(),
    };
    let argument_rule = checks.argument_rule(raw.allow.as_deref(), kind, &taken, route.as_deref());
    // A tool that runs others has no decision of its own to observe: each call inside is decided by itself. What a job
    // hears it does.
    let has_mode = effect != Effect::Runs && kind != Kind::Job;
    Some(Operation {
        name,
        place,
        kind,
        mode: if has_mode { raw.mode.unwrap_or(defaults.mode) } else { Mode::Enforce },
        rule,
        scopes,
        argument_rule,
        deny_as: raw.deny_as.unwrap_or_default(),
        key_argument,
        tenant_arguments,
        redactor: Redactor::new(redact),
        summary,
        reasons,
        route,
    })
}

impl Checks<'_> {
    pub(super) fn found(&mut self, key: &str, message: impl Into<String>, help: &str) {
        self.mistakes.push(self.table.mistake(key, message).with_help(help));
    }

    /// A mistake inside of what a key says, at a byte of its text.
    fn found_inside(&mut self, key: &str, at: usize, message: String, help: Option<String>) {
        let mistake = self.table.mistake_inside(key, at, message);
        self.mistakes.push(match help {
            Some(help) => mistake.with_help(help),
            None => mistake,
        });
    }

    fn effect(&mut self, raw: &RawOperation, kind: Kind) -> Option<Effect> {
        match (raw.effect, raw.runs) {
            (Some(Effect::Read), None) if kind == Kind::Job => {
                let help = "a job that changes nothing claims nothing: leave it out";
                self.found("effect", "a job is a mutation", help);
                None
            }
            (Some(effect), None) => Some(effect),
            (None, Some(RawRuns::Tools)) => Some(Effect::Runs),
            (Some(_), Some(_)) => {
                let help = "leave effect out: each tool that it runs has its own";
                self.found("effect", "a tool that runs others has no effect of its own", help);
                None
            }
            (None, None) => {
                let help = "it may be \"read\", \"mutation\" or \"deny\"";
                self.found("effect", "the key \"effect\" is missing", help);
                None
            }
        }
    }

    /// Where the calls inside stand. Two members of one name could not be told apart.
    fn runs(&mut self, raw: RawMembers) -> Option<Runs> {
        let usual = Runs::default();
        let runs = Runs {
            calls: raw.calls.unwrap_or(usual.calls),
            name: raw.name.unwrap_or(usual.name),
            arguments: raw.arguments.unwrap_or(usual.arguments),
            results: raw.results.unwrap_or(usual.results),
        };
        let names = [&runs.calls, &runs.name, &runs.arguments, &runs.results];
        if names.iter().any(|name| name.is_empty() || name.trim() != name.as_str()) {
            self.found(
                "members",
                "a member needs a name",
                "the usual ones are calls, name, arguments, results",
            );
            return None;
        }
        if folded(&runs.name) == folded(&runs.arguments) {
            let message = format!("\"{}\" cannot be both a call's name and its arguments", runs.name);
            self.found("members", message, "look at the tool's input schema");
            return None;
        }
        Some(runs)
    }

    fn scopes(&mut self, effect: Effect, scopes: Option<&[String]>) -> Vec<String> {
        match scopes {
            None if effect == Effect::Mutation => self.found(
                "scopes",
                "a mutation needs scopes",
                "say which ones a caller must hold: scopes = [\"…\"]",
            ),
            Some([]) if effect == Effect::Mutation => {
                self.found("scopes", "a mutation needs at least one scope", "name what a caller must hold");
            }
            Some([]) => self.found(
                "scopes",
                "an empty list of scopes is easily misread",
                "leave it out of a read that every authenticated actor may call",
            ),
            None | Some(_) => {}
        }
        for scope in scopes.unwrap_or_default().iter().filter(|scope| !is_scope(scope)) {
            self.found(
                "scopes",
                format!("\"{scope}\" cannot be a scope"),
                "one scope has no blank and no quote inside",
            );
        }
        let sorted: BTreeSet<String> = scopes.unwrap_or_default().iter().cloned().collect();
        sorted.into_iter().collect()
    }

    fn paths(&mut self, key: &str, texts: Option<&[String]>) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        for text in texts.unwrap_or_default() {
            match FieldPath::parse(text) {
                Some(path) => paths.push(path),
                None => self.found(
                    key,
                    format!("\"{text}\" is not a path to a field"),
                    "write the names that lead to it with dots between them: \"customer.email\"",
                ),
            }
        }
        paths
    }

    fn reasons(&mut self, reasons: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for reason in reasons.values() {
            let word =
                |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if reason.is_empty() || reason.len() > 64 || !word(reason) {
                let message = format!("\"{reason}\" is not an audit reason");
                self.found("reasons", message, "a reason is one word like \"not_found_or_foreign\"");
            } else if GATE_REASONS.contains(&reason.as_str()) || reason.starts_with(WOULD) {
                let message = format!("\"{reason}\" is what the gate writes for its own decisions");
                self.found("reasons", message, "choose a word that the audit can tell from them");
            }
        }
        reasons
    }

    fn arguments(&mut self, key_argument: &str, tenant_arguments: &[String]) {
        let sound = |name: &str| !name.is_empty() && name.trim() == name;
        if !sound(key_argument) {
            self.found("key_argument", "an argument needs a name", "the usual one is \"idempotency_key\"");
        }
        if !tenant_arguments.iter().all(|name| sound(name)) {
            self.found("tenant_arguments", "an argument needs a name", "the usual one is \"tenant_id\"");
        }
        if tenant_arguments.iter().any(|name| name == key_argument) {
            let message = format!("\"{key_argument}\" cannot be both the key and a tenant");
            self.found("key_argument", message, "tenant arguments are dropped before the key is looked for");
        }
    }

    /// How many mistakes there are.
    pub(super) fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// A duration within bounds; none where the file says nothing, or something out of bounds.
    fn span(&mut self, key: &str, span: Option<Span>, least: Duration, most: Duration) -> Option<Duration> {
        self.span_in(key, key, span, least, most)
    }

    /// The same, of a key `name` that stands inside of another.
    pub(super) fn span_in(
        &mut self,
        name: &str,
        key: &str,
        span: Option<Span>,
        least: Duration,
        most: Duration,
    ) -> Option<Duration> {
        let Span(duration) = span?;
        if (least..=most).contains(&duration) {
            return Some(duration);
        }
        let message = format!("{name} = \"{}\" makes no sense", duration_text(duration));
        let help = format!("it may be {} to {}", duration_text(least), duration_text(most));
        self.found(key, message, &help);
        None
    }

    fn mutation(
        &mut self,
        raw: &RawOperation,
        kind: Kind,
        defaults: &Defaults,
        private: &[FieldPath],
    ) -> Option<Mutation> {
        let before = self.mistakes.len();
        let reconcile = raw.reconcile.as_ref().map(|raw| reconcile(self, raw, kind, private));
        let ttl = self.span("ttl", raw.ttl, SECOND, YEAR).unwrap_or(defaults.ttl);
        let mutation = Mutation {
            ttl,
            lease: self.span("lease", raw.lease, SECOND, HOUR).unwrap_or(defaults.lease),
            in_flight: if kind == Kind::Job { InFlight::Refuse } else { self.in_flight(raw, defaults) },
            forward_argument: raw.forward_argument.unwrap_or_default(),
            forward_key: self.forward_key(raw),
            downstream: self.downstream(raw, ttl),
            on_tool_error: raw.on_tool_error.unwrap_or_default(),
            twin: self.twin(raw, ttl),
            shared_within_tenant: raw.shared_within_tenant.unwrap_or_default(),
            destructive: raw.destructive,
            reconcile: reconcile.flatten(),
            answers: self.answers(raw),
            timeout: (kind == Kind::Job)
                .then(|| self.span("timeout", raw.timeout, SECOND, LONGEST_JOB).unwrap_or(JOB)),
        };
        (self.mistakes.len() == before).then_some(mutation)
    }

    fn in_flight(&mut self, raw: &RawOperation, defaults: &Defaults) -> InFlight {
        let up_to = self.span("wait_up_to", raw.wait_up_to, MILLISECOND, LONGEST_WAIT);
        match raw.in_flight.unwrap_or(defaults.in_flight) {
            RawInFlight::Wait => InFlight::Wait { up_to: up_to.unwrap_or(defaults.wait_up_to) },
            RawInFlight::Refuse => {
                if raw.wait_up_to.is_some() {
                    self.found("wait_up_to", "nothing waits here", "say in_flight = \"wait\" as well");
                }
                InFlight::Refuse
            }
        }
    }

    fn twin(&mut self, raw: &RawOperation, ttl: Duration) -> Option<Twin> {
        if raw.duplicate.is_some() && raw.duplicate_window.is_none() {
            self.found("duplicate", "nothing is looked for", "say duplicate_window = \"5m\" as well");
        }
        let window = self.span("duplicate_window", raw.duplicate_window, SECOND, ttl.max(SECOND))?;
        Some(Twin { window, then: raw.duplicate.unwrap_or_default() })
    }
}
