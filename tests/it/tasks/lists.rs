//! Lists of tasks, and subscriptions to them.

use serde_json::{Value, json};

use super::{about, created, id_in, started, state, with_tasks};
use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::upstream::Upstream;

/// Everybody's tasks, as a careless app lists them.
fn everybodys() -> Answer {
    let tasks: Vec<_> = ["t-1", "t-2", "t-3"].iter().map(|id| state(Era::Legacy, id, "working")).collect();
    Answer::result(json!({ "tasks": tasks, "nextCursor": "more" }))
}

async fn listed(client: &Client) -> Vec<Value> {
    let reply = client.rpc("tasks/list", &json!({})).send().await;
    assert_eq!((reply.status(), &reply.result()["nextCursor"]), (200, &json!("more")));
    let tasks = reply.result()["tasks"].as_array().expect("a list").clone();
    tasks.iter().map(|task| task["taskId"].clone()).collect()
}

async fn make(upstream: &Upstream, client: &Client, raw: &str) -> String {
    upstream.script("refund_order", [created(Era::Legacy, raw)]);
    let ask = client.tool("refund_order", &json!({ "order_id": raw })).key(raw);
    id_in(Era::Legacy, &with_tasks(Era::Legacy, ask).send().await)
}

#[tokio::test]
async fn a_list_shows_each_his_own() {
    let (upstream, mut gate) = started().await;
    let ann = gate.client(Era::Legacy);
    let bob = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    let one = make(&upstream, &ann, "t-1").await;
    let two = make(&upstream, &bob, "t-2").await;
    upstream.script("tasks/list", [everybodys()]);
    assert_eq!(listed(&ann).await, [json!(one)]);
    assert_eq!(listed(&bob).await, [json!(two)]);
    assert!(listed(&gate.client_with(Era::Legacy, &json!({ "tenant_id": "globex" }))).await.is_empty());
    gate.kill();
    gate.restart().await;
    assert!(listed(&ann).await.is_empty(), "what was given is forgotten with the process");
    upstream.script("tasks/get", [Answer::result(state(Era::Legacy, "t-1", "working"))]);
    assert_eq!(about(&ann, "tasks/get", &one).send().await.met(), "first");
    assert_eq!(listed(&ann).await, [json!(one)], "its owner has asked for it");
}

#[tokio::test]
async fn a_list_on_a_stream_is_filtered_as_well() {
    let (upstream, gate) = started().await;
    let ann = gate.client(Era::Legacy);
    let one = make(&upstream, &ann, "t-1").await;
    let tasks = [state(Era::Legacy, "t-1", "working"), state(Era::Legacy, "t-2", "working")];
    upstream.script("tasks/list", [Answer::stream(json!({ "tasks": tasks, "nextCursor": "more" }))]);
    assert_eq!(listed(&ann).await, [json!(one)]);
}
