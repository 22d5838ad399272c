//! What a large audit table needs before it becomes a partition: an index, and the proof that its ids end somewhere.
//!
//! Promises: both are made beside the writers, who wait for neither; whatever was interrupted is found and gone on with.
//! A small table needs nothing of this: it is looked through in the step itself.
//!
//! The proof is a constraint, and for the time between its making and the step it would refuse ids beyond its bound. So
//! the bound lies weeks ahead ([`LEAD`]): a migration that died must be run again before that, and tells so.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::{Client, Transaction};

use super::PostgresStore;
use super::columns::{self, Params};
use super::connections::within;
use super::fault::Fault;
use super::schema::{BRIEFLY, LOCK, MIGRATION, News, first};
use super::statements::{STATEMENT, query};
use crate::store::MigrationNews;

/// How far ahead the bound is at least, when it is made.
const LEAD: &str = "interval '35 days'";

/// A bound that is nearer than this is made anew.
const NEAR: &str = "interval '14 days'";

/// How many rows are few.
const FEW: i64 = 20_000;

/// Between two looks at how it gets on.
const LOOK: Duration = Duration::from_millis(500);

/// Whether the partitions' step can be taken now.
pub(super) async fn is_ready(transaction: &Transaction<'_>) -> Result<bool, tokio_postgres::Error> {
    let few = format!(
        "SELECT count(*) <= {FEW} FROM (SELECT FROM oncegate.audit_events LIMIT {FEW} + 1) AS looked_at"
    );
    if first::<bool>(transaction, &few).await?.unwrap_or(false) {
        return Ok(true);
    }
    let ready = format!("SELECT ({INDEX}) = 'valid' AND ({BOUND}) = 'checked'").replace("{NEAR}", NEAR);
    Ok(first::<bool>(transaction, &ready).await?.unwrap_or(false))
}

/// How the index stands.
const INDEX: &str = "SELECT coalesce((
    SELECT CASE
        WHEN i.indisvalid THEN 'valid'
        WHEN EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid) THEN 'building'
        ELSE 'broken'
    END
    FROM pg_index AS i WHERE i.indexrelid = to_regclass('oncegate.audit_events_first_newest')), 'missing')";

/// How the bound stands. Ids begin with a time, in hexadecimal digits.
const BOUND: &str = "SELECT coalesce((
    SELECT CASE
        WHEN translate(substring(pg_get_constraintdef(c.oid) FROM '[0-9a-f-]{36}'), '-', '') COLLATE \"C\"
            < lpad(to_hex((extract(epoch FROM now() + {NEAR}) * 1000)::bigint), 12, '0') THEN 'near'
        WHEN c.convalidated THEN 'checked'
        ELSE 'unchecked'
    END
    FROM pg_constraint AS c
    WHERE c.conrelid = to_regclass('oncegate.audit_events') AND c.conname = 'audit_events_bound'), 'missing')";

/// Takes the next of what is missing; called until nothing is.
pub(super) async fn prepare(store: &PostgresStore, client: &Client, tell: News<'_>) -> Result<(), Fault> {
    match asked(client, INDEX).await?.as_str() {
        "valid" => {}
        "building" => {
            tell(progress(client).await?);
            sleep(LOOK).await;
            return Ok(());
        }
        "broken" => {
            let away = "DROP INDEX CONCURRENTLY IF EXISTS oncegate.audit_events_first_newest";
            return within(MIGRATION, client.batch_execute(away)).await;
        }
        _missing => return build(store, client, tell).await,
    }
    tell(MigrationNews::Checking);
    if asked(client, &BOUND.replace("{NEAR}", NEAR)).await? != "unchecked" {
        bind(client).await?;
    }
    alone(client, "ALTER TABLE oncegate.audit_events VALIDATE CONSTRAINT audit_events_bound").await
}

/// Builds the index beside the writers, and says how far it is.
async fn build(store: &PostgresStore, client: &Client, tell: News<'_>) -> Result<(), Fault> {
    let index =
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_events_first_newest ON oncegate.audit_events (at, id)";
    let building = within(MIGRATION, client.batch_execute(index));
    tokio::pin!(building);
    loop {
        tokio::select! {
            built = &mut building => return built,
            () = sleep(LOOK) => {}
        }
        // On a connection of its own, where there is one.
        if let Ok(other) = store.connections.get().await
            && let Ok(news) = progress(&other).await
        {
            tell(news);
        }
    }
}

/// How far the index is.
async fn progress(client: &Client) -> Result<MigrationNews, Fault> {
    let question = "SELECT greatest(tuples_done, 0) AS done, greatest(tuples_total, 0) AS total,
            greatest(blocks_done, 0) AS blocks_done, greatest(blocks_total, 1) AS blocks_total,
            greatest(c.reltuples, 0)::bigint AS rows
        FROM pg_stat_progress_create_index AS p
        JOIN pg_class AS c ON c.oid = p.relid
        WHERE p.relid = to_regclass('oncegate.audit_events')";
    let rows = query(client, STATEMENT, question, Params::default()).await?;
    let Some(row) = rows.first() else { return Ok(MigrationNews::Checking) };
    let number =
        |name| -> Result<u64, Fault> { Ok(u64::try_from(columns::get::<i64>(row, name)?).unwrap_or(0)) };
    // First the table is read, then the index is written: rows count in the second half only.
    let total = number("rows")?.max(number("total")?);
    let read = u128::from(total) * u128::from(number("blocks_done")?) / u128::from(number("blocks_total")?);
    let done = if number("total")? > 0 { number("done")? } else { u64::try_from(read).unwrap_or(total) };
    Ok(MigrationNews::Indexing { done, total })
}

/// Bounds the ids, not looking at the rows yet; a moment's lock.
async fn bind(client: &Client) -> Result<(), Fault> {
    let bound = format!(
        "SELECT lpad(to_hex((extract(epoch FROM
            date_trunc('week', greatest(now() + {LEAD}, to_timestamp(
                ('x' || substr(translate(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)), 'UTC')
                + interval '168 hours') * 1000)::bigint), 12, '0') || repeat('0', 20) AS told
        FROM (SELECT id FROM oncegate.audit_events ORDER BY id DESC LIMIT 1) AS newest"
    );
    let found = within(MIGRATION, async { client.query_typed(&bound, &[]).await }).await?;
    let Some(row) = found.first() else { return Ok(()) };
    let bound: String = columns::get(row, "told")?;
    let change = format!(
        "ALTER TABLE oncegate.audit_events DROP CONSTRAINT IF EXISTS audit_events_bound,
            ADD CONSTRAINT audit_events_bound CHECK (id < '{bound}'::uuid) NOT VALID"
    );
    alone(client, &change).await
}

/// Changes the table while no other migration does anything, unless one has made it a partition meanwhile.
async fn alone(client: &Client, change: &str) -> Result<(), Fault> {
    let change = format!(
        "DO $alone$ BEGIN
            PERFORM pg_advisory_xact_lock({LOCK});
            {BRIEFLY};
            IF (SELECT relkind FROM pg_class WHERE oid = 'oncegate.audit_events'::regclass) = 'r' THEN
                {change};
            END IF;
        END $alone$"
    );
    within(MIGRATION, client.batch_execute(&change)).await
}

async fn asked(client: &Client, question: &str) -> Result<String, Fault> {
    let question = format!("SELECT ({question}) AS told");
    let rows = query(client, STATEMENT, &question, Params::default()).await?;
    rows.first().map_or(Ok(String::new()), |row| columns::get(row, "told"))
}
