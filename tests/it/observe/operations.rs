//! One operation is only observed, in a gate that enforces the others.

use serde_json::json;

use super::{refund, told};
use crate::harness::answer::Answer;
use crate::harness::cable::Cable;
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store, postgres};

const ENFORCED: &str = "[tools.refund_order]\neffect";
const OBSERVED: &str = "[tools.refund_order]\nmode = \"observe\"\neffect";

async fn with_one_observed(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let setup = Setup::new(home, &upstream.url()).policy(ENFORCED, OBSERVED);
    let gate = Gate::start(setup.policy("[tools.run_sql]\n", "[tools.run_sql]\nmode = \"observe\"\n")).await;
    (upstream, gate)
}

#[tokio::test]
async fn only_its_own_decisions_are_not_carried_out() {
    on_every_store(async |home| {
        let (upstream, gate) = with_one_observed(home).await;
        let poor = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
        let observed = [
            (poor.tool("refund_order", &json!({})).key("k0"), "would_missing_scope"),
            (refund(&gate, Era::Modern), "would_missing_idempotency_key"),
            (refund(&gate, Era::Legacy).key(&"k".repeat(129)), "would_idempotency_key_invalid"),
            (
                refund(&gate, Era::Modern).key("a").header("Idempotency-Key", "b"),
                "would_idempotency_key_ambiguous",
            ),
            (poor.tool("run_sql", &json!({ "sql": "select 1" })), "would_denied_by_policy"),
        ];
        for (count, (ask, reason)) in observed.into_iter().enumerate() {
            assert_eq!(ask.send().await.met(), "first", "{reason}");
            let row = gate.audit(count + 1).await.pop().expect("a row");
            assert_eq!(told(&row), ("denied", reason, "yes"), "{row}");
            assert_eq!(upstream.received().len(), count + 1);
        }
        let nobody = Client::new(gate.address(), Era::Modern);
        assert_eq!(nobody.tool("refund_order", &json!({})).send().await.status(), 401);
        let other = gate.client(Era::Modern);
        assert_eq!(refund(&gate, Era::Modern).body("{").send().await.status(), 400);
        assert_eq!(other.tool("charge_card", &json!({})).send().await.met(), "idempotency_key_required");
        assert_eq!(poor.tool("charge_card", &json!({})).key("k1").send().await.status(), 403);
        assert_eq!(other.tool("unnamed_tool", &json!({})).send().await.met(), "operation_not_allowed");
        assert_eq!(upstream.received().len(), 5);
        assert!(gate.claims().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn its_calls_are_recorded_and_a_duplicate_runs_again() {
    on_every_store(async |home| {
        let (upstream, mut gate) = with_one_observed(home).await;
        assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
        let claim = gate.claim("k1").await;
        assert_eq!(claim["status"], "completed");
        for _ in 0..2 {
            assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
        }
        let other = gate.client(Era::Legacy).tool("refund_order", &json!({ "order_id": "another" }));
        assert_eq!(other.key("k1").send().await.met(), "first");
        assert_eq!(upstream.calls("refund_order").len(), 4);
        assert_eq!(gate.claim("k1").await, claim);
        let rows = gate.audit(4).await;
        let replay = ("replayed", "would_replay", "yes");
        let found: Vec<_> = rows.iter().map(told).collect();
        let mismatch = ("denied", "would_idempotency_payload_mismatch", "yes");
        assert_eq!(found, [("allowed", "", "yes"), replay, replay, mismatch]);
        assert_eq!(rows[1]["attempt_id"], rows[0]["attempt_id"]);
        gate.stop().await;
        gate.set_policy(OBSERVED, ENFORCED);
        gate.restart().await;
        assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "replay");
        assert_eq!(upstream.calls("refund_order").len(), 4);
    })
    .await;
}

#[tokio::test]
async fn it_gets_what_its_client_wrote() {
    let (upstream, gate) = with_one_observed(Home::Sqlite).await;
    let arguments = json!({ "order_id": "o", "tenant_id": "t", "idempotency_key": "k1" });
    for count in 1..=2 {
        let ask = gate.client(Era::Modern).tool("refund_order", &arguments);
        let ask = ask.header("Idempotency-Key", "k1").header("Mcp-Param-Tenant-Id", "t");
        assert_eq!(ask.send().await.met(), "first");
        let call = upstream.calls("refund_order").pop().expect("a call");
        assert_eq!(call.json["params"]["arguments"], arguments, "call {count}");
        assert_eq!(call.http.header("idempotency-key"), Some("k1"));
        assert_eq!(call.http.header("mcp-param-tenant-id"), Some("t"));
        assert_eq!(call.http.header("x-oncegate-tenant"), Some("acme"));
        assert_eq!(call.http.header("authorization"), None);
    }
    assert_eq!(refund(&gate, Era::Modern).key("k2").send().await.met(), "first");
    let call = upstream.calls("refund_order").pop().expect("a call");
    assert_eq!(call.http.header("idempotency-key"), None, "its client sent none");
}

#[tokio::test]
async fn its_tool_is_listed_for_everybody_as_it_is() {
    let (_upstream, gate) = with_one_observed(Home::Sqlite).await;
    let nothing = gate.client_with(Era::Legacy, &json!({ "scope": "other" }));
    let list = nothing.rpc("tools/list", &json!({})).send().await.result();
    let names: Vec<_> =
        list["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["refund_order", "run_sql"]);
    let refund = &list["tools"][0];
    assert_eq!(refund["inputSchema"]["required"], json!(["order_id", "tenant_id"]));
    assert!(refund["inputSchema"]["properties"].get("idempotency_key").is_none(), "{refund}");
    assert!(refund.get("annotations").is_none(), "{refund}");
}

#[tokio::test]
async fn what_is_masked_for_everybody_is_masked_in_its_answers_too() {
    let (upstream, gate) = with_one_observed(Home::Sqlite).await;
    let structured = json!({ "customer": { "email": "ann@example.com" } });
    upstream.script("refund_order", [Answer::tool("refunded", &structured)]);
    for ask in [
        refund(&gate, Era::Modern),
        refund(&gate, Era::Modern).key("k1"),
        refund(&gate, Era::Modern).key("k1"),
    ] {
        let reply = ask.send().await;
        assert_eq!(reply.met(), "first");
        assert!(!reply.json().to_string().contains("ann@"), "{}", reply.json());
    }
}

#[tokio::test]
async fn a_store_that_is_away_stops_only_what_is_enforced() {
    let upstream = Upstream::start().await;
    let server = postgres::address();
    let mut cable = Cable::to(server).await;
    let url = postgres::database().await.replace(&server.to_string(), &cable.address().to_string());
    let setup = Setup::new(Home::Postgres, &upstream.url()).policy(ENFORCED, OBSERVED);
    let gate = Gate::start_on(setup, Some(url)).await;
    cable.cut().await;
    let charge = gate.client(Era::Modern).tool("charge_card", &json!({})).key("k1");
    assert_eq!(charge.send().await.met(), "store_unavailable");
    assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
    cable.mend().await;
    eventually("the row", async || {
        let rows = gate.audit(1).await;
        rows.iter().any(|row| told(row) == ("denied", "would_store_unavailable", "yes")).then_some(())
    })
    .await;
    assert_eq!(upstream.received().len(), 1);
}

#[tokio::test]
async fn inside_a_tool_that_runs_others_it_is_enforced() {
    let upstream = Upstream::start().await;
    let mut setup =
        Setup::new(Home::Sqlite, &upstream.url()).policy("[defaults]\n", "[defaults]\nmode = \"observe\"\n");
    setup.policy += "\n[tools.execute_tools]\nruns = \"tools\"\n";
    let gate = Gate::start(setup).await;
    let call = json!({ "name": "refund_order", "arguments": { "order_id": "o" } });
    let execute = gate.client(Era::Modern).tool("execute_tools", &json!({ "calls": [call] }));
    assert_eq!(execute.send().await.met(), "idempotency_key_required");
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_claim_that_comes_too_late_stays_unknown_and_stops_nothing() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let setup = Setup::new(Home::Postgres, &upstream.url()).policy(ENFORCED, OBSERVED);
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    let (lock, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the database");
    let carried = tokio::spawn(connection);
    let locked = "begin; lock table oncegate.idempotency_claims in access exclusive mode";
    lock.batch_execute(locked).await.expect("a lock");
    assert_eq!(refund(&gate, Era::Modern).key("k1").send().await.met(), "first");
    lock.batch_execute("rollback").await.expect("the lock is gone");
    eventually("the claim", async || {
        let claims = gate.claims().await;
        claims.iter().any(|claim| claim["status"] == "unknown").then_some(())
    })
    .await;
    let rows = gate.audit(1).await;
    assert_eq!((rows.len(), told(&rows[0])), (1, ("allowed", "outcome_unknown", "maybe")), "{rows:?}");
    drop(lock);
    carried.await.expect("the connection's task").expect("it ends well");
}
