//! Plain routes: the same gate and the same ledger as for tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Step};
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup, claims_with, sign, token};
use crate::harness::upstream::Upstream;

const POLICY: &str = r#"
[routes.create_refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["billing:refund"]
redact = ["customer.email"]
summary = ["run"]

[routes.show_order]
method = "GET"
path = "/api/orders/{order}"
effect = "read"
scopes = ["billing:read"]

[routes.masked]
method = "GET"
path = "/api/customers/{customer}"
effect = "read"
scopes = ["billing:read"]
redact = ["email"]

[routes.note]
method = "POST"
path = "/api/notes"
effect = "mutation"
scopes = ["billing:refund"]
key = "optional"

[routes.release]
method = ["PUT", "DELETE"]
path = "/api/locks/{lock}"
effect = "mutation"
scopes = ["billing:refund"]
completes = ["2xx"]
releases = ["404", "429"]
"#;

const REFUND: &str = "POST /api/orders/o1/refunds";

struct Scene {
    upstream: Upstream,
    gate: Gate,
    client: Client,
}

async fn scene(home: Home) -> Scene {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(home, &upstream.url()).set("upstream.timeout", "2s");
    POLICY.clone_into(&mut setup.policy);
    let gate = Gate::start(setup).await;
    let client = gate.client(Era::Modern).bearing(&token());
    Scene { upstream, gate, client }
}

fn refund(client: &Client, key: &str) -> Ask {
    client.plain(REFUND).header("Idempotency-Key", key).json(&json!({ "amount_cents": 500 }))
}

/// The words of a problem: status, code, executed, retry.
fn problem(reply: &Reply) -> (u16, String, String, String) {
    let json = reply.json();
    let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(reply.http.header("content-type"), Some("application/problem+json"), "{reply:?}");
    assert_eq!(json["status"], reply.status(), "{reply:?}");
    (reply.status(), word("code"), word("executed"), word("retry"))
}

fn is(reply: &Reply, status: u16, code: &str, executed: &str, retry: &str) {
    assert_eq!(problem(reply), (status, code.to_owned(), executed.to_owned(), retry.to_owned()));
}

fn replayed(reply: &Reply) -> bool {
    reply.http.header("idempotent-replayed") == Some("true")
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_nothing_runs_again() {
    on_every_store(async |home| {
        let Scene { upstream, gate, client } = scene(home).await;
        let answer = Answer::raw(vec![Step::Send(
            "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /api/refunds/9\r\nSet-Cookie: a=b\r\n\
             X-Request-Id: 7\r\nContent-Length: 10\r\n\r\n{ \"run\":1}"
                .into(),
        )]);
        upstream.script(REFUND, [answer]);
        let first = refund(&client, "k1").send().await;
        assert_eq!((first.status(), &first.http.body[..], replayed(&first)), (201, &b"{ \"run\":1}"[..], false));
        assert_eq!(first.http.header("x-request-id"), Some("7"));
        let again = refund(&client, "\"k1\"").send().await;
        assert_eq!((again.status(), &again.http.body[..], replayed(&again)), (201, &b"{ \"run\":1}"[..], true));
        assert_eq!(again.http.header("location"), Some("/api/refunds/9"));
        assert_eq!(again.http.header("content-type"), Some("application/json"));
        assert_eq!((again.http.header("x-request-id"), again.http.header("set-cookie")), (None, None));
        let sent = upstream.plain(REFUND);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].http.header("idempotency-key"), Some("k1"));
        assert_eq!(sent[0].http.header("x-oncegate-tenant"), Some("acme"));
        assert_eq!(sent[0].http.header("authorization"), None);
        assert_eq!(&sent[0].http.body[..], b"{\"amount_cents\":500}");
        let other = client.plain(REFUND).header("Idempotency-Key", "k1").json(&json!({ "amount_cents": 501 }));
        is(&other.send().await, 422, "idempotency_key_reuse_with_different_args", "no", "new_key");
        let elsewhere = client.plain("POST /api/orders/o2/refunds").header("Idempotency-Key", "k1");
        let elsewhere = elsewhere.json(&json!({ "amount_cents": 500 })).send().await;
        is(&elsewhere, 422, "idempotency_key_reuse_with_different_args", "no", "new_key");
        let rows = gate.audit(4).await;
        let told: Vec<_> = rows.iter().map(|row| (row["decision"].clone(), row["reason"].clone())).collect();
        assert_eq!(
            told,
            [
                (json!("allowed"), Value::Null),
                (json!("replayed"), Value::Null),
                (json!("denied"), json!("idempotency_payload_mismatch")),
                (json!("denied"), json!("idempotency_payload_mismatch")),
            ]
        );
        assert_eq!(rows[0]["tool"], "create_refund");
        assert_eq!(rows[0]["upstream_status"], 201);
        assert_eq!(rows[0]["args"]["path"]["order"], "o1");
        assert_eq!(rows[0]["args"]["body"]["amount_cents"], 500);
        assert_eq!(rows[0]["protocol"], "http");
    })
    .await;
}

#[tokio::test]
async fn what_may_not_pass_is_a_problem_and_nothing_is_sent() {
    let Scene { upstream, gate: _gate, client } = scene(Home::Sqlite).await;
    let json = json!({ "amount_cents": 500 });
    is(&client.plain(REFUND).json(&json).send().await, 400, "idempotency_key_required", "no", "new_key");
    let twice = refund(&client, "k1").header("Idempotency-Key", "k2").send().await;
    is(&twice, 400, "idempotency_key_ambiguous", "no", "new_key");
    let stranger = client.bearing("nonsense").plain(REFUND).send().await;
    is(&stranger, 401, "invalid_token", "no", "same_key");
    assert!(stranger.http.header("www-authenticate").is_some());
    let reader = client.bearing(&sign(&claims_with(&json!({ "scope": "billing:read" }))));
    is(&refund(&reader, "k1").send().await, 403, "forbidden", "no", "same_key");
    is(&client.plain("GET /api/elsewhere").send().await, 403, "operation_not_allowed", "no", "no");
    is(&client.plain("GET /api/orders/o1/refunds").send().await, 405, "method_not_allowed", "no", "no");
    is(&client.plain("POST /api//orders/o1/refunds").send().await, 400, "path_not_normal", "no", "no");
    let over = refund(&client, "k1").header("X-HTTP-Method-Override", "DELETE").send().await;
    is(&over, 400, "method_override", "no", "no");
    let foreign =
        client.plain(REFUND).header("Idempotency-Key", "k1").json(&json!({ "tenant_id": "umbrella" }));
    is(&foreign.send().await, 403, "foreign_tenant", "no", "no");
    let broken =
        client.plain(REFUND).header("Idempotency-Key", "k1").header("Content-Type", "application/json");
    is(&broken.body("{\"a\":1,\"a\":2}").send().await, 400, "body_unreadable", "no", "no");
    assert_eq!(upstream.received().len(), 0);
}

#[tokio::test]
async fn what_an_app_could_take_for_its_mcp_endpoint_is_opened_by_no_prefix() {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(Home::Sqlite, &upstream.url());
    "[routes.all]\nmethod = [\"GET\", \"POST\"]\npath = \"/*\"\neffect = \"read\"\n"
        .clone_into(&mut setup.policy);
    let gate = Gate::start(setup).await;
    let client = gate.client(Era::Modern).bearing(&token());
    for path in ["/MCP", "/mcp/", "/index.php/mcp", "/mcp.json"] {
        for method in ["GET", "POST"] {
            let reply = client.plain(&format!("{method} {path}")).send().await;
            is(&reply, 403, "operation_not_allowed", "no", "no");
        }
    }
    assert_eq!(upstream.received().len(), 0);
    assert_eq!(client.plain("GET /api/x").send().await.status(), 200);
}

#[tokio::test]
async fn an_answer_that_got_lost_is_unknown_and_runs_no_second_time() {
    on_every_store(async |home| {
        let Scene { upstream, gate: _gate, client } = scene(home).await;
        upstream.script(REFUND, [Answer::raw(vec![Step::Reset])]);
        let first = refund(&client, "k1").send().await;
        is(&first, 409, "outcome_unknown", "maybe", "no");
        let again = refund(&client, "k1").send().await;
        is(&again, 409, "outcome_unknown", "maybe", "no");
        assert_eq!(upstream.plain(REFUND).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_status_completes_releases_or_says_nothing_as_the_policy_says() {
    on_every_store(async |home| {
        let Scene { upstream, gate: _gate, client } = scene(home).await;
        let lock = |key: &str| client.plain("PUT /api/locks/l1").header("Idempotency-Key", key);
        let name = "PUT /api/locks/l1";
        let json =
            |status: u16| Answer::http(status, "application/json", &json!({ "status": status }).to_string());
        // Released: the client hears the app's own answer, and the key may try again.
        upstream.script(name, [json(404), json(200)]);
        let first = lock("k1").send().await;
        assert_eq!(
            (first.status(), replayed(&first), first.json()["status"].clone()),
            (404, false, json!(404))
        );
        let second = lock("k1").send().await;
        assert_eq!((second.status(), replayed(&second)), (200, false));
        assert!(replayed(&lock("k1").send().await));
        // Not named, so unknown.
        upstream.script(name, [json(409), json(200)]);
        is(&lock("k2").send().await, 409, "outcome_unknown", "maybe", "no");
        is(&lock("k2").send().await, 409, "outcome_unknown", "maybe", "no");
        // By default a refusal of the app's is its answer.
        upstream.script(REFUND, [json(422), json(200)]);
        assert_eq!(refund(&client, "k3").send().await.status(), 422);
        let again = refund(&client, "k3").send().await;
        assert_eq!((again.status(), replayed(&again)), (422, true));
        assert_eq!(upstream.plain(REFUND).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_needs_no_claim_passes_with_its_row() {
    let Scene { upstream, gate, client } = scene(Home::Sqlite).await;
    let order = client.plain("GET /api/orders/o1?expand=lines").header("Idempotency-Key", "k1").send().await;
    assert_eq!((order.status(), order.json()["run"].clone()), (200, json!(1)));
    assert_eq!(upstream.received()[0].http.word(1), "/api/orders/o1?expand=lines");
    assert_eq!(upstream.received()[0].http.header("idempotency-key"), None);
    let head = client.plain("HEAD /api/orders/o1").open().await;
    let mut socket = head.into_socket();
    let text = read_head(&mut socket).await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    upstream.script(
        "GET /api/customers/c1",
        [Answer::http(200, "application/json", "{\"email\":\"a@b.c\",\"n\":1}")],
    );
    let masked = client.plain("GET /api/customers/c1").send().await;
    assert_eq!(masked.json(), json!({ "email": "***", "n": 1 }));
    let note = client.plain("POST /api/notes").json(&json!({ "text": "hi" })).send().await;
    assert_eq!(note.json()["run"], 1);
    let note = client.plain("POST /api/notes").json(&json!({ "text": "hi" })).send().await;
    assert_eq!(note.json()["run"], 2);
    let rows = gate.audit(5).await;
    let mut told: Vec<_> =
        rows.iter().map(|row| (row["tool"].to_string(), row["reason"].to_string())).collect();
    told.sort();
    let told: Vec<_> = told.iter().map(|(tool, reason)| (tool.as_str(), reason.as_str())).collect();
    assert_eq!(
        told,
        [
            ("\"masked\"", "null"),
            ("\"note\"", "\"unkeyed\""),
            ("\"note\"", "\"unkeyed\""),
            ("\"show_order\"", "null"),
            ("\"show_order\"", "null"),
        ]
    );
}

#[tokio::test]
async fn a_switch_of_protocols_that_nobody_asked_for_is_no_answer() {
    let Scene { upstream, gate: _gate, client } = scene(Home::Sqlite).await;
    let switch = || [Answer::http(101, "application/json", "")];
    upstream.script("GET /api/orders/o1", switch());
    is(&client.plain("GET /api/orders/o1").send().await, 502, "execution_failed", "maybe", "same_key");
    upstream.script("POST /api/notes", switch());
    let note = client.plain("POST /api/notes").json(&json!({ "text": "hi" })).send().await;
    is(&note, 502, "no_gateway", "maybe", "no");
}

#[tokio::test]
async fn an_answer_that_stands_still_for_the_whole_timeout_is_given_up() {
    let Scene { upstream, gate: _gate, client } = scene(Home::Sqlite).await;
    let begun = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nhalf";
    upstream.script("GET /api/orders/o1", [Answer::raw(vec![Step::Send(begun.into()), Step::Hang])]);
    let mut socket = client.plain("GET /api/orders/o1").open().await.into_socket();
    let read = tokio::time::timeout(Duration::from_secs(15), async {
        use tokio::io::AsyncReadExt as _;
        let mut all = Vec::new();
        // However the connection ends, what came before is kept.
        let _cut = socket.read_to_end(&mut all).await.is_err();
        all
    });
    let text = String::from_utf8(read.await.expect("the answer ends, cut")).expect("text");
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("half"), "{text}");
}

async fn read_head(socket: &mut tokio::net::TcpStream) -> String {
    use tokio::io::AsyncReadExt as _;
    let mut text = Vec::new();
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        let byte = tokio::time::timeout(Duration::from_secs(10), socket.read_u8()).await;
        text.push(byte.expect("an answer in time").expect("a head"));
    }
    String::from_utf8_lossy(&text).into_owned()
}
