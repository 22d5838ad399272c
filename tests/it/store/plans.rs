//! What statements read of a large table: as few rows as of a small one.
//!
//! Promises tested: the cost of a claim does not grow with the table. How it is at ten million rows `make scale` measures;
//! here the server's own counts prove that whatever is asked goes through an index and stops early.

use std::time::Duration;

use oncegate::domain::ledger::{ClaimId, Expect};
use oncegate::domain::time::When;
use oncegate::store::{AuditAge, AuditFilter, LapsedOf, TwinOf, UnknownOf, Write};

use super::postgres::session;
use super::samples::{applied, completed, event, fresh, mismatch, pruned, put, store_on};
use crate::harness::eventually;
use crate::harness::setup::Home;

const ROWS: i64 = 20_000;

const FILL: &str = include_str!("../../scale/fill.sql");

/// How many rows were read from end to end, and how many entries of indexes, since the counts were made nought.
const READ: &str = "SELECT
    (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname ~ 'audit_events|idempotency_claims'),
    (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname ~ 'audit_events|idempotency_claims'),
    (SELECT sum(idx_scan)::bigint FROM pg_stat_user_indexes WHERE relname = 'idempotency_claims')";

#[tokio::test]
async fn whatever_a_gate_asks_reads_a_handful_of_entries_of_a_large_table() {
    let (migrated, place) = store_on(Home::Postgres).await;
    migrated.close().await;
    let owner = session(&place.url).await;
    for statement in FILL.replace("ROWS", &ROWS.to_string()).split_inclusive(";\n") {
        owner.batch_execute(statement).await.expect("rows");
    }
    for table in ["idempotency_claims", "audit_events"] {
        owner.batch_execute(&format!("VACUUM (ANALYZE) oncegate.{table}")).await.expect("statistics");
    }
    owner.batch_execute("SELECT pg_stat_reset()").await.expect("counts at nought");

    let store = place.serve().await;
    let old = |key: &str| ClaimId { tenant: "t050".into(), key: key.into(), ..fresh("x").id };
    let expired = When::At(oncegate::domain::time::Timestamp::from_micros(1));
    for n in 0..10 {
        let key = format!("new-{n}");
        let claim = put(&store, Write { id: old(&key), event: Some(event(&key)), ..fresh(&key) }).await;
        let next = completed(&claim.redraft(), expired);
        let write =
            Write { id: old(&key), expect: Expect::Revision(claim.revision), next, event: Some(event(&key)) };
        applied(store.swap(write).await);
        mismatch(store.swap(Write { id: old("k000010000"), ..fresh("x") }).await).expect("it is there");
        let of = TwinOf {
            id: old("k000010000"),
            user: "u1".into(),
            args_hashes: vec!["k1:none".into()],
            window: Duration::from_mins(5),
        };
        assert_eq!(store.twin(&of).await.expect("it answers"), None);
    }
    let lapsed = LapsedOf { service: "billing".into(), lease: Duration::from_mins(1), limit: 100 };
    assert!(store.lapsed(&lapsed).await.expect("it answers").claims.is_empty());
    let unknown = UnknownOf { service: "billing".into(), tools: vec!["refund_order".into()], limit: 20 };
    assert!(store.unknown(&unknown).await.expect("it answers").claims.is_empty());
    assert_eq!(pruned(&store, 500).await, 10);
    let keep = Some(Duration::from_hours(24 * 400));
    store.keep_audit(&AuditAge { keep, batch: 500 }).await.expect("it answers");
    let newest = AuditFilter { limit: 50, ..AuditFilter::default() };
    assert_eq!(store.events(&newest).await.expect("it answers").len(), 50);
    let of_a_key = AuditFilter {
        tenant: Some("t000".into()),
        tool: Some("refund_order".into()),
        key: Some("k000010000".into()),
        limit: 50,
        ..AuditFilter::default()
    };
    assert_eq!(store.events(&of_a_key).await.expect("it answers").len(), 1);
    store.close().await;

    // The server counts when a session ends.
    let (whole, entries) = eventually("the server's counts", async || {
        let row = owner.query_one(READ, &[]).await.expect("it answers");
        (row.get::<_, Option<i64>>(2).unwrap_or(0) > 60).then(|| (row.get::<_, i64>(0), row.get::<_, i64>(1)))
    })
    .await;
    assert_eq!(whole, 0, "no table is read from end to end");
    assert!(entries < 1000, "{entries} entries for some seventy questions");
}
