//! The plain course: what is listed, a read, a mutation, its retry on a new connection, progress of a slow one.

use serde_json::{Value, json};

use super::agent::{Agent, call};
use super::kinds::Shows;
use super::scene::Shop;
use crate::harness::setup::{claims_with, sign, token};

/// A token without the scope that mutations need.
pub(super) fn poor_token() -> String {
    sign(&claims_with(&json!({ "scope": "billing:read" })))
}

pub(super) async fn check(agent: &mut Agent, shop: &Shop) {
    agent.connect("first", &shop.gate, &token()).await;
    check_tools(&agent.list("first").await.end["tools"]);
    agent.connect("poor", &shop.gate, &poor_token()).await;
    let poor = agent.list("poor").await;
    let poor: Vec<_> = poor.end["tools"].as_object().expect("tools by name").keys().collect();
    assert_eq!(poor, ["get_invoice"], "what a token without the scope sees");
    agent.close("poor").await;

    let told = agent.call("first", &call("get_invoice", &json!({ "invoice_id": "inv_1001" }))).await;
    assert_eq!(told.is_first()["invoice"]["id"], "inv_1001");

    let refund =
        call("refund_order", &json!({ "order_id": "ord_9f2", "amount_cents": 1250 })).key("refund-1");
    let first = agent.call("first", &refund).await;
    assert_eq!(first.is_first()["refund"]["amount_cents"], 1250);
    assert!(
        !first.end.to_string().contains("ada@example.com"),
        "the policy masks the mail address: {first:?}"
    );
    agent.close("first").await;

    agent.connect("again", &shop.gate, &token()).await;
    let replay = agent.call("again", &refund).await;
    assert_eq!(replay.is_replay(), first.is_first());
    assert_eq!(replay.end["text"], first.end["text"]);

    let close = call("close_month", &json!({ "month": "2026-11" })).key("month-1");
    let slow = agent.call("again", &close).await;
    slow.is_first();
    let steps = if agent.kind.shows == Shows::All { json!([1.0, 2.0, 3.0]) } else { json!([]) };
    assert_eq!(floats(&slow.progress), steps, "{slow:?}");
    let replay = agent.call("again", &close).await;
    assert_eq!(replay.is_replay(), slow.is_first());
    assert!(replay.progress.is_empty(), "a replay has nothing to tell on the way: {replay:?}");
    agent.close("again").await;

    assert_eq!(shop.effects("close_month").len(), 1);
    let effects = shop.effects("refund_order");
    assert_eq!(effects.len(), 1, "one refund was meant: {effects:?}");
    let told = ["arguments", "tenant", "user", "idempotency_key"].map(|name| effects[0][name].clone());
    let arguments = json!({ "order_id": "ord_9f2", "amount_cents": 1250 });
    assert_eq!(told, [arguments, json!("acme"), json!("u1"), json!("refund-1")]);
}

/// As some clients write them: 1 is 1.0 to others.
fn floats(numbers: &[Value]) -> Value {
    numbers.iter().map(Value::as_f64).collect()
}

/// A mutation asks for its key, nobody is asked for a tenant, and what an actor may not call is not shown.
fn check_tools(tools: &Value) {
    let refund = &tools["refund_order"];
    let required = refund["required"].as_array().expect("it requires something");
    assert!(required.contains(&json!("idempotency_key")), "{refund}");
    let key = &refund["properties"]["idempotency_key"];
    assert!(key["description"].as_str().is_some_and(|text| text.contains("retry")), "{key}");
    assert!(!tools.to_string().contains("tenant_id"), "{tools}");
    assert_eq!(tools["get_invoice"]["properties"]["idempotency_key"], Value::Null);
    assert_eq!(tools["run_sql"], Value::Null, "the policy denies it: {tools}");
}
