//! What a gate that observes writes down.

use serde_json::{Value, json};

use super::{observing, refund, told};
use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup, claims_with};
use crate::harness::upstream::Upstream;

/// Sends it; it must reach the app, and leave this row.
async fn passes(upstream: &Upstream, gate: &Gate, count: usize, ask: Ask, decision: (&str, &str)) -> Value {
    let (before, text) = (upstream.received().len(), ask.text());
    let reply = ask.send().await;
    assert_eq!(upstream.received().len(), before + 1, "{text}: {reply:?}");
    let row = gate.audit(count).await.pop().expect("a row");
    let (found, reason, _) = told(&row);
    assert_eq!((found, reason), decision, "{text}: {row}");
    row
}

#[tokio::test]
async fn each_refusal_passes_and_is_written_down() {
    on_every_store(async |home| {
        let (upstream, gate) = observing(home).await;
        let modern = || refund(&gate, Era::Modern);
        let legacy = || refund(&gate, Era::Legacy);
        let nobody = Client::new(gate.address(), Era::Legacy);
        let poor = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
        let mail = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
        let asks = [
            (modern().body("{"), "would_malformed_request"),
            (modern().with(|body| body["id"] = json!(null)), "would_malformed_request"),
            (modern().body("[]"), "would_malformed_request"),
            (modern().body("x".repeat(2 << 20)), "would_body_too_large"),
            (
                legacy().without("Content-Type").header("Content-Type", "text/json"),
                "would_unsupported_media_type",
            ),
            (modern().header("Content-Encoding", "br"), "would_unsupported_media_type"),
            (modern().without("Mcp-Method").key("k"), "would_header_mismatch"),
            (nobody.tool("refund_order", &json!({})).key("k"), "would_unauthenticated"),
            (nobody.rpc("initialize", &json!({})), "would_unauthenticated"),
            (nobody.bearing("e.e.e").tool("get_invoice", &json!({})), "would_invalid_token"),
            (poor.tool("refund_order", &json!({})).key("k"), "would_missing_scope"),
            (mail.tool("send_mail", &json!({})).key("k"), "would_missing_scope"),
            (gate.client(Era::Legacy).tool("unnamed_tool", &json!({})), "would_not_in_policy"),
            (gate.client(Era::Legacy).rpc("no/such", &json!({})), "would_not_in_policy"),
            (gate.client(Era::Legacy).tool("run_sql", &json!({})), "would_denied_by_policy"),
            (modern(), "would_missing_idempotency_key"),
            (
                modern().with(|body| body["params"]["arguments"]["idempotency_key"] = json!(7)),
                "would_idempotency_key_invalid",
            ),
            (modern().key("k1").header("Idempotency-Key", "k2"), "would_idempotency_key_ambiguous"),
        ];
        for (place, (ask, reason)) in asks.into_iter().enumerate() {
            passes(&upstream, &gate, place + 1, ask, ("denied", reason)).await;
        }
        assert!(gate.claims().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn whoever_has_no_good_token_is_anonymous() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let nobody = Client::new(gate.address(), Era::Modern);
    let ask = nobody.tool("get_invoice", &json!({ "order_id": "o" }));
    let row = passes(&upstream, &gate, 1, ask, ("denied", "would_unauthenticated")).await;
    for (name, value) in [
        ("tenant_id", json!("anonymous")),
        ("user_id", json!("anonymous")),
        ("session_id", json!(null)),
        ("tool", json!("get_invoice")),
        ("args", json!({ "order_id": "o" })),
        ("executed", json!("yes")),
        ("upstream_status", json!(200)),
    ] {
        assert_eq!(row[name], value, "{name}: {row}");
    }
    upstream.script("get_invoice", [Answer::http(401, "text/plain", "who?")]);
    let ask = nobody.tool("get_invoice", &json!({}));
    let row = passes(&upstream, &gate, 2, ask, ("denied", "would_unauthenticated")).await;
    assert_eq!((told(&row).2, &row["upstream_status"]), ("no", &json!(401)));
    let found = gate.run(&["audit", "--json", "--reason", "would_unauthenticated"]).await;
    assert_eq!(String::from_utf8_lossy(&found.stdout).lines().count(), 2);
}

#[tokio::test]
async fn a_read_leaves_the_row_that_it_always_left() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("mode", "observe").policy(
        "reasons = { invoice_not_found",
        "summary = [\"run\"]\nredact = [\"email\"]\nreasons = { invoice_not_found",
    );
    let gate = Gate::start(setup).await;
    let structured = json!({ "run": 1, "email": "ann@example.com" });
    upstream.script(
        "get_invoice",
        [Answer::tool("run 1", &structured), Answer::stream(json!({ "structuredContent": structured }))],
    );
    for count in 1..=2 {
        let ask = gate.client(Era::Legacy).tool("get_invoice", &json!({ "order_id": "o" }));
        let reply = ask.send().await;
        assert_eq!(reply.result()["structuredContent"], structured, "the client gets what the app said");
        let row = gate.audit(count).await.pop().expect("a row");
        assert_eq!(told(&row), ("allowed", "", "yes"), "{row}");
        assert!(row["result_summary"].to_string().contains("run"), "{row}");
        assert!(!row.to_string().contains("ann@"), "{row}");
    }
    for method in ["ping", "tools/list", "initialize"] {
        gate.client(Era::Legacy).rpc(method, &json!({})).send().await;
    }
    gate.client(Era::Legacy).rpc("resources/read", &json!({ "uri": "doc://1" })).send().await;
    let rows = gate.audit(3).await;
    assert_eq!((rows.len(), &rows[2]["tool"]), (3, &json!("resources/read")), "housekeeping leaves none");
}

#[tokio::test]
async fn what_enforcing_does_not_serve_is_written_down_with_its_path() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    upstream.script("GET", [Answer::http(200, "text/plain", "fine")]);
    upstream.script("OPTIONS", [Answer::http(204, "text/plain", "")]);
    let ask = gate.client(Era::Legacy).rpc("ping", &json!({})).body("");
    for (count, line, reason) in
        [(1, "GET /health?deep=1", "would_no_such_endpoint"), (2, "OPTIONS /mcp", "would_method_not_allowed")]
    {
        assert!(ask.clone().line(line).send().await.status() < 300, "{line}");
        let row = gate.audit(count).await.pop().expect("a row");
        assert_eq!(told(&row), ("denied", reason, "yes"), "{row}");
        assert_eq!(row["tool"], line.split('?').next().unwrap_or_default());
    }
    ask.clone().line("GET /mcp").send().await;
    assert_eq!(gate.audit(2).await.len(), 2, "what would pass leaves none");
}

#[tokio::test]
async fn clients_of_a_gate_that_enforced_a_moment_ago_go_on_where_they_were() {
    let upstream = Upstream::start().await;
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": "2025-11-25" } }).to_string();
    upstream.script(
        "initialize",
        [Answer::http(200, "application/json", &body).with_header("Mcp-Session-Id", "raw-1")],
    );
    let mut gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let begun = gate.client(Era::Legacy).rpc("initialize", &json!({})).send().await;
    let session = begun.http.header("mcp-session-id").expect("a session").to_owned();
    assert!(session.starts_with("raw-1~"), "{session}");
    gate.stop().await;
    gate.set("mode", "observe");
    gate.restart().await;
    let call = gate.client(Era::Legacy).tool("get_invoice", &json!({})).header("Mcp-Session-Id", &session);
    assert_eq!(call.send().await.met(), "first");
    assert_eq!(upstream.calls("get_invoice")[0].http.header("mcp-session-id"), Some("raw-1"));
}

#[tokio::test]
async fn the_log_says_loudly_that_nothing_is_refused() {
    let (_upstream, gate) = observing(Home::Sqlite).await;
    assert!(gate.logged().contains("OBSERVE MODE"), "{}", gate.logged());
}

#[tokio::test]
async fn what_is_refused_before_a_call_is_looked_at_passes_too() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("mode", "observe");
    let setup = setup.set("limits.concurrent_calls", 1);
    let gate = Gate::start(setup).await;
    let read = || gate.client(Era::Legacy).tool("get_invoice", &json!({ "order_id": "o" }));
    let host = read().without("Host").header("Host", "evil.example.com");
    passes(&upstream, &gate, 1, host, ("denied", "would_host_not_allowed")).await;
    let page = read().header("Origin", "https://evil.example.com");
    passes(&upstream, &gate, 2, page, ("denied", "would_origin_not_allowed")).await;
    let hold = upstream.hold("refund_order");
    let open = refund(&gate, Era::Legacy).key("k1").open().await;
    upstream.called("refund_order", 1).await;
    passes(&upstream, &gate, 3, read(), ("denied", "would_overloaded")).await;
    hold.release();
    assert_eq!(open.reply().await.met(), "first");
}

#[tokio::test]
async fn keys_that_cannot_be_had_keep_nobody_waiting() {
    let upstream = Upstream::start().await;
    // It takes connections, and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}/keys", silent.local_addr().expect("bound"));
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("mode", "observe").set("auth.jwks_url", url);
    let gate = Gate::start_with_keys_of_its_own(setup).await;
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let token = jsonwebtoken::encode(
        &jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256),
        &claims_with(&json!({})),
        &jsonwebtoken::EncodingKey::from_ec_pem(key.as_bytes()).expect("a key"),
    );
    let client = Client::new(gate.address(), Era::Legacy).bearing(&token.expect("claims are JSON"));
    let ask = client.tool("get_invoice", &json!({}));
    let row = passes(&upstream, &gate, 1, ask, ("denied", "would_keys_unavailable")).await;
    let waited = row["duration_ms"].as_i64().expect("a duration");
    assert!(waited < 4000, "{waited} ms, and the fetch gives up after 5 s");
    assert_eq!(row["tenant_id"], "anonymous");
}

#[tokio::test]
async fn an_answer_that_a_client_could_not_take_is_told_of() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let task = json!({ "resultType": "task", "taskId": "t1", "status": "working" });
    upstream.script("refund_order", [Answer::result(task)]);
    assert_eq!(
        refund(&gate, Era::Modern).key("k1").send().await.result()["taskId"],
        "t1",
        "as the app calls it"
    );
    gate.audit(1).await;
    let again = refund(&gate, Era::Legacy).key("k1");
    passes(&upstream, &gate, 2, again, ("denied", "would_answer_not_for_client")).await;
}
