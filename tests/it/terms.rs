//! What an operation's words in the policy do to a call, on the wire.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

/// A gate whose policy has one more mutation, with these words.
async fn started(home: Home, words: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let operation = format!("[tools.ours]\neffect = \"mutation\"\nscopes = [\"billing:refund\"]\n{words}\n");
    let setup = Setup::new(home, &upstream.url());
    let setup = setup.policy("[tools.run_sql]", &format!("{operation}\n[tools.run_sql]"));
    let gate = Gate::start(setup).await;
    (upstream, gate)
}

fn ours(client: &Client, key: &str) -> Ask {
    client.tool("ours", &json!({ "order_id": "o" })).key(key)
}

/// With these capabilities said by the client.
fn able(ask: Ask, capabilities: &Value) -> Ask {
    ask.with(|body| {
        body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    })
}

#[tokio::test]
async fn an_app_that_wants_the_key_as_its_argument_gets_it_from_wherever_it_came() {
    let (upstream, gate) =
        started(Home::Sqlite, "key_argument = \"request_id\"\nforward_argument = true").await;
    let client = gate.client(Era::Modern);
    let as_argument = client.tool("ours", &json!({ "order_id": "o", "request_id": " k1 " }));
    assert_eq!(as_argument.send().await.met(), "first");
    let in_header = client.tool("ours", &json!({ "order_id": "o" })).header("Idempotency-Key", "k1");
    assert_eq!(in_header.send().await.met(), "replay", "it is no part of the intent");
    let in_header = client.tool("ours", &json!({ "order_id": "o" })).header("Idempotency-Key", "k2");
    assert_eq!(in_header.send().await.met(), "first");
    let sent: Vec<_> =
        upstream.calls("ours").iter().map(|call| call.json["params"]["arguments"].clone()).collect();
    assert_eq!(
        sent,
        [json!({ "order_id": "o", "request_id": "k1" }), json!({ "order_id": "o", "request_id": "k2" })]
    );
}

#[tokio::test]
async fn the_key_goes_on_as_the_template_says() {
    let (upstream, gate) =
        started(Home::Sqlite, "forward_key = \"{digest}\"\nforward_key_quoted = true").await;
    for key in ["k1", "k2"] {
        assert_eq!(ours(&gate.client(Era::Modern), key).send().await.met(), "first");
    }
    let calls = upstream.calls("ours");
    let keys: Vec<_> =
        calls.iter().map(|call| call.http.header("idempotency-key").unwrap_or_default()).collect();
    for key in &keys {
        let digest = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or_default();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_wait_has_its_end() {
    let (upstream, gate) = started(Home::Sqlite, "in_flight = \"wait\"\nwait_up_to = \"500ms\"").await;
    let hold = upstream.hold("ours");
    let first = ours(&gate.client(Era::Modern), "k1").open().await;
    upstream.called("ours", 1).await;
    let begun = Instant::now();
    assert_eq!(ours(&gate.client(Era::Modern), "k1").send().await.met(), "request_in_flight");
    assert!(begun.elapsed() > Duration::from_millis(200), "it waited for {:?}", begun.elapsed());
    hold.release();
    assert_eq!(first.reply().await.met(), "first");
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_its_call_runs() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home, "lease = \"1s\"").await;
        let hold = upstream.hold("ours");
        let first = ours(&gate.client(Era::Modern), "k1").open().await;
        upstream.called("ours", 1).await;
        let begun = Instant::now();
        eventually("three leases' time", async || (begun.elapsed() > Duration::from_secs(3)).then_some(()))
            .await;
        let reply = ours(&gate.client(Era::Modern), "k1").send().await;
        assert_eq!(reply.met(), "request_in_flight", "its owner lives");
        hold.release();
        assert_eq!(first.reply().await.met(), "first");
        assert_eq!(gate.claim("k1").await["status"], "completed");
    })
    .await;
}

#[tokio::test]
async fn a_key_that_a_tenant_shares_is_any_of_its_users() {
    let (upstream, gate) = started(Home::Sqlite, "shared_within_tenant = true").await;
    let another = |changes: Value| gate.client_with(Era::Modern, &changes);
    assert_eq!(ours(&gate.client(Era::Modern), "k1").send().await.met(), "first");
    assert_eq!(ours(&another(json!({ "sub": "u2" })), "k1").send().await.met(), "replay");
    assert_eq!(ours(&another(json!({ "tenant_id": "globex" })), "k1").send().await.met(), "first");
    assert_eq!(ours(&another(json!({ "tenant_id": 42, "sub": 7 })), "k1").send().await.met(), "first");
    let calls = upstream.calls("ours");
    let actors: Vec<_> = calls
        .iter()
        .map(|call| {
            ["x-oncegate-tenant", "x-oncegate-user"].map(|name| call.http.header(name).unwrap_or_default())
        })
        .collect();
    assert_eq!(actors, [["acme", "u1"], ["globex", "u1"], ["42", "7"]]);
}

#[tokio::test]
async fn an_expired_key_is_a_new_key() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home, "ttl = \"1s\"").await;
        assert_eq!(ours(&gate.client(Era::Modern), "k1").send().await.met(), "first");
        let met = eventually("the claim's end", async || {
            let met = ours(&gate.client(Era::Modern), "k1").send().await.met();
            (met != "replay").then_some(met)
        })
        .await;
        assert_eq!((met.as_str(), upstream.calls("ours").len()), ("first", 2));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_cannot_take_the_first_answer_is_told_so() {
    let (upstream, gate) = started(Home::Sqlite, "").await;
    upstream.script("ours", [Answer::result(json!({ "resultType": "task", "taskId": "t1" }))]);
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let modern = || ours(&gate.client(Era::Modern), "k1");
    for met in ["first", "replay"] {
        let reply = able(modern(), &tasks).send().await;
        assert_eq!((reply.met().as_str(), &reply.result()["resultType"]), (met, &json!("task")));
    }
    for ask in [modern(), ours(&gate.client(Era::Legacy), "k1")] {
        let reply = ask.send().await;
        assert_eq!(
            (reply.met(), &reply.refusal()["executed"]),
            ("answer_not_kept".to_owned(), &json!("maybe"))
        );
        assert_eq!(gate.audit(1).await.pop().expect("a row")["reason"], "answer_not_for_client");
    }
    assert_eq!(upstream.calls("ours").len(), 1);
}

#[tokio::test]
async fn a_tool_errors_code_becomes_the_reason_that_the_policy_gives_it() {
    let (upstream, gate) = started(Home::Sqlite, "reasons = { too_late = \"refund_too_late\" }").await;
    upstream.script("ours", [Answer::tool_error(r#"{"error":{"code":"too_late"}}"#)]);
    upstream.script("get_invoice", [Answer::tool_error(r#"{"code":"invoice_not_found"}"#)]);
    let client = gate.client(Era::Modern);
    assert_eq!(ours(&client, "k1").send().await.result()["isError"], true);
    assert_eq!(client.tool("get_invoice", &json!({})).send().await.result()["isError"], true);
    let rows = gate.audit(2).await;
    let told: Vec<_> = rows.iter().map(|row| [&row["decision"], &row["reason"], &row["executed"]]).collect();
    let row = |reason: &str| [json!("allowed"), json!(reason), json!("yes")];
    assert_eq!(told, [row("refund_too_late").each_ref(), row("not_found_or_foreign").each_ref()]);
}
