//! `oncegate audit`: what was attempted, and what the gate did about it.
//!
//! Promises: every filter that is given must hold; what is cut off is said; with `--follow`, every row comes once
//! ([`follow`]).

mod csv;
mod follow;
mod hints;

use clap::Args;
use clap::builder::PossibleValuesParser;
use uuid::Uuid;

use self::csv::Csv;
use super::failure::Failure;
use super::open::Opened;
use super::rows;
use super::screen::{self, Columns};
use super::when::When;
use crate::config::ConfigFlags;
use crate::domain::audit::{Decision, Executed};
use crate::store::{AuditFilter, RecordedEvent};
use crate::story::words::{short, time};

/// How many rows are shown where nobody says how many.
const USUAL: u32 = 100;

/// How many rows are shown before those that are followed.
const USUAL_BEFORE: u32 = 10;

const EXAMPLES: &str = "Examples:
  oncegate audit --arg order_id=ord_9f2        who asked for anything with this order, and what came of it
  oncegate audit --decision denied --since 1h  what was refused in the last hour
  oncegate audit -f --tool refund_order        refunds as they come
  oncegate audit --since 7d --limit 100000 --csv > week.csv";

/// Lists audit rows, oldest first: the newest that fit every filter.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Audit {
    /// Only this row: by its id, or by the instance of a problem, which is the id of its row
    #[arg(long, value_name = "UUID", value_parser = hints::row_id)]
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
    /// Only where the app ran it, did not, or may have
    #[arg(long, value_parser = PossibleValuesParser::new(Executed::ALL.map(Executed::as_str)))]
    executed: Option<String>,
    /// Only of this trace
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Only of this attempt
    #[arg(long, value_name = "UUID", value_parser = hints::attempt_id)]
    attempt: Option<Uuid>,
    /// Only with this argument, by its text, at any depth; body.NAME: in a plain request's body; may be repeated
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = hints::pair)]
    args: Vec<(String, String)>,
    /// Only rows from then on: 90s, 1h, 7d ago, or 2026-12-01T14:30:00Z; by the store's clock
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    since: Option<When>,
    /// Only rows before then, told likewise
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    until: Option<When>,
    /// How many rows at most, the newest [100; with --follow 10, and then all that come]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on with rows as they come, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["until", "id"])]
    follow: bool,
    /// One JSON object a line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// A table for spreadsheets, all columns: what a spreadsheet would compute gets an apostrophe before it
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Audit {
    pub(super) async fn run(self) -> Result<(), Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since.is_never_before(until)
        {
            return Err(Failure::usage("nothing can be found: --since is not before --until"));
        }
        let opened = Opened::new(&self.config).await?;
        let mut form = Form::of(&self);
        let reason = self.reason.clone();
        let is_table = !self.json && !self.csv;
        let follows = self.follow;
        let limit = self.limit.unwrap_or(if follows { USUAL_BEFORE } else { USUAL });
        let filter = self.filter(opened.service.clone(), limit);
        if follows {
            return follow::run(&*opened.store, filter, form).await;
        }
        let events = opened.store.events(&filter).await?;
        screen::show(&form.put(&events)?)?;
        if u32::try_from(events.len()) == Ok(limit) {
            screen::tell(&format!("Only the newest {limit} rows are shown; --limit shows more."));
        }
        if events.is_empty() {
            let hint = reason.as_deref().and_then(hints::unknown_reason);
            if let Some(hint) = hint.or_else(|| is_table.then(|| "No row was found.".to_owned())) {
                screen::tell(&hint);
            }
        }
        Ok(())
    }

    fn filter(self, service: Option<String>, limit: u32) -> AuditFilter {
        let word = |text: &Option<String>| text.clone();
        AuditFilter {
            id: self.id,
            tenant: self.tenant,
            service,
            tool: self.tool,
            key: self.key,
            user: self.user,
            session: self.session,
            decision: word(&self.decision).as_deref().and_then(Decision::from_word),
            reason: self.reason,
            executed: word(&self.executed).as_deref().and_then(Executed::from_word),
            trace: self.trace,
            attempt: self.attempt,
            args: self.args,
            since: self.since.and_then(When::ago),
            until: self.until.and_then(When::ago),
            from: self.since.and_then(When::at),
            to: self.until.and_then(When::at),
            limit,
            ..AuditFilter::default()
        }
    }
}

/// In which form rows are shown, one batch after the other.
enum Form {
    Table(Box<Columns<{ HEADS.len() }>>),
    Json,
    Csv(Csv),
}

impl Form {
    fn of(audit: &Audit) -> Self {
        if audit.json {
            Self::Json
        } else if audit.csv {
            Self::Csv(Csv::default())
        } else {
            Self::Table(Box::new(Columns::of(HEADS)))
        }
    }

    /// The text of these rows.
    fn put(&mut self, events: &[RecordedEvent]) -> Result<String, Failure> {
        match self {
            Self::Table(_) if events.is_empty() => Ok(String::new()),
            Self::Table(columns) => Ok(columns.put(&cells(events))),
            Self::Json => Ok(lines(events)),
            Self::Csv(csv) => csv.put(events),
        }
    }
}

fn lines(events: &[RecordedEvent]) -> String {
    events.iter().map(|row| screen::plain_json(&rows::event(row).to_string()) + "\n").collect()
}

/// What a person looks for first; `--json` has every column.
const HEADS: [&str; 10] =
    ["AT", "TENANT", "USER", "TOOL", "KEY", "DECISION", "REASON", "EXECUTED", "MS", "ARGS"];

/// The rows as a table.
pub(super) fn table(events: &[RecordedEvent]) -> String {
    Columns::of(HEADS).put(&cells(events))
}

fn cells(events: &[RecordedEvent]) -> Vec<[String; HEADS.len()]> {
    let cells = |row: &RecordedEvent| {
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
    };
    events.iter().map(cells).collect()
}
