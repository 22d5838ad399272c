//! Whether the schema fits, and bringing it up.
//!
//! Promises: however many start at once, each step is taken once; a run that ends early leaves a schema that serves as
//! before, and the next one goes on; a second run changes nothing. Nobody who writes waits for longer than [`BRIEFLY`]
//! says: a lock that is not to be had is asked for again, with pauses in which others go first.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, IsolationLevel};

use super::columns::{self, Params};
use super::connections::within;
use super::fault::Fault;
use super::statements::{STATEMENT, query};
use super::{PostgresStore, preparing};
use crate::store::migrations::{NEEDED, PARTITIONS, POSTGRES, POSTGRES_GATE_ROLE};
use crate::store::{MigrationNews, Schema};

/// How long a migration may take: an index over a large table takes its time.
pub(super) const MIGRATION: Duration = Duration::from_hours(6);

/// Who hears how it gets on.
pub(super) type News<'a> = &'a (dyn Fn(MigrationNews) + Send + Sync);

/// Held until the transaction ends, so that a pooler in transaction mode does not matter. The number is "oncegate".
pub(super) const LOCK: i64 = 8_029_464_472_825_459_813;

/// How long a lock may be waited for; whoever writes waits behind, meanwhile. Until the transaction ends.
pub(super) const BRIEFLY: &str = "SET LOCAL lock_timeout = '300ms'";

/// How long it is tried, where others hold what is needed: a dump of the database, most likely.
const PATIENCE: Duration = Duration::from_mins(30);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(700);

pub(super) async fn schema(store: &PostgresStore) -> Result<Schema, Fault> {
    let mut client = store.connections.get().await?;
    let mut told = found(&client).await;
    if let Err(fault) = &told
        && fault.ends_connection()
    {
        store.connections.give_up(client, fault);
        client = store.connections.get().await?;
        told = found(&client).await;
    }
    Ok(match told? {
        None => Schema::Missing,
        Some(found) if found < NEEDED => Schema::Older { found, needed: NEEDED },
        Some(_) => Schema::Fits,
    })
}

async fn found(client: &Client) -> Result<Option<i64>, Fault> {
    let there = "SELECT to_regclass('oncegate.schema_version') IS NOT NULL AS there";
    if !is_true(client, there).await? {
        return Ok(None);
    }
    version(client).await
}

async fn version(client: &Client) -> Result<Option<i64>, Fault> {
    let newest = "SELECT max(version) AS version FROM oncegate.schema_version";
    let rows = query(client, STATEMENT, newest, Params::default()).await?;
    rows.first().map_or(Ok(None), |row| columns::get(row, "version"))
}

async fn is_true(client: &Client, question: &str) -> Result<bool, Fault> {
    let rows = query(client, STATEMENT, question, Params::default()).await?;
    rows.first().map_or(Ok(false), |row| columns::get(row, "there"))
}

pub(super) async fn migrate(store: &PostgresStore, tell: News<'_>) -> Result<i64, Fault> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let mut client = store.connections.get().await?;
        let mut told = within(MIGRATION, bring_up(&mut client, tell)).await;
        if let Ok(Went::NotReady) = told {
            told = preparing::prepare(store, &client, tell).await.map(|()| Went::NotReady);
        }
        if let Err(fault) = &told
            && fault.ends_connection()
        {
            store.connections.give_up(client, fault);
        }
        match told {
            Ok(Went::Up(version)) => return Ok(version),
            Ok(Went::NotReady) => {}
            Err(Fault::Clash(_)) if Instant::now() < patience => {
                tell(MigrationNews::Waiting);
                sleep(PAUSE).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// What a run came to.
enum Went {
    /// The schema is at this version.
    Up(i64),
    /// The next step needs something made ready first, outside of a transaction. Nothing was changed.
    NotReady,
}

async fn bring_up(client: &mut Client, tell: News<'_>) -> Result<Went, tokio_postgres::Error> {
    // READ COMMITTED: whoever waited for the lock must see what its holder did.
    let level = IsolationLevel::ReadCommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    transaction.batch_execute(BRIEFLY).await?;
    // Asked first: CREATE SCHEMA IF NOT EXISTS wants the right to create one even where it exists.
    let there = "SELECT to_regnamespace('oncegate') IS NOT NULL";
    if !first::<bool>(&transaction, there).await?.unwrap_or(false) {
        transaction.batch_execute("CREATE SCHEMA oncegate").await?;
    }
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS oncegate.schema_version (
                version    bigint      PRIMARY KEY,
                applied_at timestamptz NOT NULL DEFAULT now()
            )",
        )
        .await?;
    let newest = "SELECT max(version) FROM oncegate.schema_version";
    let found = first::<Option<i64>>(&transaction, newest).await?.flatten().unwrap_or(0);
    for step in POSTGRES.iter().filter(|step| step.version > found) {
        if step.version == PARTITIONS && !preparing::is_ready(&transaction).await? {
            return transaction.rollback().await.map(|()| Went::NotReady);
        }
        transaction.batch_execute(step.sql).await?;
        let done = format!("INSERT INTO oncegate.schema_version (version) VALUES ({})", step.version);
        transaction.batch_execute(&done).await?;
        tell(MigrationNews::Step(step.version));
    }
    let role = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'oncegate_gate')";
    if first::<bool>(&transaction, role).await?.unwrap_or(false) {
        transaction.batch_execute(POSTGRES_GATE_ROLE).await?;
    }
    transaction.commit().await?;
    Ok(Went::Up(found.max(NEEDED)))
}

pub(super) async fn first<T: for<'a> tokio_postgres::types::FromSql<'a>>(
    transaction: &tokio_postgres::Transaction<'_>,
    question: &str,
) -> Result<Option<T>, tokio_postgres::Error> {
    let rows = transaction.query_typed(question, &[]).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}
