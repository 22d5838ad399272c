//! Legacy streams that break off: who goes on, from where, and what becomes of the claim. Cancellation too.

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::stream::Stream;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

async fn started(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(home, &upstream.url()).set("upstream.timeout", "10s")).await;
    (upstream, gate)
}

fn progress(step: u32) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": step } })
}

fn refunded() -> Value {
    json!({ "content": [], "structuredContent": { "run": 1 } })
}

fn refund(client: &Client) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "o" })).key("k1")
}

/// Listens to the session from after this event.
fn listen(client: &Client, after: Option<&str>) -> Ask {
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type");
    match after {
        Some(id) => ask.header("Last-Event-ID", id),
        None => ask,
    }
}

/// A response on a resumed stream: GET has no id of its own.
fn response(id: u32, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn primed() -> Answer {
    Answer::events().event("id: e1\nretry: 20\n", &Value::Null).event("id: e2\n", &progress(1))
}

async fn completed(gate: &Gate) {
    eventually("the claim to be completed", async || {
        (gate.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
}

/// A call that told its client one event, and that event's id.
async fn begun(client: &Client) -> (Stream, String) {
    let mut stream = refund(client).open().await.stream();
    stream.until("\"progress\":1").await;
    let id = stream.last_id().expect("an id").to_owned();
    (stream, id)
}

#[tokio::test]
async fn a_stream_that_the_app_closes_early_is_resumed_while_the_client_keeps_waiting() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        upstream.script("refund_order", [primed().then(Step::Close)]);
        let away = Answer::http(503, "text/plain", "in a moment");
        let more = Answer::events().event("id: e3\n", &progress(2)).then(Step::Close);
        let rest = Answer::events().event("id: e4\n", &response(1, &refunded()));
        upstream.script("GET", [away, more, rest]);
        let client = gate.client(Era::Legacy);
        let mut stream = refund(&client).open().await.stream();
        stream.end().await;
        let messages = stream.messages();
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert_eq!(messages[2]["result"]["structuredContent"], json!({ "run": 1 }));
        let gets = upstream.of_method("GET");
        let places: Vec<_> = gets.iter().map(|get| get.http.header("last-event-id")).collect();
        assert_eq!(places, [Some("e2"), Some("e2"), Some("e3")]);
        assert!(gets.iter().all(|get| get.http.header("x-oncegate-tenant") == Some("acme")));
        assert_eq!(gate.claim("k1").await["status"], "completed");
        assert_eq!(refund(&client).id(2).send().await.met(), "replay");
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_dies_for_good_before_its_result_leaves_the_outcome_unknown() {
    for (era, lines) in [(Era::Legacy, "id: e1\nretry: 20\n"), (Era::Legacy, ""), (Era::Modern, "id: e1\n")] {
        for end in [Step::Close, Step::Reset] {
            let (upstream, gate) = started(Home::Sqlite).await;
            upstream.script("refund_order", [Answer::events().event(lines, &progress(1)).then(end)]);
            // The upstream's own word for "no streams here" is what its GET says by itself.
            let client = gate.client(era);
            assert_eq!(refund(&client).send().await.word(), "outcome_unknown", "{era:?} {lines:?}");
            assert_eq!(refund(&client).id(2).send().await.word(), "outcome_unknown");
            let gets = upstream.of_method("GET").len();
            assert_eq!(gets, usize::from(era == Era::Legacy && !lines.is_empty()), "{era:?} {lines:?}");
            assert_eq!(upstream.calls("refund_order").len(), 1);
        }
    }
}

#[tokio::test]
async fn a_client_that_comes_back_hears_the_rest_of_its_running_call() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        let (first, second) = (Hold::new(), Hold::new());
        upstream.script(
            "refund_order",
            [primed()
                .then(Step::Hold(first.clone()))
                .event("id: e3\n", &progress(2))
                .then(Step::Hold(second.clone()))
                .event("id: e4\n", &progress(3))
                .then_result("id: e5\n", &refunded())],
        );
        let client = gate.client(Era::Legacy);
        let (stream, id) = begun(&client).await;
        drop(stream);
        first.release();
        let mut back = listen(&client, Some(&id)).open().await.stream();
        // What it missed, what comes, and how it ends.
        back.until("\"progress\":2").await;
        second.release();
        back.end().await;
        let messages = back.messages();
        assert_eq!(messages[..2], [progress(2), progress(3)]);
        assert_eq!(messages[2]["id"], 1);
        assert_eq!(messages[2]["result"]["structuredContent"], json!({ "run": 1 }), "{messages:?}");
        assert_eq!(gate.claim("k1").await["status"], "completed");
        assert!(upstream.of_method("GET").is_empty(), "the running call is not taken from the gate");
        assert_eq!(gate.audit(1).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_comes_back_after_a_restart_settles_its_claim_all_the_same() {
    on_every_store(async |home| {
        let (upstream, mut gate) = started(home).await;
        upstream.script("refund_order", [primed().then(Step::Hang)]);
        let client = gate.client(Era::Legacy);
        let (stream, id) = begun(&client).await;
        gate.kill();
        drop(stream);
        gate.restart().await;
        let client = gate.client(Era::Legacy);
        let result = json!({ "content": [], "structuredContent": { "run": 1, "card": "4111111111111111" } });
        let rest = Answer::events()
            .event("id: e3\n", &progress(2))
            .event("id: e4\n", &response(7, &json!({})))
            .event("id: e5\n", &response(1, &result));
        upstream.script("GET", [rest]);
        let mut back = listen(&client, Some(&id)).open().await.stream();
        back.end().await;
        let messages = back.messages();
        assert_eq!(messages.len(), 2, "another call's answer is not this client's: {messages:?}");
        assert_eq!(messages[1]["result"]["structuredContent"]["run"], 1);
        assert!(!messages[1].to_string().contains("4111111111111111"), "masked as for the first stream");
        assert_eq!(upstream.of_method("GET")[0].http.header("last-event-id"), Some("e2"));
        completed(&gate).await;
        let again = refund(&client).id(2).send().await;
        assert_eq!(again.met(), "replay");
        assert_eq!(again.result()["structuredContent"], messages[1]["result"]["structuredContent"]);
        assert_eq!(upstream.calls("refund_order").len(), 1);
        // Once more: it is told the same from the ledger, and nothing changes.
        let settled = gate.claim("k1").await;
        let mut once_more = listen(&client, Some(&id)).open().await.stream();
        once_more.end().await;
        let told = once_more.messages().pop().expect("an answer");
        assert_eq!(told["result"]["structuredContent"], messages[1]["result"]["structuredContent"]);
        assert_eq!(gate.claim("k1").await, settled);
        assert_eq!(upstream.of_method("GET").len(), 1, "nothing is asked of the app any more");
        let replays = gate.audit(0).await.into_iter().filter(|row| row["decision"] == "replayed").count();
        assert_eq!(replays, 2);
    })
    .await;
}

#[tokio::test]
async fn a_place_in_a_stream_is_its_actors_own() {
    let (upstream, gate) = started(Home::Sqlite).await;
    upstream.script("refund_order", [primed().then(Step::Hang)]);
    upstream.script("GET", [Answer::events().event("", &progress(9))]);
    let client = gate.client(Era::Legacy);
    let (_stream, id) = begun(&client).await;
    assert!(id.starts_with("e2~"), "{id}");
    let other_user = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    let other_tenant = gate.client_with(Era::Legacy, &json!({ "tenant_id": "globex" }));
    let mut forged = id.clone();
    forged.pop();
    let no_scope = gate.client_with(Era::Legacy, &json!({ "scope": "billing:read" }));
    for (whose, id, status) in [
        (&other_user, id.as_str(), 400),
        (&other_tenant, &id, 400),
        (&client, &forged, 400),
        (&client, "e2", 400),
        (&client, "", 400),
        (&no_scope, &id, 403),
    ] {
        let reply = listen(whose, Some(id)).send().await;
        assert_eq!(reply.status(), status, "{id} {reply:?}");
    }
    assert!(upstream.of_method("GET").is_empty());
}

#[tokio::test]
async fn a_session_is_listened_to_and_left() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let ask = json!({ "jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": {} });
    let stray = response(5, &json!({ "secret": true }));
    upstream.script(
        "GET",
        [Answer::events()
            .event("id: g1\n", &ask)
            .event("", &stray)
            .event("id: g2\n", &progress(1))
            .then(Step::Close)],
    );
    upstream.script("DELETE", [Answer::http(204, "text/plain", "")]);
    let client = gate.client(Era::Legacy);
    let mut stream = listen(&client, None).open().await.stream();
    stream.end().await;
    assert_eq!(stream.messages(), [ask, progress(1)], "an answer to nothing is dropped");
    // From there on it goes on.
    let place = stream.last_id().expect("an id").to_owned();
    let mut again = listen(&client, Some(&place)).open().await.stream();
    again.end().await;
    assert_eq!(upstream.of_method("GET")[1].http.header("last-event-id"), Some("g2"));
    let left = client.rpc("", &json!({})).body("").line("DELETE /mcp").send().await;
    assert_eq!(left.status(), 204);
    // An app without sessions says so itself.
    upstream.script("GET", [Answer::http(405, "text/plain", "")]);
    assert_eq!(listen(&client, None).send().await.status(), 405);
    // What is no stream is told to nobody: nothing would be looked for in it.
    upstream.script("GET", [Answer::http(200, "application/json", "{\"session\":\"raw\"}")]);
    let odd = listen(&client, None).send().await;
    assert!(odd.status() >= 400 && !odd.json().to_string().contains("raw"), "{odd:?}");
    let nobody = listen(&Client::new(gate.address(), Era::Legacy), None).send().await;
    assert_eq!(nobody.status(), 401);
}

fn cancel(client: &Client, id: &Value) -> Ask {
    let params = json!({ "requestId": id, "reason": "the user went for lunch" });
    client
        .rpc("notifications/cancelled", &params)
        .with(|body| drop(body.as_object_mut().map(|it| it.remove("id"))))
}

fn cancelled(upstream: &Upstream) -> Vec<Value> {
    let all = upstream.received().into_iter();
    let of = all.filter(|request| request.rpc() == "notifications/cancelled");
    of.map(|request| request.json["params"]["requestId"].clone()).collect()
}

#[tokio::test]
async fn a_cancellation_reaches_the_app_for_reads_only() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let (hold, read) = (upstream.hold("refund_order"), upstream.hold("get_invoice"));
    let client = gate.client(Era::Legacy);
    let mutation = refund(&client).id(1).open().await;
    let reading = client.tool("get_invoice", &json!({})).id(2).open().await;
    upstream.called("refund_order", 1).await;
    upstream.called("get_invoice", 1).await;
    let other = gate.client_with(Era::Legacy, &json!({ "sub": "u2" }));
    for (whose, id) in [(&client, json!(1)), (&client, json!("2")), (&client, json!(9)), (&other, json!(2))] {
        assert_eq!(cancel(whose, &id).send().await.status(), 202, "{id}");
    }
    assert!(cancelled(&upstream).is_empty(), "{:?}", cancelled(&upstream));
    assert_eq!(cancel(&client, &json!(2)).send().await.status(), 202);
    assert_eq!(cancelled(&upstream), [json!(2)]);
    hold.release();
    read.release();
    assert_eq!(mutation.reply().await.met(), "first");
    reading.reply().await;
    // It has ended: there is nothing to cancel any more.
    assert_eq!(cancel(&client, &json!(2)).send().await.status(), 202);
    assert_eq!(cancelled(&upstream).len(), 1);
    assert_eq!(gate.claim("k1").await["status"], "completed");
}

#[tokio::test]
async fn whoever_only_listens_does_not_keep_a_stopping_gate() {
    for mode in ["enforce", "observe"] {
        let upstream = Upstream::start().await;
        let setup =
            Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "60s").set("mode", mode);
        let mut gate = Gate::start(setup).await;
        upstream.script("GET", [Answer::events().event("id: g1\n", &progress(1)).then(Step::Hang)]);
        let mut stream = listen(&gate.client(Era::Legacy), None).open().await.stream();
        stream.until("\"progress\":1").await;
        assert_eq!(gate.stop().await, Some(0), "{mode}");
        stream.end().await;
    }
}
