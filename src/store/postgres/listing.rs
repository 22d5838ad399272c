//! Questions beside the calls: lists for people, twins.
//!
//! Promises: they never take the last connection from the workers where there are two or more; a question is asked
//! once more where its connection had died meanwhile.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{self, Delay, Params, Time};
use super::fault::{Fault, Silent};
use super::statements::{STATEMENT, query};
use crate::domain::audit::{Decision, Executed};
use crate::domain::ledger::Status;
use crate::store::op::Cause;
use crate::store::text::{has_members, held, in_json, part_of};
use crate::store::{
    AuditFilter, ClaimFilter, Counted, Cursor, Found, LapsedOf, ListedClaim, OpenClaims, RecordedEvent,
    TallyOf, Twin, TwinOf, UnknownOf,
};

/// How long a list may take.
const LIST: Duration = Duration::from_secs(30);

/// How many audit rows are looked at in one go, where their arguments decide.
const PAGE: u32 = 1000;

/// How often a question is asked before its fault is told.
const TRIES: u32 = 3;

/// Asks, on any connection.
pub(super) async fn ask<'a>(
    store: &PostgresStore,
    limit: Duration,
    sql: &str,
    params: impl Fn() -> Params<'a>,
) -> Result<Vec<Row>, Fault> {
    ask_at_most(TRIES, store, limit, sql, params).await
}

/// Asks, so often at most.
async fn ask_at_most<'a>(
    most: u32,
    store: &PostgresStore,
    limit: Duration,
    sql: &str,
    params: impl Fn() -> Params<'a>,
) -> Result<Vec<Row>, Fault> {
    let mut tries = 0;
    loop {
        tries += 1;
        let client = store.connections.get().await?;
        let told = query(&client, limit, sql, params()).await;
        if let Err(fault) = &told
            && fault.ends_connection()
        {
            store.connections.give_up(client, fault);
        }
        match told {
            Err(Fault::Lost(_) | Fault::Elsewhere(_) | Fault::Clash(_)) if tries < most => {}
            told => return told,
        }
    }
}

/// Asks something that may take long.
pub(super) async fn ask_as_guest<'a>(
    store: &PostgresStore,
    sql: &str,
    params: impl Fn() -> Params<'a>,
) -> Result<Vec<Row>, Fault> {
    // The semaphore is never closed; without a permit the question would only be less polite.
    let _permit = store.guests.acquire().await;
    ask(store, LIST, sql, params).await
}

/// Asks something that may take long, for somebody who waits until then. Once: whoever waits for a page asks again.
async fn ask_until<'a>(
    store: &PostgresStore,
    until: Instant,
    sql: &str,
    params: impl Fn() -> Params<'a>,
) -> Result<Vec<Row>, Fault> {
    let left = until.saturating_duration_since(Instant::now());
    let Ok(_permit) = timeout_at(until, store.guests.acquire()).await else {
        return Err(Fault::NoneFree(Cause::new(Silent(left))));
    };
    ask_at_most(1, store, until.saturating_duration_since(Instant::now()), sql, params).await
}

pub(super) async fn twin(store: &PostgresStore, of: &TwinOf) -> Result<Option<Twin>, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, held(&of.id.tenant));
        params.one(Type::TEXT, held(&of.id.service));
        params.one(Type::TEXT, held(&of.id.tool));
        params.many(Type::TEXT_ARRAY, of.args_hashes.iter().map(|hash| held(hash)));
        params.one(Type::TEXT, held(&of.user));
        params.one(Type::TEXT, held(&of.id.key));
        params.one(Type::INTERVAL, Delay::from(of.window));
        params
    };
    let rows = ask(store, STATEMENT, include_str!("sql/twin.sql"), params).await?;
    let twin = |row| {
        Ok(Twin { key: columns::get(row, "idempotency_key")?, created_at: columns::time(row, "created_at")? })
    };
    rows.first().map(twin).transpose()
}

pub(super) async fn claims(store: &PostgresStore, filter: &ClaimFilter) -> Result<Vec<ListedClaim>, Fault> {
    let params = || {
        let mut params = Params::default();
        for text in [&filter.tenant, &filter.service, &filter.tool, &filter.key, &filter.user] {
            params.one(Type::TEXT, text.as_deref().map(held));
        }
        params.one(Type::TEXT, filter.status.map(Status::as_str));
        params.one(Type::INTERVAL, filter.older_than.map(Delay::from));
        params.one(Type::INT8, i64::from(filter.limit));
        params
    };
    let order = if filter.oldest_first { "created_at" } else { "created_at DESC" };
    let sql = format!(
        "{} ORDER BY {order}, tenant_id, service, tool, idempotency_key LIMIT $8",
        include_str!("sql/claims.sql")
    );
    let rows = match filter.within {
        None => ask_as_guest(store, &sql, params).await?,
        Some(within) => ask_until(store, Instant::now() + within, &sql, params).await?,
    };
    let mut listed = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Some(claim) = columns::claim(row)? {
            listed.push(ListedClaim { id: columns::claim_id(row)?, claim });
        }
    }
    Ok(listed)
}

pub(super) async fn lapsed(store: &PostgresStore, of: &LapsedOf) -> Result<Found, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, held(&of.service));
        params.one(Type::INTERVAL, Delay::from(of.lease));
        params.one(Type::INT8, i64::from(of.limit));
        params
    };
    found(&ask_as_guest(store, include_str!("sql/lapsed.sql"), params).await?)
}

pub(super) async fn unknown(store: &PostgresStore, of: &UnknownOf) -> Result<Found, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, held(&of.service));
        params.many(Type::TEXT_ARRAY, of.tools.iter().map(|tool| held(tool)));
        params.one(Type::INT8, i64::from(of.limit));
        params
    };
    found(&ask_as_guest(store, include_str!("sql/unknown.sql"), params).await?)
}

pub(super) async fn open_counts(store: &PostgresStore, service: &str) -> Result<Vec<OpenClaims>, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, held(service));
        params
    };
    let rows = ask_as_guest(store, include_str!("sql/open_claims.sql"), params).await?;
    let counted = |row: &Row| {
        let (word, count): (&str, i64) = (columns::get(row, "status")?, columns::get(row, "count")?);
        let status = Status::from_word(word).ok_or_else(|| Fault::Corrupt(format!("the status {word}")))?;
        // A row from a moment ahead, as a clock that was set back leaves it, is new.
        let oldest = Duration::try_from_secs_f64(columns::get(row, "oldest")?).unwrap_or_default();
        Ok(OpenClaims { status, count: u64::try_from(count).unwrap_or(0), oldest })
    };
    rows.iter().map(counted).collect()
}

/// The claims in rows that each say the time; the first row may be of nulls otherwise.
fn found(rows: &[Row]) -> Result<Found, Fault> {
    let first = rows.first().ok_or_else(|| Fault::Corrupt("no time".to_owned()))?;
    let mut claims = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(claim) = columns::claim(row)? {
            claims.push(ListedClaim { id: columns::claim_id(row)?, claim });
        }
    }
    Ok(Found { claims, now: columns::time(first, "now")? })
}

/// In pages, since arguments are text that only we can read: what was asked for is found whatever is in between.
pub(super) async fn events(store: &PostgresStore, filter: &AuditFilter) -> Result<Vec<RecordedEvent>, Fault> {
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let page = if filter.args.is_empty() { filter.limit } else { PAGE };
    let sql = if filter.after.is_some() {
        concat!(include_str!("sql/events.sql"), "ORDER BY at, id LIMIT $22")
    } else {
        concat!(include_str!("sql/events.sql"), "ORDER BY at DESC, id DESC LIMIT $22")
    };
    let mut found: Vec<RecordedEvent> = Vec::new();
    let until = filter.within.map(|within| Instant::now() + within);
    let mut last = None;
    while found.len() < limit {
        let rows = match until {
            None => ask_as_guest(store, sql, || page_of(filter, last, page)).await?,
            Some(until) => ask_until(store, until, sql, || page_of(filter, last, page)).await?,
        };
        let seen = rows.len();
        for row in &rows {
            let recorded = columns::event(row)?;
            last = Some(recorded.cursor());
            if found.len() < limit && has_members(recorded.event.facts.args.as_deref(), &filter.args) {
                found.push(recorded);
            }
        }
        if seen < usize::try_from(page).unwrap_or(usize::MAX) {
            break;
        }
    }
    if filter.after.is_none() {
        found.reverse();
    }
    Ok(found)
}

/// `last` is the last row of the page before, in the direction in which the pages go.
fn page_of(filter: &AuditFilter, last: Option<Cursor>, page: u32) -> Params<'_> {
    let (before, after) = match filter.after {
        Some(after) => (filter.before, Some(last.unwrap_or(after))),
        None => (last.or(filter.before), None),
    };
    let mut params = Params::default();
    let exact = [&filter.tenant, &filter.service, &filter.tool, &filter.key, &filter.user, &filter.session];
    for text in exact {
        params.one(Type::TEXT, text.as_deref().map(held));
    }
    params.one(Type::TEXT, filter.decision.map(Decision::as_str));
    params.one(Type::TEXT, filter.reason.as_deref().map(held));
    params.one(Type::INTERVAL, filter.since.map(Delay::from));
    for place in [before, after] {
        params.one(Type::TIMESTAMPTZ, place.map(|place| Time(place.at)));
        params.one(Type::UUID, place.map(|place| place.id));
    }
    params.one(Type::UUID, filter.id);
    params.one(Type::TEXT, filter.executed.map(Executed::as_str));
    params.one(Type::TEXT, filter.trace.as_deref().map(held));
    params.one(Type::UUID, filter.attempt);
    params.one(Type::INTERVAL, filter.until.map(Delay::from));
    params.one(Type::TIMESTAMPTZ, filter.from.map(Time));
    params.one(Type::TIMESTAMPTZ, filter.to.map(Time));
    let parts: Vec<&str> = filter.args.iter().filter_map(|(_, text)| part_of(text)).collect();
    params.one(Type::TEXT_ARRAY, (!parts.is_empty()).then_some(parts));
    params.one(Type::INT8, i64::from(page));
    params.one(Type::TEXT, filter.text.as_deref().map(held));
    params.one(Type::TEXT, filter.text.as_deref().map(in_json));
    params.one(Type::UUID, filter.text.as_deref().and_then(|text| text.parse::<Uuid>().ok()));
    params
}

pub(super) async fn tally(store: &PostgresStore, of: &TallyOf) -> Result<Counted, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, held(&of.service));
        params.one(Type::INT8, i64::try_from(of.step.as_secs().max(1)).unwrap_or(i64::MAX));
        params.one(Type::INT8, i64::from(of.steps));
        params
    };
    let rows = ask_until(store, Instant::now() + of.within, include_str!("sql/tally.sql"), params).await?;
    let first = rows.first().ok_or_else(|| Fault::Corrupt("no time".to_owned()))?;
    let tallies = rows.iter().filter_map(|row| columns::tally(row).transpose());
    Ok(Counted { tallies: tallies.collect::<Result<_, _>>()?, now: columns::time(first, "now")? })
}
