//! Answers that come as event streams: what passes on the way, what is held back, what a slow or lost reader costs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};
use crate::outages::gate_on_a_cable;

async fn started(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(home, &upstream.url())).await;
    (upstream, gate)
}

fn progress(step: u32) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": step } })
}

fn refunded() -> Value {
    json!({ "content": [{ "type": "text", "text": "refunded" }], "structuredContent": { "run": 1 } })
}

fn refund(client: &Client) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "o" })).key("k1")
}

#[tokio::test]
async fn what_comes_before_a_result_passes_as_it_comes_and_the_result_once_it_is_recorded() {
    on_every_store(async |home| {
        for era in Era::ALL {
            let (upstream, gate) = started(home).await;
            let hold = Hold::new();
            upstream.script(
                "refund_order",
                [Answer::events()
                    .event("", &progress(1))
                    .then(Step::Hold(hold.clone()))
                    .event("", &progress(2))
                    .then_result("", &refunded())],
            );
            let client = gate.client(era);
            let mut stream = refund(&client).open().await.stream();
            stream.until("\"progress\":1").await;
            let head = stream.head().await;
            assert!(head.contains("content-type: text/event-stream"), "{head}");
            assert!(head.contains("x-accel-buffering: no"), "{head}");
            assert_eq!(gate.claim("k1").await["status"], "in_flight");
            hold.release();
            stream.until("refunded").await;
            assert_eq!(gate.claim("k1").await["status"], "completed", "recorded before it was told");
            stream.end().await;
            let messages = stream.messages();
            assert_eq!(messages.len(), 3, "{messages:?}");
            assert_eq!(messages[1], progress(2));
            assert_eq!(messages[2]["id"], 1);
            assert_eq!(messages[2]["result"]["structuredContent"], json!({ "run": 1 }));
            assert_eq!(refund(&client).id("again").send().await.met(), "replay");
            assert_eq!(upstream.calls("refund_order").len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_streamed_answer_that_could_not_be_stored_says_so_and_is_stored_later() {
    let upstream = Upstream::start().await;
    let (gate, mut cable) = gate_on_a_cable(&upstream).await;
    let hold = Hold::new();
    upstream.script(
        "refund_order",
        [Answer::events()
            .event("", &progress(1))
            .then(Step::Hold(hold.clone()))
            .then_result("", &refunded())],
    );
    let mut stream = refund(&gate.client(Era::Modern)).open().await.stream();
    stream.until("\"progress\":1").await;
    cable.cut().await;
    hold.release();
    stream.end().await;
    let last = stream.messages().pop().expect("an answer");
    assert_eq!(last["result"]["_meta"]["oncegate/not_recorded"], true, "{last}");
    cable.mend().await;
    eventually("the answer to be stored", async || {
        (gate.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_read_streams_too_and_its_result_is_masked() {
    let upstream = Upstream::start().await;
    let old = "[tools.get_invoice]\neffect = \"read\"";
    let new = format!("{old}\nredact = [\"iban\"]\nsummary = [\"id\"]");
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).policy(old, &new)).await;
    let hold = Hold::new();
    let result = json!({ "content": [], "structuredContent": { "id": "inv_1", "iban": "DE0012345" } });
    upstream.script(
        "get_invoice",
        [Answer::events().event("", &progress(1)).then(Step::Hold(hold.clone())).then_result("", &result)],
    );
    let ask = gate.client(Era::Modern).tool("get_invoice", &json!({}));
    let mut stream = ask.open().await.stream();
    stream.until("\"progress\":1").await;
    hold.release();
    stream.end().await;
    let last = stream.messages().pop().expect("an answer");
    assert_eq!(last["result"]["structuredContent"]["id"], "inv_1");
    assert!(!last.to_string().contains("DE0012345"), "{last}");
    let rows = gate.audit(1).await;
    assert_eq!(rows[0]["executed"], "yes", "{rows:?}");
    assert!(rows[0]["result_summary"].to_string().contains("inv_1"), "{rows:?}");
}

#[tokio::test]
async fn a_read_whose_stream_ends_without_a_result_is_told_so() {
    let (upstream, gate) = started(Home::Sqlite).await;
    upstream.script("get_invoice", [Answer::events().event("", &progress(1)).then(Step::Close)]);
    for era in Era::ALL {
        let reply = gate.client(era).tool("get_invoice", &json!({})).send().await;
        assert_eq!(reply.word(), "execution_failed", "{}", reply.json());
    }
}

#[tokio::test]
async fn whoever_waits_long_hears_that_the_call_is_alive() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let hold = Hold::new();
    upstream.script("refund_order", [Answer::tool("refunded", &json!({ "run": 1 })).behind(&hold)]);
    upstream.script("get_invoice", [Answer::tool("an invoice", &json!({})).behind(&hold)]);
    for era in Era::ALL {
        let client = gate.client(era);
        let mut stream = client.tool("get_invoice", &json!({})).open().await.stream();
        stream.until(":\n\n").await;
        drop(stream);
    }
    let client = gate.client(Era::Modern);
    let mut stream = refund(&client).open().await.stream();
    stream.until(":\n\n").await;
    assert!(stream.head().await.contains("text/event-stream"));
    // Whoever meets a running call hears at once.
    assert_eq!(refund(&client).id(2).send().await.met(), "request_in_flight");
    hold.release();
    stream.end().await;
    let last = stream.messages().pop().expect("an answer");
    assert_eq!(last["result"]["structuredContent"], json!({ "run": 1 }), "{last}");
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(refund(&client).id(3).send().await.met(), "replay");
}

#[tokio::test]
async fn a_refusal_after_a_long_wait_is_an_event_with_the_calls_id() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "4s")).await;
    upstream.script("refund_order", [Answer::hang()]);
    let mut stream = refund(&gate.client(Era::Legacy)).id("mine").open().await.stream();
    stream.end().await;
    let last = stream.messages().pop().expect("an answer");
    assert_eq!(last["id"], "mine");
    assert_eq!(last["result"]["_meta"]["oncegate/refusal"]["code"], "outcome_unknown", "{last}");
    let rows = gate.audit(1).await;
    assert_eq!((&rows[0]["reason"], rows.len()), (&json!("outcome_unknown"), 1), "{rows:?}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_hold_its_call_up() {
    let upstream = Upstream::start().await;
    // Time for an unoptimised build to read it all.
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "60s")).await;
    let big = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "x".repeat(64 * 1024) } });
    let mut answer = Answer::events();
    for _ in 0..250 {
        answer = answer.event("", &big);
    }
    upstream.script("refund_order", [answer.then_result("", &refunded())]);
    let client = gate.client(Era::Modern);
    let open = refund(&client).open().await;
    upstream.called("refund_order", 1).await;
    eventually("the call to be settled", async || {
        (gate.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
    // Some events are gone, the answer is not.
    let mut stream = open.stream();
    stream.end().await;
    let messages = stream.messages();
    assert!(messages.len() < 250, "{} events were kept for a reader that did not read", messages.len());
    assert_eq!(messages.last().expect("an answer")["result"]["structuredContent"], json!({ "run": 1 }));
}

#[tokio::test]
async fn a_stream_nobody_bounds_passes_unread_and_takes_no_calls_place() {
    let upstream = Upstream::start().await;
    let listen = "[methods.\"subscriptions/listen\"]\neffect = \"read\"\nscopes = [\"billing:read\"]\n\n[tools.run_sql]";
    let setup = Setup::new(Home::Sqlite, &upstream.url())
        .set("limits.concurrent_calls", "1")
        .set("upstream.timeout", "2s")
        .policy("[tools.run_sql]", listen);
    let gate = Gate::start(setup).await;
    let hold = Hold::new();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    upstream.script(
        "subscriptions/listen",
        [Answer::events()
            .event("", &progress(1))
            .then(Step::Hold(hold.clone()))
            .event("", &changed)
            .then(Step::Close)],
    );
    upstream.script("GET", [Answer::events().event("", &progress(1)).then(Step::Hang)]);
    let client = gate.client(Era::Modern);
    let mut stream = client.rpc("subscriptions/listen", &json!({})).open().await.stream();
    stream.until("\"progress\":1").await;
    let mut session =
        gate.client(Era::Legacy).rpc("ping", &json!({})).body("").line("GET /mcp").open().await.stream();
    session.until("\"progress\":1").await;
    assert_eq!(refund(&client).send().await.met(), "first", "both streams leave the one place to calls");
    // Longer than a call may take.
    tokio::time::sleep(Duration::from_millis(2200)).await;
    hold.release();
    stream.until("list_changed").await;
    stream.end().await;
}

#[tokio::test]
async fn a_read_that_its_client_leaves_is_cancelled_upstream() {
    let upstream = Upstream::start().await;
    // A call may take longer than the test waits: it is the client's going that ends it, and not its time.
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("upstream.timeout", "300s")).await;
    for (era, streams) in [(Era::Modern, false), (Era::Modern, true), (Era::Legacy, true)] {
        let gone = Hold::new();
        let answer = if streams {
            Answer::events().event("", &progress(1)).then(Step::UntilGone(gone.clone()))
        } else {
            Answer::raw(vec![Step::UntilGone(gone.clone())])
        };
        upstream.script("get_invoice", [answer]);
        let calls = upstream.calls("get_invoice").len();
        let open = gate.client(era).tool("get_invoice", &json!({})).open().await;
        upstream.called("get_invoice", calls + 1).await;
        if streams {
            let mut stream = open.stream();
            stream.until("\"progress\":1").await;
        } else {
            drop(open);
        }
        crate::harness::in_time("the upstream to see its client go", gone.passed()).await;
    }
}

#[tokio::test]
async fn a_mutation_whose_streaming_client_leaves_is_carried_to_its_end() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let hold = Hold::new();
    upstream.script(
        "refund_order",
        [Answer::events()
            .event("", &progress(1))
            .then(Step::Hold(hold.clone()))
            .event("", &progress(2))
            .then_result("", &refunded())],
    );
    let client = gate.client(Era::Modern);
    let mut stream = refund(&client).open().await.stream();
    stream.until("\"progress\":1").await;
    drop(stream);
    hold.release();
    eventually("the call to be settled", async || {
        (gate.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
    let again = refund(&client).id(2).send().await;
    assert_eq!(again.met(), "replay");
    assert_eq!(again.result()["structuredContent"], json!({ "run": 1 }));
    assert_eq!(upstream.calls("refund_order").len(), 1);
}
