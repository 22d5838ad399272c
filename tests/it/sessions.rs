//! Legacy sessions: whose they are, and what their loss comes to.

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const ID: &str = "Mcp-Session-Id";

/// An upstream that opens the session `raw` to whoever initializes.
async fn started(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    upstream.script("initialize", [welcome("raw-1"), welcome("raw-2")]);
    let gate = Gate::start(Setup::new(home, &upstream.url())).await;
    (upstream, gate)
}

fn welcome(session: &str) -> Answer {
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "app", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
    Answer::http(200, "application/json", &body).with_header(ID, session)
}

/// What servers say that know no such session.
fn lost() -> Answer {
    let error = json!({ "code": -32001, "message": "Session not found" });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
    Answer::http(404, "application/json", &body)
}

async fn initialized(client: &Client) -> String {
    let ask = client.rpc("initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let reply = ask.send().await;
    assert_eq!(reply.status(), 200);
    reply.http.header("mcp-session-id").expect("a session").to_owned()
}

fn refund(client: &Client, session: &str) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "o" })).key("k1").header(ID, session)
}

fn sent_in(upstream: &Upstream, rpc: &str) -> Vec<Option<String>> {
    let of = upstream.received().into_iter().filter(|request| request.rpc() == rpc);
    of.map(|request| request.http.header("mcp-session-id").map(str::to_owned)).collect()
}

/// The one answer to whoever names a session that is not theirs.
fn check_lost(reply: &Reply) {
    let json = reply.json();
    assert_eq!(
        (reply.status(), &json["id"], &json["error"]["code"]),
        (404, &json!(1), &json!(-32600)),
        "{json}"
    );
    let refusal = &json["error"]["data"]["oncegate/refusal"];
    assert_eq!(
        (&refusal["code"], &refusal["executed"], &refusal["retry"]),
        (&json!("no_such_session"), &json!("no"), &json!("same_key")),
        "{json}"
    );
}

#[tokio::test]
async fn the_app_sees_its_own_session_and_the_client_a_sealed_one() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Legacy);
    let session = initialized(&client).await;
    assert!(session.starts_with("raw-1~"), "{session}");
    assert_eq!(refund(&client, &session).send().await.met(), "first");
    let read = client.tool("get_invoice", &json!({})).header(ID, &session);
    assert_eq!(read.send().await.met(), "first");
    let note = client.rpc("notifications/initialized", &json!({})).header(ID, &session);
    assert_eq!(note.with(|body| drop(body.as_object_mut().unwrap().remove("id"))).send().await.status(), 202);
    let answer = json!({ "jsonrpc": "2.0", "id": "of the server", "result": {} });
    let answered = client.rpc("ping", &json!({})).header(ID, &session).body(answer.to_string());
    answered.send().await;
    let raw = Some("raw-1".to_owned());
    assert_eq!(sent_in(&upstream, "tools/call"), [raw.clone(), raw.clone()]);
    assert_eq!(sent_in(&upstream, "notifications/initialized"), std::slice::from_ref(&raw));
    assert_eq!(sent_in(&upstream, ""), [raw]);
}

#[tokio::test]
async fn nobody_gets_into_a_session_that_is_not_theirs() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let ann = gate.client(Era::Legacy);
    let session = initialized(&ann).await;
    let neighbour = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    let foreign = gate.client_with(Era::Legacy, &json!({ "tenant_id": "globex" }));
    let flipped = session.replacen("raw-1", "raw-2", 1);
    let before = upstream.received().len();
    for (client, session) in [
        (&neighbour, session.as_str()),
        (&foreign, &session),
        (&ann, "raw-1"),
        (&ann, &flipped),
        (&ann, &session[..session.len() - 1]),
        (&ann, "never-was"),
        (&ann, ""),
    ] {
        check_lost(&refund(client, session).send().await);
        check_lost(&client.tool("get_invoice", &json!({})).header(ID, session).send().await);
        check_lost(&client.rpc("tools/list", &json!({})).header(ID, session).send().await);
    }
    let twice = refund(&ann, &session).header(ID, &session).send().await;
    assert_eq!((twice.status(), twice.word()), (400, "-32020".to_owned()));
    assert_eq!(upstream.received().len(), before, "nothing was forwarded");
    assert!(gate.claims().await.is_empty(), "nothing was claimed");
    let rows = gate.audit(22).await;
    let of = |tool: &str| {
        rows.iter().filter(|row| row["tool"] == tool && row["reason"] == "no_such_session").count()
    };
    assert_eq!((of("refund_order"), of("get_invoice"), rows.len()), (7, 7, 22), "{rows:?}");
    // A later login of the same user is the same actor.
    let later = gate.client_with(Era::Legacy, &json!({ "sid": "s2" }));
    assert_eq!(refund(&later, &session).send().await.met(), "first");
}

#[tokio::test]
async fn the_modern_era_has_no_sessions() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    let result = json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "complete" } }).to_string();
    upstream
        .script("server/discover", [Answer::http(200, "application/json", &result).with_header(ID, "raw-1")]);
    let reply = client.rpc("server/discover", &json!({})).header(ID, "whatever").send().await;
    assert_eq!((reply.status(), reply.http.header("mcp-session-id")), (200, None));
    assert_eq!(refund(&client, "whatever").send().await.met(), "first");
    for rpc in ["server/discover", "tools/call"] {
        assert_eq!(sent_in(&upstream, rpc), [None], "{rpc}");
    }
}

#[tokio::test]
async fn what_is_no_session_id_is_not_handed_out() {
    let (upstream, gate) = started(Home::Sqlite).await;
    upstream.script("initialize", [welcome("not one word")]);
    let ask = gate.client(Era::Legacy).rpc("initialize", &json!({}));
    let reply = ask.send().await;
    assert_eq!((reply.status(), reply.http.header("mcp-session-id")), (200, None));
}

#[tokio::test]
async fn another_gate_of_the_service_knows_the_session() {
    let (upstream, gate) = started(Home::Postgres).await;
    let session = initialized(&gate.client(Era::Legacy)).await;
    let another = gate.another().await;
    assert_eq!(refund(&another.client(Era::Legacy), &session).send().await.met(), "first");
    assert_eq!(sent_in(&upstream, "tools/call"), [Some("raw-1".to_owned())]);
}

#[tokio::test]
async fn a_lost_session_costs_neither_the_call_nor_a_second_one() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        let client = gate.client(Era::Legacy);
        let session = initialized(&client).await;
        upstream.script("refund_order", [lost(), Answer::tool("refunded", &json!({ "run": 1 }))]);
        check_lost(&refund(&client, &session).send().await);
        assert_eq!(gate.claim("k1").await["status"], "failed");
        let anew = initialized(&client).await;
        assert_ne!(anew, session);
        assert_eq!(refund(&client, &anew).send().await.met(), "first");
        // The session is lost once more; the client starts a third and repeats itself.
        upstream.script("refund_order", [lost()]);
        let third = initialized(&client).await;
        for session in [&anew, &third] {
            assert_eq!(refund(&client, session).send().await.met(), "replay");
        }
        assert_eq!(upstream.calls("refund_order").len(), 2, "the lost one, and the one that ran");
        let rows = gate.audit(4).await;
        let told: Vec<_> =
            rows.iter().map(|row| [&row["decision"], &row["reason"], &row["executed"]]).collect();
        let (none, lost) = (Value::Null, json!("no_such_session"));
        assert_eq!(told[0], [&json!("allowed"), &lost, &json!("no")]);
        assert_eq!(told[1], [&json!("allowed"), &none, &json!("yes")]);
        assert_eq!(told[2], [&json!("replayed"), &none, &json!("yes")]);
    })
    .await;
}

#[tokio::test]
async fn a_session_lost_before_a_read_or_housekeeping_is_told_as_it_is() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Legacy);
    let session = initialized(&client).await;
    for rpc in ["get_invoice", "tools/list"] {
        upstream.script(rpc, [lost()]);
    }
    for ask in [client.tool("get_invoice", &json!({})), client.rpc("tools/list", &json!({}))] {
        assert_eq!(ask.header(ID, &session).send().await.status(), 404);
    }
}

#[tokio::test]
async fn a_call_that_may_have_run_is_never_answered_as_a_lost_session() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Legacy);
    let session = initialized(&client).await;
    // The first attempt's outcome is unknown; where the app honours the key, the retry runs again and meets a 404.
    let charge = || client.tool("charge_card", &json!({ "cents": 1 })).key("k2").header(ID, &session);
    upstream.script("charge_card", [Answer::http(502, "text/html", "no"), lost()]);
    assert_eq!(charge().send().await.met(), "outcome_unknown");
    let again = charge().send().await;
    assert_eq!((again.status(), again.met()), (200, "outcome_unknown".to_owned()));
    // Without a session a 404 says nothing about one.
    upstream.script("refund_order", [lost()]);
    let bare = client.tool("refund_order", &json!({})).key("k3").send().await;
    assert_eq!((bare.status(), bare.met()), (200, "execution_failed".to_owned()));
}

#[tokio::test]
async fn nobody_listens_to_a_session_that_is_not_theirs_or_ends_it() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let ann = gate.client(Era::Legacy);
    let session = initialized(&ann).await;
    upstream.script("GET", [Answer::http(405, "text/plain", "")]);
    upstream.script("DELETE", [Answer::http(204, "text/plain", "")]);
    let ask = |client: &Client, method: &str, session: &str| {
        let ask = client.rpc("", &json!({})).body("").line(&format!("{method} /mcp"));
        ask.without("Content-Type").header(ID, session)
    };
    let before = upstream.received().len();
    let neighbour = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    let foreign = gate.client_with(Era::Legacy, &json!({ "tenant_id": "globex" }));
    for method in ["GET", "DELETE"] {
        for (client, session) in [(&neighbour, session.as_str()), (&foreign, &session), (&ann, "raw-1")] {
            assert_eq!(ask(client, method, session).send().await.status(), 404, "{method}");
        }
    }
    assert_eq!(upstream.received().len(), before, "nothing was forwarded");
    let rows = gate.audit(6).await;
    assert!(
        rows.iter().all(|row| row["reason"] == "no_such_session" && row["decision"] == "denied"),
        "{rows:?}"
    );
    for (method, status) in [("GET", 405), ("DELETE", 204)] {
        assert_eq!(ask(&ann, method, &session).send().await.status(), status);
        let received = upstream.of_method(method);
        assert_eq!(received[0].http.header("mcp-session-id"), Some("raw-1"), "{method}");
    }
}
