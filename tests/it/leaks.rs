//! Side doors: what must neither get in nor out beside what is looked at, and places that are given back.

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Step};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const POLICY: &str = r#"
[tools.execute_tools]
runs = "tools"
scopes = ["billing:read"]

[methods."tasks/result"]
effect = "read"
scopes = ["billing:read"]
redact = ["iban"]
"#;

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(Home::Sqlite, &upstream.url());
    setup.policy += POLICY;
    let gate = Gate::start(setup).await;
    (upstream, gate)
}

#[tokio::test]
async fn no_tenant_and_no_second_key_stands_beside_an_inner_calls_arguments() {
    let (upstream, gate) = started().await;
    let call = json!({
        "name": "refund_order",
        "arguments": { "order_id": "o", "tenant_id": "globex", "idempotency_key": "k1" },
        "note": "stays",
        "tenant_id": "globex",
        "idempotency_key": "k2",
        "idempotencyKey": "k3",
    });
    let calls = json!({ "calls": [call] });
    gate.client(Era::Legacy).tool("execute_tools", &calls).send().await;
    let sent = upstream.calls("execute_tools");
    let inner = &sent[0].json["params"]["arguments"]["calls"][0];
    assert_eq!(*inner, json!({ "name": "refund_order", "arguments": { "order_id": "o" }, "note": "stays" }));
}

#[tokio::test]
async fn the_apps_inner_address_is_in_no_header_of_an_answer() {
    let (upstream, gate) = started().await;
    let result = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } }).to_string();
    let inner = format!("{}/mcp/orders/1", upstream.url());
    let answer = Answer::http(200, "application/json", &result)
        .with_header("location", &inner)
        .with_header("content-location", &inner)
        .with_header("link", &format!("<{inner}>; rel=\"self\""));
    for tool in ["get_invoice", "refund_order"] {
        upstream.script(tool, [answer.clone()]);
        for id in [1, 1] {
            let ask = gate.client(Era::Legacy).tool(tool, &json!({})).key("k1").id(id);
            let mut stream = ask.open().await.stream();
            let head = stream.head().await;
            assert!(!head.contains(&upstream.address().to_string()), "{head}");
            assert!(head.contains("location: https://api.example.com/mcp/orders/1"), "{head}");
        }
    }
}

#[tokio::test]
async fn a_resumed_stream_is_masked_by_every_rule_that_its_first_one_was() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    let task =
        json!({ "taskId": "t-1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null });
    upstream.script("get_invoice", [Answer::result(json!({ "task": task }))]);
    let made = client.tool("get_invoice", &json!({})).send().await.result();
    let id = made["task"]["taskId"].as_str().expect("a task").to_owned();
    upstream.script("tasks/result", [Answer::events().event("id: e1\n", &Value::Null).then(Step::Close)]);
    let mut stream = client.rpc("tasks/result", &json!({ "taskId": id })).open().await.stream();
    stream.end().await;
    let place = stream.last_id().expect("an id").to_owned();
    let result = json!({ "content": [], "structuredContent": { "iban": "DE0012345", "id": "inv_1" } });
    let rest = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    upstream.script("GET", [Answer::events().event("id: e2\n", &rest).then(Step::Close)]);
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").header("Last-Event-ID", &place);
    let told = ask.open().await.stream().end().await;
    assert!(told.contains("inv_1") && !told.contains("DE0012345"), "{told}");
}

#[tokio::test]
async fn whoever_drops_its_streams_gives_their_places_back() {
    let (upstream, gate) = started().await;
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    upstream.script("get_invoice", [Answer::events().event("", &progress).then(Step::Hang)]);
    let client = gate.client(Era::Modern);
    // More than there are places, for calls and for rows.
    for _ in 0..22 {
        let asks = (0..50).map(|_| client.tool("get_invoice", &json!({})).open());
        for open in futures_util::future::join_all(asks).await {
            open.stream().until("progress").await;
        }
    }
    upstream.script("get_invoice", [Answer::tool("an invoice", &json!({ "id": 1 }))]);
    let reply = client.tool("get_invoice", &json!({})).send().await;
    assert_eq!(reply.result()["structuredContent"]["id"], 1, "{}", reply.json());
}

#[tokio::test]
async fn whoever_listens_takes_no_rows_place() {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(Home::Sqlite, &upstream.url());
    setup.policy += "\n[methods.\"subscriptions/listen\"]\neffect = \"read\"\nredact = [\"iban\"]\n";
    let gate = Gate::start(setup).await;
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    upstream.script("subscriptions/listen", [Answer::events().event("", &progress).then(Step::Hang)]);
    let client = gate.client(Era::Modern);
    let mut listening = Vec::new();
    // More than there are places for rows.
    for _ in 0..1100 {
        let mut stream = client.rpc("subscriptions/listen", &json!({})).open().await.stream();
        stream.until("progress").await;
        listening.push(stream);
    }
    let reply = client.tool("get_invoice", &json!({})).send().await;
    assert_eq!(reply.result()["structuredContent"]["run"], 1, "{}", reply.json());
}

#[tokio::test]
async fn a_read_method_has_a_calls_whole_time_and_no_more() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "1s")).await;
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    upstream.script("resources/read", [Answer::events().event("", &progress).then(Step::Hang)]);
    let ask = gate.client(Era::Modern).rpc("resources/read", &json!({ "uri": "x:y" }));
    let told = ask.open().await.stream().end().await;
    assert!(told.contains("read_failed") || told.contains("execution_failed"), "{told}");
}

#[tokio::test]
async fn an_id_that_is_used_twice_unmasks_nothing() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    upstream.script("ping", [Answer::events().event("id: 1/1\n", &Value::Null).then(Step::Close)]);
    let mut stream = client.rpc("ping", &json!({})).open().await.stream();
    stream.end().await;
    let place = stream.last_id().expect("an id").to_owned();
    // A server that knows its streams by the requests' ids gives a later answer under the same id.
    let result = json!({ "content": [], "structuredContent": { "card": "hidden" } });
    let later = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    upstream.script("GET", [Answer::events().event("id: 1/2\n", &later).then(Step::Close)]);
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").header("Last-Event-ID", &place);
    let told = ask.open().await.stream().end().await;
    assert!(!told.contains("hidden"), "{told}");
}
