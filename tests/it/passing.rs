//! What passes through, and what changes on the way: headers, replays, `tools/list`, housekeeping.

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

async fn started(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(home, &upstream.url())).await;
    (upstream, gate)
}

#[tokio::test]
async fn the_actor_comes_from_the_token_and_from_nowhere_else() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let reply = gate
        .client(Era::Modern)
        .tool("refund_order", &json!({ "order_id": "o", "tenant_id": "globex" }))
        .key("k1")
        .header("X-Oncegate-Tenant", "globex")
        .header("x-oncegate-user", "root")
        .header("X_Oncegate_Tenant", "globex")
        .header("X.Oncegate.Tenant", "globex")
        .header("X_Oncegate-Scopes", "everything")
        .header("Connection", "keep-alive, X-Nominated")
        .header("X-Nominated", "gone")
        .header("X-Kept", "here")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .send()
        .await;
    assert_eq!(reply.met(), "first");
    let calls = upstream.calls("refund_order");
    let http = &calls[0].http;
    for (name, value) in [
        ("x-oncegate-tenant", Some("acme")),
        ("x-oncegate-user", Some("u1")),
        ("x-oncegate-session", Some("s1")),
        ("x-oncegate-scopes", Some("accounts:mail billing:read billing:refund")),
        ("idempotency-key", Some("k1")),
        ("x-kept", Some("here")),
        ("x-nominated", None),
        ("authorization", None),
    ] {
        assert_eq!(http.header(name), value, "{name}");
    }
    let odd: Vec<_> = http.headers.iter().filter(|(name, _)| name.contains(['_', '.'])).collect();
    assert!(odd.is_empty(), "{odd:?}");
    let trace = http.header("traceparent").unwrap_or_default();
    assert!(trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{trace}");
    assert_eq!(calls[0].json["params"]["arguments"], json!({ "order_id": "o" }), "the tenant is no argument");
    assert_eq!(calls[0].http.header("mcp-name"), Some("refund_order"));
}

#[tokio::test]
async fn the_app_learns_who_called_and_by_which_name() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("allowed_hosts", "shop.example.org");
    let gate = Gate::start(setup).await;
    let ask = gate
        .client(Era::Modern)
        .tool("get_invoice", &json!({ "order_id": "o" }))
        .without("Host")
        .header("Host", "shop.example.org:8443")
        .header("X-Forwarded-For", "203.0.113.7")
        .header("X-Forwarded-Host", "evil.example.org")
        .header("X-Forwarded-Proto", "gopher")
        .header("Forwarded", "for=203.0.113.8")
        .header("tracestate", "vendor=1")
        .header("Cookie", "session=1");
    assert_eq!(ask.send().await.met(), "first");
    let calls = upstream.calls("get_invoice");
    for (name, value) in [
        ("host", Some("shop.example.org:8443")),
        ("x-forwarded-host", Some("api.example.com")),
        ("x-forwarded-proto", Some("https")),
        ("x-forwarded-for", Some("203.0.113.7, 127.0.0.1")),
        ("forwarded", None),
        ("tracestate", Some("vendor=1")),
        ("cookie", None),
    ] {
        assert_eq!(calls[0].http.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn numbers_reach_the_app_as_they_were_written() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let ask = gate.client(Era::Modern).tool("refund_order", &json!({ "n": "HERE" })).key("k1");
    let numbers = "[9007199254740993,1.0,1e2,0.10,-0,12345678901234567890123]";
    let body = ask.text().replace("\"HERE\"", numbers);
    assert_eq!(ask.body(body).send().await.met(), "first");
    let sent = String::from_utf8_lossy(&upstream.calls("refund_order")[0].http.body).into_owned();
    assert!(sent.contains(numbers), "{sent}");
}

#[tokio::test]
async fn the_tenant_argument_is_no_part_of_the_intent() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    let ask = |arguments: Value| client.tool("refund_order", &arguments).key("k1");
    assert_eq!(ask(json!({ "order_id": "o", "tenant_id": "x" })).send().await.met(), "first");
    assert_eq!(ask(json!({ "tenant_id": "y", "order_id": "o" })).send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn a_replay_is_the_first_answer_under_a_new_id() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        // Numbers and spaces that a parser might spoil, headers that must not be given twice.
        let result = r#"{"content":[{"type":"text","text":"ok"}],"structuredContent":{"big":12345678901234567890,"cents":1.50,"e":1E2},"resultType":"complete"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":"first","result":{result}}}"#);
        upstream.script(
            "refund_order",
            [Answer::http(200, "application/json", &body)
                .with_header("ETag", "\"v1\"")
                .with_header("Set-Cookie", "session=1")
                .with_header("X-Trace", "t1")],
        );
        let ask = |era| gate.client(era).tool("refund_order", &json!({ "order_id": "o" })).key("k1");
        let first = ask(Era::Modern).id("first").send().await;
        assert_eq!((first.met(), first.http.header("idempotent-replayed")), ("first".to_owned(), None));
        for (era, id) in [(Era::Modern, json!("second")), (Era::Legacy, json!(3))] {
            let replay = ask(era).id(id.clone()).send().await;
            assert_eq!((replay.met(), &replay.json()["id"]), ("replay".to_owned(), &id));
            assert_eq!(replay.http.header("etag"), Some("\"v1\""));
            assert_eq!((replay.http.header("set-cookie"), replay.http.header("x-trace")), (None, None));
            let text = String::from_utf8_lossy(&replay.http.body).into_owned();
            for exact in ["12345678901234567890", "1.50", "1E2"] {
                assert!(text.contains(exact), "{exact} is not in {text}");
            }
            let mut result = replay.result();
            result.as_object_mut().expect("a result").remove("_meta");
            assert_eq!(result, first.result());
        }
        let rows = gate.audit(3).await;
        let decisions: Vec<_> = rows.iter().map(|row| row["decision"].as_str().unwrap_or_default()).collect();
        assert_eq!(decisions, ["allowed", "replayed", "replayed"]);
    })
    .await;
}

#[tokio::test]
async fn a_legacy_answer_gains_its_type_for_a_modern_caller() {
    let (_upstream, gate) = started(Home::Sqlite).await;
    let ask = |era| gate.client(era).tool("refund_order", &json!({ "order_id": "o" })).key("k1");
    assert!(ask(Era::Legacy).send().await.result()["resultType"].is_null());
    let replay = ask(Era::Modern).send().await;
    assert_eq!((replay.met(), &replay.result()["resultType"]), ("replay".to_owned(), &json!("complete")));
}

#[tokio::test]
async fn a_replay_needs_the_scope_too() {
    let (_upstream, gate) = started(Home::Sqlite).await;
    let ask = |client: &Client| client.tool("refund_order", &json!({ "order_id": "o" })).key("k1");
    assert_eq!(ask(&gate.client(Era::Modern)).send().await.met(), "first");
    let poor = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
    assert_eq!(ask(&poor).send().await.status(), 403);
}

#[tokio::test]
async fn what_policy_redacts_nobody_gets_and_nothing_keeps() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        let structured = json!({ "run": 1, "customer": { "email": "ann@example.com" }, "card": { "last4": 4242 } });
        upstream.script("refund_order", [Answer::tool("refunded", &structured)]);
        let arguments = json!({ "order_id": "o", "customer": { "email": "ann@example.com" }, "token": "Bearer abcdefghijklmnop0123456789" });
        let ask = || {
            let ask = gate.client(Era::Modern).tool("refund_order", &arguments).key("k1");
            ask.with(|body| {
                let client = &mut body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"];
                client["name"] = json!("sk_live_abcdefghijklmnop");
            })
        };
        for met in ["first", "replay"] {
            let reply = ask().send().await;
            assert_eq!(reply.met(), met);
            assert!(!reply.json().to_string().contains("ann@example.com"), "{}", reply.json());
        }
        let sent = &upstream.calls("refund_order")[0].json["params"]["arguments"];
        assert_eq!(sent["customer"]["email"], "ann@example.com", "the app needs it");
        let rows = gate.audit(2).await;
        let kept = json!([rows, gate.claims().await]).to_string() + &gate.logged();
        for secret in ["ann@example.com", "abcdefghijklmnop"] {
            assert!(!kept.contains(secret), "{secret} is in {kept}");
        }
        assert!(rows[0]["result_summary"].to_string().contains("run"), "{}", rows[0]);
    })
    .await;
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn the_list_of_tools_is_what_this_actor_may_call() {
    let (_upstream, gate) = started(Home::Sqlite).await;
    for era in Era::ALL {
        let list = gate.client(era).rpc("tools/list", &json!({})).send().await.result();
        assert_eq!(
            names(&list),
            ["get_invoice", "refund_order"],
            "run_sql is denied, unnamed_tool is not named"
        );
        let schema = &list["tools"][1]["inputSchema"];
        let properties = schema["properties"].as_object().expect("properties");
        assert!(!properties.contains_key("tenant_id") && properties.contains_key("order_id"), "{schema}");
        assert_eq!(properties["idempotency_key"]["type"], "string");
        let told = properties["idempotency_key"]["description"].as_str().unwrap_or_default();
        assert!(told.contains("same") && told.contains("new"), "{told}");
        assert_eq!(schema["required"], json!(["order_id", "idempotency_key"]));
        let read = &list["tools"][0]["inputSchema"];
        assert_eq!(read["required"], json!(["order_id"]));
        assert!(read["properties"].get("idempotency_key").is_none(), "a read needs no key");
        let scope = if era == Era::Modern { json!("private") } else { Value::Null };
        assert_eq!(list["cacheScope"], scope);
        let poor = gate.client_with(era, &json!({ "scope": "billing:read" }));
        let list = poor.rpc("tools/list", &json!({})).send().await.result();
        assert_eq!(names(&list), ["get_invoice"]);
    }
}

#[tokio::test]
async fn what_a_server_can_do_is_joined_by_what_the_gate_can() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let key = json!({ "metaKey": "oncegate/idempotency-key" });
    for streamed in [false, true] {
        for (era, method) in [(Era::Legacy, "initialize"), (Era::Modern, "server/discover")] {
            let can =
                json!({ "tools": { "listChanged": true }, "logging": {}, "experimental": { "a/b": {} } });
            let told = json!({ "capabilities": can, "serverInfo": { "name": "app", "version": "1" } });
            let answer = if streamed { Answer::stream(told) } else { Answer::result(told) };
            upstream.script(method, [answer]);
            let result = gate.client(era).rpc(method, &json!({})).send().await.result();
            let can = &result["capabilities"];
            assert_eq!(can["tools"], json!({ "listChanged": true, "idempotency": key }), "{method}");
            assert_eq!(can["experimental"], json!({ "a/b": {}, "oncegate/idempotency": key }), "{method}");
            assert_eq!((&can["logging"], &result["serverInfo"]["name"]), (&json!({}), &json!("app")));
        }
    }
}

#[tokio::test]
async fn housekeeping_passes_and_other_methods_need_a_name() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Legacy);
    for method in ["initialize", "ping", "resources/list", "prompts/list", "logging/setLevel"] {
        assert_eq!(client.rpc(method, &json!({})).send().await.word(), "ok", "{method}");
    }
    let discover = gate.client(Era::Modern).rpc("server/discover", &json!({})).send().await;
    assert_eq!(discover.word(), "ok");
    let note = client.rpc("notifications/initialized", &json!({}));
    let note = note.with(|body| drop(body.as_object_mut().map(|body| body.remove("id"))));
    assert_eq!(note.send().await.status(), 202);
    let read = client.rpc("resources/read", &json!({ "uri": "doc://1" }));
    assert_eq!(read.send().await.word(), "ok", "named in the policy");
    let passed = upstream.received().len();
    assert_eq!(passed, 8);
    for method in ["prompts/get", "tasks/cancel", "resources/subscribe", "no/such"] {
        let reply = client.rpc(method, &json!({ "name": "x" })).send().await;
        assert_ne!(reply.word(), "ok", "{method}");
        assert!(reply.json()["error"].is_object() || reply.refusal().is_object(), "{method}: {reply:?}");
    }
    assert_eq!(upstream.received().len(), passed);
}

#[tokio::test]
async fn who_has_no_token_yet_learns_where_to_get_one() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let nobody = Client::new(gate.address(), Era::Modern).rpc("ping", &json!({}));
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let reply = nobody.clone().line(&format!("GET {path}")).send().await;
        assert_eq!(
            (reply.status(), reply.http.header("content-type")),
            (200, Some("application/json")),
            "{path}"
        );
        let json = reply.json();
        assert_eq!(json["resource"], "https://api.example.com/mcp");
        assert_eq!(json["authorization_servers"], json!(["https://id.example.com"]));
        assert_eq!(json["scopes_supported"], json!(["accounts:mail", "billing:read", "billing:refund"]));
    }
    assert_eq!(nobody.line("POST /.well-known/oauth-protected-resource").send().await.status(), 401);
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn other_paths_and_methods_do_not_exist() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let ask = gate.client(Era::Legacy).rpc("ping", &json!({}));
    for line in [
        "POST /",
        "GET /sse",
        "POST /messages",
        "POST /mcp/",
        "GET /mcp/",
        "POST /mcp/..",
        "POST //mcp",
        "GET /admin",
    ] {
        let reply = ask.clone().line(line).send().await;
        assert!((400..500).contains(&reply.status()), "{line}: {reply:?}");
    }
    for line in ["PUT /mcp", "PATCH /mcp", "OPTIONS /mcp"] {
        let reply = ask.clone().line(line).send().await;
        assert_eq!(reply.status(), 405, "{line}");
        assert!(reply.http.header("allow").is_some_and(|allow| allow.contains("POST")), "{line}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_read_needs_no_key_and_leaves_a_row() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        let ask = gate.client(Era::Modern).tool("get_invoice", &json!({ "order_id": "o" })).key("ignored");
        let odd = ask.clone().with(|body| body["params"]["_meta"]["idempotencyKey"] = json!(7));
        assert_eq!(odd.send().await.met(), "first");
        assert_eq!(ask.send().await.met(), "first", "reads run each time");
        let calls = upstream.calls("get_invoice");
        assert_eq!(calls.len(), 2);
        for call in calls {
            assert_eq!(call.json["params"]["arguments"], json!({ "order_id": "o" }), "the key is taken out");
            assert!(call.json["params"]["_meta"].get("idempotencyKey").is_none(), "{}", call.json);
        }
        let rows = gate.audit(2).await;
        assert!(
            rows.iter().all(|row| row["decision"] == "allowed" && row["tool"] == "get_invoice"),
            "{rows:?}"
        );
        assert!(gate.claims().await.is_empty());
    })
    .await;
}
