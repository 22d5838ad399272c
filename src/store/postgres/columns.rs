//! Values on their way into a statement and rows on their way out.
//!
//! Promises: times keep their microsecond in both directions; text is such that a text column can hold it.

use std::error::Error;

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

use super::fault::Fault;
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::ledger::{Claim, ClaimId, Round, Status};
use crate::domain::time::{Timestamp, When};
use crate::store::{RecordedEvent, Tally};

/// 2000-01-01T00:00:00Z, from which Postgres counts, in microseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// The longest delay that Postgres can add to a now of this era, in microseconds: about 285,000 years.
const LONGEST_DELAY: i64 = 9_000_000_000_000_000_000;

/// The parameters of one statement.
#[derive(Default)]
pub(super) struct Params<'a>(Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>);

impl<'a> Params<'a> {
    /// One value.
    pub(super) fn one(&mut self, kind: Type, value: impl ToSql + Sync + Send + 'a) {
        self.0.push((Box::new(value), kind));
    }

    /// An array, for `unnest`.
    pub(super) fn many<T: ToSql + Sync + Send + 'a>(&mut self, kind: Type, values: impl Iterator<Item = T>) {
        self.one(kind, values.collect::<Vec<T>>());
    }

    /// As the driver takes them.
    pub(super) fn into_typed(self) -> Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)> {
        self.0
    }
}

/// A `timestamptz`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Timestamp);

/// An `interval` from the statement's now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay(std::time::Duration);

/// The columns that `when` fills: a time as it was told, or a delay.
pub(super) fn split(when: When) -> (Option<Time>, Option<Delay>) {
    match when {
        When::Never => (None, None),
        When::At(time) => (Some(Time(time)), None),
        When::In(delay) => (None, Some(Delay(delay))),
    }
}

impl From<std::time::Duration> for Delay {
    fn from(delay: std::time::Duration) -> Self {
        Self(delay)
    }
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0.as_micros().saturating_sub(POSTGRES_EPOCH));
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH))))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Delay {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let micros = i64::try_from(self.0.as_micros()).unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY);
        out.put_i64(micros);
        // Days and months, which are not of one length: none.
        out.put_i64(0);
        Ok(IsNull::No)
    }

    accepts!(INTERVAL);
    to_sql_checked!();
}

/// The column `name`.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, Fault> {
    row.try_get(name).map_err(|error| Fault::unreadable(&error))
}

/// The time in the column `name`.
pub(super) fn time(row: &Row, name: &str) -> Result<Timestamp, Fault> {
    get::<Time>(row, name).map(|time| time.0)
}

fn time_option(row: &Row, name: &str) -> Result<Option<Timestamp>, Fault> {
    Ok(get::<Option<Time>>(row, name)?.map(|time| time.0))
}

/// The claim's name.
pub(super) fn claim_id(row: &Row) -> Result<ClaimId, Fault> {
    Ok(ClaimId {
        tenant: get(row, "tenant_id")?,
        service: get(row, "service")?,
        tool: get(row, "tool")?,
        key: get(row, "idempotency_key")?,
    })
}

/// The claim; none where an outer join found none.
pub(super) fn claim(row: &Row) -> Result<Option<Claim>, Fault> {
    let Some(revision) = get::<Option<i64>>(row, "revision")? else {
        return Ok(None);
    };
    let status: &str = get(row, "status")?;
    let attempt: &str = get(row, "attempt")?;
    Ok(Some(Claim {
        user: get(row, "user_id")?,
        args_hash: get(row, "args_hash")?,
        status: word(status, Status::from_word(status))?,
        revision,
        attempt_id: get(row, "attempt_id")?,
        facts: serde_json::from_str(attempt).map_err(|error| Fault::Corrupt(format!("attempt: {error}")))?,
        round: Round::from_column(get(row, "round_hash")?),
        lease_until: time_option(row, "lease_until")?,
        attempt_until: time_option(row, "attempt_until")?,
        first_sent_at: time_option(row, "first_sent_at")?,
        response: get::<Option<&[u8]>>(row, "response")?.map(Bytes::copy_from_slice),
        created_at: time(row, "created_at")?,
        settled_at: time_option(row, "settled_at")?,
        expires_at: time_option(row, "expires_at")?,
    }))
}

/// The audit row.
pub(super) fn event(row: &Row) -> Result<RecordedEvent, Fault> {
    let decision: &str = get(row, "decision")?;
    let executed: &str = get(row, "executed")?;
    let facts = Facts {
        tenant_id: get(row, "tenant_id")?,
        service: get(row, "service")?,
        user_id: get(row, "user_id")?,
        session_id: get(row, "session_id")?,
        tool: get(row, "tool")?,
        args_hash: get(row, "args_hash")?,
        args: get(row, "args")?,
        idempotency_key: get(row, "idempotency_key")?,
        forwarded_key: None,
        handed_out: None,
        span_id: None,
        attempt_id: get(row, "attempt_id")?,
        policy_version: get(row, "policy_version")?,
        trace_id: get(row, "trace_id")?,
        protocol: get(row, "protocol")?,
        client: get(row, "client")?,
    };
    Ok(RecordedEvent {
        at: time(row, "at")?,
        event: AuditEvent {
            id: get::<Uuid>(row, "id")?,
            facts,
            decision: word(decision, Decision::from_word(decision))?,
            reason: get(row, "reason")?,
            result_summary: get(row, "result_summary")?,
            duration_ms: get(row, "duration_ms")?,
            executed: word(executed, Executed::from_word(executed))?,
            upstream_status: get::<Option<i32>>(row, "upstream_status")?
                .and_then(|status| u16::try_from(status).ok()),
        },
    })
}

/// The count; none where an outer join found none.
pub(super) fn tally(row: &Row) -> Result<Option<Tally>, Fault> {
    let Some(from) = time_option(row, "piece")? else { return Ok(None) };
    let decision: &str = get(row, "decision")?;
    Ok(Some(Tally {
        from,
        decision: word(decision, Decision::from_word(decision))?,
        is_unclear: get(row, "is_unclear")?,
        rows: u64::try_from(get::<i64>(row, "tally")?).unwrap_or(0),
    }))
}

fn word<T>(found: &str, known: Option<T>) -> Result<T, Fault> {
    known.ok_or_else(|| Fault::Corrupt(format!("the word {found}")))
}
