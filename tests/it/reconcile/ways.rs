//! Who is asked, and how: a tool in either era, in a session where there must be one, or a route.

use serde_json::json;

use super::{BY_TOOL, after_a_while, found, lost, refund, setup};
use crate::harness::answer::{Answer, MODERN, VERSION_META};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::Home;
use crate::harness::upstream::Upstream;

/// A route that is asked.
const BY_ROUTE: &str = r#"{ get = "/internal/refunds/{forwarded_key}?order={args.order_id}&tenant={tenant}", completed = { state = "done" }, absent = { code = "no_refund" }, absent_status = [404], result = "refund", every = "1h" }"#;

#[tokio::test]
async fn a_modern_claim_is_asked_about_by_one_request_that_stands_alone() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream, BY_TOOL)).await;
    upstream.script("get_refund", [found("succeeded")]);
    lost(&upstream, &gate, Era::Modern, "k1").await;
    let before = upstream.received().len();
    assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "replay");
    let asked: Vec<_> = upstream.received().split_off(before);
    assert_eq!(asked.len(), 1);
    let meta = &asked[0].json["params"]["_meta"];
    assert_eq!(
        (&meta[VERSION_META], asked[0].http.header("mcp-protocol-version")),
        (&json!(MODERN), Some(MODERN))
    );
    assert_eq!(
        (asked[0].http.header("mcp-method"), asked[0].http.header("mcp-name")),
        (Some("tools/call"), Some("get_refund"))
    );
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "oncegate");
    let trace = asked[0].http.header("traceparent").expect("the claim's own trace");
    let row = gate.audit(1).await.remove(0);
    assert!(trace.contains(row["trace_id"].as_str().expect("a trace")), "{trace}");
}

#[tokio::test]
async fn a_legacy_app_is_greeted_and_its_session_ended() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream, BY_TOOL)).await;
    let greeted = json!({ "jsonrpc": "2.0", "id": "greeting", "result": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "old", "version": "1" } } });
    let greeting = Answer::http(200, "application/json", &greeted.to_string());
    upstream.script("initialize", [greeting.with_header("Mcp-Session-Id", "s-77")]);
    upstream.script(
        "get_refund",
        [Answer::stream(
            json!({ "content": [], "structuredContent": { "refund": { "status": "succeeded" } } }),
        )],
    );
    lost(&upstream, &gate, Era::Legacy, "k1").await;
    let before = upstream.received().len();
    assert_eq!(refund(&gate, Era::Legacy, "k1").send().await.met(), "replay");
    let asked: Vec<_> = upstream.received().split_off(before);
    let told: Vec<_> = asked
        .iter()
        .map(|one| (one.http.word(0), one.rpc().to_owned(), one.http.header("mcp-session-id")))
        .collect();
    assert_eq!(
        told,
        [
            ("POST", "initialize".into(), None),
            ("POST", "notifications/initialized".into(), Some("s-77")),
            ("POST", "tools/call".into(), Some("s-77")),
            ("DELETE", String::new(), Some("s-77")),
        ]
    );
    assert_eq!(asked[0].json["params"]["protocolVersion"], Era::Legacy.version());
    assert!(asked[1..].iter().all(|one| one.http.header("mcp-protocol-version") == Some("2025-06-18")));
    assert!(asked.iter().all(|one| one.http.header("x-oncegate-user") == Some("u1")));
}

#[tokio::test]
async fn a_route_is_asked_with_everything_in_its_place() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let setup = setup(home, &upstream, BY_ROUTE)
            .policy("reconcile =", "forward_key = \"{tenant}/{key}\"\nreconcile =");
        let gate = Gate::start(setup).await;
        let done = json!({ "state": "done", "refund": { "id": "re_1", "card": "4111" } });
        upstream.script("GET", [Answer::http(200, "application/json; charset=utf-8", &done.to_string())]);
        upstream.script("acme/k 1/../?", [Answer::reset()]);
        let ask = refund(&gate, Era::Legacy, "k 1/../?");
        assert_eq!(ask.clone().send().await.met(), "outcome_unknown");
        let reply = ask.send().await;
        assert_eq!(reply.met(), "replay", "{}", reply.json());
        assert_eq!(reply.result()["structuredContent"], json!({ "id": "re_1", "card": "***" }));
        let asked = upstream.of_method("GET").pop().expect("the route was asked");
        assert_eq!(asked.http.word(1), "/internal/refunds/acme%2Fk%201%2F..%2F%3F?order=ord_9f2&tenant=acme");
        assert_eq!(asked.http.header("accept"), Some("application/json"));
        assert_eq!(
            (asked.http.header("x-oncegate-tenant"), asked.http.header("authorization")),
            (Some("acme"), None)
        );
        assert_eq!(
            asked.http.header("x-oncegate-scopes"),
            Some("billing:refund"),
            "those that the call itself needs"
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_that_would_lead_a_path_elsewhere_is_not_asked_about() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream, BY_ROUTE)).await;
    lost(&upstream, &gate, Era::Modern, "..").await;
    assert_eq!(refund(&gate, Era::Modern, "..").send().await.met(), "outcome_unknown");
    assert!(upstream.of_method("GET").is_empty());
}

#[tokio::test]
async fn a_404_counts_only_where_it_says_what_the_policy_wants_to_hear() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream, &BY_ROUTE.replace("1h", "1s"))).await;
    let missing = Answer::http(404, "text/html", "<h1>no such page</h1>");
    let other = Answer::http(404, "application/json", "{\"code\":\"no_such_route\"}");
    let teapot = Answer::http(410, "application/json", "{\"code\":\"no_refund\"}");
    let redirect = Answer::redirect(302, "/elsewhere");
    let known = Answer::http(404, "application/problem+json", "{\"code\":\"no_refund\"}");
    upstream.script("GET", [missing, other, teapot, redirect, known]);
    lost(&upstream, &gate, Era::Modern, "k1").await;
    let reply = after_a_while(refund(&gate, Era::Modern, "k1")).await;
    assert_eq!(reply.met(), "first");
    assert_eq!(upstream.of_method("GET").len(), 5, "only the last one proved anything");
    assert_eq!(upstream.with_key("k1").len(), 2);
}
