//! Once: whatever clients, gates and machines do, the upstream hears of one intent once.
//!
//! The upstream's own record is the judge in every test.

use std::time::Duration;

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::h2::H2;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

fn refund(client: &Client, key: &str) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "ord_9f2", "amount_cents": 500 })).key(key)
}

/// Sends the same call until it meets something other than the first one still running.
async fn after_the_first(ask: Ask) -> String {
    eventually("the first call's end", async || {
        let met = ask.clone().send().await.met();
        (met != "request_in_flight").then_some(met)
    })
    .await
}

/// Many calls with one key at once, spread over these gates: one is the first, and none of the others reaches the
/// upstream.
async fn check_a_storm(upstream: &Upstream, gates: &[&Gate]) {
    upstream.script("refund_order", [Answer::tool("refunded", &json!({})).after(Duration::from_millis(300))]);
    let clients: Vec<_> = gates.iter().map(|gate| gate.client(Era::Modern)).collect();
    let calls: Vec<_> =
        (0..100).map(|n| tokio::spawn(refund(&clients[n % clients.len()], "storm").id(n).send())).collect();
    let mut met = Vec::new();
    for (id, call) in calls.into_iter().enumerate() {
        let reply = call.await.expect("no caller panics");
        assert_eq!(reply.json()["id"], id, "an answer carries its own request's id");
        met.push(reply.met());
    }
    assert_eq!(met.iter().filter(|word| *word == "first").count(), 1, "{met:?}");
    let others = met.iter().filter(|word| *word == "replay" || *word == "request_in_flight");
    assert_eq!(others.count(), 99, "{met:?}");
    for client in &clients {
        assert_eq!(refund(client, "storm").send().await.met(), "replay");
    }
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn a_hundred_parallel_calls_over_two_gates_run_once() {
    let upstream = Upstream::start().await;
    let one = Gate::start(Setup::new(Home::Postgres, &upstream.url())).await;
    let two = one.another().await;
    check_a_storm(&upstream, &[&one, &two]).await;
}

#[tokio::test]
async fn a_hundred_parallel_calls_over_one_gate_run_once() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        check_a_storm(&upstream, &[&gate]).await;
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_client_hung_up_completes_and_is_replayed() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        for era in Era::ALL {
            let key = format!("hung-up-{era:?}");
            let hold = upstream.hold("refund_order");
            let before = upstream.calls("refund_order").len();
            let open = refund(&gate.client(era), &key).open().await;
            upstream.called("refund_order", before + 1).await;
            open.reset();
            hold.release();
            assert_eq!(after_the_first(refund(&gate.client(era), &key)).await, "replay");
            assert_eq!(upstream.calls("refund_order").len(), before + 1);
            assert_eq!(gate.claim(&key).await["status"], "completed");
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_after_50_ms_of_a_2_s_refund_finds_its_answer() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    upstream.script("refund_order", [Answer::tool("refunded", &json!({})).after(Duration::from_secs(2))]);
    let open = refund(&gate.client(Era::Modern), "k1").open().await;
    // What is tested is this very moment: the client goes while the refund runs.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(open);
    assert_eq!(after_the_first(refund(&gate.client(Era::Modern), "k1")).await, "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn after_kill_9_the_outcome_is_unknown_once_the_lease_has_lapsed() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let setup = Setup::new(home, &upstream.url()).policy("lease = \"60s\"", "lease = \"2s\"");
        let mut gate = Gate::start(setup).await;
        let hold = upstream.hold("refund_order");
        let open = refund(&gate.client(Era::Modern), "k1").open().await;
        upstream.called("refund_order", 1).await;
        gate.kill();
        drop(open);
        gate.restart().await;
        let ask = refund(&gate.client(Era::Modern), "k1");
        assert_eq!(ask.clone().send().await.met(), "request_in_flight", "the lease still holds");
        assert_eq!(after_the_first(ask.clone()).await, "outcome_unknown");
        hold.release();
        let reply = ask.send().await;
        assert_eq!(
            (reply.met(), &reply.refusal()["executed"]),
            ("outcome_unknown".to_owned(), &json!("maybe"))
        );
        assert_eq!(upstream.calls("refund_order").len(), 1, "it never runs again");
        assert_eq!(gate.claim("k1").await["status"], "unknown");
        // The dead gate could not write its row; whoever found the claim did.
        let rows = gate.audit(3).await;
        let abandoned: Vec<_> = rows.iter().filter(|row| row["reason"] == "abandoned").collect();
        assert_eq!(abandoned.len(), 1, "{rows:?}");
        let logged = gate.logged();
        let lines: Vec<_> = logged.lines().filter(|line| line.contains("owner of a claim is gone")).collect();
        let [line] = lines[..] else { panic!("{lines:?}") };
        for word in
            ["WARN", "acme", "refund_order", "k1", abandoned[0]["attempt_id"].as_str().expect("an id")]
        {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert_eq!(
            (&abandoned[0]["decision"], &abandoned[0]["executed"]),
            (&json!("allowed"), &json!("maybe"))
        );
    })
    .await;
}

#[tokio::test]
async fn after_kill_9_an_idempotent_downstream_hears_the_same_key_again_once_the_timeout_has_passed() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let setup = Setup::new(home, &upstream.url())
            .set("upstream.timeout", "5s")
            .policy("lease = \"60s\"", "lease = \"1s\"");
        let mut gate = Gate::start(setup).await;
        upstream.script("charge_card", [Answer::hang(), Answer::tool("charged", &json!({ "charge": 1 }))]);
        let ask =
            |gate: &Gate| gate.client(Era::Modern).tool("charge_card", &json!({ "cents": 5 })).key("k1");
        let begun = tokio::time::Instant::now();
        let open = ask(&gate).open().await;
        upstream.called("charge_card", 1).await;
        gate.kill();
        drop(open);
        gate.restart().await;
        assert_eq!(after_the_first(ask(&gate)).await, "outcome_unknown", "the first attempt may still run");
        let refusal = ask(&gate).send().await.refusal();
        assert!(refusal["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{refusal}");
        assert_eq!(upstream.calls("charge_card").len(), 1);
        let met = eventually("the second run", async || {
            let met = ask(&gate).send().await.met();
            (met != "outcome_unknown").then_some(met)
        })
        .await;
        assert_eq!(met, "first");
        assert!(begun.elapsed() >= Duration::from_secs(5), "it ran again after {:?}", begun.elapsed());
        let calls = upstream.calls("charge_card");
        let keys: Vec<_> = calls.iter().map(|call| call.http.header("idempotency-key")).collect();
        assert_eq!(keys, [Some("acme/charge_card/k1"); 2]);
        assert_eq!(ask(&gate).send().await.met(), "replay");
    })
    .await;
}

#[tokio::test]
async fn where_the_policy_says_wait_a_retry_waits_for_the_first_answer() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let waits = "lease = \"60s\"\nin_flight = \"wait\"\nwait_up_to = \"10s\"";
        let setup = Setup::new(home, &upstream.url()).policy("lease = \"60s\"", waits);
        let one = Gate::start(setup).await;
        let hold = upstream.hold("refund_order");
        let first = refund(&one.client(Era::Modern), "k1").open().await;
        upstream.called("refund_order", 1).await;
        let retry = refund(&one.client(Era::Modern), "k1").id(2).open().await;
        // Whether it waits cannot be seen from outside until it has its answer: it must not have one before.
        let early = tokio::time::timeout(Duration::from_millis(300), retry.peek()).await;
        assert!(early.is_err(), "the retry was answered while the first call ran");
        hold.release();
        assert_eq!(first.reply().await.met(), "first");
        let reply = retry.reply().await;
        assert_eq!((reply.met(), &reply.json()["id"]), ("replay".to_owned(), &json!(2)));
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_claim_is_the_tenants_and_the_operations() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let other = gate.client_with(Era::Modern, &json!({ "tenant_id": "globex" }));
        assert_eq!(refund(&gate.client(Era::Modern), "k1").send().await.met(), "first");
        assert_eq!(refund(&other, "k1").send().await.met(), "first", "another tenant's key is another key");
        let charge = gate.client(Era::Modern).tool("charge_card", &json!({})).key("k1");
        assert_eq!(charge.send().await.met(), "first", "so is another operation's");
        assert_eq!(upstream.received().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn claims_outlive_the_gate() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(Setup::new(home, &upstream.url())).await;
        assert_eq!(refund(&gate.client(Era::Modern), "k1").send().await.met(), "first");
        assert_eq!(gate.stop().await, Some(0), "asked to stop, it ends well");
        gate.restart().await;
        assert_eq!(refund(&gate.client(Era::Modern), "k1").send().await.met(), "replay");
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_gate_asked_to_stop_finishes_the_call_that_runs() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let hold = upstream.hold("refund_order");
    let open = refund(&gate.client(Era::Modern), "k1").open().await;
    upstream.called("refund_order", 1).await;
    let stopping = async {
        // Released only once the gate was told: it waits for what runs.
        tokio::time::sleep(Duration::from_millis(200)).await;
        hold.release();
        open.reply().await
    };
    let (code, reply) = tokio::join!(gate.stop(), stopping);
    assert_eq!((code, reply.met()), (Some(0), "first".to_owned()));
}

#[tokio::test]
async fn a_gate_asked_to_stop_carries_a_call_to_its_end_whose_caller_has_gone() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let hold = upstream.hold("refund_order");
        let open = refund(&gate.client(Era::Modern), "k1").open().await;
        upstream.called("refund_order", 1).await;
        open.reset();
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            hold.release();
        };
        let (code, ()) = tokio::join!(gate.stop(), stopping);
        assert_eq!(code, Some(0));
        gate.restart().await;
        assert_eq!(gate.claim("k1").await["status"], "completed");
        assert_eq!(refund(&gate.client(Era::Modern), "k1").send().await.met(), "replay");
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_gives_up_over_http_2_does_not_stop_its_refund() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let (hold, _held) = (upstream.hold("refund_order"), upstream.hold("get_invoice"));
    let mut client = H2::to(gate.address()).await;
    let arguments = json!({ "order_id": "ord_9f2", "amount_cents": 500, "idempotency_key": "k1" });
    let refunding = client.send(1, "tools/call", &json!({ "name": "refund_order", "arguments": arguments }));
    let reading = client.send(2, "tools/call", &json!({ "name": "get_invoice", "arguments": {} }));
    upstream.called("refund_order", 1).await;
    upstream.called("get_invoice", 1).await;
    // The connection stays; both calls are given up.
    drop((refunding, reading));
    // A read ends with its caller: once its row is there the gate has heard of both.
    assert_eq!(gate.audit(1).await[0]["reason"], "client_gone");
    hold.release();
    assert_eq!(after_the_first(refund(&gate.client(Era::Modern), "k1")).await, "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
    client.close().await;
}
