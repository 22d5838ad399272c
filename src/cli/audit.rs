//! `oncegate audit`: what was attempted, and what the gate did about it.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use uuid::Uuid;

use super::failure::Failure;
use super::open::Opened;
use super::{rows, screen};
use crate::config::ConfigFlags;
use crate::domain::audit::Decision;
use crate::domain::mistake::nearest;
use crate::domain::mode::{REPLAY, WOULD};
use crate::domain::policy::GATE_REASONS;
use crate::domain::units::parse_duration;
use crate::store::{AuditFilter, RecordedEvent};
use crate::story::words::{short, time};

/// Lists audit rows, oldest first: the newest that fit every filter.
#[derive(Args)]
pub(super) struct Audit {
    /// Only this row: by its id, or by the instance of a problem, which is the id of its row
    #[arg(long, value_name = "UUID")]
    id: Option<Uuid>,
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<String>,
    /// Only this operation's
    #[arg(long)]
    tool: Option<String>,
    /// Only with this idempotency key
    #[arg(long, allow_hyphen_values = true)]
    key: Option<String>,
    /// Only this user's
    #[arg(long)]
    user: Option<String>,
    /// Only this session's
    #[arg(long)]
    session: Option<String>,
    /// Only with this decision
    #[arg(long, value_parser = PossibleValuesParser::new(Decision::ALL.map(Decision::as_str)))]
    decision: Option<String>,
    /// Only with this reason
    #[arg(long)]
    reason: Option<String>,
    /// Only with this argument, by its text; of a plain request path.NAME, query.NAME or body.NAME; may be repeated
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = pair)]
    args: Vec<(String, String)>,
    /// Only rows not older than this, by the store's clock: 90s, 1h, 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// How many rows at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Audit {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let filter = AuditFilter {
            id: self.id,
            tenant: self.tenant,
            service: opened.service,
            tool: self.tool,
            key: self.key,
            user: self.user,
            session: self.session,
            decision: Decision::ALL
                .into_iter()
                .find(|known| Some(known.as_str()) == self.decision.as_deref()),
            reason: self.reason.clone(),
            args: self.args,
            since: self.since,
            limit: self.limit,
            ..AuditFilter::default()
        };
        let events = opened.store.events(&filter).await?;
        screen::show(&match (self.json, events.is_empty()) {
            (true, _) => lines(&events),
            (false, false) => table(&events),
            (false, true) => String::new(),
        })?;
        if u32::try_from(events.len()) == Ok(self.limit) {
            screen::tell(&format!("Only the newest {} rows are shown; --limit shows more.", self.limit));
        }
        if events.is_empty() {
            let hint = self.reason.as_deref().and_then(unknown);
            let hint = hint.or_else(|| (!self.json).then(|| "No row was found.".to_owned()));
            if let Some(hint) = hint {
                screen::tell(&hint);
            }
        }
        Ok(())
    }
}

/// The hint where no row has a reason that the gate does not write either. Policies may have reasons of their own, so
/// it is a hint and no mistake.
fn unknown(reason: &str) -> Option<String> {
    let would = GATE_REASONS.iter().chain([&REPLAY]).map(|known| format!("{WOULD}{known}"));
    let known: Vec<String> = GATE_REASONS.iter().map(|known| (*known).to_owned()).chain(would).collect();
    if known.iter().any(|known| known == reason) {
        return None;
    }
    let words: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = nearest(reason, &words).map(|meant| format!("; {meant}")).unwrap_or_default();
    let end = if meant.is_empty() { "." } else { "" };
    Some(format!(
        "No row was found, and \"{reason}\" is no reason of the gate's own{meant}{end} They are listed in docs/answers.md."
    ))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, as in order_id=o1 or body.order_id=o1".to_owned()),
    }
}

fn lines(events: &[RecordedEvent]) -> String {
    events.iter().map(|row| screen::plain_json(&rows::event(row).to_string()) + "\n").collect()
}

/// What a person looks for first; `--json` has every column.
pub(super) fn table(events: &[RecordedEvent]) -> String {
    let heads = ["AT", "TENANT", "USER", "TOOL", "KEY", "DECISION", "REASON", "EXECUTED", "MS", "ARGS"];
    let rows: Vec<_> = events
        .iter()
        .map(|row| {
            let (event, facts) = (&row.event, &row.event.facts);
            [
                time(row.at),
                facts.tenant_id.clone(),
                facts.user_id.clone(),
                rows::operation(&facts.service, &facts.tool),
                facts.idempotency_key.clone().unwrap_or_default(),
                event.decision.as_str().to_owned(),
                event.reason.clone().unwrap_or_default(),
                event.executed.as_str().to_owned(),
                event.duration_ms.map(|ms| ms.to_string()).unwrap_or_default(),
                short(facts.args.as_deref().unwrap_or_default(), 60),
            ]
        })
        .collect();
    screen::table(heads, &rows)
}
