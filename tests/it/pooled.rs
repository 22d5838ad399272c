//! Gates whose Postgres is behind PgBouncer in transaction mode, with more connections than that has to give.
//!
//! Absent on purpose: what the store promises there. Its contract is tested through PgBouncer in `store`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::crashes::crash_and_recover;
use crate::harness::callers::{Callers, check_once};
use crate::harness::client::{Ask, Era};
use crate::harness::cluster::Cluster;
use crate::harness::gate::Gate;
use crate::harness::pgbouncer::PgBouncer;
use crate::harness::postgres;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// Two gates of one service on this database.
async fn two_gates(upstream: &Upstream, url: String) -> (Gate, Gate) {
    let setup = Setup::new(Home::Postgres, &upstream.url())
        .set("store.connections", 4)
        .policy("lease = \"60s\"", "lease = \"3s\"");
    let one = Gate::start_on(setup, Some(url)).await;
    let two = one.another().await;
    (one, two)
}

fn refund(gate: &Gate, key: &str, cents: u32) -> Ask {
    gate.client(Era::Modern).tool("refund_order", &json!({ "cents": cents })).key(key)
}

/// How many rows there are of each decision and reason.
fn counted(rows: &[Value]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let text = |column: &str| row[column].as_str().unwrap_or_default().to_owned();
        *counts.entry((text("decision"), text("reason"))).or_insert(0) += 1;
    }
    counts
}

#[tokio::test]
async fn a_crowd_of_calls_through_a_small_pool_meets_what_it_meets_without() {
    let upstream = Upstream::start().await;
    let pooler = PgBouncer::start().await;
    let (one, two) = two_gates(&upstream, pooler.url(&postgres::database().await)).await;
    let again = one.run(&["migrate"]).await;
    assert!(again.status.success(), "{again:?}");

    let keys: Vec<_> = (0..40).map(|n| format!("k{n}")).collect();
    let calling: Vec<_> = (0..160)
        .map(|n| tokio::spawn(refund(if n % 3 == 0 { &one } else { &two }, &keys[n % 40], 500).send()))
        .collect();
    let mut met = BTreeMap::new();
    for call in calling {
        *met.entry(call.await.expect("no caller panics").met()).or_insert(0) += 1;
    }
    for key in &keys {
        for (gate, other) in [(&one, &two), (&two, &one)] {
            *met.entry(refund(gate, key, 500).send().await.met()).or_insert(0) += 1;
            *met.entry(refund(other, key, 501).send().await.met()).or_insert(0) += 1;
        }
    }
    let count = |word: &str| met.get(word).copied().unwrap_or(0);
    let (replays, early) = (count("replay"), count("request_in_flight"));
    assert_eq!((count("first"), count("idempotency_key_reuse_with_different_args")), (40, 80), "{met:?}");
    assert_eq!((replays + early, replays >= 80), (200, true), "{met:?}");

    assert_eq!(upstream.calls("refund_order").len(), 40);
    let claims = one.claims().await;
    assert!(claims.len() == 40 && claims.iter().all(|claim| claim["status"] == "completed"), "{claims:?}");
    let word = |decision: &str, reason: &str| (decision.to_owned(), reason.to_owned());
    let mut expected = BTreeMap::from([
        (word("allowed", ""), 40),
        (word("replayed", ""), replays),
        (word("denied", "idempotency_payload_mismatch"), 80),
        (word("denied", "idempotency_in_flight"), early),
    ]);
    expected.retain(|_, count| *count > 0);
    assert_eq!(counted(&one.audit(320).await), expected);
}

#[tokio::test]
async fn a_pooler_that_is_killed_in_traffic_takes_no_answer_with_it_and_is_found_again() {
    let upstream = Upstream::start().await;
    let mut pooler = PgBouncer::start().await;
    let (one, two) = two_gates(&upstream, pooler.url(&postgres::database().await)).await;
    let mut callers = Callers::start(&[&one, &two], &upstream);
    for _ in 0..3 {
        callers.answered(50).await;
        pooler.kill();
        pooler.restart().await;
    }
    callers.answered(50).await;
    let answers = callers.end().await;
    check_once(&[&one, &two], &upstream, &answers).await;
}

#[tokio::test]
async fn a_database_that_crashes_behind_its_pooler_is_found_again_through_it() {
    let upstream = Upstream::start().await;
    let cluster = Cluster::start(None);
    let url = cluster.url("127.0.0.1");
    let server = url.rsplit(['@', '/']).nth(1).expect("a server").parse().expect("an address");
    let pooler = PgBouncer::before(&url, server).await;
    let (one, two) = two_gates(&upstream, pooler.url(&url)).await;
    let mut callers = Callers::start(&[&one, &two], &upstream);
    callers.answered(50).await;
    let _cluster = crash_and_recover(cluster).await;
    callers.answered(50).await;
    let answers = callers.end().await;
    check_once(&[&one, &two], &upstream, &answers).await;
}
