//! Upkeep: who leads, and what goes, in small batches: the writer waits for each.
//!
//! Absent on purpose: a bound below which the audit cannot be shortened (whoever can write the file can do anything), and
//! giving pages back to the disk. What is deleted leaves room in the file that the next rows take; a file that must
//! become smaller is made so by hand, by SQLite's own `VACUUM`, while nobody serves it.

use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use super::rows;
use crate::domain::time::Timestamp;
use crate::store::{AuditAge, AuditKept, Due, PruneOf, Pruned};

pub(super) fn lead(
    connection: &mut Connection,
    what: &str,
    holder: Uuid,
    lease: Duration,
) -> rusqlite::Result<bool> {
    written(connection, |transaction, now| {
        let until = now.plus(lease).as_micros();
        let values = params![what, holder.to_string(), until, now.as_micros()];
        Ok(transaction.execute(include_str!("sql/lead.sql"), values)? > 0)
    })
}

pub(super) fn prune_claims(connection: &mut Connection, of: PruneOf) -> rusqlite::Result<Pruned> {
    written(connection, |transaction, now| {
        let from = of.from.map_or(i64::MIN, Timestamp::as_micros);
        let mut statement = transaction.prepare_cached(include_str!("sql/prune.sql"))?;
        let mut times = statement.query_map(params![now.as_micros(), of.batch, from], |row| row.get(0))?;
        times.try_fold(Pruned::default(), |pruned, time| {
            let through = pruned.through.max(Some(Timestamp::from_micros(time?)));
            Ok(Pruned { claims: pruned.claims + 1, through })
        })
    })
}

pub(super) fn keep_audit(connection: &mut Connection, of: AuditAge) -> rusqlite::Result<AuditKept> {
    let Some(keep) = of.keep else { return Ok(AuditKept::default()) };
    written(connection, |transaction, now| {
        let values = params![now.minus(keep).as_micros(), of.batch];
        let deleted = transaction.prepare_cached(include_str!("sql/keep_audit.sql"))?.execute(values)?;
        let deleted = u64::try_from(deleted).unwrap_or(u64::MAX);
        Ok(AuditKept { deleted, more: deleted >= u64::from(of.batch), ..AuditKept::default() })
    })
}

pub(super) fn due(connection: &Connection, keep: Option<Duration>) -> rusqlite::Result<Due> {
    let now = rows::now(connection)?;
    let count = |question: &str, before: Timestamp| {
        connection.query_row(question, [before.as_micros()], |row| row.get::<_, i64>(0))
    };
    let expired = "SELECT count(*) FROM idempotency_claims
        WHERE expires_at <= ?1 AND status NOT IN ('in_flight', 'unknown')";
    let claims = u64::try_from(count(expired, now)?).unwrap_or(0);
    let rows = match keep {
        None => 0,
        Some(keep) => count("SELECT count(*) FROM audit_events WHERE at < ?1", now.minus(keep))?,
    };
    Ok(Due { claims, rows: u64::try_from(rows).unwrap_or(0), ..Due::default() })
}

fn written<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>, Timestamp) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = rows::now(&transaction)?;
    let done = work(&transaction, now)?;
    transaction.commit()?;
    Ok(done)
}
