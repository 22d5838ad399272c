//! What a janitor asks: claims whose owner is gone.

use std::time::Duration;

use oncegate::domain::ledger::{Draft, Status};
use oncegate::domain::time::{Timestamp, When};
use oncegate::store::{LapsedOf, Store, UnknownOf, Write};
use tokio_postgres::NoTls;

use super::samples::{fresh, on_every_store, put, store_on};
use crate::harness::eventually;
use crate::harness::setup::Home;

const LEASE: Duration = Duration::from_secs(1);

fn minutes_ago(now: Timestamp, minutes: u64) -> When {
    When::At(now.minus(Duration::from_mins(minutes)))
}

/// A claim that was made so many minutes ago, and whose lease lapsed a minute later.
fn lapsed(key: &str, now: Timestamp, minutes: u64) -> Write {
    let fresh = fresh(key);
    let created_at = Some(now.minus(Duration::from_mins(minutes)));
    Write { next: Draft { created_at, lease_until: minutes_ago(now, minutes - 1), ..fresh.next }, ..fresh }
}

async fn found(store: &dyn Store, limit: u32) -> Vec<String> {
    let of = LapsedOf { service: "billing".into(), lease: LEASE, limit };
    let found = store.lapsed(&of).await.expect("the store answers");
    let is_lapsed = |claim: &oncegate::store::ListedClaim| claim.claim.lease_until <= Some(found.now);
    assert!(found.claims.iter().all(is_lapsed), "{found:?}");
    found.claims.into_iter().map(|claim| claim.id.key).collect()
}

#[tokio::test]
async fn claims_of_dead_owners_are_found_oldest_first_and_no_others() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        assert_eq!(found(&*store, 10).await, [""; 0], "an empty store has none, and tells its time");
        let now = put(&store, fresh("alive")).await.created_at;
        put(&store, lapsed("newer", now, 2)).await;
        put(&store, lapsed("oldest", now, 9)).await;
        put(&store, lapsed("old", now, 5)).await;
        // A long call, renewed a moment ago.
        let mut write = lapsed("renewed", now, 9);
        write.next.lease_until = When::In(Duration::from_mins(1));
        put(&store, write).await;
        for status in Status::ALL.into_iter().filter(|status| *status != Status::InFlight) {
            let mut write = lapsed(status.as_str(), now, 9);
            write.next.status = status;
            put(&store, write).await;
        }
        let mut write = lapsed("of-another-service", now, 9);
        write.id.service = "support".into();
        put(&store, write).await;
        // Younger than any lease of this service: another's clock, or nobody's business yet.
        let mut write = fresh("young");
        write.next.lease_until = When::NOW;
        put(&store, write).await;

        assert_eq!(found(&*store, 10).await, ["oldest", "old", "newer"]);
        assert_eq!(found(&*store, 2).await, ["oldest", "old"]);
    })
    .await;
}

/// An unknown claim that was made so many minutes ago, and need not be asked about before this.
fn unknown(key: &str, made: When, until: When) -> Write {
    let fresh = fresh(key);
    let created_at = if let When::At(time) = made { Some(time) } else { None };
    Write { next: Draft { status: Status::Unknown, created_at, lease_until: until, ..fresh.next }, ..fresh }
}

async fn due(store: &dyn Store, tools: &[&str], limit: u32) -> Vec<String> {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let of = UnknownOf { service: "billing".into(), tools, limit };
    let found = store.unknown(&of).await.expect("the store answers");
    found.claims.into_iter().map(|claim| claim.id.key).collect()
}

#[tokio::test]
async fn unknown_claims_are_found_when_their_time_has_come_longest_alone_first() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let refund = ["refund_order"];
        assert_eq!(due(&*store, &refund, 10).await, [""; 0], "an empty store has none");
        let now = put(&store, fresh("running")).await.created_at;
        let ago = |minutes| minutes_ago(now, minutes);
        put(&store, unknown("never-asked", ago(3), When::Never)).await;
        put(&store, unknown("old-asked-lately", ago(60), ago(1))).await;
        put(&store, unknown("old-asked-long-ago", ago(60), ago(5))).await;
        put(&store, unknown("not-yet", ago(60), When::In(Duration::from_mins(1)))).await;
        let mut other = unknown("another-tool", ago(4), When::Never);
        other.id.tool = "send_mail".into();
        put(&store, other).await;
        let mut other = unknown("another-service", ago(9), When::Never);
        other.id.service = "support".into();
        put(&store, other).await;
        let mut other = unknown("settled", ago(9), When::Never);
        other.next.status = Status::Completed;
        put(&store, other).await;

        let in_order = ["old-asked-long-ago", "never-asked", "old-asked-lately"];
        assert_eq!(due(&*store, &refund, 10).await, in_order);
        assert_eq!(due(&*store, &refund, 2).await, in_order[..2]);
        let both = ["refund_order", "send_mail"];
        let in_order = ["old-asked-long-ago", "another-tool", "never-asked", "old-asked-lately"];
        assert_eq!(due(&*store, &both, 10).await, in_order);
        assert_eq!(due(&*store, &both, 3).await, in_order[..3]);
        assert_eq!(due(&*store, &["no_such_tool"], 10).await, [""; 0]);
    })
    .await;
}

/// A table with many claims that nobody needs to look after: settled ones, calls that began a moment ago, and unknown
/// ones that were asked about a moment ago.
const MANY: &str = "INSERT INTO oncegate.idempotency_claims
    SELECT 'acme', 'billing', 'refund_order', 'old' || n, 'u1', 'k1:aa',
        CASE n % 3 WHEN 0 THEN 'completed' WHEN 1 THEN 'in_flight' ELSE 'unknown' END, n, gen_random_uuid(), '{}',
        NULL, now() + interval '1 minute', NULL, NULL, NULL, now(), now(), NULL
    FROM generate_series(1, 20000) AS n";

#[tokio::test]
async fn a_look_for_dead_owners_costs_no_more_in_a_large_and_busy_table() {
    let (store, place) = store_on(Home::Postgres).await;
    let (beside, connection) =
        tokio_postgres::connect(&place.url, NoTls).await.expect("the server takes connections");
    tokio::spawn(connection);
    beside.batch_execute(MANY).await.expect("a busy table");
    beside.batch_execute("ANALYZE oncegate.idempotency_claims").await.expect("its statistics");
    let lapsed = lapsed("k", put(&store, fresh("now")).await.created_at, 5);
    put(&store, lapsed).await;
    let of = LapsedOf { service: "billing".into(), lease: Duration::from_mins(1), limit: 100 };
    assert_eq!(store.lapsed(&of).await.expect("the store answers").claims.len(), 1);
    put(&store, unknown("u", When::In(Duration::ZERO), When::Never)).await;
    assert_eq!(due(&*store, &["refund_order", "send_mail"], 100).await, ["u"]);
    // The server counts when a session ends.
    store.close().await;
    let question = "SELECT idx_tup_read FROM pg_stat_user_indexes
        WHERE indexrelname IN ('idempotency_claims_open', 'idempotency_claims_unknown') AND idx_scan > 0";
    let read: Vec<i64> = eventually("the server's counts", async || {
        let rows = beside.query(question, &[]).await.expect("the server answers");
        (rows.len() == 2).then(|| rows.iter().map(|row| row.get(0)).collect())
    })
    .await;
    assert!(read.iter().all(|read| *read < 10), "{read:?} claims were looked at, to find one each");
    let whole = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'idempotency_claims'";
    let before: i64 = beside.query_one(whole, &[]).await.expect("the server answers").get(0);
    assert!(before < 20_000, "{before} rows were read one by one");
}

#[tokio::test]
async fn sqlite_answers_a_janitor_from_an_index() {
    let (_store, place) = store_on(Home::Sqlite).await;
    let file = rusqlite::Connection::open(place.url.trim_start_matches("sqlite:")).expect("the file");
    let sql = include_str!("../../../src/store/sqlite/sql/lapsed.sql");
    let plan: String = file
        .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), ("billing", 0, 0, 1), |row| row.get("detail"))
        .expect("a plan");
    assert!(plan.contains("USING INDEX idempotency_claims_open (status=? AND created_at<?)"), "{plan}");
    let sql = include_str!("../../../src/store/sqlite/sql/unknown.sql");
    let plan: String = file
        .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), ("billing", "refund_order", 0, 1), |row| {
            row.get("detail")
        })
        .expect("a plan");
    assert!(
        plan.contains("USING INDEX idempotency_claims_unknown (service=? AND tool=? AND <expr><?)"),
        "{plan}"
    );
}
