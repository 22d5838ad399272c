//! `oncegate claims list|show|resolve`: where calls stand.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand};

use super::failure::Failure;
use super::open::Opened;
use super::page::{Ink, Page};
use super::resolve::Resolve;
use super::{audit, rows, screen};
use crate::config::ConfigFlags;
use crate::domain::json::{Json, Object};
use crate::domain::ledger::{ClaimId, Status};
use crate::domain::policy::Operation;
use crate::domain::time::Timestamp;
use crate::domain::units::parse_duration;
use crate::store::{AuditFilter, ClaimFilter, ListedClaim};
use crate::story::next::{self, Line};
use crate::story::words::{about, beside_the_key, time, word};

/// How many audit rows `show` shows of one claim.
const SHOWN_EVENTS: u32 = 50;

/// Looks at claims; settles an unknown one by hand.
#[derive(Subcommand)]
pub(super) enum Claims {
    /// List claims, the newest first
    List(List),
    /// Show one claim whole, with its answer and its audit rows
    Show(Show),
    /// Settle an unknown claim by hand: it ran, or it did not. Audited.
    Resolve(Resolve),
}

#[derive(Args)]
pub(super) struct List {
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
    /// Only those that have been what they are for longer than this: 10m, 2h, 1d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Only in this status
    #[arg(long, value_parser = PossibleValuesParser::new(Status::ALL.map(Status::as_str)))]
    status: Option<String>,
    /// How many at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    which: Which,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// One claim, by its key; by tenant and operation too where several have it.
#[derive(Args)]
#[command(group(ArgGroup::new("named").required(true).args(["positional", "key"])))]
pub(super) struct Which {
    /// The idempotency key
    #[arg(value_name = "KEY")]
    positional: Option<String>,
    /// The same, also where it begins with a dash
    #[arg(long, allow_hyphen_values = true)]
    key: Option<String>,
    /// Its tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Its operation
    #[arg(long)]
    tool: Option<String>,
}

impl Claims {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Resolve(resolve) => resolve.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let filter = ClaimFilter {
            tenant: self.tenant,
            service: opened.service.clone(),
            tool: self.tool,
            key: self.key,
            user: self.user,
            status: self.status.as_deref().and_then(Status::from_word),
            older_than: self.older_than,
            limit: self.limit,
            ..ClaimFilter::default()
        };
        let claims = opened.store.claims(&filter).await?;
        screen::show(&match (self.json, claims.is_empty()) {
            (true, _) => lines(&claims, false),
            (false, false) => table(&opened, &claims).await?,
            (false, true) => String::new(),
        })?;
        if claims.is_empty() && !self.json {
            screen::tell("No claim was found.");
        }
        if u32::try_from(claims.len()) == Ok(self.limit) {
            screen::tell(&format!("Only the newest {} claims are shown; --limit shows more.", self.limit));
        }
        Ok(())
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let found = self.which.find(&opened).await?;
        if self.json {
            return Ok(screen::show(&lines(&[found], true))?);
        }
        let filter = AuditFilter {
            tenant: Some(found.id.tenant.clone()),
            service: Some(found.id.service.clone()),
            tool: Some(found.id.tool.clone()),
            key: Some(found.id.key.clone()),
            limit: SHOWN_EVENTS,
            ..AuditFilter::default()
        };
        let events = opened.store.events(&filter).await?;
        let now = opened.store.read(&found.id).await?.now;
        let policies = opened.policies();
        let operation = policies
            .of(&found.id.service)
            .and_then(|policy| policy.of_name(&found.id.tool))
            .map(AsRef::as_ref);
        let mut page = Page::for_output();
        put_advice(&mut page, &found, &name(&opened, &found.id).await?, now, operation);
        Ok(screen::show(&format!("{}\n{}{}", sheet(&found), audit::table(&events), page.into_text()))?)
    }
}

impl Which {
    /// The one claim that is meant.
    pub(super) async fn find(&self, opened: &Opened) -> Result<ListedClaim, Failure> {
        let filter = ClaimFilter {
            tenant: self.tenant.clone(),
            service: opened.service.clone(),
            tool: self.tool.clone(),
            key: self.positional.clone().or_else(|| self.key.clone()),
            limit: 10,
            ..ClaimFilter::default()
        };
        let mut found = opened.store.claims(&filter).await?;
        match (found.pop(), found.is_empty()) {
            (None, _) => {
                let sought = sought(&filter);
                Err(Failure::failed(format!(
                    "there is no such claim: {sought}; claims list shows those that there are"
                )))
            }
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                found.push(last);
                let names = found.iter().map(|ListedClaim { id, claim }| {
                    format!("\n  {}   # {}", beside_the_key(id), claim.status.as_str())
                });
                Err(Failure::failed(format!("several claims have this key:{}", names.collect::<String>())))
            }
        }
    }
}

/// Where a claim was looked for.
fn sought(filter: &ClaimFilter) -> String {
    let names = [("tenant", &filter.tenant), ("service", &filter.service), ("tool", &filter.tool)];
    let names = names.map(|(name, value)| match value {
        Some(value) => format!("{name} {value}"),
        None => format!("any {name}"),
    });
    format!("key {}; {}", filter.key.as_deref().unwrap_or_default(), names.join(", "))
}

/// What names this claim in a command, and no other: its key, and what else it needs where several have that.
pub(super) async fn name(opened: &Opened, id: &ClaimId) -> Result<String, Failure> {
    let filter = ClaimFilter { key: Some(id.key.clone()), limit: 2, ..ClaimFilter::default() };
    let key = format!("--key={}", word(&id.key));
    let is_only = opened.store.claims(&filter).await?.len() < 2;
    Ok(if is_only { key } else { format!("{key} {}", beside_the_key(id)) })
}

/// What may be done about it; nothing where nothing needs to be.
pub(super) fn put_advice(
    page: &mut Page,
    found: &ListedClaim,
    named: &str,
    now: Timestamp,
    operation: Option<&Operation>,
) {
    let signed = if has_name() { "" } else { " --operator NAME" };
    let lines = next::advice(&found.id, &found.claim, (named, signed), now, operation);
    let typed = |line: &Line| match line {
        Line::Say(_) => 0,
        Line::Command { typed, .. } => typed.chars().count(),
    };
    let width = lines.iter().map(typed).max().unwrap_or_default();
    if !lines.is_empty() {
        page.gap();
    }
    for line in lines {
        match line {
            Line::Say(sentence) => page.put(Ink::Usual, 0, &sentence),
            // In one piece, however narrow the terminal: it is there to be copied.
            Line::Command { typed, means } => page.put_whole(2, &format!("{typed:width$}   # {means}")),
        }
    }
}

/// Whether the environment says who the operator is.
fn has_name() -> bool {
    std::env::var("USER").is_ok_and(|name| !name.trim().is_empty())
}

fn lines(claims: &[ListedClaim], with_answer: bool) -> String {
    claims.iter().map(|row| screen::plain_json(&rows::claim(row, with_answer).to_string()) + "\n").collect()
}

/// One claim to a line: how long it has been what it is, and what is next.
async fn table(opened: &Opened, claims: &[ListedClaim]) -> Result<String, Failure> {
    let now = match claims.first() {
        Some(first) => opened.store.read(&first.id).await?.now,
        None => Timestamp::from_micros(0),
    };
    let policies = opened.policies();
    let heads = ["CREATED", "TENANT", "USER", "TOOL", "KEY", "STATUS", "FOR", "NEXT"];
    let rows: Vec<_> = claims
        .iter()
        .map(|found| {
            let ListedClaim { id, claim } = found;
            let operation =
                policies.of(&id.service).and_then(|policy| policy.of_name(&id.tool)).map(AsRef::as_ref);
            [
                time(claim.created_at),
                id.tenant.clone(),
                claim.user.clone(),
                rows::operation(&id.service, &id.tool),
                id.key.clone(),
                claim.status.as_str().to_owned(),
                about(now.since(claim.settled_at.unwrap_or(claim.created_at))),
                next::next(id, claim, now, operation),
            ]
        })
        .collect();
    Ok(screen::table(heads, &rows))
}

/// One column to a line; those that are empty are left out.
fn sheet(row: &ListedClaim) -> String {
    let columns = rows::claim(row, true);
    let rows: Vec<_> = columns
        .as_object()
        .into_iter()
        .flat_map(Object::iter)
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            [name.to_owned(), value.as_str().map_or_else(|| Json::to_string(value), str::to_owned)]
        })
        .collect();
    screen::table(["COLUMN", "VALUE"], &rows)
}
