//! A task of the official TypeScript SDK, server and client, through the gate: made, asked for input, followed up by its
//! owner, out of reach of anybody else.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::agent::install;
use super::kinds::node;
use crate::harness::gate::Gate;
use crate::harness::in_time;
use crate::harness::setup::{Home, Setup, claims_with, sign, token};

/// The SDK's own server, which tells each refund that it makes.
struct Server {
    url: String,
    told: Lines<BufReader<ChildStdout>>,
    process: Child,
}

impl Server {
    async fn start() -> Self {
        let mut command = Command::from(node("tasks-server.cjs"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node");
        let mut told = BufReader::new(process.stdout.take().expect("its output is piped")).lines();
        let line = in_time("the server to listen", told.next_line()).await.expect("its output");
        Self { url: line.expect("it says where it listens"), told, process }
    }

    /// Every refund that it made. It ends by it.
    async fn refunds(mut self) -> Vec<Value> {
        self.process.kill().await.expect("it is running");
        let mut refunds = Vec::new();
        while let Some(line) = self.told.next_line().await.expect("its output") {
            refunds.push(serde_json::from_str(&line).expect("an object a line"));
        }
        refunds
    }
}

async fn steps(gate: &Gate) -> BTreeMap<String, Value> {
    let url = format!("http://{}/mcp", gate.address());
    let anothers = sign(&claims_with(&json!({ "sub": "u2" })));
    let mut client = Command::from(node("tasks1.cjs"));
    let ended = client.args([&url, &token(), &anothers, "refund-1"]).stdin(Stdio::null()).kill_on_drop(true);
    let ended = in_time("the client", ended.output()).await.expect("node");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let told = String::from_utf8(ended.stdout).expect("it prints UTF-8");
    let step = |line: &str| -> Value { serde_json::from_str(line).expect("an object a line") };
    let named = |step: Value| (step["step"].as_str().expect("a step has a name").to_owned(), step);
    told.lines().map(step).map(named).collect()
}

#[tokio::test]
async fn a_task_of_the_typescript_1_sdk_runs_once_and_for_its_owner() {
    install().await;
    let server = Server::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &server.url)).await;
    let steps = steps(&gate).await;

    let (call, again) = (&steps["call"], &steps["again"]);
    assert_eq!(call["seen"].as_array().expect("what was seen").last(), Some(&json!("result")), "{call}");
    let id = call["id"].as_str().expect("a task");
    assert!(id.contains('~'), "the app's own id stays here: {id}");
    let result = json!({ "order_id": "o1", "card": "***", "sure": true });
    for step in [call, again, &steps["ann result"]] {
        assert_eq!(step["result"]["structuredContent"], result, "{step}");
    }
    assert_eq!(again["id"], id, "a retry is answered with the same task");

    let asked = &steps["asked"]["asked"];
    assert_eq!(asked.as_array().map(Vec::len), Some(1), "{asked}");
    assert_eq!(asked[0]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);

    let own = &steps["ann get"]["task"];
    assert_eq!((&own["taskId"], &own["status"]), (&json!(id), &json!("completed")), "{own}");
    assert_eq!(steps["ann list"]["ids"], json!([id]));
    assert!(
        steps["ann cancel"]["message"].to_string().contains("completed"),
        "the app's own word: {steps:?}"
    );
    for step in ["bob get", "bob result", "bob cancel"] {
        let told = &steps[step];
        assert_eq!(told["code"], -32602, "{told}");
        assert!(told["message"].to_string().contains("There is no such task"), "the gate's word: {told}");
    }
    assert_eq!(steps["bob list"]["ids"], json!([]));

    let refund = json!({ "refunded": "o1", "answer": { "sure": true } });
    assert_eq!(server.refunds().await, [refund]);
}
