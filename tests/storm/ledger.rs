//! The store as an outsider sees it: both tables, by a connection that no fault touches.
//!
//! Promises: it only reads, with statements of its own; what cannot be read now is an error, never an empty table.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::time::timeout;
use tokio_postgres::NoTls;

use crate::Fallible;
use crate::history::{Name, Row, Told};

const CLAIMS: &str = "SELECT tenant_id, tool, idempotency_key, status, revision, attempt_id, response";
const AUDIT: &str = "SELECT tenant_id, tool, idempotency_key, coalesce(trace_id, ''), decision, coalesce(reason, ''), \
                     executed, attempt_id";

/// How long a question may take before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which store.
#[derive(Clone, Debug)]
pub(crate) enum Ledger {
    Postgres(String),
    Sqlite(PathBuf),
}

impl Ledger {
    /// The claims, or only those made in the last `seconds`.
    pub(crate) async fn claims(&self, seconds: Option<u32>) -> Fallible<Vec<Row>> {
        match self {
            Self::Postgres(url) => {
                let since = seconds.map_or_else(String::new, |seconds| {
                    format!("WHERE created_at > now() - interval '{seconds} s'")
                });
                let sql = format!("{CLAIMS} FROM oncegate.idempotency_claims {since}");
                let rows = postgres(url, &sql).await?;
                rows.iter().map(|row| Ok(claim_of_postgres(row)?)).collect()
            }
            Self::Sqlite(path) => {
                let since = seconds.map_or_else(String::new, |seconds| {
                    format!("WHERE created_at > (unixepoch() - {seconds}) * 1000000")
                });
                sqlite(path.clone(), format!("{CLAIMS} FROM idempotency_claims {since}"), claim_of_sqlite)
                    .await
            }
        }
    }

    /// The audit rows.
    pub(crate) async fn audit(&self) -> Fallible<Vec<Told>> {
        match self {
            Self::Postgres(url) => {
                let rows = postgres(url, &format!("{AUDIT} FROM oncegate.audit_events")).await?;
                rows.iter().map(|row| Ok(told_of_postgres(row)?)).collect()
            }
            Self::Sqlite(path) => {
                sqlite(path.clone(), format!("{AUDIT} FROM audit_events"), told_of_sqlite).await
            }
        }
    }
}

async fn postgres(url: &str, sql: &str) -> Fallible<Vec<tokio_postgres::Row>> {
    let asking = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let rows = client.query(sql, &[]).await;
        connection.abort();
        Ok(rows?)
    };
    timeout(PATIENCE, asking).await?
}

async fn sqlite<T: Send + 'static>(
    path: PathBuf,
    sql: String,
    read: fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Fallible<Vec<T>> {
    let asking = move || {
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(PATIENCE)?;
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map([], read)?;
        rows.collect::<rusqlite::Result<Vec<T>>>()
    };
    Ok(tokio::task::spawn_blocking(asking).await??)
}

fn text(bytes: Option<Vec<u8>>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn claim_of_postgres(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    Ok(Row {
        name: Name { tenant: row.try_get(0)?, tool: row.try_get(1)?, key: row.try_get(2)? },
        status: row.try_get(3)?,
        revision: row.try_get(4)?,
        attempt: row.try_get::<_, uuid::Uuid>(5)?.to_string(),
        response: text(row.try_get(6)?),
    })
}

fn claim_of_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        name: Name { tenant: row.get(0)?, tool: row.get(1)?, key: row.get(2)? },
        status: row.get(3)?,
        revision: row.get(4)?,
        attempt: row.get(5)?,
        response: text(row.get(6)?),
    })
}

fn told_of_postgres(row: &tokio_postgres::Row) -> Result<Told, tokio_postgres::Error> {
    Ok(Told {
        tenant: row.try_get(0)?,
        tool: row.try_get(1)?,
        key: row.try_get(2)?,
        trace: row.try_get(3)?,
        decision: row.try_get(4)?,
        reason: row.try_get(5)?,
        executed: row.try_get(6)?,
        attempt: row.try_get::<_, Option<uuid::Uuid>>(7)?.map(|id| id.to_string()).unwrap_or_default(),
    })
}

fn told_of_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Told> {
    Ok(Told {
        tenant: row.get(0)?,
        tool: row.get(1)?,
        key: row.get(2)?,
        trace: row.get(3)?,
        decision: row.get(4)?,
        reason: row.get(5)?,
        executed: row.get(6)?,
        attempt: row.get::<_, Option<String>>(7)?.unwrap_or_default(),
    })
}
