//! A Redis before the ledger: it spares the store work, and decides nothing.

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::redis::Redis;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

fn refund(client: &Client, key: &str) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "o" })).key(key)
}

async fn started(redis: &str) -> (Upstream, Gate, Gate) {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Postgres, &upstream.url()).set("herd.redis_url", redis);
    let one = Gate::start(setup).await;
    let two = one.another().await;
    (upstream, one, two)
}

/// Sends one call to both gates at once, ten times; what each is answered, sorted.
async fn herd(one: &Gate, two: &Gate, key: &str) -> Vec<String> {
    let mut open = Vec::new();
    for gate in [one, two].into_iter().cycle().take(20) {
        open.push(refund(&gate.client(Era::Modern), key).open().await);
    }
    let mut met = Vec::new();
    for call in open {
        met.push(call.reply().await.met());
    }
    met.sort();
    met
}

#[tokio::test]
async fn with_a_redis_a_herd_over_two_gates_runs_once_and_redis_learns_no_key() {
    let redis = Redis::start().await;
    let (upstream, one, two) = started(&redis.url()).await;
    let met = herd(&one, &two, "the-key").await;
    assert_eq!((met[0].as_str(), met.iter().filter(|met| *met == "first").count()), ("first", 1), "{met:?}");
    assert!(
        met.iter().all(|met| ["first", "replay", "request_in_flight"].contains(&met.as_str())),
        "{met:?}"
    );
    assert_eq!(upstream.calls("refund_order").len(), 1);
    let keys = redis.keys();
    assert!(!keys.is_empty(), "the gates asked it");
    assert!(keys.iter().all(|key| key.starts_with("oncegate:") && !key.contains("the-key")), "{keys:?}");
}

#[tokio::test]
async fn a_redis_that_is_lost_or_silent_or_was_never_there_changes_no_answer() {
    let mut redis = Redis::start().await;
    let (upstream, one, two) = started(&redis.url()).await;
    assert_eq!(refund(&one.client(Era::Modern), "before").send().await.met(), "first");
    redis.stop();
    for (gate, met) in [(&one, "first"), (&two, "replay")] {
        assert_eq!(refund(&gate.client(Era::Modern), "silent").send().await.met(), met);
    }
    redis.kill();
    for (gate, met) in [(&one, "first"), (&two, "replay")] {
        assert_eq!(refund(&gate.client(Era::Modern), "lost").send().await.met(), met);
    }
    assert_eq!(refund(&two.client(Era::Modern), "before").send().await.met(), "replay");
    assert!(one.logged().contains("the ledger does without it"), "it is said");
    let (never, one, two) = started(&redis.url()).await;
    for (gate, met) in [(&one, "first"), (&two, "replay")] {
        assert_eq!(refund(&gate.client(Era::Modern), "never").send().await.met(), met);
    }
    assert_eq!((upstream.received().len(), never.received().len()), (3, 1));
}

#[tokio::test]
async fn whoever_forgets_the_lock_or_finds_it_taken_is_decided_by_the_ledger() {
    let redis = Redis::start().await;
    let (upstream, one, two) = started(&redis.url()).await;
    // The second call finds the lock taken by a call that failed: it runs all the same.
    upstream.script(
        "refund_order",
        [Answer::http(404, "text/plain", "nothing here"), Answer::tool("done", &json!({}))],
    );
    assert_eq!(refund(&one.client(Era::Modern), "k1").send().await.word(), "execution_failed");
    assert_eq!(refund(&two.client(Era::Modern), "k1").send().await.met(), "first");
    // The third finds no lock: the ledger knows all the same.
    redis.forget();
    assert_eq!(refund(&one.client(Era::Modern), "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 2);
}
