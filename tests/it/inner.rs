//! A tool that runs other tools goes around nothing: each call inside is decided, keyed, run, kept and written down like
//! a call of its own.

mod runs;
mod shape;

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::{Received, Upstream};

const POLICY: &str = r#"
[tools.execute_tools]
runs = "tools"

[tools.get_customer]
effect = "read"
scopes = ["crm:read"]
redact = ["email"]

[tools.run_jobs]
runs = "tools"
members = { calls = "jobs", name = "job", arguments = "with", results = "done" }
scopes = ["jobs:run"]
"#;

fn setup(home: Home, upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(home, &upstream.url());
    setup.policy += POLICY;
    setup
}

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream)).await;
    (upstream, gate)
}

fn all_scopes() -> Value {
    json!({ "scope": "billing:read billing:refund accounts:mail crm:read jobs:run" })
}

fn client(gate: &Gate, era: Era) -> Client {
    gate.client_with(era, &all_scopes())
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

fn refund(key: &str, order: &str) -> Value {
    call("refund_order", &json!({ "order_id": order, "idempotency_key": key }))
}

fn execute(client: &Client, calls: &[Value]) -> Ask {
    client.tool("execute_tools", &json!({ "calls": calls }))
}

/// What the calls inside came to, as the client reads it.
fn told(reply: &Reply) -> Value {
    let result = reply.result();
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no content in {}", reply.json()));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "{result}");
    let told: Value = serde_json::from_str(content[0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(told["ok"], json!(result["isError"] == false), "{told}");
    told
}

fn text(result: &Value) -> Value {
    serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON")
}

/// The inner calls that went up, in order; each went alone.
fn inner_calls(upstream: &Upstream) -> Vec<Value> {
    let outer = upstream.calls("execute_tools");
    let calls: Vec<_> = outer.iter().flat_map(Received::inner).collect();
    assert_eq!(calls.len(), outer.len(), "each inner call goes up alone");
    calls
}

#[tokio::test]
async fn reads_inside_are_reads_of_their_own() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream)).await;
        for (n, era) in Era::ALL.into_iter().enumerate() {
            let arguments = json!({ "order_id": "o", "tenant_id": "globex", "idempotency_key": "k" });
            let calls = [call("get_invoice", &arguments), call("get_customer", &json!({ "customer": 7 }))];
            let ask = execute(&client(&gate, era), &calls).with(|body| {
                body["params"]["arguments"]["tenant_id"] = json!("globex");
                body["params"]["arguments"]["stop"] = json!(true);
            });
            let reply = ask.send().await;
            let told = told(&reply);
            let results = told["results"].as_array().expect("results");
            let names: Vec<_> = results.iter().map(|result| &result["name"]).collect();
            assert_eq!(names, ["get_invoice", "get_customer"]);
            assert_eq!(text(&results[0])["email"], "a@example.com");
            assert_eq!(text(&results[1])["email"], "***", "masked as its own rule says");
            let kind = if era == Era::Modern { json!("complete") } else { Value::Null };
            assert_eq!(reply.result()["resultType"], kind);
            let calls = inner_calls(&upstream).split_off(2 * n);
            assert_eq!(
                calls,
                [
                    call("get_invoice", &json!({ "order_id": "o" })),
                    call("get_customer", &json!({ "customer": 7 })),
                ]
            );
            let outer = upstream.calls("execute_tools").pop().expect("a call");
            assert_eq!(outer.json["params"]["arguments"]["stop"], true, "what else the tool was told");
            assert_eq!(outer.json["params"]["arguments"].get("tenant_id"), None);
            let rows = gate.audit(2 * (n + 1)).await.split_off(2 * n);
            let tools: Vec<_> = rows.iter().map(|row| (&row["tool"], &row["decision"])).collect();
            assert_eq!(
                tools,
                [(&json!("get_invoice"), &json!("allowed")), (&json!("get_customer"), &json!("allowed")),]
            );
            assert_eq!(rows[0]["trace_id"], rows[1]["trace_id"], "by which they belong together");
        }
        assert!(gate.claims().await.is_empty());
    })
    .await;
}

/// Refused whole, with one row of the outer call, and nothing run.
async fn check_denied(gate: &Gate, upstream: &Upstream, ask: Ask, code: &str, reason: &str) -> Reply {
    let before = gate.audit(0).await.len();
    let reply = ask.send().await;
    assert_eq!(reply.word(), code, "{}", reply.json());
    let rows = gate.audit(before + 1).await.split_off(before);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = (&rows[0]["tool"], &rows[0]["decision"], &rows[0]["reason"], &rows[0]["executed"]);
    assert_eq!(row, (&json!("execute_tools"), &json!("denied"), &json!(reason), &json!("no")));
    assert!(upstream.received().is_empty(), "nothing was run");
    reply
}

#[tokio::test]
async fn one_call_inside_that_is_denied_denies_the_whole() {
    let (upstream, gate) = started().await;
    let good = call("get_invoice", &json!({ "order_id": "o" }));
    for era in Era::ALL {
        let ask = |other: Value| execute(&client(&gate, era), &[good.clone(), other]);
        for (tool, reason) in [
            ("run_sql", "denied_by_policy"),
            ("no_such_tool", "not_in_policy"),
            ("Refund_Order", "not_in_policy"),
            ("resources/read", "not_in_policy"),
            ("execute_tools", "denied_by_policy"),
            ("run_jobs", "denied_by_policy"),
        ] {
            let ask = ask(call(tool, &json!({ "calls": [good], "idempotency_key": "k" })));
            check_denied(&gate, &upstream, ask, "operation_not_allowed", reason).await;
        }
    }
}

#[tokio::test]
async fn one_challenge_asks_for_the_scopes_of_the_whole() {
    let (upstream, gate) = started().await;
    let calls = [call("get_customer", &json!({})), refund("k", "o"), call("get_invoice", &json!({}))];
    for era in Era::ALL {
        let poor = gate.client_with(era, &json!({ "scope": "crm:read" }));
        let reply = execute(&poor, &calls).send().await;
        assert_eq!(reply.status(), 403);
        let challenge = reply.http.header("www-authenticate").expect("a challenge");
        assert!(challenge.contains(r#"scope="billing:read billing:refund crm:read""#), "{challenge}");
        let row = gate.audit(1).await.pop().expect("a row");
        assert_eq!((&row["tool"], &row["reason"]), (&json!("execute_tools"), &json!("missing_scope")));
        let nobody = execute(&Client::new(gate.address(), era), &calls).send().await;
        let challenge = nobody.http.header("www-authenticate").expect("a challenge");
        assert!(
            nobody.status() == 401 && challenge.contains(r#"scope="billing:read billing:refund crm:read""#)
        );
        let mail = call("send_mail", &json!({ "idempotency_key": "k" }));
        let told = execute(&gate.client_with(era, &json!({ "scope": "crm:read" })), &[mail]).send().await;
        assert_eq!(
            (told.status(), told.word()),
            (200, "forbidden".to_owned()),
            "as that tool's rule says it"
        );
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn with_a_mutation_inside_every_call_needs_a_key_of_its_own() {
    let (upstream, gate) = started().await;
    let bare = call("refund_order", &json!({ "order_id": "o" }));
    let read = call("get_invoice", &json!({ "order_id": "o" }));
    let keyed_read = call("get_invoice", &json!({ "order_id": "o", "idempotency_key": "r" }));
    let odd = call("refund_order", &json!({ "order_id": "o", "idempotency_key": 7 }));
    for era in Era::ALL {
        let missing = ("idempotency_key_required", "missing_idempotency_key");
        let invalid = ("idempotency_key_invalid", "idempotency_key_invalid");
        for (calls, (code, reason)) in [
            (vec![bare.clone()], missing),
            (vec![refund("k1", "o"), bare.clone()], missing),
            (vec![read.clone(), refund("k1", "o")], missing),
            (vec![refund("k1", "o"), read.clone()], missing),
            (vec![keyed_read.clone(), odd.clone()], invalid),
        ] {
            let ask = execute(&client(&gate, era), &calls);
            // A key for the whole is no call's own.
            let ask = ask.header("Idempotency-Key", "whole").with(|body| {
                body["params"]["arguments"]["idempotency_key"] = json!("whole");
                body["params"]["_meta"]["oncegate/idempotency-key"] = json!("whole");
            });
            let reply = check_denied(&gate, &upstream, ask, code, reason).await;
            let text = reply.result()["content"][0]["text"].to_string();
            assert!(reason != missing.1 || text.contains("every call in"), "{text}");
        }
    }
    assert!(gate.claims().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_read_is_not_run_and_not_written_down() {
    let (upstream, gate) = started().await;
    let good = call("get_invoice", &json!({ "card": "4111 1111 1111 1111", "note": "private words" }));
    let with = |calls: Value| json!({ "calls": calls });
    for arguments in [
        json!({}),
        with(json!(null)),
        with(json!([])),
        with(json!({ "0": good })),
        with(json!(good.to_string())),
        with(json!([good, "get_invoice"])),
        with(json!([good, { "arguments": {} }])),
        with(json!([good, { "name": "", "arguments": {} }])),
        with(json!([good, { "name": ["get_invoice"] }])),
        with(json!([good, { "name": "get_invoice", "arguments": [1] }])),
        with(json!([good, { "name": "get_invoice", "arguments": "{}" }])),
        with(json!([good, { "name": "get_invoice", "Name": "run_sql" }])),
        with(json!([good, { "name": "get_invoice", "ARGUMENTS": {} }])),
        json!({ "calls": [good], "Calls": [{ "name": "run_sql" }] }),
        with(Value::Array(vec![good.clone(); 101])),
    ] {
        let ask = client(&gate, Era::Modern).tool("execute_tools", &arguments);
        let unreadable = "inner_calls_unreadable";
        check_denied(&gate, &upstream, ask, unreadable, unreadable).await;
        let row = gate.audit(1).await.pop().expect("a row");
        assert!(!row.to_string().contains("private"), "{row}");
    }
}

#[tokio::test]
async fn the_row_of_a_denied_call_masks_what_is_inside_as_the_tools_inside_say() {
    let (upstream, gate) = started().await;
    let customer = call("get_customer", &json!({ "email": "a@example.com", "id": 7 }));
    let refund = call("refund_order", &json!({ "customer": { "email": "b@example.com" }, "card": "x" }));
    let ask = execute(&client(&gate, Era::Modern), &[customer, refund, call("run_sql", &json!({}))]);
    check_denied(&gate, &upstream, ask, "operation_not_allowed", "denied_by_policy").await;
    let row = gate.audit(1).await.pop().expect("a row");
    assert!(!row["args"].to_string().contains("example.com"), "{row}");
    assert_eq!(row["args"]["calls"][0]["arguments"], json!({ "email": "***", "id": 7 }));
    assert_eq!(
        row["args"]["calls"][1]["arguments"],
        json!({ "customer": { "email": "***" }, "card": "***" })
    );
}

#[tokio::test]
async fn an_answer_in_another_form_is_shown_only_where_nothing_is_to_be_masked() {
    let (upstream, gate) = started().await;
    let odd = Answer::tool("private words", &json!({ "email": "a@example.com" }));
    upstream.script("execute_tools", [odd]);
    let reply = execute(&client(&gate, Era::Modern), &[call("get_invoice", &json!({}))]).send().await;
    assert_eq!(told(&reply)["results"][0]["content"][0]["text"], "private words");
    let reply = execute(&client(&gate, Era::Modern), &[call("get_customer", &json!({}))]).send().await;
    let json = reply.json().to_string();
    assert!(!json.contains("private") && !json.contains("example.com"), "{json}");
    assert_eq!(told(&reply)["ok"], false);
    let keyed = refund("k1", "a");
    let reply = execute(&client(&gate, Era::Modern), std::slice::from_ref(&keyed)).send().await;
    assert!(!reply.json().to_string().contains("private"), "{}", reply.json());
    assert!(
        execute(&client(&gate, Era::Modern), &[keyed]).send().await.is_replay(),
        "it ran, and never runs again"
    );
    // The outer tool's own error is told: no call's result is in it.
    upstream.script("execute_tools", [Answer::tool_error("The calls field is wrong.")]);
    let reply = execute(&client(&gate, Era::Modern), &[call("get_customer", &json!({}))]).send().await;
    assert_eq!(told(&reply)["results"][0]["content"][0]["text"], "The calls field is wrong.");
}

#[tokio::test]
async fn the_members_are_named_as_the_policy_says() {
    let (upstream, gate) = started().await;
    let entry =
        json!({ "job": "get_customer", "content": [{ "type": "text", "text": "{\"email\":\"a@b.c\"}" }] });
    let answer = json!({ "content": [], "structuredContent": { "done": [entry], "ok": true } });
    upstream.script("run_jobs", [Answer::result(answer)]);
    let job = json!({ "job": "get_customer", "with": { "tenant_id": "x", "id": 7 }, "priority": 1 });
    let ask = client(&gate, Era::Modern).tool("run_jobs", &json!({ "jobs": [job], "mode": "fast" }));
    let reply = ask.clone().send().await;
    let told: Value =
        serde_json::from_str(reply.result()["content"][0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(told["done"][0]["job"], "get_customer");
    assert_eq!(text(&told["done"][0])["email"], "***");
    let sent = &upstream.calls("run_jobs")[0].json["params"]["arguments"];
    let job = json!({ "job": "get_customer", "with": { "id": 7 }, "priority": 1 });
    assert_eq!(sent, &json!({ "mode": "fast", "jobs": [job] }));
    let poor = gate.client_with(Era::Modern, &json!({ "scope": "crm:read" }));
    let poor = poor.tool("run_jobs", &json!({ "jobs": [{ "job": "get_customer" }] })).send().await;
    let challenge = poor.http.header("www-authenticate").expect("a challenge");
    assert!(
        challenge.contains(r#"scope="crm:read jobs:run""#),
        "what the tool around it needs, too: {challenge}"
    );
}

#[tokio::test]
async fn it_is_listed_as_the_upstream_lists_it() {
    let (upstream, gate) = started().await;
    let schema = json!({ "type": "object", "required": ["calls"],
        "properties": { "calls": { "type": "array" }, "tenant_id": { "type": "string" } } });
    let tool =
        json!({ "name": "execute_tools", "inputSchema": schema, "annotations": { "openWorldHint": true } });
    upstream.script("tools/list", [Answer::result(json!({ "tools": [tool] }))]);
    for era in Era::ALL {
        let list = gate.client(era).rpc("tools/list", &json!({})).send().await.result();
        assert_eq!(list["tools"], json!([tool]));
    }
}
