//! Postgres fails over in the middle of calls. What was answered is there afterwards, and nothing ran twice.
//!
//! Promises tested: DESIGN section 6. Nobody tells the gate where the new primary is; its URL names both servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::client::{Client, Era};
use crate::harness::cluster::Cluster;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{PATIENCE, eventually};

const CALLERS: usize = 8;

/// Calls with new keys, each again until it is answered for good, until `enough` were answered by all callers together.
async fn call_on(
    client: Client,
    who: usize,
    answered: Arc<AtomicUsize>,
    enough: usize,
) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    while answered.load(Ordering::SeqCst) < enough {
        let key = format!("c{who}-{}", answers.len());
        let answer = answer(&client, &key).await;
        answers.push((key, answer));
        answered.fetch_add(1, Ordering::SeqCst);
    }
    answers
}

/// The answer to a call that is made again and again.
async fn answer(client: &Client, key: &str) -> Value {
    let began = Instant::now();
    loop {
        let call = client.tool("refund_order", &json!({ "order_id": "ord_9f2" })).key(key);
        let reply = call.send().await;
        match reply.met().as_str() {
            "first" | "replay" => return reply.result()["structuredContent"].clone(),
            "store_unavailable" | "request_in_flight" => {}
            other => panic!("{key} met {other}"),
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for the answer to {key}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_when_a_standby_takes_over() {
    let primary = Cluster::start(None);
    let standby = primary.standby().await;
    let upstream = Upstream::start().await;
    let url = Cluster::url_of_any(&[&primary, &standby]);
    let mut gate = Gate::start_on(Setup::new(Home::Postgres, &upstream.url()), Some(url)).await;

    let answered = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|who| tokio::spawn(call_on(gate.client(Era::Modern), who, Arc::clone(&answered), 200)))
        .collect();
    eventually("some answers", async || (answered.load(Ordering::SeqCst) > 50).then_some(())).await;
    let failing_over = tokio::task::spawn_blocking(move || {
        primary.crash();
        standby.promote();
        (primary, standby)
    });
    let (primary, standby) = failing_over.await.expect("the standby is promoted");
    let mut answers = BTreeMap::new();
    for caller in callers {
        answers.extend(caller.await.expect("every call came to an end"));
    }
    assert!(answers.len() > 200 - CALLERS, "{}", answers.len());

    // The old primary comes back, and takes no writes. It stands first in the URL.
    primary.set("default_transaction_read_only = on");
    primary.set("synchronous_standby_names = ''");
    let coming_back = tokio::task::spawn_blocking(move || {
        primary.recover();
        primary
    });
    let primary = coming_back.await.expect("it is up again");
    let before = primary.ask("SELECT FROM oncegate.idempotency_claims").await;
    gate.stop().await;
    gate.restart().await;
    for (key, first) in &answers {
        assert_eq!(answer(&gate.client(Era::Modern), key).await, *first, "{key}");
        assert_eq!(upstream.with_key(key).len(), 1, "{key} ran once");
    }
    assert!(!answer(&gate.client(Era::Modern), "new").await.is_null());
    let lost = standby.ask("SELECT FROM oncegate.idempotency_claims WHERE status = 'completed'").await;
    assert_eq!(lost, answers.len() + 1, "each answer is on the new primary");
    assert_eq!(primary.ask("SELECT FROM oncegate.idempotency_claims").await, before, "and none on the old");
}
