//! Calls in several rounds: the upstream asks for input, the same key brings it. A round runs once, too.

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::Setup;
use crate::harness::upstream::Upstream;

/// The upstream wants to know something, and names the state it stands at.
fn question(state: &str) -> Answer {
    let ask =
        json!({ "method": "elicitation/create", "params": { "message": "Really?", "requestedSchema": {} } });
    Answer::result(json!({
        "resultType": "input_required",
        "inputRequests": { "sure": ask },
        "requestState": state,
    }))
}

fn done() -> Answer {
    Answer::tool("refunded", &json!({ "done": true }))
}

fn refund(client: &Client) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("k1")
}

/// The same call, with an answer to the question that named this state.
fn answered(client: &Client, state: &str, sure: bool) -> Ask {
    refund(client).with(|body| {
        body["params"]["requestState"] = json!(state);
        body["params"]["inputResponses"] =
            json!({ "sure": { "action": "accept", "content": { "sure": sure } } });
    })
}

/// What was met, and whether it is a question or the end.
fn told(reply: &Reply) -> (String, String) {
    let kind = reply.result()["resultType"].as_str().unwrap_or_default().to_owned();
    (reply.met(), kind)
}

fn pair(met: &str, kind: &str) -> (String, String) {
    (met.to_owned(), kind.to_owned())
}

#[tokio::test]
async fn each_round_runs_once_and_the_end_answers_them_all() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [question("s1"), question("s2"), done()]);
        for met in ["first", "replay"] {
            assert_eq!(told(&refund(&client).send().await), pair(met, "input_required"));
        }
        assert_eq!(gate.claim("k1").await["status"], "awaiting_input");
        for met in ["first", "replay"] {
            let reply = answered(&client, "s1", true).send().await;
            assert_eq!(told(&reply), pair(met, "input_required"));
            assert_eq!(reply.result()["requestState"], "s2");
        }
        let stale = answered(&client, "s1", false).send().await;
        assert_eq!(stale.met(), "idempotency_key_reuse_with_different_args", "s1 was answered otherwise");
        assert_eq!(told(&answered(&client, "s2", true).send().await), pair("first", "complete"));
        assert_eq!(upstream.calls("refund_order").len(), 3);
        for again in [refund(&client), answered(&client, "s1", true), answered(&client, "s2", true)] {
            assert_eq!(told(&again.send().await), pair("replay", "complete"));
        }
        assert_eq!(upstream.calls("refund_order").len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_round_that_runs_is_not_run_with_other_inputs() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [question("s1")]);
        assert_eq!(refund(&client).send().await.met(), "first");
        let unasked = answered(&client, "s0", true).send().await;
        assert_eq!(unasked.met(), "idempotency_key_reuse_with_different_args", "nobody asked from s0");
        let hold = upstream.hold("refund_order");
        let open = answered(&client, "s1", true).open().await;
        upstream.called("refund_order", 2).await;
        for (ask, met) in [
            (answered(&client, "s1", true), "request_in_flight"),
            (answered(&client, "s1", false), "idempotency_key_reuse_with_different_args"),
        ] {
            assert_eq!(ask.send().await.met(), met);
        }
        hold.release();
        assert_eq!(open.reply().await.met(), "first");
        assert_eq!(upstream.calls("refund_order").len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_round_that_did_not_run_can_be_sent_again() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [question("s1"), Answer::http(404, "text/plain", ""), done()]);
        assert_eq!(refund(&client).send().await.met(), "first");
        assert_eq!(answered(&client, "s1", true).send().await.met(), "execution_failed");
        assert_eq!(gate.claim("k1").await["status"], "awaiting_input");
        assert_eq!(told(&refund(&client).send().await), pair("replay", "input_required"));
        assert_eq!(told(&answered(&client, "s1", true).send().await), pair("first", "complete"));
        assert_eq!(upstream.calls("refund_order").len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_knows_no_questions_is_not_given_a_stored_one() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        upstream.script("refund_order", [question("s1")]);
        assert_eq!(refund(&gate.client(Era::Modern)).send().await.met(), "first");
        let legacy = refund(&gate.client(Era::Legacy)).send().await;
        assert_eq!(
            (legacy.met(), &legacy.refusal()["executed"]),
            ("answer_not_kept".to_owned(), &json!("maybe"))
        );
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_app_gets_its_state_back_untouched() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        let state = "opaque \u{1f511} == \"quoted\"";
        upstream.script("refund_order", [question(state), done()]);
        assert_eq!(refund(&client).send().await.result()["requestState"], state);
        assert_eq!(answered(&client, state, true).send().await.met(), "first");
        let params: Vec<Value> =
            upstream.calls("refund_order").into_iter().map(|call| call.json["params"].clone()).collect();
        assert_eq!(params[1]["requestState"], state);
        assert_eq!(params[1]["inputResponses"]["sure"]["content"], json!({ "sure": true }));
        assert_eq!(params[0]["arguments"], params[1]["arguments"]);
    })
    .await;
}
