//! Tasks told of on event streams: in what comes before an answer, in subscriptions, in what a session has to say.

use serde_json::{Value, json};

use super::{about, check_refused, id_in, made, refund, started, state};
use crate::harness::answer::{Answer, Step};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn notification(method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    message["params"] = params;
    message
}

#[tokio::test]
async fn what_a_call_says_of_its_task_before_its_answer_names_the_same_task() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    let mut question = notification("elicitation/create", json!({ "message": "?" }));
    question["id"] = json!("q1");
    question["params"]["_meta"][RELATED] = json!({ "taskId": "t-1" });
    let answer = json!({ "task": state(Era::Legacy, "t-1", "working") });
    upstream.script(
        "refund_order",
        [Answer::events().event("", &question).then_result("", &answer).then(Step::Close)],
    );
    let mut stream = refund(&client, Era::Legacy).open().await.stream();
    stream.end().await;
    let messages = stream.messages();
    let id = messages[0]["params"]["_meta"][RELATED]["taskId"].clone();
    assert_eq!(messages[1]["result"]["task"]["taskId"], id, "{messages:?}");
    // The client's answer goes back to the app's own task.
    let mut said = json!({ "jsonrpc": "2.0", "id": "q1", "result": { "action": "accept" } });
    said["result"]["_meta"][RELATED] = json!({ "taskId": id });
    client.rpc("ping", &json!({})).body(said.to_string()).send().await;
    let received = upstream.received();
    let last = received.last().expect("the answer");
    assert_eq!(last.json["result"]["_meta"][RELATED]["taskId"], "t-1", "{}", last.json);
}

#[tokio::test]
async fn a_read_that_becomes_a_task_on_a_stream_is_its_callers_too() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Modern);
    let mut answer = state(Era::Modern, "t-1", "working");
    answer["resultType"] = json!("task");
    upstream.script("get_invoice", [Answer::events().then_result("", &answer).then(Step::Close)]);
    let mut stream = client.tool("get_invoice", &json!({})).open().await.stream();
    stream.end().await;
    let id = stream.messages()[0]["result"]["taskId"].as_str().expect("a task").to_owned();
    upstream.script("tasks/get", [Answer::result(state(Era::Modern, "t-1", "working"))]);
    assert_eq!(about(&client, "tasks/get", &id).send().await.result()["taskId"], id);
    let neighbour = gate.client_with(Era::Modern, &json!({ "sub": "u2" }));
    check_refused(Era::Modern, "tasks/get", &about(&neighbour, "tasks/get", &id).send().await);
}

#[tokio::test]
async fn a_subscription_names_tasks_as_its_client_does_and_masks_what_came_of_them() {
    let upstream = Upstream::start().await;
    let listen = "[methods.\"subscriptions/listen\"]\neffect = \"read\"\n\n[tools.run_sql]";
    let setup = Setup::new(Home::Sqlite, &upstream.url()).policy("[tools.run_sql]", listen);
    let gate = Gate::start(setup).await;
    let client = gate.client(Era::Modern);
    let id = made(&upstream, &client, Era::Modern).await;
    let filter = json!({ "notifications": { "taskIds": ["t-1"], "toolsListChanged": true } });
    let mut over = state(Era::Modern, "t-1", "completed");
    over["result"] = json!({ "content": [], "structuredContent": { "card": "4242", "run": 1 } });
    upstream.script(
        "subscriptions/listen",
        [Answer::events()
            .event("", &notification("notifications/subscriptions/acknowledged", filter.clone()))
            .event("", &notification("notifications/tasks", over))
            .then(Step::Close)],
    );
    let ask = |client: &Client, id: &str| {
        client.rpc(
            "subscriptions/listen",
            &json!({ "notifications": { "taskIds": [id], "toolsListChanged": true } }),
        )
    };
    let mut stream = ask(&client, &id).open().await.stream();
    stream.end().await;
    let sent = upstream.received().into_iter().find(|request| request.rpc() == "subscriptions/listen");
    assert_eq!(sent.expect("the subscription").json["params"]["notifications"], filter["notifications"]);
    let messages = stream.messages();
    assert_eq!(messages[0]["params"]["notifications"]["taskIds"], json!([id]));
    assert_eq!(messages[1]["params"]["taskId"], id);
    assert_eq!(messages[1]["params"]["result"]["structuredContent"], json!({ "card": "***", "run": 1 }));

    let before = upstream.received().len();
    let neighbour = gate.client_with(Era::Modern, &json!({ "sub": "u2" }));
    for (client, id) in [(&neighbour, id.as_str()), (&client, "t-1")] {
        check_refused(Era::Legacy, "subscriptions/listen", &ask(client, id).send().await);
    }
    let poor = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
    assert_eq!(ask(&poor, &id).send().await.status(), 403, "he may not call what made it");
    assert_eq!(upstream.received().len(), before, "nothing was forwarded");
}

#[tokio::test]
async fn a_session_tells_its_client_of_his_tasks_and_gives_him_no_others() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    let id = made(&upstream, &client, Era::Legacy).await;
    let status = |id: &str| notification("notifications/tasks/status", state(Era::Legacy, id, "working"));
    upstream.script(
        "GET",
        [Answer::events().event("", &status("t-1")).event("", &status("t-2")).then(Step::Close)],
    );
    let mut stream =
        client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type").open().await.stream();
    stream.until("t-2").await;
    let messages = stream.messages();
    assert_eq!(messages[0]["params"]["taskId"], id);
    let other = messages[1]["params"]["taskId"].as_str().expect("an id");
    assert!(other.starts_with("t-2~"), "{other}");
    check_refused(Era::Legacy, "tasks/get", &about(&client, "tasks/get", other).send().await);
}

/// Listens to the session from after the last event of a stream.
fn resume(client: &Client, after: &str) -> Ask {
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type");
    ask.header("Last-Event-ID", after)
}

#[tokio::test]
async fn a_task_that_is_told_of_on_a_resumed_stream_is_the_same_one() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    let id = made(&upstream, &client, Era::Legacy).await;
    let away = || Answer::events().event("id: e1\n", &Value::Null).then(Step::Close);
    let over = json!({ "content": [], "structuredContent": { "card": "4242" }, "_meta": { RELATED: { "taskId": "t-1" } } });
    for (method, result) in [("tasks/get", state(Era::Legacy, "t-1", "working")), ("tasks/result", over)] {
        upstream.script(method, [away()]);
        let rest = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        upstream.script("GET", [Answer::events().event("id: e2\n", &rest).then(Step::Close)]);
        let mut stream = about(&client, method, &id).open().await.stream();
        stream.end().await;
        let place = stream.last_id().expect("an id").to_owned();
        let mut stream = resume(&client, &place).open().await.stream();
        stream.until("result").await;
        let result = stream.messages()[0]["result"].clone();
        let told =
            if method == "tasks/get" { &result["taskId"] } else { &result["_meta"][RELATED]["taskId"] };
        assert_eq!(told, &json!(id), "{method}: {result}");
        assert!(!result.to_string().contains("4242"), "{result}");
    }
}

#[tokio::test]
async fn a_task_that_comes_of_a_resumed_call_is_its_callers() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let client = gate.client(Era::Legacy);
    let progress = notification("notifications/progress", json!({ "progress": 1 }));
    upstream.script("refund_order", [Answer::events().event("id: e1\n", &progress).then(Step::Hang)]);
    let mut stream = refund(&client, Era::Legacy).open().await.stream();
    stream.until("progress").await;
    let place = stream.last_id().expect("an id").to_owned();
    gate.kill();
    gate.restart().await;
    let created =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": state(Era::Legacy, "t-1", "working") } });
    upstream.script("GET", [Answer::events().event("id: e2\n", &created).then(Step::Close)]);
    let mut stream = resume(&client, &place).open().await.stream();
    stream.until("taskId").await;
    let id = stream.messages()[0]["result"]["task"]["taskId"].as_str().expect("a task").to_owned();
    upstream.script("tasks/get", [Answer::result(state(Era::Legacy, "t-1", "working"))]);
    assert_eq!(about(&client, "tasks/get", &id).send().await.result()["taskId"], id);
    let replay = refund(&client, Era::Legacy).send().await;
    assert_eq!((replay.met(), id_in(Era::Legacy, &replay)), ("replay".to_owned(), id));
}
