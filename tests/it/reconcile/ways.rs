//! Who is asked, and how: a tool in either era, in a session where there must be one, or a route.

use serde_json::json;

use super::{BY_TOOL, after_a_while, found, lost, refund, setup};
use crate::harness::answer::{Answer, MODERN, Step, VERSION_META};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

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

/// A plain request that can be asked about.
const ROUTE: &str = r#"
[routes.create_refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["billing:refund"]
redact = ["card"]
forward_key = "{tenant}/{key}"
reconcile = { get = "/api/asked?key={forwarded_key}&order={args.path.order}&cents={args.body.amount_cents}", completed = { state = "done" }, result = "refund", absent = { code = "no_refund" }, absent_status = [404], every = "1s" }
"#;

#[tokio::test]
async fn what_became_of_a_plain_request_is_asked_of_the_app_and_replayed_as_plain_json() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut setup = Setup::new(home, &upstream.url()).set("upstream.timeout", "1s");
        ROUTE.clone_into(&mut setup.policy);
        let gate = Gate::start(setup).await;
        let client = gate.client(Era::Modern).bearing(&token());
        let refund = |key: &str| {
            let ask = client.plain("POST /api/orders/o1/refunds").header("Idempotency-Key", key);
            ask.json(&json!({ "amount_cents": 500, "card": "4111" }))
        };
        upstream.script("POST /api/orders/o1/refunds", [Answer::raw(vec![Step::Reset])]);
        let done = json!({ "state": "done", "refund": { "id": "re_1", "card": "4111" } });
        upstream.script("GET /api/asked", [Answer::http(200, "application/json", &done.to_string())]);
        let first = refund("k1").send().await;
        assert_eq!((first.status(), &first.json()["code"]), (409, &json!("outcome_unknown")));
        let again = eventually("somebody to know", async || {
            let reply = refund("k1").send().await;
            (reply.status() != 409).then_some(reply)
        })
        .await;
        assert_eq!((again.status(), again.json()), (200, json!({ "id": "re_1", "card": "***" })));
        assert_eq!(again.http.header("content-type"), Some("application/json"));
        assert_eq!(again.http.header("idempotent-replayed"), Some("true"));
        let asked = upstream.plain("GET /api/asked").pop().expect("the app was asked");
        assert_eq!(asked.http.word(1), "/api/asked?key=acme%2Fk1&order=o1&cents=500");
        assert_eq!(upstream.plain("POST /api/orders/o1/refunds").len(), 1);

        let missing = Answer::http(404, "application/problem+json", "{\"code\":\"no_refund\"}");
        upstream.script("GET /api/asked", [missing]);
        assert_eq!(refund("k2").send().await.status(), 409);
        upstream
            .script("POST /api/orders/o1/refunds", [Answer::http(201, "application/json", "{\"run\":2}")]);
        let ran = eventually("the key to be free", async || {
            let reply = refund("k2").send().await;
            (reply.status() != 409).then_some(reply)
        })
        .await;
        assert_eq!((ran.status(), ran.http.header("idempotent-replayed")), (201, None));
        assert_eq!(upstream.plain("POST /api/orders/o1/refunds").len(), 3, "one of k1, two of k2");
    })
    .await;
}
