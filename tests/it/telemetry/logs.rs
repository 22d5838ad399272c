//! The log: a line for each request, when it is over, with what a person needs.

use std::process::Command;

use serde_json::{Value, json};

use crate::egress::scene::scene;
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// Its lines of requests that were answered, once there are so many.
async fn answered(gate: &Gate, count: usize) -> Vec<Value> {
    eventually("a line for each request", async || {
        let logged = gate.logged();
        let lines = logged.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<_> = lines.filter(|line| line["message"] == "Answered.").collect();
        (lines.len() == count).then_some(lines)
    })
    .await
}

#[track_caller]
fn says(line: &Value, fields: &Value) {
    for (name, value) in fields.as_object().expect("an object") {
        assert_eq!(&line[name], value, "{name} of {line}");
    }
}

#[tokio::test]
async fn each_request_leaves_one_line_that_says_what_was_decided_and_why() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let client = gate.client(Era::Modern);
    let refund = || client.tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("the-key");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = refund().header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(traced.send().await.met(), "first");
    let mut lines = answered(&gate, 1).await;
    assert_eq!(refund().send().await.met(), "replay");
    lines.push(answered(&gate, 2).await.remove(1));
    assert_eq!(client.tool("run_sql", &json!({})).send().await.met(), "operation_not_allowed");
    lines.push(answered(&gate, 3).await.remove(2));
    let nobody = Client::new(gate.address(), Era::Modern);
    assert_eq!(nobody.tool("refund_order", &json!({})).send().await.status(), 401);
    lines.push(answered(&gate, 4).await.remove(3));
    let [first, replay, denied, stranger] = &lines[..] else { panic!("{lines:?}") };
    says(
        first,
        &json!({
            "level": "INFO", "method": "POST", "way": "tools/call", "tool": "refund_order", "decision": "allowed",
            "executed": "yes", "status": 200, "tenant": "acme", "service": "billing", "trace_id": trace,
        }),
    );
    assert!(first["ms"].is_u64() && first["reason"].is_null(), "{first}");
    says(replay, &json!({ "decision": "replayed", "executed": "yes" }));
    says(denied, &json!({ "decision": "denied", "reason": "denied_by_policy", "executed": "no" }));
    says(stranger, &json!({ "decision": "denied", "reason": "unauthenticated", "status": 401 }));
    for secret in ["the-key", "ord_9f2"] {
        assert!(!gate.logged().contains(secret), "{secret} is in {}", gate.logged());
    }
}

#[tokio::test]
async fn a_plain_request_is_known_by_its_routes_template() {
    let scene = scene(Home::Sqlite).await;
    assert_eq!(scene.form("POST /v1/refunds", "k1", "amount=5").send().await.status(), 200);
    let lines = answered(&scene.gate, 1).await;
    let what = json!({ "way": "/v1/refunds", "tool": "create_refund", "service": "billing:stripe" });
    says(&lines[0], &what);
}

#[test]
fn what_keeps_a_gate_from_starting_is_a_line_of_json_where_that_is_asked_for() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    let command = command.args(["serve", "--config", "no-such-file.toml"]).env("ONCEGATE_LOG_FORMAT", "json");
    let ended = command.output().expect("the gate's binary");
    assert_eq!(ended.status.code(), Some(78));
    let said = String::from_utf8(ended.stderr).expect("UTF-8");
    let line: Value = serde_json::from_str(said.trim()).expect("one line of JSON");
    says(&line, &json!({ "level": "ERROR", "exit_code": 78 }));
    assert!(line["message"].as_str().expect("a text").contains("cannot be read"), "{line}");
}
