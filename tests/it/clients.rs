//! The official MCP clients before the gate: what an agent sees through each of them.
//!
//! Promises: every client takes the same steps against the real gate and the sample billing server, each told as
//! one line by a script in `tests/clients`; one refund is made, and a session survives every refusal that it can.

mod tasks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::billing::Billing;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup, claims_with, sign, token};

/// How long a client's steps may take, or the installing of the clients where nobody did it before.
const PATIENCE: Duration = Duration::from_secs(150);

const KEY: &str = "refund-1";

/// How an SDK shows its caller the 403 that asks for a further scope, and what the caller can read from it.
enum StepUp {
    /// The whole session ends with an exception of this name, which knows the HTTP status.
    EndsSession(&'static str),
    /// An exception of this name, whose code is the HTTP status.
    Http(&'static str),
    /// An exception of this name, which knows the scope that the challenge asked for.
    Scope(&'static str),
    /// An exception of this name, whose code is the JSON-RPC error's.
    Rpc(&'static str),
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn python(client: &str) -> Command {
    let mut command = Command::new(root().join(".parts/clients").join(client).join("bin/python"));
    command.arg(root().join("tests/clients").join(client).join("steps.py"));
    command
}

fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", root().join(".parts/clients/typescript/node_modules"));
    command.arg(root().join("tests/clients/ts").join(script));
    command
}

/// Runs a command to its end and returns what it printed.
async fn output(what: &str, command: &mut Command) -> String {
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    let ended =
        ended.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}")).expect("it can be started");
    let complaints = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{what} ended with {}:\n{complaints}", ended.status);
    String::from_utf8(ended.stdout).expect("it prints UTF-8")
}

/// What a client told of its steps, by their names.
async fn steps(client: &mut Command, mode: Option<&str>, gate: &Gate) -> BTreeMap<String, Value> {
    let poor = sign(&claims_with(&json!({ "scope": "billing:read" })));
    let url = format!("http://{}/mcp", gate.address());
    let told = output("the client", client.args([&url, &token(), &poor, KEY]).args(mode)).await;
    let mut steps = BTreeMap::new();
    for line in told.lines() {
        let step: Value = serde_json::from_str(line).expect("an object a line");
        let name = step["step"].as_str().expect("a step has a name").to_owned();
        assert!(steps.insert(name, step).is_none(), "a step was told twice: {told}");
    }
    steps
}

/// The whole course of one client.
async fn check(mut client: Command, mode: Option<&str>, step_up: StepUp) {
    output("tests/clients/install", &mut Command::new(root().join("tests/clients/install"))).await;
    let billing = Billing::start("0s").await;
    let gate = Gate::start(Setup::new(Home::Sqlite, billing.url())).await;
    let steps = steps(&mut client, mode, &gate).await;

    check_lists(&steps["list"]["tools"], &steps["poor_list"]["tools"]);

    let first = &steps["first"];
    check_result(first);
    assert_eq!(first["structured"]["refund"]["amount_cents"], 1250, "{first}");
    assert_eq!(first["meta"]["oncegate/replayed"], Value::Null, "{first}");
    assert!(!first.to_string().contains("ada@example.com"), "the policy masks the mail address: {first}");

    let replay = &steps["replay"];
    check_result(replay);
    assert_eq!(replay["meta"]["oncegate/replayed"], true, "{replay}");
    assert_eq!((&replay["structured"], &replay["text"]), (&first["structured"], &first["text"]));

    check_refusal(&steps["other_amount"], "idempotency_key_reuse_with_different_args");
    check_refusal(&steps["no_key"], "idempotency_key_required");

    check_result(&steps["read"]);
    assert_eq!(steps["read"]["structured"]["invoice"]["id"], "inv_1001");

    check_step_up(&steps["no_scope"], &step_up);

    let effects = billing.effects();
    assert_eq!(effects.len(), 1, "one refund was meant: {effects:?}");
    let refund = json!({ "order_id": "ord_9f2", "amount_cents": 1250 });
    let told =
        ["tool", "arguments", "tenant", "user", "idempotency_key"].map(|name| effects[0][name].clone());
    assert_eq!(told, [json!("refund_order"), refund, json!("acme"), json!("u1"), json!(KEY)]);
}

/// A mutation asks for its key, nobody is asked for a tenant, and what an actor may not call is not shown.
fn check_lists(tools: &Value, poor: &Value) {
    let refund = &tools["refund_order"];
    let required = refund["required"].as_array().expect("it requires something");
    assert!(required.contains(&json!("idempotency_key")), "{refund}");
    let key = &refund["properties"]["idempotency_key"];
    assert!(key["description"].as_str().is_some_and(|text| text.contains("retry")), "{key}");
    assert!(!tools.to_string().contains("tenant_id"), "{tools}");
    assert_eq!(tools["get_invoice"]["properties"]["idempotency_key"], Value::Null);
    assert_eq!(tools["run_sql"], Value::Null, "the policy denies it: {tools}");
    let poor: Vec<_> = poor.as_object().expect("tools by name").keys().collect();
    assert_eq!(poor, ["get_invoice"], "what a token without the scope sees");
}

/// The step came to a plain result.
fn check_result(step: &Value) {
    assert_eq!((&step["outcome"], &step["is_error"]), (&json!("result"), &json!(false)), "{step}");
    assert_eq!(step["usable"], true, "the session goes on: {step}");
}

/// The step was refused in the one form that every SDK hands to its caller, and the session goes on.
fn check_refusal(step: &Value, code: &str) {
    assert_eq!((&step["outcome"], &step["is_error"]), (&json!("result"), &json!(true)), "{step}");
    let refusal = &step["meta"]["oncegate/refusal"];
    assert_eq!((&refusal["code"], &refusal["executed"]), (&json!(code), &json!("no")), "{step}");
    assert!(step["text"].as_str().is_some_and(|text| text.len() > 20), "a sentence for the model: {step}");
    assert_eq!(step["structured"], Value::Null, "{step}");
    assert_eq!(step["usable"], true, "the session goes on: {step}");
}

fn check_step_up(step: &Value, step_up: &StepUp) {
    let (name, usable) = match step_up {
        StepUp::EndsSession(name) => (name, false),
        StepUp::Http(name) | StepUp::Scope(name) | StepUp::Rpc(name) => (name, true),
    };
    assert_eq!((&step["outcome"], &step["type"]), (&json!("raised"), &json!(name)), "{step}");
    assert_eq!(step["usable"], usable, "{step}");
    match step_up {
        StepUp::EndsSession(_) => assert_eq!(step["http"], 403, "{step}"),
        StepUp::Http(_) => assert_eq!(step["code"], 403, "{step}"),
        StepUp::Scope(_) => assert_eq!(step["scope"], "billing:refund", "{step}"),
        StepUp::Rpc(_) => assert!(step["code"].is_i64(), "{step}"),
    }
}

#[tokio::test]
async fn the_python_1_client_sees_one_refund_and_each_refusal() {
    check(python("python1"), None, StepUp::EndsSession("HTTPStatusError")).await;
}

#[tokio::test]
async fn the_python_2_client_sees_one_refund_and_each_refusal() {
    check(python("python2"), None, StepUp::Rpc("MCPError")).await;
}

#[tokio::test]
async fn the_typescript_1_client_sees_one_refund_and_each_refusal() {
    check(node("sdk1.cjs"), None, StepUp::Http("StreamableHTTPError")).await;
}

#[tokio::test]
async fn the_typescript_2_client_of_the_modern_era_sees_one_refund_and_each_refusal() {
    check(node("client2.cjs"), Some("modern"), StepUp::Scope("InsufficientScopeError")).await;
}

#[tokio::test]
async fn the_typescript_2_client_of_the_legacy_era_sees_one_refund_and_each_refusal() {
    check(node("client2.cjs"), Some("legacy"), StepUp::Scope("InsufficientScopeError")).await;
}
