//! The audit's partitions on Postgres: how an older schema comes to them, and who makes and drops them.
//!
//! Promises tested: `docs/retention.md`; DESIGN section 6, roles.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::AuditEvent;
use oncegate::store::{
    AuditAge, AuditKept, Floor, MigrationNews, Role, Schema, Store, StoreOptions, event_id, open,
};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::postgres::{gate_login, serving, session};
use super::samples::{Place, Site, event, store_on, told};
use crate::harness::setup::Home;
use crate::harness::{eventually, in_time};

const FIRST: &str = include_str!("../../../src/store/migrations/postgres/0001_claims_and_audit.sql");

const DAY: Duration = Duration::from_hours(24);

/// A schema as the first release made it, with so many audit rows, one each minute until now.
async fn first_schema(place: &Place, rows: u32) -> Client {
    let owner = session(&place.direct()).await;
    owner.batch_execute("CREATE SCHEMA oncegate").await.expect("a schema");
    owner.batch_execute(FIRST).await.expect("the first step");
    let version = "CREATE TABLE oncegate.schema_version (version bigint PRIMARY KEY, applied_at timestamptz DEFAULT now());
        INSERT INTO oncegate.schema_version VALUES (1)";
    owner.batch_execute(version).await.expect("its version");
    fill(&owner, rows, "interval '1 minute'").await;
    owner
}

/// Puts rows into the audit, `apart` of each other, the newest made now.
async fn fill(owner: &Client, rows: u32, apart: &str) {
    let fill = format!(
        "INSERT INTO oncegate.audit_events (id, at, tenant_id, service, user_id, tool, decision, executed)
        SELECT (lpad(to_hex((extract(epoch FROM now() - n * {apart}) * 1000)::bigint), 12, '0')
                || '7' || substr(md5(n::text), 1, 19))::uuid,
            now() - n * {apart}, 'acme', 'billing', 'u1', 'refund_order', 'allowed', 'yes'
        FROM generate_series(1, {rows}) AS n"
    );
    owner.batch_execute(&fill).await.expect("rows");
}

async fn number(owner: &Client, question: &str) -> i64 {
    owner.query_one(question, &[]).await.expect("the server answers").get(0)
}

async fn count(owner: &Client) -> i64 {
    number(owner, "SELECT count(*) FROM oncegate.audit_events").await
}

async fn parts(owner: &Client) -> Vec<String> {
    let rows = owner.query("SELECT part FROM oncegate.audit_partitions() ORDER BY high", &[]).await;
    rows.expect("the server answers").iter().map(|row| row.get(0)).collect()
}

/// The gate of the first release: its statements name the same columns and the same key. It ends with the token.
fn writer(store: Arc<dyn Store>, ended: CancellationToken) -> tokio::task::JoinHandle<Vec<AuditEvent>> {
    tokio::spawn(async move {
        let mut written = Vec::new();
        while !ended.is_cancelled() {
            let one = event(&format!("w{}", written.len()));
            in_time("a row", store.append(one.clone())).await.expect("it is written");
            // Again, as after an answer that got lost.
            in_time("a row", store.append(one.clone())).await.expect("it is there already");
            written.push(one);
        }
        written
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filled_audit_becomes_partitions_while_the_earlier_release_writes_and_no_row_is_lost() {
    for (site, rows) in [
        (Site::In(Home::Postgres), 3_000),
        (Site::In(Home::Postgres), 30_000),
        (Site::BehindPgBouncer, 30_000),
    ] {
        let place = Place::on(site).await;
        let owner = first_schema(&place, rows).await;
        owner.batch_execute("GRANT SELECT ON oncegate.audit_events TO pg_monitor").await.expect("a grant");
        let ended = CancellationToken::new();
        let writing = writer(serving(&place.url).await, ended.clone());
        // The writer is at it before, during and after.
        let wrote = async |more: i64| {
            let before = count(&owner).await;
            eventually("rows", async || (count(&owner).await >= before + more).then_some(())).await;
        };
        wrote(20).await;
        let pods: Vec<_> = (0..3)
            .map(|_| {
                let url = place.url.clone();
                tokio::spawn(async move {
                    let store = open(&url, StoreOptions::new(Role::Inspect)).await.expect("a store");
                    store.migrate().await.expect("a schema")
                })
            })
            .collect();
        for pod in pods {
            assert_eq!(in_time("a migration", pod).await.expect("it does not panic"), 2);
        }
        wrote(20).await;
        ended.cancel();
        let written = in_time("the writer", writing).await.expect("it does not panic");
        let whole = i64::from(rows) + i64::try_from(written.len()).expect("not so many");
        assert_eq!(count(&owner).await, whole, "{site:?}");
        // The first reaches to the end of this week, or for some weeks where it was made ready beforehand.
        let made = parts(&owner).await;
        assert_eq!(made.len(), if rows > 20_000 { 2 } else { 6 }, "{made:?}");
        let question =
            "SELECT has_table_privilege('pg_monitor', 'oncegate.audit_events', 'SELECT')::int::bigint";
        assert_eq!(number(&owner, question).await, 1, "what was granted still is");
        let store = serving(&place.url).await;
        let later = AuditEvent { id: id_in(21 * DAY), ..event("later") };
        store.append(later).await.expect("it is written");
        let first = "SELECT count(*) FROM oncegate.audit_events_first WHERE idempotency_key = 'later'";
        assert_eq!(number(&owner, first).await, i64::from(rows > 20_000), "{site:?}");
    }
}

/// An id that a gate makes so much later.
fn id_in(later: Duration) -> Uuid {
    let (seconds, nanos) = now();
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds + later.as_secs(), nanos))
}

/// One that a gate made so long ago, as a spool keeps it.
fn id_before(earlier: Duration) -> Uuid {
    let (seconds, nanos) = now();
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds - earlier.as_secs(), nanos))
}

/// As the gate's ids have it.
fn now() -> (u64, u32) {
    event_id().get_timestamp().expect("a time-ordered id").to_unix()
}

#[tokio::test]
async fn a_migration_that_was_interrupted_anywhere_serves_as_before_and_goes_on() {
    let left = [
        // An index whose building was given up, and one that is whole.
        "CREATE INDEX audit_events_first_newest ON oncegate.audit_events (at, id);
        UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = 'oncegate.audit_events_first_newest'::regclass",
        "CREATE INDEX audit_events_first_newest ON oncegate.audit_events (at, id)",
        // A bound that nobody checked, and one that is too near by now.
        "ALTER TABLE oncegate.audit_events ADD CONSTRAINT audit_events_bound
            CHECK (id < '01ffffff-0000-0000-0000-000000000000') NOT VALID",
        "ALTER TABLE oncegate.audit_events ADD CONSTRAINT audit_events_bound
            CHECK (id < '01a22000-0000-0000-0000-000000000000') NOT VALID",
    ];
    for begun in left {
        let place = Place::on(Home::Postgres).await;
        let owner = first_schema(&place, 25_000).await;
        owner.batch_execute(begun).await.expect("what was begun");
        let store = serving(&place.url).await;
        assert_eq!(store.schema().await.expect("it answers"), Schema::Older { found: 1, needed: 2 });
        assert_eq!(store.migrate().await.expect("it goes on"), 2);
        assert_eq!((count(&owner).await, parts(&owner).await.len()), (25_000, 2));
        let bound = "SELECT count(*) FROM pg_constraint WHERE conname = 'audit_events_bound'";
        assert_eq!(number(&owner, bound).await, 0, "the bound has done its work");
    }
}

#[tokio::test]
async fn a_migration_waits_for_a_reader_and_no_writer_waits_for_the_migration() {
    let place = Place::on(Home::Postgres).await;
    let owner = first_schema(&place, 10).await;
    let reader = session(&place.url).await;
    reader.batch_execute("BEGIN; SELECT FROM oncegate.audit_events LIMIT 1").await.expect("a long look");
    let store = serving(&place.url).await;
    let (waits, waited) = tokio::sync::watch::channel(0);
    let migrating = tokio::spawn({
        let store = serving(&place.url).await;
        async move {
            let tell = |news| waits.send_modify(|n| *n += u32::from(news == MigrationNews::Waiting));
            store.migrate_telling(&tell).await.expect("a schema")
        }
    });
    // While it waits in turns, rows go in between: none asks twice for its lock.
    let mut rounds = waited.clone();
    for round in 1..=3 {
        in_time("a round", rounds.wait_for(|n| *n >= round)).await.expect("it goes on");
        store.append(event(&format!("w{round}"))).await.expect("it is written");
    }
    assert_eq!(number(&owner, "SELECT max(version) FROM oncegate.schema_version").await, 1);
    reader.batch_execute("COMMIT").await.expect("it has seen enough");
    assert_eq!(in_time("the migration", migrating).await.expect("it does not panic"), 2);
    assert_eq!(count(&owner).await, 13);
}

/// A week that began so long ago, with rows as old.
async fn old_week(owner: &Client, days: u32, rows: u32) {
    let make =
        format!("SELECT oncegate.make_audit_week(date_trunc('week', now() - interval '{days} days', 'UTC'))");
    owner.batch_execute(&make).await.expect("a week");
    fill_at(owner, days, rows).await;
}

/// Rows whose ids are of that week, and that were written then.
async fn fill_at(owner: &Client, days: u32, rows: u32) {
    let fill = format!(
        "INSERT INTO oncegate.audit_events (id, at, tenant_id, service, user_id, tool, decision, executed)
        SELECT (left(oncegate.uuid_at(date_trunc('week', now() - interval '{days} days', 'UTC'))::text, 13)
                || '-7' || substr(md5('{days}' || n::text), 1, 3) || '-8' || substr(md5(n::text), 1, 3) || '-'
                || substr(md5(n::text), 4, 12))::uuid,
            now() - interval '{days} days', 'acme', 'billing', 'u1', 'refund_order', 'allowed', 'yes'
        FROM generate_series(1, {rows}) AS n"
    );
    owner.batch_execute(&fill).await.expect("rows");
}

/// One step of the upkeep; of nobody else's that comes between.
async fn step(store: &Arc<dyn Store>, days: u64) -> AuditKept {
    let of = AuditAge { keep: Some(Duration::from_hours(24 * days)), batch: 100 };
    store.keep_audit(&of).await.expect("the store answers")
}

async fn site_with_owner() -> (Arc<dyn Store>, Place, Client) {
    let (store, place) = store_on(Site::BehindPgBouncer).await;
    let owner = session(&place.direct()).await;
    (store, place, owner)
}

#[tokio::test]
async fn weeks_are_made_ahead_and_dropped_when_all_their_rows_are_old() {
    let (store, _place, owner) = site_with_owner().await;
    assert_eq!(parts(&owner).await.len(), 6);
    owner.batch_execute("DROP TABLE oncegate.audit_events_other CASCADE").await.expect("it is empty");
    let other = "CREATE TABLE oncegate.audit_events_other PARTITION OF oncegate.audit_events DEFAULT";
    owner.batch_execute(other).await.expect("another");
    for days in [500, 450, 399] {
        old_week(&owner, days, 20).await;
    }
    // Of one week a row came late, out of a spool: by the store's clock it is young.
    let late = AuditEvent { id: id_before(450 * DAY), ..event("late") };
    store.append(late.clone()).await.expect("it is written");
    let due = store.due(Some(400 * DAY)).await.expect("it answers");
    assert_eq!(due.partitions.len(), 1, "{due:?}");

    let told = step(&store, 400).await;
    assert_eq!((told.dropped.as_ref(), told.more), (Some(&due.partitions[0].0), true));
    let told = step(&store, 400).await;
    assert_eq!((told.dropped, told.deleted, told.more, told.busy), (None, 0, false, false));
    assert_eq!(count(&owner).await, 41, "two weeks' rows and the late one");
    let found = super::samples::told(&store, "late").await;
    assert_eq!(found.first().map(|row| row.event.id), Some(late.id));

    // A week goes missing, the present one too: its rows are written all the same, and find it when it is there again.
    let present = "SELECT part FROM oncegate.audit_partitions()
        WHERE low <= oncegate.uuid_at(now()) AND high > oncegate.uuid_at(now())";
    let present: String = owner.query_one(present, &[]).await.expect("it is there").get(0);
    owner.batch_execute(&format!("DROP TABLE oncegate.{present}")).await.expect("it goes");
    store.append(event("astray")).await.expect("it is written");
    assert_eq!(number(&owner, "SELECT count(*) FROM oncegate.audit_events_other").await, 1);
    assert_eq!(step(&store, 400).await.made, 1);
    assert_eq!(number(&owner, &format!("SELECT count(*) FROM oncegate.{present}")).await, 1);
    assert_eq!(told_of(&store, "astray").await, 1);
}

async fn told_of(store: &Arc<dyn Store>, key: &str) -> usize {
    told(store, key).await.len()
}

#[tokio::test]
async fn rows_of_no_week_are_kept_by_their_own_age_and_go_in_batches() {
    let (store, _place, owner) = site_with_owner().await;
    // Ids of a year that never had partitions; written then, or only now.
    fill_at(&owner, 900, 250).await;
    store.append(AuditEvent { id: id_before(900 * DAY), ..event("spooled") }).await.expect("it is written");
    assert_eq!(store.due(Some(400 * DAY)).await.expect("it answers").rows, 250);
    let mut gone = Vec::new();
    loop {
        let told = step(&store, 400).await;
        gone.push(told.deleted);
        if !told.more {
            break;
        }
    }
    assert_eq!(gone, [100, 100, 50]);
    assert_eq!((count(&owner).await, told_of(&store, "spooled").await), (1, 1));
}

#[tokio::test]
async fn the_gates_role_can_neither_delete_nor_shorten_the_audit() {
    let (_, place, owner) = site_with_owner().await;
    let url = gate_login(&owner, &place).await;
    let store = serving(&url).await;
    store.append(event("k")).await.expect("it is written");
    old_week(&owner, 200, 10).await;
    old_week(&owner, 500, 10).await;
    fill_at(&owner, 300, 10).await;

    // Asked for the shortest time, a gate drops what the owner lets go, and no more.
    let of = AuditAge { keep: Some(Duration::ZERO), batch: 1000 };
    let told = store.keep_audit(&of).await.expect("the gate may ask");
    assert!(told.dropped.is_some(), "{told:?}");
    let told = store.keep_audit(&of).await.expect("the gate may ask");
    assert_eq!((told.dropped, told.deleted), (None, 0));
    assert_eq!(count(&owner).await, 21);
    assert_eq!(store.audit_floor().await.expect("it answers"), Floor::At(400 * DAY));
    assert!(store.set_audit_floor(Some(DAY), true).await.is_err());

    let gate = session(&url).await;
    let week = parts(&owner).await.into_iter().find(|part| part.contains("events_20")).expect("a week");
    for change in [
        "DELETE FROM oncegate.audit_events".to_owned(),
        format!("DELETE FROM oncegate.{week}"),
        format!("INSERT INTO oncegate.{week} SELECT * FROM oncegate.audit_events LIMIT 1"),
        format!("DROP TABLE oncegate.{week}"),
        format!("ALTER TABLE oncegate.audit_events DETACH PARTITION oncegate.{week}"),
        "TRUNCATE oncegate.audit_events".to_owned(),
        "UPDATE oncegate.retention SET audit_floor = '1 day'".to_owned(),
        "DELETE FROM oncegate.retention".to_owned(),
        "SELECT oncegate.make_audit_week(now())".to_owned(),
        "CREATE OR REPLACE FUNCTION oncegate.keep_audit(interval, bigint) RETURNS integer LANGUAGE sql AS 'SELECT 1'"
            .to_owned(),
    ] {
        let told = gate.batch_execute(&change).await.expect_err(&change);
        assert_eq!(told.code().map(tokio_postgres::error::SqlState::code), Some("42501"), "{change}");
    }
    // What a session of the gate's puts in the way of names leads nowhere.
    let trap =
        "CREATE TEMP TABLE retention (audit_floor interval); INSERT INTO retention VALUES ('1 second');
        SET search_path = pg_temp, oncegate; SELECT * FROM oncegate.keep_audit('1 second', 1000)";
    gate.batch_execute(trap).await.expect("it may ask");
    assert_eq!(count(&owner).await, 21);

    // The owner may, and says so.
    owner
        .batch_execute("UPDATE oncegate.retention SET audit_floor = '100 days'")
        .await
        .expect("the owner may");
    assert_eq!(store.audit_floor().await.expect("it answers"), Floor::At(100 * DAY));
    while store.keep_audit(&of).await.expect("the gate may ask").more {}
    assert_eq!(count(&owner).await, 1);
    owner.batch_execute("UPDATE oncegate.retention SET audit_floor = NULL").await.expect("the owner may");
    assert_eq!(store.audit_floor().await.expect("it answers"), Floor::Forever);
    assert_eq!(store.keep_audit(&of).await.expect("the gate may ask"), AuditKept::default());
}

#[tokio::test]
async fn a_week_is_dropped_between_a_readers_looks_and_no_row_waits_for_it() {
    let (store, place, owner) = site_with_owner().await;
    old_week(&owner, 500, 10).await;
    let reader = session(&place.direct()).await;
    reader.batch_execute("BEGIN; SELECT FROM oncegate.audit_events LIMIT 1").await.expect("a long look");
    let (first, second) = tokio::join!(step(&store, 400), step(&store, 400));
    assert!(first.busy && second.busy, "{first:?} {second:?}");
    // Its lock was given up: whoever writes finds the table free, though the reader still looks.
    let asks =
        "SELECT count(*) FROM pg_locks WHERE relation = 'oncegate.audit_events'::regclass AND NOT granted";
    assert_eq!(number(&owner, asks).await, 0);
    store.append(event("meanwhile")).await.expect("it is written");
    reader.batch_execute("COMMIT").await.expect("it has seen enough");
    assert!(step(&store, 400).await.dropped.is_some());
    assert_eq!(count(&owner).await, 1);
}
