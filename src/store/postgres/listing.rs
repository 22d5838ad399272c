//! Questions beside the calls: lists for people, twins, pruning.
//!
//! Promises: they never take the last connection from the workers where there are two or more; a question is asked
//! once more where its connection had died meanwhile.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::columns::{self, Delay, Params, Time};
use super::fault::Fault;
use super::statements::{STATEMENT, query};
use crate::domain::ledger::Status;
use crate::store::text::{has_members, held};
use crate::store::{
    AuditFilter, ClaimFilter, Found, LapsedOf, ListedClaim, RecordedEvent, Twin, TwinOf, UnknownOf,
};

/// How long a list may take.
const LIST: Duration = Duration::from_secs(30);

/// How many audit rows are looked at in one go, where their arguments decide.
const PAGE: u32 = 1000;

/// How often a question is asked before its fault is told.
const TRIES: u32 = 3;

/// Asks, on any connection.
async fn ask<'a>(
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
            Err(Fault::Lost(_) | Fault::Elsewhere(_) | Fault::Clash(_)) if tries < TRIES => {}
            told => return told,
        }
    }
}

/// Asks something that may take long.
async fn ask_as_guest<'a>(
    store: &PostgresStore,
    sql: &str,
    params: impl Fn() -> Params<'a>,
) -> Result<Vec<Row>, Fault> {
    // The semaphore is never closed; without a permit the question would only be less polite.
    let _permit = store.guests.acquire().await;
    ask(store, LIST, sql, params).await
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
        params.one(Type::INT8, i64::from(filter.limit));
        params
    };
    let rows = ask_as_guest(store, include_str!("sql/claims.sql"), params).await?;
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
    let mut found: Vec<RecordedEvent> = Vec::new();
    let mut before = None;
    while found.len() < limit {
        let rows =
            ask_as_guest(store, include_str!("sql/events.sql"), || page_of(filter, before, page)).await?;
        let seen = rows.len();
        for row in &rows {
            let recorded = columns::event(row)?;
            before = Some((recorded.at, recorded.event.id));
            if found.len() < limit && has_members(recorded.event.facts.args.as_deref(), &filter.args) {
                found.push(recorded);
            }
        }
        if seen < usize::try_from(page).unwrap_or(usize::MAX) {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

fn page_of(
    filter: &AuditFilter,
    before: Option<(crate::domain::time::Timestamp, uuid::Uuid)>,
    page: u32,
) -> Params<'_> {
    let mut params = Params::default();
    let exact = [&filter.tenant, &filter.service, &filter.tool, &filter.key, &filter.user, &filter.session];
    for text in exact {
        params.one(Type::TEXT, text.as_deref().map(held));
    }
    params.one(Type::TEXT, filter.decision.map(crate::domain::audit::Decision::as_str));
    params.one(Type::TEXT, filter.reason.as_deref().map(held));
    params.one(Type::INTERVAL, filter.since.map(Delay::from));
    params.one(Type::TIMESTAMPTZ, before.map(|(at, _)| Time(at)));
    params.one(Type::UUID, before.map(|(_, id)| id));
    params.one(Type::UUID, filter.id);
    params.one(Type::INT8, i64::from(page));
    params
}

pub(super) async fn prune(store: &PostgresStore, batch: u32) -> Result<u64, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::INT8, i64::from(batch));
        params
    };
    let rows = ask_as_guest(store, include_str!("sql/prune.sql"), params).await?;
    Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
}
