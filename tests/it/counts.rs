//! What `/metrics` says after calls: one count for each row, and labels that nobody outside can make many.

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

fn calls(tool: &str, decision: &str, reason: &str) -> String {
    format!(r#"oncegate_calls_total{{tool="{tool}",decision="{decision}",reason="{reason}"}}"#)
}

#[tokio::test]
async fn every_row_is_counted_once_when_it_is_decided() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        let refund =
            |key: &str, order: &str| client.tool("refund_order", &json!({ "order_id": order })).key(key);
        for (ask, met) in [
            (refund("k1", "a"), "first"),
            (refund("k1", "a"), "replay"),
            (refund("k1", "a"), "replay"),
            (refund("k1", "b"), "idempotency_key_reuse_with_different_args"),
            (client.tool("refund_order", &json!({})), "idempotency_key_required"),
            (client.tool("get_invoice", &json!({})), "first"),
            (client.tool("run_sql", &json!({})), "operation_not_allowed"),
            (client.tool("no_such_tool", &json!({})), "operation_not_allowed"),
            (client.tool("nor_this_one", &json!({})), "operation_not_allowed"),
        ] {
            assert_eq!(ask.send().await.met(), met);
        }
        upstream.script("refund_order", [Answer::reset()]);
        assert_eq!(refund("k2", "a").send().await.met(), "outcome_unknown");
        upstream.script("get_invoice", [Answer::reset()]);
        assert_eq!(client.tool("get_invoice", &json!({})).send().await.met(), "execution_failed");
        let nobody = Client::new(gate.address(), Era::Modern);
        for tool in ["refund_order", "no_such_tool"] {
            assert_eq!(nobody.tool(tool, &json!({})).send().await.status(), 401);
        }
        let foreign = nobody.tool("refund_order", &json!({})).header("Origin", "https://evil.example.com");
        assert_eq!(foreign.send().await.status(), 403);
        // A read's row waits in the queue; it is there once its row is.
        assert_eq!(gate.audit(11).await.len(), 11);
        for (tool, decision, reason, count) in [
            ("refund_order", "allowed", "", 1),
            ("refund_order", "replayed", "", 2),
            ("refund_order", "denied", "idempotency_payload_mismatch", 1),
            ("refund_order", "denied", "missing_idempotency_key", 1),
            ("refund_order", "allowed", "outcome_unknown", 1),
            ("refund_order", "denied", "unauthenticated", 1),
            ("get_invoice", "allowed", "", 1),
            ("get_invoice", "allowed", "read_failed", 1),
            ("run_sql", "denied", "denied_by_policy", 1),
            ("other", "denied", "not_in_policy", 2),
            ("other", "denied", "unauthenticated", 1),
            ("other", "denied", "origin_not_allowed", 1),
            ("no_such_tool", "denied", "not_in_policy", 0),
        ] {
            let series = calls(tool, decision, reason);
            assert_eq!(gate.count(&series).await, count, "{series}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_the_policy_does_not_name_is_hidden_logged_once_and_counted() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    for era in Era::ALL {
        let tools = gate.client(era).rpc("tools/list", &json!({})).send().await.result()["tools"].clone();
        let names: Vec<_> = tools.as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["get_invoice", "refund_order"]);
    }
    let hidden = |tool: &str| format!(r#"oncegate_hidden_tools_total{{tool="{tool}"}}"#);
    assert_eq!(gate.count(&hidden("unnamed_tool")).await, 2);
    assert_eq!(gate.count(&hidden("run_sql")).await, 0, "the policy names it, and denies it");
    let logged = gate.logged();
    assert_eq!(logged.matches("\"tool\":\"unnamed_tool\"").count(), 1, "{logged}");
    // However many names an upstream makes up, the counts stay few.
    let many: Vec<_> = (0..400).map(|n| json!({ "name": format!("made_up_{n}") })).collect();
    upstream.script("tools/list", [Answer::result(json!({ "tools": many }))]);
    for _ in 0..2 {
        assert_eq!(gate.client(Era::Legacy).rpc("tools/list", &json!({})).send().await.word(), "ok");
    }
    assert_eq!(gate.count(&hidden("made_up_0")).await, 2);
    assert_eq!(gate.count(&hidden("made_up_254")).await, 2);
    assert_eq!(gate.count(&hidden("made_up_255")).await, 0);
    assert_eq!(gate.count(&hidden("other")).await, 2 * (400 - 255));
    assert_eq!(gate.logged().matches("the policy does not name").count(), 256);
}
