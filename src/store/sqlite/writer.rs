//! The writer: one thread, one connection, and whatever waits goes in one transaction.
//!
//! Promises: a commit for each group; a write that cannot be done is undone alone, by its savepoint; where the
//! commit itself fails the group is done once more before anybody hears that it is uncertain.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Savepoint, TransactionBehavior, params};
use tokio::time::{Instant, timeout};

use super::{file, rows};
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::Expect;
use crate::domain::time::Timestamp;
use crate::store::grouping::{Bounds, Line};
use crate::store::op::{AppendOp, Cause, Judged, Op, SwapOp, judge, tell};
use crate::store::standing::{Notice, Why};
use crate::store::text::{held, held_option, indexed};
use crate::store::{StoreError, Swap, Write};

/// The size of a group.
const BOUNDS: Bounds = Bounds { entries: 64, weight: 4 << 20 };

/// Between two looks at whether something can be written again.
const LOOK: Duration = Duration::from_millis(500);

/// Serves the line until it is closed and empty. Blocks its thread.
pub(super) fn serve(line: &Arc<Line<Op>>, mut connection: Connection, notice: &Notice) {
    let _ending = Ending(Arc::clone(line));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return;
    };
    loop {
        let away = notice.long_away();
        let ready = match &away {
            None => Ok(runtime.block_on(line.ready())),
            Some(_) => runtime.block_on(async { timeout(LOOK, line.ready()).await }),
        };
        match ready {
            Ok(false) => return,
            Ok(true) => {
                let Some(group) = line.take(BOUNDS) else { continue };
                let batch = Batch::of(group.keyed.into_iter().chain(group.free));
                match away {
                    None => write(&mut connection, batch, notice),
                    Some(why) => batch.fail(|| why.error()),
                }
                drop(group.turn);
            }
            Err(_elapsed) if can_write(&mut connection) => notice.there(),
            Err(_elapsed) => {}
        }
    }
}

/// Writes what changes nothing, without waiting for others.
fn can_write(connection: &mut Connection) -> bool {
    let write = |connection: &mut Connection| {
        connection.busy_timeout(Duration::ZERO)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()
    };
    let written = write(connection).is_ok();
    written && connection.busy_timeout(file::BUSY).is_ok()
}

/// Whether nobody else's write would be done either.
fn is_outage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// However the writer ends, nobody waits for it in vain.
struct Ending(Arc<Line<Op>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.close();
        while self.0.take(BOUNDS).is_some() {}
    }
}

#[derive(Default)]
struct Batch {
    swaps: Vec<SwapOp>,
    appends: Vec<AppendOp>,
}

impl Batch {
    fn of(ops: impl Iterator<Item = Op>) -> Self {
        let mut batch = Self::default();
        for op in ops {
            match op {
                Op::Swap(op) => batch.swaps.push(op),
                Op::Append(op) => batch.appends.push(op),
                // Questions go to the desk: dropped here, its asker would hear that the writer is gone.
                Op::Read(_) => {}
            }
        }
        batch
    }
}

impl Batch {
    fn fail(self, told: impl Fn() -> StoreError) {
        self.swaps.into_iter().for_each(|op| tell(op.answer, Err(told())));
        self.appends.into_iter().for_each(|op| tell(op.answer, Err(told())));
    }
}

/// What came of each entry of a group.
struct Told {
    swaps: Vec<rusqlite::Result<Swap>>,
    appends: Vec<rusqlite::Result<()>>,
}

/// Why a whole group was not done.
enum Fault {
    /// Before its commit: it is undone.
    Undone(rusqlite::Error),
    /// At its commit: part of it may be on disk.
    AtCommit(rusqlite::Error),
}

fn write(connection: &mut Connection, batch: Batch, notice: &Notice) {
    let told = match transact(connection, &batch) {
        Err(Fault::AtCommit(_)) => transact(connection, &batch).map_err(|fault| match fault {
            Fault::AtCommit(error) | Fault::Undone(error) => Fault::AtCommit(error),
        }),
        told => told,
    };
    match told {
        Ok(told) => {
            for (op, swap) in batch.swaps.into_iter().zip(told.swaps) {
                tell(op.answer, swap.map_err(|error| alone_away(error, notice)));
            }
            for (op, appended) in batch.appends.into_iter().zip(told.appends) {
                tell(op.answer, appended.map_err(|error| alone_away(error, notice)));
            }
        }
        Err(Fault::Undone(error)) => {
            let cause = all_away(error, notice);
            batch.fail(|| cause.unavailable());
        }
        Err(Fault::AtCommit(error)) => {
            let cause = all_away(error, notice);
            batch.fail(|| cause.uncertain());
        }
    }
}

/// What a whole group is told. SQLite has waited for others already: nothing further is bridged.
fn all_away(error: rusqlite::Error, notice: &Notice) -> Cause {
    let outage = is_outage(&error);
    let cause = Cause::new(error);
    if outage {
        notice.away(Instant::now(), Duration::ZERO, Why::Cause(cause.clone()));
    }
    cause
}

/// What one of a group is told.
fn alone_away(error: rusqlite::Error, notice: &Notice) -> StoreError {
    if is_outage(&error) { all_away(error, notice).unavailable() } else { rows::error(error) }
}

fn transact(connection: &mut Connection, batch: &Batch) -> Result<Told, Fault> {
    let mut transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Fault::Undone)?;
    let now = rows::now(&transaction).map_err(Fault::Undone)?;
    let mut told = Told { swaps: Vec::new(), appends: Vec::new() };
    for op in &batch.swaps {
        let point = transaction.savepoint().map_err(Fault::Undone)?;
        told.swaps.push(alone(point, |point| swap(point, &op.write, now))?);
    }
    for op in &batch.appends {
        let point = transaction.savepoint().map_err(Fault::Undone)?;
        told.appends
            .push(alone(point, |point| op.events.iter().try_for_each(|event| append(point, event, now)))?);
    }
    transaction.commit().map_err(Fault::AtCommit)?;
    Ok(told)
}

/// Does `work`, or undoes it and nothing else. A full disk or a failed write undoes the whole transaction.
fn alone<T>(
    mut point: Savepoint<'_>,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<rusqlite::Result<T>, Fault> {
    match work(&point) {
        Ok(done) => point.commit().map(|()| Ok(done)).map_err(Fault::Undone),
        Err(error) if point.is_autocommit() => Err(Fault::Undone(error)),
        Err(error) => {
            point.rollback().map_err(Fault::Undone)?;
            point.commit().map_err(Fault::Undone)?;
            Ok(Err(error))
        }
    }
}

fn swap(connection: &Connection, write: &Write, now: Timestamp) -> rusqlite::Result<Swap> {
    let (id, row) = (&write.id, write.next.at(now, write.expect));
    let sql = match write.expect {
        Expect::Absent => include_str!("sql/insert.sql"),
        Expect::Revision(_) => include_str!("sql/update.sql"),
    };
    let written = connection.prepare_cached(sql)?.execute(params![
        held(&id.tenant),
        held(&id.service),
        held(&id.tool),
        held(&id.key),
        held(&row.user),
        held(&row.args_hash),
        row.status.as_str(),
        row.revision,
        row.attempt_id.to_string(),
        serde_json::to_string(&row.facts).unwrap_or_default(),
        row.round.to_column(),
        row.lease_until.map(Timestamp::as_micros),
        row.attempt_until.map(Timestamp::as_micros),
        row.first_sent_at.map(Timestamp::as_micros),
        row.response.as_deref(),
        row.created_at.as_micros(),
        row.settled_at.map(Timestamp::as_micros),
        row.expires_at.map(Timestamp::as_micros),
    ])?;
    if written == 1 {
        if let Some(event) = &write.event {
            append(connection, event, now)?;
        }
        return Ok(Swap::Applied { now });
    }
    // Nobody else writes while this transaction lasts: what it reads is how it stands.
    let there = rows::read(connection, id).optional()?;
    Ok(match judge(write, there, now) {
        Judged::Swap(swap) => swap,
        Judged::Stale => Swap::Mismatch { row: None, now },
    })
}

fn append(connection: &Connection, event: &AuditEvent, now: Timestamp) -> rusqlite::Result<()> {
    let facts = &event.facts;
    connection.prepare_cached(include_str!("sql/append.sql"))?.execute(params![
        event.id.to_string(),
        now.as_micros(),
        held(&facts.tenant_id),
        held(&facts.service),
        held(&facts.user_id),
        held_option(facts.session_id.as_ref()),
        indexed(&facts.tool),
        event.decision.as_str(),
        held_option(event.reason.as_ref()),
        held_option(facts.args_hash.as_ref()),
        held_option(facts.args.as_ref()),
        held_option(event.result_summary.as_ref()),
        facts.idempotency_key.as_deref().map(indexed),
        event.duration_ms,
        facts.attempt_id.map(|id| id.to_string()),
        event.executed.as_str(),
        event.upstream_status,
        held_option(facts.policy_version.as_ref()),
        held_option(facts.trace_id.as_ref()),
        held_option(facts.protocol.as_ref()),
        held_option(facts.client.as_ref()),
    ])?;
    Ok(())
}
