//! Upkeep: who leads, what goes, and how long the audit stays at least.
//!
//! Promises: each is one statement, so that a pooler in transaction mode does not matter; whoever leads does so by a row
//! with a time in it, and no session.

use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{self, Delay, Params, Time};
use super::fault::Fault;
use super::listing::{ask, ask_as_guest};
use super::statements::STATEMENT;
use crate::store::{AuditAge, AuditKept, Due, Floor, PruneOf, Pruned};

pub(super) async fn lead(
    store: &PostgresStore,
    what: &str,
    holder: Uuid,
    lease: Duration,
) -> Result<bool, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::TEXT, what.to_owned());
        params.one(Type::UUID, holder);
        params.one(Type::INTERVAL, Delay::from(lease));
        params
    };
    let rows = ask(store, STATEMENT, include_str!("sql/lead.sql"), params).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn prune_claims(store: &PostgresStore, of: &PruneOf) -> Result<Pruned, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::INT8, i64::from(of.batch));
        params.one(Type::TIMESTAMPTZ, of.from.map(Time));
        params
    };
    let rows = ask_as_guest(store, include_str!("sql/prune.sql"), params).await?;
    let mut pruned = Pruned { claims: u64::try_from(rows.len()).unwrap_or(u64::MAX), through: None };
    for row in &rows {
        pruned.through = pruned.through.max(Some(columns::time(row, "expires_at")?));
    }
    Ok(pruned)
}

pub(super) async fn keep_audit(store: &PostgresStore, of: &AuditAge) -> Result<AuditKept, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::INTERVAL, of.keep.map(Delay::from));
        params.one(Type::INT8, i64::from(of.batch));
        params
    };
    let step = "SELECT made, dropped, deleted, more, busy FROM oncegate.keep_audit($1, $2)";
    let rows = ask_as_guest(store, step, params).await?;
    let Some(row) = rows.first() else { return Ok(AuditKept::default()) };
    Ok(AuditKept {
        made: count(columns::get(row, "made")?),
        dropped: columns::get(row, "dropped")?,
        deleted: count(columns::get(row, "deleted")?),
        more: columns::get(row, "more")?,
        busy: columns::get(row, "busy")?,
    })
}

pub(super) async fn due(store: &PostgresStore, keep: Option<Duration>) -> Result<Due, Fault> {
    let expired = "SELECT count(*) AS due FROM oncegate.idempotency_claims
        WHERE expires_at <= now() AND status NOT IN ('in_flight', 'unknown')";
    let claims = ask_as_guest(store, expired, Params::default).await?;
    let mut due = Due::default();
    if let Some(row) = claims.first() {
        due.claims = count(columns::get(row, "due")?);
    }
    let params = || {
        let mut params = Params::default();
        params.one(Type::INTERVAL, keep.map(Delay::from));
        params
    };
    let old = "SELECT part, whole, due FROM oncegate.audit_due($1)";
    for row in &ask_as_guest(store, old, params).await? {
        let rows = count(columns::get(row, "due")?);
        if columns::get(row, "whole")? {
            due.partitions.push((columns::get(row, "part")?, rows));
        } else {
            due.rows = due.rows.saturating_add(rows);
        }
    }
    Ok(due)
}

pub(super) async fn audit_floor(store: &PostgresStore) -> Result<Floor, Fault> {
    let question = "SELECT extract(epoch FROM audit_floor)::bigint AS seconds FROM oncegate.retention";
    let rows = ask(store, STATEMENT, question, Params::default).await?;
    let row = rows.first().ok_or_else(|| Fault::Corrupt("no row in oncegate.retention".to_owned()))?;
    let seconds: Option<i64> = columns::get(row, "seconds")?;
    Ok(seconds.map_or(Floor::Forever, |seconds| Floor::At(Duration::from_secs(count(seconds)))))
}

pub(super) async fn set_audit_floor(
    store: &PostgresStore,
    floor: Option<Duration>,
    anew: bool,
) -> Result<Floor, Fault> {
    let params = || {
        let mut params = Params::default();
        params.one(Type::INTERVAL, floor.map(Delay::from));
        params.one(Type::BOOL, anew);
        params
    };
    let change = "UPDATE oncegate.retention SET audit_floor = $1, set_at = now() WHERE $2 OR set_at IS NULL";
    ask(store, STATEMENT, change, params).await?;
    audit_floor(store).await
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
