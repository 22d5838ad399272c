//! The statements that a worker sends, and what came of them.
//!
//! Promises: each is one round trip; a write that the statement's snapshot cannot judge is looked at again.

use std::time::Duration;

use futures_util::TryStreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::columns::{self, Params, Time, split};
use super::connections::within;
use super::fault::Fault;
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::{Claim, ClaimId, Draft, Expect};
use crate::domain::time::{Timestamp, When};
use crate::store::op::{Judged, judge};
use crate::store::text::{held, held_option, indexed};
use crate::store::{Seen, StoreError, Swap, Write};

/// How long the server may take for one statement.
pub(super) const STATEMENT: Duration = Duration::from_secs(4);

/// Sends one unnamed statement with typed parameters and reads its rows, all within `limit`: one round trip.
pub(super) async fn query(
    client: &Client,
    limit: Duration,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>, Fault> {
    within(limit, async { client.query_typed_raw(sql, params.into_typed()).await?.try_collect().await }).await
}

/// What came of one write of a group; none where the row that was in the way is gone again.
pub(super) type Told = Option<Result<Swap, StoreError>>;

/// Applies the writes that find what they expect, and writes down their events and `appends`.
pub(super) async fn swap(
    client: &Client,
    writes: &[&Write],
    appends: &[&AuditEvent],
) -> Result<Vec<Told>, Fault> {
    if writes.is_empty() {
        let mut params = Params::default();
        add_events(&mut params, appends.iter().map(|event| (None, *event)).collect());
        query(client, STATEMENT, include_str!("sql/append.sql"), params).await?;
        return Ok(Vec::new());
    }
    let (sql, params) = swap_statement(writes, appends);
    let rows = query(client, STATEMENT, &sql, params).await?;
    let mut told = Vec::with_capacity(writes.len());
    let mut stale = Vec::new();
    for (place, (write, row)) in writes.iter().zip(&rows).enumerate() {
        let now = columns::time(row, "now")?;
        if columns::get(row, "applied")? {
            told.push(Some(Ok(Swap::Applied { now })));
            continue;
        }
        let judged = verdict(write, columns::claim(row), now)?;
        if judged.is_none() {
            stale.push(place);
        }
        told.push(judged);
    }
    if !stale.is_empty() {
        look_again(client, writes, &stale, &mut told).await?;
    }
    Ok(told)
}

/// Under READ COMMITTED a statement neither inserts over, nor sees, a row that another committed while it ran.
async fn look_again(
    client: &Client,
    writes: &[&Write],
    stale: &[usize],
    told: &mut [Told],
) -> Result<(), Fault> {
    let again: Vec<&Write> = stale.iter().filter_map(|place| writes.get(*place).copied()).collect();
    let ids: Vec<&ClaimId> = again.iter().map(|write| &write.id).collect();
    let seen = read(client, &ids).await?;
    for ((place, write), seen) in stale.iter().zip(again).zip(seen) {
        if let Some(slot) = told.get_mut(*place) {
            *slot = match seen {
                Ok(seen) => verdict(write, Ok(seen.row), seen.now)?,
                Err(error) => Some(Err(error)),
            };
        }
    }
    Ok(())
}

fn verdict(write: &Write, row: Result<Option<Claim>, Fault>, now: Timestamp) -> Result<Told, Fault> {
    match row {
        Ok(row) => Ok(match judge(write, row, now) {
            Judged::Swap(swap) => Some(Ok(swap)),
            Judged::Stale => None,
        }),
        // One row that cannot be read is the trouble of whoever asked for it.
        Err(Fault::Corrupt(what)) => Ok(Some(Err(StoreError::Corrupt(what)))),
        Err(other) => Err(other),
    }
}

/// The claims as they stand, in the order asked.
pub(super) async fn read(client: &Client, ids: &[&ClaimId]) -> Result<Vec<Result<Seen, StoreError>>, Fault> {
    let mut params = Params::default();
    add_names(&mut params, ids);
    let rows = query(client, STATEMENT, include_str!("sql/read.sql"), params).await?;
    let seen = |row| Ok(Seen { row: columns::claim(row)?, now: columns::time(row, "now")? });
    Ok(rows.iter().map(|row| seen(row).map_err(|fault: Fault| fault.error())).collect())
}

fn add_names<'a>(params: &mut Params<'a>, ids: &[&'a ClaimId]) {
    params.many(Type::TEXT_ARRAY, ids.iter().map(|id| held(&id.tenant)));
    params.many(Type::TEXT_ARRAY, ids.iter().map(|id| held(&id.service)));
    params.many(Type::TEXT_ARRAY, ids.iter().map(|id| held(&id.tool)));
    params.many(Type::TEXT_ARRAY, ids.iter().map(|id| held(&id.key)));
}

/// The statement for a group, of the parts that it needs.
fn swap_statement<'a>(writes: &[&'a Write], appends: &[&'a AuditEvent]) -> (String, Params<'a>) {
    let of_writes = (1..).zip(writes).filter_map(|(n, write)| Some((Some(n), write.event.as_ref()?)));
    let events: Vec<_> = of_writes.chain(appends.iter().map(|event| (None, *event))).collect();
    let absent = writes.iter().filter(|write| write.expect == Expect::Absent).count();
    let (some_made, some_moved) = (absent > 0, absent < writes.len());

    let mut sql = include_str!("sql/swap/1_writes.sql").to_owned();
    if some_made {
        sql += include_str!("sql/swap/2_made.sql");
    }
    if some_moved {
        sql += include_str!("sql/swap/3_moved.sql");
    }
    sql += match (some_made, some_moved) {
        (true, false) => ", applied AS (SELECT n FROM made_n)\n",
        (false, _) => ", applied AS (SELECT n FROM moved)\n",
        (true, true) => ", applied AS (SELECT n FROM made_n UNION ALL SELECT n FROM moved)\n",
    };
    let mut params = Params::default();
    add_writes(&mut params, writes);
    if !events.is_empty() {
        sql += include_str!("sql/swap/4_told.sql");
        add_events(&mut params, events);
    }
    sql += include_str!("sql/swap/5_answer.sql");
    (sql, params)
}

fn add_writes<'a>(params: &mut Params<'a>, writes: &[&'a Write]) {
    let ids: Vec<&ClaimId> = writes.iter().map(|write| &write.id).collect();
    add_names(params, &ids);
    let expects = writes.iter().map(|write| match write.expect {
        Expect::Absent => None,
        Expect::Revision(revision) => Some(revision),
    });
    params.many(Type::INT8_ARRAY, expects);
    let drafts: Vec<&Draft> = writes.iter().map(|write| &write.next).collect();
    params.many(Type::TEXT_ARRAY, drafts.iter().map(|draft| held(&draft.user)));
    params.many(Type::TEXT_ARRAY, drafts.iter().map(|draft| held(&draft.args_hash)));
    params.many(Type::TEXT_ARRAY, drafts.iter().map(|draft| draft.status.as_str()));
    params.many(Type::UUID_ARRAY, drafts.iter().map(|draft| draft.attempt_id));
    // JSON text has its own escape for a NUL.
    params.many(Type::TEXT_ARRAY, drafts.iter().map(|draft| facts_json(draft)));
    params.many(Type::TEXT_ARRAY, drafts.iter().map(|draft| draft.round.to_column()));
    params.many(Type::BYTEA_ARRAY, drafts.iter().map(|draft| draft.response.as_deref()));
    params.many(Type::TIMESTAMPTZ_ARRAY, drafts.iter().map(|draft| draft.created_at.map(Time)));
    let times: [fn(&Draft) -> When; 5] = [
        |draft| draft.lease_until,
        |draft| draft.attempt_until,
        |draft| draft.first_sent_at,
        |draft| draft.settled_at,
        |draft| draft.expires_at,
    ];
    for when in times {
        params.many(Type::TIMESTAMPTZ_ARRAY, drafts.iter().map(|draft| split(when(draft)).0));
        params.many(Type::INTERVAL_ARRAY, drafts.iter().map(|draft| split(when(draft)).1));
    }
}

fn facts_json(draft: &Draft) -> String {
    serde_json::to_string(&draft.facts).unwrap_or_default()
}

fn add_events<'a>(params: &mut Params<'a>, events: Vec<(Option<i64>, &'a AuditEvent)>) {
    let (places, events): (Vec<_>, Vec<&AuditEvent>) = events.into_iter().unzip();
    let facts = || events.iter().map(|event| &event.facts);
    params.one(Type::INT8_ARRAY, places);
    params.many(Type::UUID_ARRAY, events.iter().map(|event| event.id));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held(&facts.tenant_id)));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held(&facts.service)));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held(&facts.user_id)));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.session_id.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| indexed(&facts.tool)));
    params.many(Type::TEXT_ARRAY, events.iter().map(|event| event.decision.as_str()));
    params.many(Type::TEXT_ARRAY, events.iter().map(|event| held_option(event.reason.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.args_hash.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.args.as_ref())));
    params.many(Type::TEXT_ARRAY, events.iter().map(|event| held_option(event.result_summary.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| facts.idempotency_key.as_deref().map(indexed)));
    params.many(Type::INT8_ARRAY, events.iter().map(|event| event.duration_ms));
    params.many(Type::UUID_ARRAY, facts().map(|facts| facts.attempt_id));
    params.many(Type::TEXT_ARRAY, events.iter().map(|event| event.executed.as_str()));
    params.many(Type::INT4_ARRAY, events.iter().map(|event| event.upstream_status.map(i32::from)));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.policy_version.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.trace_id.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.protocol.as_ref())));
    params.many(Type::TEXT_ARRAY, facts().map(|facts| held_option(facts.client.as_ref())));
}
