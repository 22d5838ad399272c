//! Gates that share a store: one of them deletes what is too old, and another does when it is gone.
//!
//! Promises tested: `oncegate::sweeper`, `oncegate prune`, `docs/retention.md`.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::ledger::{Draft, Expect, Status};
use oncegate::domain::time::{Timestamp, When};
use oncegate::store::{ClaimFilter, Role, Store, StoreOptions, Write, open};
use tokio_postgres::types::{ToSql, Type};

use crate::harness::gate::Gate;
use crate::harness::postgres;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time, on_every_store};
use crate::store::samples::{
    applied, completed, draft, event, fresh, id, keys, mismatch, put, store_on, told,
};

const LEADS: &str = "oncegate_retention_leader";
const PRUNED: &str = "oncegate_pruned_claims_total";
const PAST: When = When::At(Timestamp::from_micros(1_700_000_000_000_000));

fn setup(home: Home, upstream: &Upstream) -> Setup {
    Setup::new(home, &upstream.url()).set("retention.every", "1s")
}

async fn beside(gate: &Gate) -> Arc<dyn Store> {
    let url = gate.setting("store.url");
    open(&url, StoreOptions::new(Role::Inspect)).await.expect("the gate's store")
}

/// Puts one claim of each status that expired long ago, and many that are settled.
async fn put_old(store: &Arc<dyn Store>, round: &str) {
    for n in 0..30 {
        put_settled(store, &format!("{round}-{n}"), Status::Completed).await;
    }
    for status in [Status::InFlight, Status::Unknown] {
        put_settled(store, &format!("{round}-{}", status.as_str()), status).await;
    }
}

async fn put_settled(store: &Arc<dyn Store>, key: &str, status: Status) {
    let lease_until = When::In(Duration::from_hours(1));
    let next = Draft { status, lease_until, ..completed(&draft(key), PAST) };
    put(store, Write { next, ..fresh(key) }).await;
}

/// Until nothing is left of that round but what is open.
async fn swept(store: &Arc<dyn Store>, round: &str) {
    eventually("the old claims to be gone", async || {
        let left = keys(store, ClaimFilter::default()).await;
        let left: Vec<_> = left.iter().filter(|key| key.starts_with(round)).collect();
        (left.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_gate_deletes_what_expired_and_nothing_that_is_open_whatever_its_expiry_says() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(setup(home, &upstream)).await;
        let store = beside(&gate).await;
        put_old(&store, "a").await;
        swept(&store, "a").await;
        eventually("the count", async || (gate.count(PRUNED).await == 30).then_some(())).await;
        assert_eq!(gate.count(LEADS).await, 1);
        let logged = gate.logged();
        assert!(logged.contains(r#""audit_keep":"400d""#), "{logged}");
        assert_eq!(gate.stop().await, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_and_one_that_stops_hands_over() {
    let upstream = Upstream::start().await;
    let mut one = Gate::start_on(setup(Home::Postgres, &upstream), Some(postgres::database().await)).await;
    let mut two = one.another().await;
    let store = beside(&one).await;
    put_old(&store, "a").await;
    swept(&store, "a").await;
    let first = eventually("one leader", async || {
        let (one, two) = (one.count(LEADS).await, two.count(LEADS).await);
        assert!(one + two <= 1, "two lead");
        (one + two == 1).then_some(one)
    })
    .await;
    let (leader, other) = if first == 1 { (&mut one, &mut two) } else { (&mut two, &mut one) };
    assert_eq!(other.count(PRUNED).await, 0, "only the leader deletes");
    leader.kill();
    put_old(&store, "b").await;
    swept(&store, "b").await;
    assert_eq!(other.count(LEADS).await, 1);
    // The first comes back, and the second stops in peace.
    leader.restart().await;
    assert_eq!(other.stop().await, Some(0));
    eventually("the lead to be taken", async || (leader.count(LEADS).await == 1).then_some(())).await;
    put_old(&store, "c").await;
    swept(&store, "c").await;
}

/// What the store sends for a batch, on a session of the test's own.
const PRUNE: &str = include_str!("../../src/store/postgres/sql/prune.sql");

#[tokio::test]
async fn claims_go_on_beside_a_batch_that_takes_for_ever_and_a_claim_in_work_is_left_alone() {
    let (store, place) = store_on(Home::Postgres).await;
    for n in 0..20 {
        put_settled(&store, &format!("old-{n:02}"), Status::Completed).await;
    }
    let kept = put(&store, fresh("kept")).await;
    let next = completed(&kept.redraft(), When::In(Duration::from_hours(1)));
    put(&store, Write { expect: Expect::Revision(kept.revision), next, ..fresh("kept") }).await;

    // Two that both believe to lead: one has a batch in hand and does not end it.
    let mut beside = crate::store::postgres::session(&place.url).await;
    let batch = beside.transaction().await.expect("a transaction");
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&10_i64, Type::INT8), (&None::<std::time::SystemTime>, Type::TIMESTAMPTZ)];
    let pruned = batch.query_typed(PRUNE, &values).await.expect("a batch");
    assert_eq!(pruned.len(), 10);
    assert_eq!(crate::store::samples::pruned(&store, 100).await, 10, "the other takes the rest");

    // Meanwhile calls find the table as ever, and nobody waits for a lock.
    let new = put(&store, Write { event: Some(event("new")), ..fresh("new") }).await;
    let next = completed(&new.redraft(), When::In(Duration::from_hours(1)));
    let settled =
        Write { expect: Expect::Revision(new.revision), next, event: Some(event("new")), ..fresh("new") };
    applied(in_time("a settlement", store.swap(settled)).await);
    mismatch(in_time("a replay", store.swap(fresh("kept"))).await);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let watcher = crate::store::postgres::session(&place.url).await;
    assert_eq!(watcher.query_one(waiting, &[]).await.expect("it answers").get::<_, i64>(0), 0);
    assert_eq!(told(&store, "new").await.len(), 2);
    batch.commit().await.expect("it ends");
    assert_eq!(keys(&store, ClaimFilter::default()).await.len(), 2);

    // And a claim that somebody works on is not waited for: its batch goes without it.
    put_settled(&store, "held", Status::Completed).await;
    put_settled(&store, "free", Status::Completed).await;
    let holder = beside.transaction().await.expect("a transaction");
    let hold = "SELECT FROM oncegate.idempotency_claims WHERE idempotency_key = 'held' FOR UPDATE";
    holder.query(hold, &[]).await.expect("a lock");
    assert_eq!(in_time("a batch", crate::store::samples::pruned(&store, 100)).await, 1);
    holder.rollback().await.expect("it ends");
    assert!(store.read(&id("held")).await.expect("it answers").row.is_some());
}

#[tokio::test]
async fn one_leads_until_its_time_is_over_and_times_are_the_stores() {
    crate::store::samples::on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let (one, two) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        let hour = Duration::from_hours(1);
        let lead = async |who, lease| store.lead("sweeping", who, lease).await.expect("the store answers");
        assert!(lead(one, hour).await && !lead(two, hour).await && lead(one, hour).await);
        assert!(
            store.lead("cooking", two, hour).await.expect("the store answers"),
            "another thing to lead in"
        );
        // Given up, and taken at once.
        assert!(lead(one, Duration::ZERO).await);
        assert!(lead(two, Duration::from_millis(1)).await);
        // It lapses by itself, too.
        eventually("the lease to end", async || lead(one, hour).await.then_some(())).await;
        // Many that come at once: one leads.
        lead(one, Duration::ZERO).await;
        let racing: Vec<_> = (0..16)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.lead("sweeping", uuid::Uuid::new_v4(), hour).await })
            })
            .collect();
        let mut leaders = 0;
        for racer in racing {
            leaders += u32::from(racer.await.expect("no panic").expect("the store answers"));
        }
        assert_eq!(leaders, 1, "{site:?}");
    })
    .await;
}
