//! Whoever must show something more is told what and where, by the gate alone: an upstream's own challenge never gets
//! through as it was.

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const METADATA: &str =
    r#"resource_metadata="https://api.example.com/.well-known/oauth-protected-resource/mcp""#;

/// What an upstream says that takes its inner address for the public one.
const INNER: &str = r#"Bearer realm="mcp", resource_metadata="http://10.1.2.3:8000/.well-known/oauth-protected-resource/mcp", error="insufficient_scope", scope="orders:read orders:write""#;

/// The id of every request here.
const ID: &str = "asked";

fn challenge(reply: &Reply) -> &str {
    let challenge =
        reply.http.header("www-authenticate").unwrap_or_else(|| panic!("no challenge in {reply:?}"));
    assert!(challenge.starts_with("Bearer ") && challenge.contains(METADATA), "{challenge}");
    challenge
}

/// The shapes in which an upstream turns away whoever asked under [`ID`].
fn inner(status: u16) -> [Answer; 4] {
    let error = json!({ "code": -32001, "message": "Unauthenticated at http://10.1.2.3:8000." });
    let rpc = json!({ "jsonrpc": "2.0", "id": ID, "error": error }).to_string();
    [
        Answer::http(status, "application/json", &error.to_string()),
        Answer::http(status, "application/json", &rpc),
        Answer::http(status, "text/event-stream", &format!("data: {rpc}\n\n")),
        Answer::http(status, "text/plain", ""),
    ]
    .map(|answer| answer.with_header("WWW-Authenticate", INNER))
}

fn turned_away(status: u16) -> impl Iterator<Item = (u16, Answer)> {
    inner(status).into_iter().map(move |answer| (status, answer))
}

/// A read, a mutation, the tools' list, another method, a notification: whatever may be turned away upstream.
fn asks(gate: &Gate, era: Era, key: &str) -> Vec<(&'static str, Ask)> {
    let client = gate.client(era);
    let note = client.rpc("notifications/initialized", &json!({}));
    let note = note.with(|body| drop(body.as_object_mut().map(|body| body.remove("id"))));
    vec![
        ("get_invoice", client.tool("get_invoice", &json!({ "order_id": "o" })).id(ID)),
        ("refund_order", client.tool("refund_order", &json!({ "order_id": "o" })).key(key).id(ID)),
        ("tools/list", client.rpc("tools/list", &json!({})).id(ID)),
        ("resources/read", client.rpc("resources/read", &json!({ "uri": "doc://1" })).id(ID)),
        ("prompts/list", client.rpc("prompts/list", &json!({})).id(ID)),
        ("notifications/initialized", note),
    ]
}

#[tokio::test]
async fn an_upstreams_challenge_is_told_as_the_gates_own_where_the_token_is_forwarded() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("upstream.forward_authorization", true);
    let gate = Gate::start(setup).await;
    for era in Era::ALL {
        for (status, answer) in [401, 403].into_iter().flat_map(turned_away) {
            for (name, ask) in asks(&gate, era, &format!("{era:?}-{status}")) {
                upstream.script(name, [answer.clone()]);
                let reply = ask.send().await;
                assert_eq!(reply.status(), status, "{name}: {reply:?}");
                assert!(challenge(&reply).contains(r#"scope="orders:read orders:write""#), "{name}");
                assert_eq!(challenge(&reply).contains("insufficient_scope"), status == 403, "{name}");
                assert!(!format!("{reply:?}").contains("10.1.2.3"), "{name}: {reply:?}");
                assert!(reply.json()["error"]["code"].is_i64(), "{name}: {reply:?}");
            }
        }
    }
    for key in ["Modern-401", "Modern-403"] {
        assert_eq!(gate.claim(key).await["status"], "failed", "nothing was run under {key}");
    }
    let calls = upstream.calls("get_invoice");
    assert!(calls[0].http.header("authorization").is_some_and(|text| text.starts_with("Bearer ")));
}

#[tokio::test]
async fn an_upstreams_challenge_is_not_the_clients_business_where_its_token_is_not_forwarded() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    for era in Era::ALL {
        for (status, answer) in [401, 403].into_iter().flat_map(turned_away) {
            for (name, ask) in asks(&gate, era, &format!("{era:?}-{status}")) {
                upstream.script(name, [answer.clone()]);
                let reply = ask.send().await;
                assert!(reply.http.header("www-authenticate").is_none(), "{name}: {reply:?}");
                assert!(![401, 403].contains(&reply.status()), "{name}: its token is good: {reply:?}");
                assert!(!format!("{reply:?}").contains("10.1.2.3"), "{name}: {reply:?}");
            }
        }
    }
    assert!(upstream.received().iter().all(|call| call.http.header("authorization").is_none()));
}

#[tokio::test]
async fn one_challenge_names_every_scope_that_the_call_needs() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url())
        .policy("[tools.run_sql]", "[tools.close_books]\neffect = \"mutation\"\nscopes = [\"books:close\", \"billing:read\", \"audit:write\"]\n\n[tools.run_sql]");
    let gate = Gate::start(setup).await;
    let all = r#"scope="audit:write billing:read books:close""#;
    for era in Era::ALL {
        let ask = |client: &Client| client.tool("close_books", &json!({})).key("k").id("a");
        let poor = gate.client_with(era, &json!({ "scope": "billing:read" }));
        let nobody = Client::new(gate.address(), era);
        for (client, status) in [(poor, 403), (nobody.clone(), 401), (nobody.bearing("no token"), 401)] {
            let reply = ask(&client).send().await;
            assert_eq!((reply.status(), &reply.json()["id"]), (status, &json!("a")));
            assert!(challenge(&reply).contains(all), "{reply:?}");
        }
    }
    assert!(upstream.received().is_empty());
}
