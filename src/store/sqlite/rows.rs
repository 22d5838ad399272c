//! Rows on their way out, and the database's clock.

use bytes::Bytes;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Row, params};
use uuid::Uuid;

use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::ledger::{Claim, ClaimId, Round, Status};
use crate::domain::time::Timestamp;
use crate::store::text::held;
use crate::store::{RecordedEvent, StoreError, Tally};

/// The database's now; SQLite tells it in milliseconds.
pub(super) fn now(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let clock = "SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000";
    connection.prepare_cached(clock)?.query_row([], |row| row.get(0).map(Timestamp::from_micros))
}

/// The claim, if there is one.
pub(super) fn read(connection: &Connection, id: &ClaimId) -> rusqlite::Result<Claim> {
    let name = params![held(&id.tenant), held(&id.service), held(&id.tool), held(&id.key)];
    connection.prepare_cached(include_str!("sql/read.sql"))?.query_row(name, claim)
}

/// What a caller is told of a fault that undid what was asked.
pub(super) fn error(error: Error) -> StoreError {
    let unreadable = matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
            | Error::InvalidColumnType(..)
    );
    if unreadable { StoreError::Corrupt(error.to_string()) } else { StoreError::Unavailable(Box::new(error)) }
}

/// The claim's name.
pub(super) fn claim_id(row: &Row<'_>) -> rusqlite::Result<ClaimId> {
    Ok(ClaimId {
        tenant: row.get("tenant_id")?,
        service: row.get("service")?,
        tool: row.get("tool")?,
        key: row.get("idempotency_key")?,
    })
}

/// The claim's state.
pub(super) fn status(row: &Row<'_>) -> rusqlite::Result<Status> {
    let status: String = row.get("status")?;
    word(&status, Status::from_word(&status))
}

/// The claim.
pub(super) fn claim(row: &Row<'_>) -> rusqlite::Result<Claim> {
    let attempt: String = row.get("attempt")?;
    let round: Option<String> = row.get("round_hash")?;
    Ok(Claim {
        user: row.get("user_id")?,
        args_hash: row.get("args_hash")?,
        status: status(row)?,
        revision: row.get("revision")?,
        attempt_id: uuid(&row.get::<_, String>("attempt_id")?)?,
        facts: serde_json::from_str(&attempt).map_err(unreadable)?,
        round: Round::from_column(round.as_deref()),
        lease_until: time(row, "lease_until")?,
        attempt_until: time(row, "attempt_until")?,
        first_sent_at: time(row, "first_sent_at")?,
        response: row.get::<_, Option<Vec<u8>>>("response")?.map(Bytes::from),
        created_at: Timestamp::from_micros(row.get("created_at")?),
        settled_at: time(row, "settled_at")?,
        expires_at: time(row, "expires_at")?,
    })
}

/// The audit row.
pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<RecordedEvent> {
    let decision: String = row.get("decision")?;
    let executed: String = row.get("executed")?;
    let facts = Facts {
        tenant_id: row.get("tenant_id")?,
        service: row.get("service")?,
        user_id: row.get("user_id")?,
        session_id: row.get("session_id")?,
        tool: row.get("tool")?,
        args_hash: row.get("args_hash")?,
        args: row.get("args")?,
        idempotency_key: row.get("idempotency_key")?,
        forwarded_key: None,
        handed_out: None,
        span_id: None,
        attempt_id: row.get::<_, Option<String>>("attempt_id")?.as_deref().map(uuid).transpose()?,
        policy_version: row.get("policy_version")?,
        trace_id: row.get("trace_id")?,
        protocol: row.get("protocol")?,
        client: row.get("client")?,
    };
    Ok(RecordedEvent {
        at: Timestamp::from_micros(row.get("at")?),
        event: AuditEvent {
            id: uuid(&row.get::<_, String>("id")?)?,
            facts,
            decision: word(&decision, Decision::from_word(&decision))?,
            reason: row.get("reason")?,
            result_summary: row.get("result_summary")?,
            duration_ms: row.get("duration_ms")?,
            executed: word(&executed, Executed::from_word(&executed))?,
            upstream_status: row.get("upstream_status")?,
        },
    })
}

/// One count.
pub(super) fn tally(row: &Row<'_>) -> rusqlite::Result<Tally> {
    let decision: String = row.get("decision")?;
    Ok(Tally {
        from: Timestamp::from_micros(row.get("piece")?),
        decision: word(&decision, Decision::from_word(&decision))?,
        is_unclear: row.get("is_unclear")?,
        rows: u64::try_from(row.get::<_, i64>("tally")?).unwrap_or(0),
    })
}

fn time(row: &Row<'_>, name: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(name)?.map(Timestamp::from_micros))
}

fn uuid(text: &str) -> rusqlite::Result<Uuid> {
    text.parse().map_err(unreadable)
}

fn word<T>(found: &str, known: Option<T>) -> rusqlite::Result<T> {
    known.ok_or_else(|| unreadable(UnknownWord(found.to_owned())))
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

/// A word that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("the word {0}")]
struct UnknownWord(String);
