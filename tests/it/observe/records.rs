//! Calls with a key are recorded by a gate that observes, so that one that enforces knows them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{observing, refund, told};
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::cable::Cable;
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::http::Reader;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time, on_every_store, postgres};

/// Long before the store itself gives up.
const SOON: Duration = Duration::from_secs(3);

/// The claim once it is in this state, with the answer that is kept.
async fn settled(gate: &Gate, key: &str, status: &str) -> Value {
    eventually(&format!("the claim {key} to be {status}"), async || {
        let claims = gate.claims().await;
        let claim = claims.into_iter().find(|claim| claim["idempotency_key"] == key)?;
        (claim["status"] == status).then_some(claim)
    })
    .await;
    let shown = gate
        .run(&["claims", "show", "--tenant", "acme", "--tool", "refund_order", "--key", key, "--json"])
        .await;
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    serde_json::from_slice(&shown.stdout).expect("a claim as JSON")
}

#[tokio::test]
async fn a_first_call_is_recorded_and_replayed_once_the_gate_enforces() {
    on_every_store(async |home| {
        let (upstream, mut gate) = observing(home).await;
        let structured = json!({ "run": 1, "customer": { "email": "ann@example.com" } });
        upstream.script(
            "refund_order",
            [Answer::tool("refunded", &structured), Answer::stream(json!({ "content": [] }))],
        );
        for (key, era) in [("k1", Era::Modern), ("k2", Era::Legacy)] {
            let first = refund(&gate, era).key(key).send().await;
            assert_eq!(first.met(), "first");
            settled(&gate, key, "completed").await;
        }
        let rows = gate.audit(2).await;
        for row in &rows {
            assert_eq!(told(row), ("allowed", "", "yes"), "{row}");
            assert!(row["attempt_id"].is_string(), "{row}");
        }
        assert!(!rows[0].to_string().contains("ann@"), "{}", rows[0]);
        gate.stop().await;
        gate.set("mode", "enforce");
        gate.restart().await;
        for (key, era) in [("k1", Era::Modern), ("k2", Era::Legacy)] {
            let retry = refund(&gate, era).key(key).send().await;
            assert_eq!(retry.met(), "replay", "{key}");
            assert!(!retry.json().to_string().contains("ann@"), "what is kept is masked");
        }
        assert_eq!(upstream.calls("refund_order").len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_runs_again_and_leaves_the_claim_as_it_is() {
    on_every_store(async |home| {
        let (upstream, gate) = observing(home).await;
        assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
        let before = settled(&gate, "k1", "completed").await;
        let other = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "another" }));
        let stranger = gate.client_with(Era::Modern, &json!({ "sub": "u2" }));
        let stranger = stranger.tool("refund_order", &json!({ "order_id": "ord_9f2" }));
        for (count, (ask, decision, reason)) in [
            (refund(&gate, Era::Modern), "replayed", "would_replay"),
            (refund(&gate, Era::Legacy), "replayed", "would_replay"),
            (other, "denied", "would_idempotency_payload_mismatch"),
            (stranger, "denied", "would_idempotency_key_of_another_user"),
        ]
        .into_iter()
        .enumerate()
        {
            let reply = ask.key("k1").send().await;
            assert_eq!(
                (reply.met(), &reply.result()["structuredContent"]),
                ("first".to_owned(), &json!({ "run": count + 2 }))
            );
            let row = gate.audit(count + 2).await.pop().expect("a row");
            assert_eq!(told(&row), (decision, reason, "yes"), "{row}");
        }
        assert_eq!(settled(&gate, "k1", "completed").await, before);
        assert_eq!(upstream.calls("refund_order").len(), 5);
    })
    .await;
}

#[tokio::test]
async fn what_the_ledger_would_have_refused_is_written_down() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let call = |tool: &str, key: &str| gate.client(Era::Modern).tool(tool, &json!({ "to": "ann" })).key(key);
    // In flight.
    let hold = upstream.hold("charge_card");
    let open = call("charge_card", "k1").open().await;
    upstream.called("charge_card", 1).await;
    let second = call("charge_card", "k1").open().await;
    upstream.called("charge_card", 2).await;
    hold.release();
    assert_eq!(
        (open.reply().await.met(), second.reply().await.met()),
        ("first".to_owned(), "first".to_owned())
    );
    // Unknown.
    upstream.script("refund_order", [Answer::cut("{"), Answer::tool("refunded", &json!({}))]);
    let mut lost = call("refund_order", "k2").open().await.into_socket();
    let cut = in_time("what there is", Reader::new().next(&mut lost)).await.expect("a head");
    assert!(!cut.whole, "the app's answer was cut, and so is the gate's");
    settled(&gate, "k2", "unknown").await;
    assert_eq!(call("refund_order", "k2").send().await.met(), "first");
    // Not kept.
    upstream.script("refund_order", [Answer::tool("the key is sk_live_abcdefghijklmnop", &json!({}))]);
    assert_eq!(call("refund_order", "k3").send().await.met(), "first");
    settled(&gate, "k3", "completed").await;
    assert_eq!(call("refund_order", "k3").send().await.met(), "first");
    // Twins: flagged as ever, and what would have been refused is not claimed.
    for (tool, key) in [
        ("send_password_reset", "k4"),
        ("send_password_reset", "k5"),
        ("send_once", "k6"),
        ("send_once", "k7"),
    ] {
        assert_eq!(call(tool, key).send().await.met(), "first");
        eventually("its row", async || {
            let rows = gate.audit(1).await;
            rows.iter().any(|row| row["idempotency_key"] == key).then_some(())
        })
        .await;
    }
    // Certainly not run: the key is free again.
    upstream.script(
        "refund_order",
        [Answer::http(404, "text/plain", "no"), Answer::tool("refunded", &json!({}))],
    );
    assert_eq!(call("refund_order", "k8").send().await.status(), 404);
    settled(&gate, "k8", "failed").await;
    assert_eq!(call("refund_order", "k8").send().await.met(), "first");
    settled(&gate, "k8", "completed").await;

    let rows = gate.audit(12).await;
    let of = |key: &str| {
        let own = rows.iter().filter(|row| row["idempotency_key"] == key).map(told);
        let mut own: Vec<_> = own.collect();
        own.sort_unstable();
        own
    };
    assert_eq!(of("k1"), [("allowed", "", "yes"), ("denied", "would_idempotency_in_flight", "yes")]);
    assert_eq!(
        of("k2"),
        [("allowed", "outcome_unknown", "maybe"), ("denied", "would_outcome_unknown", "yes")]
    );
    assert_eq!(of("k3"), [("allowed", "", "yes"), ("denied", "would_answer_not_kept", "yes")]);
    assert_eq!(
        (of("k4"), of("k5")),
        (vec![("allowed", "", "yes")], vec![("allowed", "possible_duplicate", "yes")])
    );
    assert_eq!(
        (of("k6"), of("k7")),
        (vec![("allowed", "", "yes")], vec![("denied", "would_possible_duplicate", "yes")])
    );
    assert_eq!(of("k8"), [("allowed", "", "yes"), ("allowed", "execution_failed", "no")]);
    assert!(gate.claims().await.iter().all(|claim| claim["idempotency_key"] != "k7"));
}

#[tokio::test]
async fn whoever_hangs_up_is_recorded_all_the_same() {
    on_every_store(async |home| {
        let (upstream, gate) = observing(home).await;
        // Before the answer.
        let hold = upstream.hold("refund_order");
        let open = refund(&gate, Era::Modern).key("k1").open().await;
        upstream.called("refund_order", 1).await;
        open.reset();
        hold.release();
        settled(&gate, "k1", "completed").await;
        // In its middle.
        let hold = Hold::new();
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: begun\n\n";
        let result = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n";
        upstream.script(
            "refund_order",
            [Answer::raw(vec![
                Step::Send(head.into()),
                Step::Hold(hold.clone()),
                Step::Send(result.into()),
                Step::Hang,
            ])],
        );
        let open = refund(&gate, Era::Legacy).key("k2").open().await;
        open.peek().await;
        open.reset();
        hold.release();
        settled(&gate, "k2", "completed").await;
        let rows = gate.audit(2).await;
        assert!(rows.iter().all(|row| told(row) == ("allowed", "", "yes")), "{rows:?}");
    })
    .await;
}

#[tokio::test]
async fn a_compressed_answer_is_asked_for_only_where_nothing_is_recorded() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let zipped = |ask: crate::harness::client::Ask| ask.header("Accept-Encoding", "gzip, br");
    zipped(refund(&gate, Era::Modern).key("k1")).send().await;
    zipped(refund(&gate, Era::Modern)).send().await;
    zipped(gate.client(Era::Modern).tool("get_invoice", &json!({}))).send().await;
    let asked: Vec<_> = upstream
        .received()
        .iter()
        .map(|request| request.http.header("accept-encoding").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(asked, ["identity", "gzip, br", "gzip, br"]);
}

#[tokio::test]
async fn a_store_that_is_away_stops_nothing() {
    let upstream = Upstream::start().await;
    let server = postgres::address();
    let mut cable = Cable::to(server).await;
    let url = postgres::database().await.replace(&server.to_string(), &cable.address().to_string());
    let setup = Setup::new(Home::Postgres, &upstream.url()).set("mode", "observe");
    let gate = Gate::start_on(setup, Some(url)).await;
    cable.cut().await;
    assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
    assert_eq!(refund(&gate, Era::Modern).send().await.met(), "first");
    assert_eq!(gate.client(Era::Modern).tool("get_invoice", &json!({})).send().await.met(), "first");
    // A claim is waited for as long as the interruption may be a short one.
    eventually("the gate to find the outage long", async || {
        gate.logged().contains("The store failed.").then_some(())
    })
    .await;
    cable.mend().await;
    let rows = gate.audit(3).await;
    let mut found: Vec<_> = rows.iter().map(told).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("allowed", "", "yes"),
            ("denied", "would_missing_idempotency_key", "yes"),
            ("denied", "would_store_unavailable", "yes")
        ]
    );
    assert!(gate.claims().await.is_empty());
}

#[tokio::test]
async fn a_store_that_answers_late_keeps_nobody_waiting_and_is_told() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let setup = Setup::new(Home::Postgres, &upstream.url()).set("mode", "observe");
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    let (lock, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the database");
    let carried = tokio::spawn(connection);
    let locked = "begin; lock table oncegate.idempotency_claims in access exclusive mode";
    lock.batch_execute(locked).await.expect("a lock");
    let begun = Instant::now();
    assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    lock.batch_execute("rollback").await.expect("the lock is gone");
    settled(&gate, "k1", "completed").await;
    let rows = gate.audit(1).await;
    assert_eq!((rows.len(), told(&rows[0])), (1, ("allowed", "", "yes")), "{rows:?}");
    drop(lock);
    carried.await.expect("the connection's task").expect("it ends well");
}
