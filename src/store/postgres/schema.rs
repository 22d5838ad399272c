//! Whether the schema fits, and bringing it up.
//!
//! Promises: however many start at once, each step is taken once, and all of a run or nothing of it; a second run
//! changes nothing.

use std::time::Duration;

use tokio_postgres::{Client, IsolationLevel};

use super::PostgresStore;
use super::columns::{self, Params};
use super::connections::within;
use super::fault::Fault;
use super::statements::{STATEMENT, query};
use crate::store::Schema;
use crate::store::migrations::{NEEDED, POSTGRES, POSTGRES_GATE_ROLE};

/// How long a migration may take: an index over a large table takes its time.
const MIGRATION: Duration = Duration::from_hours(1);

/// Held until the transaction ends, so that a pooler in transaction mode does not matter. The number is "oncegate".
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(8029464472825459813)";

/// How often a migration that clashed with another session is begun anew.
const TRIES: u32 = 5;

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

pub(super) async fn migrate(store: &PostgresStore) -> Result<i64, Fault> {
    let mut tries = 0;
    loop {
        tries += 1;
        let mut client = store.connections.get().await?;
        let told = within(MIGRATION, bring_up(&mut client)).await;
        if let Err(fault) = &told
            && fault.ends_connection()
        {
            store.connections.give_up(client, fault);
        }
        match told {
            Err(Fault::Clash(_)) if tries < TRIES => {}
            told => return told,
        }
    }
}

async fn bring_up(client: &mut Client) -> Result<i64, tokio_postgres::Error> {
    // READ COMMITTED: whoever waited for the lock must see what its holder did.
    let level = IsolationLevel::ReadCommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    transaction.batch_execute(ONE_AT_A_TIME).await?;
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
    let mut version = first::<Option<i64>>(&transaction, newest).await?.flatten().unwrap_or(0);
    for step in POSTGRES.iter().filter(|step| step.version > version) {
        transaction.batch_execute(step.sql).await?;
        let done = format!("INSERT INTO oncegate.schema_version (version) VALUES ({})", step.version);
        transaction.batch_execute(&done).await?;
    }
    version = version.max(NEEDED);
    let role = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'oncegate_gate')";
    if first::<bool>(&transaction, role).await?.unwrap_or(false) {
        transaction.batch_execute(POSTGRES_GATE_ROLE).await?;
    }
    transaction.commit().await?;
    Ok(version)
}

async fn first<T: for<'a> tokio_postgres::types::FromSql<'a>>(
    transaction: &tokio_postgres::Transaction<'_>,
    question: &str,
) -> Result<Option<T>, tokio_postgres::Error> {
    let rows = transaction.query_typed(question, &[]).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}
