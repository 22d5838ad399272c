//! What is particular to Postgres: a server that dies, hangs, clashes, or is set up wrong; rights; TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncegate::domain::ledger::{Draft, Expect};
use oncegate::domain::time::When;
use oncegate::store::{ClaimFilter, Role, Schema, Store, StoreError, StoreOptions, Swap, Write, open};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

use super::samples::{
    Place, applied, completed, event, fresh, id, keys, mismatch, pruned, put, row, store_on, told,
};
use crate::harness::cable::Cable;
use crate::harness::cluster::{Certificate, Cluster};
use crate::harness::setup::Home;
use crate::harness::{eventually, in_time, postgres};

/// A session of our own, beside the store's.
pub(crate) async fn session(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the server takes connections");
    tokio::spawn(connection);
    client
}

pub(super) fn database_of(url: &str) -> &str {
    url.rsplit('/').next().expect("a URL with a database")
}

/// The same database at another address.
fn at(url: &str, address: SocketAddr) -> String {
    format!("postgres://postgres@{address}/{}", database_of(url))
}

pub(super) async fn serving(url: &str) -> Arc<dyn Store> {
    open(url, StoreOptions::new(Role::Serve)).await.expect("a usable URL")
}

/// Every claim of a run, and whether its writer heard that it was written.
async fn check_told_the_truth(store: &Arc<dyn Store>, heard: Vec<(String, Result<Swap, StoreError>)>) {
    let there = keys(store, ClaimFilter::default()).await;
    for (key, heard) in heard {
        let (row, events) = (there.contains(&key), told(store, &key).await.len());
        assert_eq!(events, usize::from(row), "{key}: one event for a row, none without");
        match heard {
            Ok(Swap::Applied { .. }) => assert!(row, "{key} was written, and is gone"),
            Ok(Swap::Mismatch { row, .. }) => panic!("{key} is nobody else's: {row:?}"),
            Err(StoreError::Unavailable(_)) => assert!(!row, "{key} was not written, and is there"),
            Err(StoreError::Uncertain(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_in_mid_write_loses_nothing_that_was_confirmed() {
    let cluster = Cluster::start(None);
    let store = serving(&cluster.url("127.0.0.1")).await;
    store.migrate().await.expect("a schema");
    let ended = tokio_util::sync::CancellationToken::new();
    let writers: Vec<_> = (0..20)
        .map(|writer| {
            let (store, ended) = (Arc::clone(&store), ended.clone());
            tokio::spawn(async move {
                let mut heard = Vec::new();
                while !ended.is_cancelled() {
                    let key = format!("w{writer}-{}", heard.len());
                    let write = Write { event: Some(event(&key)), ..fresh(&key) };
                    let told = store.swap(write).await;
                    if told.is_err() {
                        // In a long outage it is refused at once, and would be again.
                        store.standing().there().await;
                    }
                    heard.push((key, told));
                }
                heard
            })
        })
        .collect();
    let some_rows = async || (keys(&store, ClaimFilter::default()).await.len() > 100).then_some(());
    eventually("a hundred claims", some_rows).await;
    let crashing = tokio::task::spawn_blocking(move || {
        cluster.crash();
        cluster.recover();
        cluster
    });
    let _cluster = crashing.await.expect("it is up again");
    in_time("the store to be back", store.standing().there()).await;
    let before = keys(&store, ClaimFilter::default()).await.len();
    let more = async || (keys(&store, ClaimFilter::default()).await.len() > before + 100).then_some(());
    eventually("a hundred claims more", more).await;
    ended.cancel();
    let mut heard = Vec::new();
    for writer in writers {
        heard.extend(in_time("a writer", writer).await.expect("it does not panic"));
    }
    check_told_the_truth(&store, heard).await;
}

/// A store at the far end of a cable, with one claim, and a session that keeps that claim's row locked.
struct Held {
    place: Place,
    cable: Cable,
    store: Arc<dyn Store>,
    holder: Client,
    write: Write,
}

impl Held {
    async fn new() -> Self {
        let (direct, place) = store_on(Home::Postgres).await;
        let first = put(&direct, fresh("k")).await;
        let cable = Cable::to(postgres::address()).await;
        let store = serving(&at(&place.url, cable.address())).await;
        assert_eq!(row(&store, &id("k")).await.as_ref(), Some(&first));
        let holder = session(&place.url).await;
        holder
            .batch_execute("BEGIN; SELECT FROM oncegate.idempotency_claims FOR UPDATE")
            .await
            .expect("a lock");
        let next = completed(&first.redraft(), When::In(Duration::from_hours(1)));
        let expect = Expect::Revision(first.revision);
        let write = Write { expect, next, event: Some(event("k")), ..fresh("k") };
        Self { place, cable, store, holder, write }
    }

    /// Sends the write, and waits until the server has it in work.
    async fn sent(&self) -> tokio::task::JoinHandle<Result<Swap, StoreError>> {
        let (store, write) = (Arc::clone(&self.store), self.write.clone());
        let asking = tokio::spawn(async move { store.swap(write).await });
        self.until_waiting(true).await;
        asking
    }

    /// Waits until a statement of the store waits for the lock, or none does any more.
    async fn until_waiting(&self, waiting: bool) {
        eventually("the server's state", async || (self.waiting().await.is_empty() != waiting).then_some(()))
            .await;
    }

    /// The statements that wait for the lock, by when they began.
    async fn waiting(&self) -> Vec<String> {
        let beside = session(&self.place.url).await;
        let question =
            "SELECT query_start::text FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'";
        let name = database_of(&self.place.url);
        let rows = beside.query_typed(question, &[(&name, Type::TEXT)]).await.expect("the server answers");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_commit_whose_answer_got_lost_is_asked_after_and_known_again() {
    let mut held = Held::new().await;
    let asking = held.sent().await;
    held.cable.cut().await;
    // The server does not know yet that nobody listens: it commits.
    held.holder.batch_execute("COMMIT").await.expect("the lock is given back");
    held.until_waiting(false).await;
    held.cable.mend().await;
    let now = applied(in_time("the answer", asking).await.expect("it does not panic"));
    assert_eq!(row(&held.store, &id("k")).await, Some(held.write.next.at(now, held.write.expect)));
    assert_eq!(told(&held.store, "k").await.len(), 1);
}

#[tokio::test]
async fn a_write_that_went_out_and_cannot_be_asked_after_is_uncertain() {
    let mut held = Held::new().await;
    let asking = held.sent().await;
    held.cable.cut().await;
    let begun = Instant::now();
    let told = in_time("the answer", asking).await.expect("it does not panic");
    assert!(matches!(told, Err(StoreError::Uncertain(_))), "{told:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // Whoever asks now certainly wrote nothing, and hears so at once.
    let begun = Instant::now();
    let told = in_time("the answer", held.store.swap(fresh("later"))).await;
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_statement_that_hangs_is_cancelled_asked_after_and_applied_once() {
    let held = Held::new().await;
    let asking = held.sent().await;
    let first = held.waiting().await;
    // After its time the store has the statement cancelled, and asks again.
    eventually("another statement in its place", async || {
        let now = held.waiting().await;
        (now.len() == 1 && now != first).then_some(())
    })
    .await;
    held.holder.batch_execute("COMMIT").await.expect("the lock is given back");
    applied(in_time("the answer", asking).await.expect("it does not panic"));
    assert_eq!(told(&held.store, "k").await.len(), 1);
}

#[tokio::test]
async fn serializable_transactions_clash_and_nobody_notices() {
    let place = Place::on(Home::Postgres).await;
    let name = database_of(&place.url);
    let level = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    session(&place.url).await.batch_execute(&level).await.expect("a setting");
    let pods = [place.serve().await, place.serve().await];
    let racing: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&pods[n % 2]);
            tokio::spawn(async move {
                let key = format!("k{}", n / 4);
                store.swap(Write { event: Some(event(&key)), ..fresh(&key) }).await
            })
        })
        .collect();
    let mut won = 0;
    for racer in racing {
        match in_time("a racer", racer).await.expect("it does not panic").expect("the store answers") {
            Swap::Applied { .. } => won += 1,
            Swap::Mismatch { row, .. } => assert!(row.is_some(), "a loser sees who won"),
        }
    }
    assert_eq!(won, 50);
}

#[tokio::test]
async fn a_write_that_is_refused_fails_alone() {
    let (_, place) = store_on(Home::Postgres).await;
    let one = StoreOptions { connections: 1, ..StoreOptions::new(Role::Serve) };
    let one = open(&place.url, one).await.expect("a store");
    // No index entry can hold this name, and no page can compress it.
    let endless: String = (0..500).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    let burst: Vec<_> = (0..60)
        .map(|n| {
            let key = if n % 20 == 7 { format!("{n}{endless}") } else { format!("k{n}") };
            let store = Arc::clone(&one);
            tokio::spawn(async move { (n, store.swap(fresh(&key)).await) })
        })
        .collect();
    for write in burst {
        let (n, told) = in_time("a write", write).await.expect("it does not panic");
        if n % 20 == 7 {
            assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
        } else {
            applied(told);
        }
    }
}

#[tokio::test]
async fn a_server_that_confirms_before_the_disk_does_is_not_served() {
    let (store, place) = store_on(Home::Postgres).await;
    put(&store, fresh("k")).await;
    let setting = format!("ALTER DATABASE {} SET synchronous_commit = off", database_of(&place.url));
    session(&place.url).await.batch_execute(&setting).await.expect("a setting");
    let store = serving(&place.url).await;
    for told in [store.schema().await.err(), store.swap(fresh("other")).await.err()] {
        let Some(StoreError::Unfit(told)) = told else { panic!("{told:?}") };
        assert!(told.contains("synchronous_commit"), "{told}");
    }
    let looking = open(&place.url, StoreOptions::new(Role::Inspect)).await.expect("a store");
    assert_eq!(keys(&looking, ClaimFilter::default()).await, ["k"]);
}

#[tokio::test]
async fn a_claim_is_found_by_its_name_in_a_large_table_without_statistics() {
    let (store, place) = store_on(Home::Postgres).await;
    let beside = session(&place.url).await;
    let many = "ALTER TABLE oncegate.idempotency_claims SET (autovacuum_enabled = false);
        INSERT INTO oncegate.idempotency_claims
        SELECT 'acme', 'billing', 'refund_order', 'old' || n, 'u1', 'k1:aa', 'completed', n, gen_random_uuid(), '{}',
            NULL, NULL, NULL, NULL, NULL, now(), now(), now()
        FROM generate_series(1, 20000) AS n";
    beside.batch_execute(many).await.expect("an old table");
    let first = put(&store, fresh("k")).await;
    mismatch(store.swap(fresh("k")).await);
    let next = completed(&first.redraft(), When::Never);
    put(&store, Write { expect: Expect::Revision(first.revision), next, ..fresh("k") }).await;
    // Whatever was read went through the primary key. The server counts when a session ends.
    store.close().await;
    let question = "SELECT indexrelname::text, idx_scan FROM pg_stat_user_indexes
        WHERE idx_scan > 0 AND relname = 'idempotency_claims'";
    let used = eventually("the server's counts", async || {
        let rows = beside.query(question, &[]).await.expect("the server answers");
        let used: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        used.iter().any(|(name, _)| name == "idempotency_claims_pkey").then_some(used)
    })
    .await;
    assert!(used.iter().all(|(name, _)| name.ends_with("_pkey")), "{used:?}");
    let whole = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'idempotency_claims'";
    let read: i64 = beside.query_one(whole, &[]).await.expect("the server answers").get(0);
    assert!(read < 20000, "{read} rows were read one by one");
}

#[tokio::test]
async fn an_older_schema_is_told_apart_from_none_and_from_a_newer_one() {
    let (store, place) = store_on(Home::Postgres).await;
    let beside = session(&place.url).await;
    for (version, expected) in
        [(1, Schema::Older { found: 1, needed: 2 }), (2, Schema::Fits), (3, Schema::Fits)]
    {
        let change = format!(
            "DELETE FROM oncegate.schema_version; INSERT INTO oncegate.schema_version VALUES ({version})"
        );
        beside.batch_execute(&change).await.expect("a change");
        assert_eq!(store.schema().await.expect("the store answers"), expected);
    }
}

/// The URL by which a gate with no rights but those of its group comes to this place, which is migrated for it.
pub(super) async fn gate_login(owner: &Client, place: &Place) -> String {
    // Roles are the cluster's: another test may have made the group.
    let group =
        "DO $$ BEGIN CREATE ROLE oncegate_gate NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    owner.batch_execute(group).await.expect("a group");
    let login = database_of(&place.url).replace("test_", "gate_");
    owner.batch_execute(&format!("CREATE ROLE {login} LOGIN IN ROLE oncegate_gate")).await.expect("a role");
    let owning = serving(&place.direct()).await;
    owning.migrate().await.expect("a schema");
    place.direct().replace("//postgres@", &format!("//{login}@"))
}

#[tokio::test]
async fn the_gates_own_role_can_serve_and_cannot_change_the_audit() {
    let place = Place::on(Home::Postgres).await;
    let owner = session(&place.url).await;
    let url = gate_login(&owner, &place).await;
    let store = serving(&url).await;
    assert_eq!(store.schema().await.expect("the store answers"), Schema::Fits);
    let first = put(&store, Write { event: Some(event("k")), ..fresh("k") }).await;
    let expired = When::At(oncegate::domain::time::Timestamp::from_micros(1));
    let next: Draft = completed(&first.redraft(), expired);
    put(&store, Write { expect: Expect::Revision(first.revision), next, ..fresh("k") }).await;
    mismatch(store.swap(fresh("k")).await);
    store.append(event("k")).await.expect("it is written");
    assert_eq!(told(&store, "k").await.len(), 2);
    assert_eq!(pruned(&store, 10).await, 1);

    let gate = session(&url).await;
    for change in ["UPDATE oncegate.audit_events SET reason = ''", "DELETE FROM oncegate.audit_events"] {
        let told = gate.batch_execute(change).await.expect_err("it is refused");
        assert_eq!(told.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
    }
    assert!(store.migrate().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_as_strict_as_sslmode_says() {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names are good names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = ca.self_signed(&ca_key).expect("a certificate").pem();
    let stranger = ca.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").pem();
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a good name");
    let chain = server.signed_by(&key, &Issuer::new(ca, ca_key)).expect("a certificate").pem();
    let cluster = Cluster::start(Some(&Certificate { chain: &chain, key: &key.serialize_pem() }));
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (folder.path().join("ours.pem"), folder.path().join("theirs.pem"));
    std::fs::write(&ours, authority).expect("a file");
    std::fs::write(&theirs, stranger).expect("a file");
    let (ours, theirs) = (ours.display(), theirs.display());

    let reaches = async |host: &str, query: String| {
        let store = serving(&format!("{}?{query}", cluster.url(host))).await;
        store.schema().await
    };
    for (host, query) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ours}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ours}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}")),
    ] {
        let told = reaches(host, query.clone()).await;
        assert!(matches!(told, Ok(Schema::Missing)), "{host} {query}: {told:?}");
    }
    for (host, query) in [
        // The server takes TLS only.
        ("127.0.0.1", "sslmode=disable".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ours}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={theirs}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={theirs}")),
        ("localhost", format!("sslmode=require&sslrootcert={theirs}")),
    ] {
        let told = reaches(host, query.clone()).await;
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "{host} {query}: {told:?}");
    }
}
