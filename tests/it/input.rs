//! Bad input: each gets a clear answer, none reaches the upstream, and where the actor is known a row is left.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup, claims, claims_with, sign};
use crate::harness::upstream::Upstream;

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

fn refund(client: &Client) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("k1")
}

/// A JSON-RPC error with this code, a sentence, and one more audit row of a denial.
async fn check(gate: &Gate, name: &str, ask: Ask, status: u16, code: i64) -> Reply {
    let before = gate.audit(0).await.len();
    let reply = ask.send().await;
    let json = reply.json();
    assert_eq!((reply.status(), json["error"]["code"].as_i64()), (status, Some(code)), "{name}: {reply:?}");
    assert!(json["error"]["message"].as_str().is_some_and(|text| text.contains(' ')), "{name}: {json}");
    let rows = gate.audit(before + 1).await;
    let row = rows.last().expect("a row");
    assert_eq!((&row["decision"], &row["tenant_id"]), (&json!("denied"), &json!("acme")), "{name}: {row}");
    assert_eq!(rows.len(), before + 1, "{name}: one row");
    reply
}

#[tokio::test]
async fn what_is_not_one_message() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let ask = refund(&gate.client(era));
        let text = ask.text();
        let twice = |member: &str, copy: &str| text.replacen(member, &format!("{copy},{member}"), 1);
        let name = r#""name":"refund_order""#;
        for (what, body, code) in [
            ("broken JSON", r#"{"jsonrpc":"2.0","id":1,"#.to_owned(), -32700),
            ("no JSON", "refund please".to_owned(), -32700),
            ("nothing", String::new(), -32700),
            ("two texts", format!("{text}{text}"), -32700),
            ("a batch", format!("[{text}]"), -32600),
            ("an empty batch", "[]".to_owned(), -32600),
            ("a string", r#""tools/call""#.to_owned(), -32600),
            ("the name twice", twice(name, r#""name":"get_invoice""#), -32600),
            ("the name twice, once escaped", twice(name, r#""n\u0061me":"get_invoice""#), -32600),
            ("no version", text.replace(r#""jsonrpc":"2.0","#, ""), -32600),
            ("an id that is null", text.replace(r#""id":1"#, r#""id":null"#), -32600),
            ("an id that is an object", text.replace(r#""id":1"#, r#""id":{}"#), -32600),
            ("no id", text.replace(r#""id":1,"#, ""), -32600),
            (
                "arguments that are a list",
                text.replace(r#""arguments":{"#, r#""arguments":[{"#).replace("},\"name\"", "}],\"name\""),
                -32600,
            ),
            ("a depth of a thousand", format!("{}{}", "[".repeat(1000), "]".repeat(1000)), -32700),
        ] {
            assert_ne!(body, text, "{what}: the message was not broken");
            check(&gate, what, ask.clone().body(body), 400, code).await;
        }
        let mut bytes = text.clone().into_bytes();
        let place = text.find("ord_9f2").expect("the order");
        bytes[place] = 0xff;
        check(&gate, "not UTF-8", ask.clone().body(bytes), 400, -32700).await;
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_body_beyond_the_limit() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let ask = refund(&gate.client(era));
        let padded =
            ask.clone().with(|body| body["params"]["arguments"]["note"] = json!("x".repeat(2 << 20)));
        let reply = check(&gate, "2 MiB", padded, 413, -32600).await;
        let text = reply.json()["error"]["message"].to_string();
        assert!(text.contains("1048576"), "it says the limit: {text}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn headers_that_disagree_with_the_body() {
    let (upstream, gate) = started().await;
    let ask = refund(&gate.client(Era::Modern));
    let with = |name: &str, value: &str| ask.clone().without(name).header(name, value);
    for (name, ask) in [
        ("another tool", with("Mcp-Name", "get_invoice")),
        ("another tool, encoded", with("Mcp-Name", "=?base64?Z2V0X2ludm9pY2U=?=")),
        ("another method", with("Mcp-Method", "tools/list")),
        ("another version", with("MCP-Protocol-Version", "2025-11-25")),
        ("no name", ask.clone().without("Mcp-Name")),
        ("no method", ask.clone().without("Mcp-Method")),
        ("two names", ask.clone().header("Mcp-Name", "get_invoice")),
    ] {
        check(&gate, name, ask, 400, -32020).await;
    }
    let tenant = ask.clone().with(|body| body["params"]["arguments"]["tenant_id"] = json!("acme"));
    let disagrees = tenant.clone().header("Mcp-Param-Tenant-Id", "globex");
    check(&gate, "another tenant than the argument", disagrees, 400, -32020).await;
    assert!(upstream.received().is_empty());
    let encoded = with("Mcp-Name", "=?base64?cmVmdW5kX29yZGVy?=");
    assert_eq!(encoded.send().await.met(), "first", "an encoded name that agrees is fine");
}

#[tokio::test]
async fn a_key_is_one_whatever_its_place_and_quoting() {
    let (upstream, gate) = started().await;
    let bare = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "o" }));
    assert_eq!(bare.clone().key(" k1 ").send().await.met(), "first");
    for (place, ask) in [
        ("header", bare.clone().header("Idempotency-Key", "k1")),
        ("quoted header", bare.clone().header("Idempotency-Key", "\"k1\"")),
        (
            "our meta",
            bare.clone().with(|body| body["params"]["_meta"]["oncegate/idempotency-key"] = json!("k1")),
        ),
        ("meta", bare.clone().with(|body| body["params"]["_meta"]["idempotencyKey"] = json!("k1"))),
        ("params", bare.clone().with(|body| body["params"]["idempotencyKey"] = json!("k1"))),
        ("two that agree", bare.clone().key("k1").header("Idempotency-Key", "\"k1\"")),
    ] {
        assert_eq!(ask.send().await.met(), "replay", "{place}");
    }
    let calls = upstream.calls("refund_order");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].json["params"]["arguments"], json!({ "order_id": "o" }), "the key is taken out");
}

/// A 401 whose challenge says that the token is no good.
async fn check_token(gate: &Gate, name: &str, token: &str) {
    for era in Era::ALL {
        let reply = refund(&Client::new(gate.address(), era).bearing(token)).send().await;
        let challenge = reply.http.header("www-authenticate").unwrap_or_default().to_owned();
        assert!(reply.status() == 401 && challenge.contains("invalid_token"), "{name}: {reply:?}");
        assert_eq!(reply.json()["id"], 1, "{name}");
    }
}

fn part(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

#[tokio::test]
async fn tokens_that_prove_nothing() {
    let (upstream, gate) = started().await;
    let now = jiff::Timestamp::now().as_second();
    for (name, changes) in [
        ("expired", json!({ "exp": now - 60 })),
        ("not valid yet", json!({ "nbf": now + 600 })),
        ("without an end", json!({ "exp": null })),
        ("another audience", json!({ "aud": "https://other.example.com" })),
        ("other audiences", json!({ "aud": ["https://a.example.com", "https://b.example.com"] })),
        ("no audience", json!({ "aud": null })),
        ("another issuer", json!({ "iss": "https://evil.example.com" })),
        ("no tenant", json!({ "tenant_id": null })),
        ("an empty tenant", json!({ "tenant_id": "" })),
        ("no user", json!({ "sub": null })),
        ("a session that is too old", json!({ "auth_time": now - 13 * 3600 })),
        ("no beginning", json!({ "iat": null })),
    ] {
        check_token(&gate, name, &sign(&claims_with(&changes))).await;
    }
    let good = sign(&claims());
    let cut = good.rsplit_once('.').expect("a signature").0;
    check_token(&gate, "no signature", &format!("{cut}.")).await;
    for alg in ["none", "None", "NONE"] {
        let forged = format!("{}.{}.", part(&json!({ "alg": alg, "typ": "JWT" })), part(&claims()));
        check_token(&gate, alg, &forged).await;
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    let upstream = Upstream::start().await;
    let key = rcgen::KeyPair::generate().expect("a key");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), key.public_key_pem()).expect("the public key");
    let setup = Setup::new(Home::Sqlite, &upstream.url())
        .set("auth.public_key_file", file.path().to_str().expect("a plain name"));
    let gate = Gate::start_with_keys_of_its_own(setup).await;
    let forged = jsonwebtoken::encode(
        &jsonwebtoken::Header::default(),
        &claims(),
        &jsonwebtoken::EncodingKey::from_secret(key.public_key_pem().as_bytes()).expect("long enough"),
    );
    check_token(&gate, "HS256 signed with the public key", &forged.expect("claims are JSON")).await;
    let honest = jsonwebtoken::encode(
        &jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256),
        &claims(),
        &jsonwebtoken::EncodingKey::from_ec_pem(key.serialize_pem().as_bytes()).expect("a key"),
    );
    let client = Client::new(gate.address(), Era::Modern).bearing(&honest.expect("claims are JSON"));
    assert_eq!(refund(&client).send().await.met(), "first");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}
