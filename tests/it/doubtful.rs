//! Streams that say what could be taken for an answer and is none: it neither settles a claim nor reaches a client.

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::stream::Stream;
use crate::harness::upstream::Upstream;

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let masked =
        ("scopes = [\"billing:read\"]\nreasons", "scopes = [\"billing:read\"]\nredact = [\"card\"]\nreasons");
    let setup = Setup::new(Home::Sqlite, &upstream.url()).policy(masked.0, masked.1);
    let gate = Gate::start(setup).await;
    (upstream, gate)
}

fn progress(step: u32) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": step } })
}

fn refund(client: &Client) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "o" })).key("k1")
}

fn go_on(client: &Client, after: &str) -> Ask {
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type");
    ask.header("Last-Event-ID", after)
}

/// What a server says that could not read a request's id.
fn nobodys() -> Value {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "no such event" } })
}

fn answer() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [], "structuredContent": { "run": 1, "card": "hidden" } } })
}

/// A stream that was begun, and broke off with the place that it came to.
async fn begun(upstream: &Upstream, client: &Client) -> String {
    upstream.script("refund_order", [Answer::events().event("id: e1\n", &progress(1)).then(Step::Hang)]);
    let mut stream = refund(client).open().await.stream();
    stream.until("\"progress\":1").await;
    stream.last_id().expect("an id").to_owned()
}

#[tokio::test]
async fn an_error_that_answers_nobody_does_not_release_a_call_that_had_begun() {
    let primed = || Answer::events().event("id: e1\nretry: 20\n", &Value::Null);
    for (posted, resumed) in [
        (primed().then(Step::Close), Some(Answer::events().event("", &nobodys()).then(Step::Close))),
        (primed().event("", &progress(1)).event("", &nobodys()).then(Step::Close), None),
    ] {
        let (upstream, gate) = started().await;
        upstream.script("refund_order", [posted]);
        upstream.script("GET", resumed.into_iter().chain([Answer::http(404, "text/plain", "")]));
        let client = gate.client(Era::Legacy);
        let mut stream = refund(&client).open().await.stream();
        let told = stream.end().await;
        assert!(told.contains("outcome_unknown"), "{told}");
        assert_eq!(refund(&client).id(2).send().await.word(), "outcome_unknown");
        assert_eq!(upstream.calls("refund_order").len(), 1);
    }
}

#[tokio::test]
async fn an_error_that_answers_nobody_does_not_settle_the_claim_of_a_client_that_comes_back() {
    let (upstream, mut gate) = started().await;
    let client = gate.client(Era::Legacy);
    let place = begun(&upstream, &client).await;
    gate.kill();
    gate.restart().await;
    let client = gate.client(Era::Legacy);
    upstream.script("GET", [Answer::events().event("", &nobodys()).event("", &answer()).then(Step::Close)]);
    let mut back = go_on(&client, &place).open().await.stream();
    back.end().await;
    let told = back.messages().pop().expect("an answer");
    assert_eq!(told["result"]["structuredContent"]["run"], 1, "{told}");
    assert_eq!(refund(&client).id(2).send().await.met(), "replay");
}

#[tokio::test]
async fn a_turned_away_call_that_had_begun_is_not_released() {
    let (upstream, gate) = started().await;
    let head = "HTTP/1.1 404 Not Found\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let begun = format!("{head}data: {}\n\n", progress(1));
    upstream.script("refund_order", [Answer::raw(vec![Step::Send(begun.into()), Step::Close])]);
    let client = gate.client(Era::Legacy);
    let told = refund(&client).open().await.stream().end().await;
    assert!(told.contains("outcome_unknown"), "{told}");
    assert_eq!(refund(&client).id(2).send().await.word(), "outcome_unknown");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

/// Answers that some client reads and the gate does not.
fn unreadable() -> Vec<String> {
    let answer = answer();
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    vec![
        json!([answer]).to_string(),
        answer.to_string().replacen("\"id\":1", "\"id\":9,\"id\":1", 1),
        answer.to_string().replacen("\"run\":1", &format!("\"run\":{deep}"), 1),
        answer.to_string().replacen("\"id\":1", "\"id\":1,\"method\":\"x\"", 1),
    ]
}

#[tokio::test]
async fn an_answer_that_the_gate_cannot_read_is_told_to_nobody() {
    for text in unreadable() {
        let (upstream, gate) = started().await;
        let said = || Step::Send(format!("data: {text}\n\n").into());
        for tool in ["refund_order", "get_invoice"] {
            upstream.script(tool, [Answer::events().event("", &progress(1)).then(said()).then(Step::Close)]);
        }
        let client = gate.client(Era::Legacy);
        for (ask, word) in [
            (refund(&client), "outcome_unknown"),
            (client.tool("get_invoice", &json!({})), "execution_failed"),
        ] {
            let told = ask.open().await.stream().end().await;
            assert!(!told.contains("hidden"), "{text}: {told}");
            assert!(told.contains(word), "{text}: {told}");
        }
    }
}

#[tokio::test]
async fn a_resumed_claim_is_never_answered_past_the_ledger() {
    let json = Answer::http(200, "application/json", &answer().to_string());
    for again in [
        Some(json),
        Some(Answer::http(503, "text/plain", "")),
        Some(Answer::http(403, "text/plain", "")),
        None,
    ] {
        let (upstream, mut gate) = started().await;
        let client = gate.client(Era::Legacy);
        let place = begun(&upstream, &client).await;
        gate.kill();
        gate.restart().await;
        let client = gate.client(Era::Legacy);
        match again {
            Some(again) => upstream.script("GET", [again]),
            None => drop(upstream),
        }
        let mut back = go_on(&client, &place).open().await.stream();
        let head = back.head().await;
        assert!(head.contains("text/event-stream"), "what is asked for by GET is a stream: {head}");
        let told = back.end().await;
        assert!(!told.contains("hidden"), "{told}");
        let refusal = &back.messages()[0]["result"]["_meta"]["oncegate/refusal"];
        assert_eq!(refusal["executed"], "maybe", "the call itself may have run: {told}");
        assert_eq!(refusal["code"], "outcome_unknown");
    }
}

#[tokio::test]
async fn whoever_waits_for_an_answer_hears_that_none_comes() {
    let (upstream, gate) = started().await;
    let nothing = || Answer::events().event("", &progress(1)).then(Step::Close);
    for (method, params) in [("tools/list", json!({})), ("resources/read", json!({ "uri": "x:y" }))] {
        upstream.script(method, [nothing()]);
        for era in Era::ALL {
            let mut stream: Stream = gate.client(era).rpc(method, &params).open().await.stream();
            stream.end().await;
            let last = stream.messages().pop().expect("an end");
            assert_eq!(last["id"], 1, "{method}: {last}");
            assert!(last["error"]["code"].is_number(), "{method}: {last}");
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_cancellation_reaches_a_claimed_call() {
    let (upstream, gate) = started().await;
    let (hold, read): (Hold, Hold) = (upstream.hold("refund_order"), upstream.hold("get_invoice"));
    let client = gate.client(Era::Legacy);
    let mutation = refund(&client).id(1).open().await;
    // A read with an id that a lenient backend does not tell from the mutation's.
    let reading = client.tool("get_invoice", &json!({})).id("1").open().await;
    let other = client.tool("get_invoice", &json!({})).id(2).open().await;
    upstream.called("refund_order", 1).await;
    upstream.called("get_invoice", 2).await;
    let cancel = |params: Value| client.rpc("notifications/cancelled", &params);
    let bare = |ask: Ask| ask.with(|body| drop(body.as_object_mut().map(|it| it.remove("id"))));
    for (ask, status) in [
        (bare(cancel(json!({ "requestId": "1" }))), 202),
        (bare(cancel(json!({ "requestId": 1.0 }))), 202),
        (bare(cancel(json!({ "requestId": 2, "RequestID": 1 }))), 400),
        (cancel(json!({ "requestId": 1 })), 400),
    ] {
        assert_eq!(ask.send().await.status(), status);
    }
    let heard = upstream.received().into_iter().filter(|request| request.rpc() == "notifications/cancelled");
    assert_eq!(heard.count(), 0);
    hold.release();
    read.release();
    assert_eq!(mutation.reply().await.met(), "first");
    reading.reply().await;
    other.reply().await;
}

#[tokio::test]
async fn what_a_read_hides_is_hidden_whatever_shape_its_answer_has() {
    let error = json!({ "code": 4, "message": "no", "data": { "card": "hidden" } });
    let failed = json!({ "jsonrpc": "2.0", "id": 1, "error": error });
    for (said, status) in [
        (Answer::http(200, "application/json", &failed.to_string()), 200),
        (Answer::events().event("", &failed), 200),
        (Answer::http(400, "application/json", "{\"card\": \"hidden\"}"), 400),
        (Answer::http(404, "text/event-stream", &format!("id: raw\ndata: {}\n\n", answer())), 404),
    ] {
        let (upstream, gate) = started().await;
        upstream.script("get_invoice", [said.clone()]);
        let mut stream = gate.client(Era::Legacy).tool("get_invoice", &json!({})).open().await.stream();
        let head = stream.head().await;
        let told = stream.end().await;
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{head}");
        assert!(!told.contains("hidden") && !told.contains("raw"), "{said:?}: {told}");
    }
}

#[tokio::test]
async fn the_end_of_a_session_waits_for_the_claimed_calls_in_it() {
    let (upstream, gate) = started().await;
    upstream.script("DELETE", [Answer::http(204, "text/plain", "")]);
    let hold = upstream.hold("refund_order");
    let client = gate.client(Era::Legacy);
    let running = refund(&client).open().await;
    upstream.called("refund_order", 1).await;
    let leave = || client.rpc("", &json!({})).body("").line("DELETE /mcp");
    assert!((200..300).contains(&leave().send().await.status()));
    assert!(upstream.of_method("DELETE").is_empty(), "the app would break the call off");
    // Somebody else's is none of its business.
    let other = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    assert_eq!(other.rpc("", &json!({})).body("").line("DELETE /mcp").send().await.status(), 204);
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    eventually("the app to hear of the end", async || {
        (upstream.of_method("DELETE").len() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_place_in_a_stream_goes_on_with_nothing_but_the_wish_to_hear_more() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        refund(&gate.client(era)).header("Last-Event-ID", "somebody-elses").send().await;
    }
    assert!(upstream.received().iter().all(|request| request.http.header("last-event-id").is_none()));
}

#[tokio::test]
async fn a_stream_that_brings_nothing_is_asked_for_less_and_less_often() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "3s")).await;
    upstream.script(
        "refund_order",
        [Answer::events().event("id: e1\nretry: 0\n", &Value::Null).then(Step::Close)],
    );
    upstream.script("GET", [Answer::events().then(Step::Close)]);
    assert!(refund(&gate.client(Era::Legacy)).open().await.stream().end().await.contains("outcome_unknown"));
    let asked = upstream.of_method("GET").len();
    assert!((3..12).contains(&asked), "{asked} times");
}
