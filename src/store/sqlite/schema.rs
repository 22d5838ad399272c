//! Whether the schema fits, and bringing it up.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::store::Schema;
use crate::store::migrations::{NEEDED, SQLITE};

pub(super) fn schema(connection: &Connection) -> rusqlite::Result<Schema> {
    let there = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'";
    if connection.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Schema::Missing);
    }
    Ok(match version(connection)? {
        None => Schema::Missing,
        Some(found) if found < NEEDED => Schema::Older { found, needed: NEEDED },
        Some(_) => Schema::Fits,
    })
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT max(version) FROM schema_version", [], |row| row.get(0))
}

/// Takes the steps that are missing, all in one transaction, one process at a time.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT",
    )?;
    let version = version(&transaction)?.unwrap_or(0);
    for step in SQLITE.iter().filter(|step| step.version > version) {
        transaction.execute_batch(step.sql)?;
        let applied_at = super::rows::now(&transaction)?.as_micros();
        transaction
            .execute("INSERT INTO schema_version VALUES (?1, ?2)", params![step.version, applied_at])?;
    }
    transaction.commit()?;
    Ok(version.max(NEEDED))
}
