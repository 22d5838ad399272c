//! Calls in several rounds: the upstream asks for input, the same key brings it. A round runs once, too.

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

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

/// The upstream has no time now, and wants to hear the same again.
fn later(state: &str) -> Answer {
    Answer::result(json!({ "resultType": "input_required", "requestState": state }))
}

fn with_state(client: &Client, state: &str) -> Ask {
    refund(client).with(|body| body["params"]["requestState"] = json!(state))
}

#[tokio::test]
async fn an_upstream_that_asks_for_patience_is_asked_until_it_has_done_it_once() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [later("s1"), later("s1"), later("s2"), done()]);
        assert_eq!(told(&refund(&client).send().await), pair("first", "input_required"));
        assert_eq!(told(&refund(&client).send().await), pair("replay", "input_required"));
        for (state, kind) in [("s1", "input_required"), ("s1", "input_required"), ("s2", "complete")] {
            assert_eq!(told(&with_state(&client, state).send().await), pair("first", kind), "{state}");
        }
        for again in [refund(&client), with_state(&client, "s1"), with_state(&client, "s2")] {
            assert_eq!(told(&again.send().await), pair("replay", "complete"));
        }
        assert_eq!(upstream.calls("refund_order").len(), 4);
    })
    .await;
}

#[tokio::test]
async fn a_question_is_not_answered_by_its_state_alone() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let client = gate.client(Era::Modern);
    upstream.script("refund_order", [question("s1"), done()]);
    assert_eq!(refund(&client).send().await.met(), "first");
    let bare = with_state(&client, "s1").send().await;
    assert_eq!(bare.met(), "idempotency_key_reuse_with_different_args");
    assert_eq!(upstream.calls("refund_order").len(), 1);
    assert_eq!(told(&answered(&client, "s1", true).send().await), pair("first", "complete"));
}

#[tokio::test]
async fn what_is_null_is_left_out() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let client = gate.client(Era::Modern);
    let mut asks = json!({ "resultType": "input_required", "requestState": null });
    asks["inputRequests"]["sure"] = json!({ "method": "elicitation/create", "params": {} });
    upstream.script("refund_order", [Answer::result(asks), done()]);
    let nothing = || {
        refund(&client).with(|body| {
            body["params"]["inputResponses"] = Value::Null;
            body["params"]["requestState"] = Value::Null;
        })
    };
    assert_eq!(told(&nothing().send().await), pair("first", "input_required"));
    assert_eq!(told(&refund(&client).send().await), pair("replay", "input_required"));
    let stateless = refund(&client)
        .with(|body| body["params"]["inputResponses"] = json!({ "sure": { "action": "accept" } }));
    assert_eq!(told(&stateless.send().await), pair("first", "complete"));
    assert_eq!(told(&nothing().send().await), pair("replay", "complete"));
}

#[tokio::test]
async fn two_gates_run_one_round_once() {
    let upstream = Upstream::start().await;
    let one = Gate::start(Setup::new(Home::Postgres, &upstream.url())).await;
    let two = one.another().await;
    let (here, there) = (one.client(Era::Modern), two.client(Era::Modern));
    upstream.script("refund_order", [question("s1")]);
    assert_eq!(told(&refund(&here).send().await), pair("first", "input_required"));
    assert_eq!(told(&refund(&there).send().await), pair("replay", "input_required"));
    let hold = upstream.hold("refund_order");
    let mut open = Vec::new();
    for client in [&here, &there, &here, &there] {
        open.push(answered(client, "s1", true).open().await);
    }
    upstream.called("refund_order", 2).await;
    let other = answered(&there, "s1", false).send().await;
    assert_eq!(other.met(), "idempotency_key_reuse_with_different_args");
    // All but the one that runs have been told so; then it may end.
    let rows = two.audit(6).await;
    assert_eq!(rows.iter().filter(|row| row["reason"] == "idempotency_in_flight").count(), 3, "{rows:?}");
    hold.release();
    let mut met = Vec::new();
    for open in open {
        met.push(open.reply().await.met());
    }
    met.sort();
    assert_eq!(met, ["first", "request_in_flight", "request_in_flight", "request_in_flight"]);
    for client in [&here, &there] {
        assert_eq!(told(&answered(client, "s1", true).send().await), pair("replay", "complete"));
    }
    assert_eq!(upstream.calls("refund_order").len(), 2);
}

#[tokio::test]
async fn a_question_outlives_a_gate_and_an_upstream_that_is_away() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(Setup::new(home, &upstream.url())).await;
        upstream.script("refund_order", [question("s1")]);
        assert_eq!(refund(&gate.client(Era::Modern)).send().await.met(), "first");
        gate.kill();
        gate.restart().await;
        let client = gate.client(Era::Modern);
        let address = upstream.address();
        drop(upstream);
        let away = eventually("the upstream to be gone", async || {
            let reply = answered(&client, "s1", true).send().await;
            (reply.met() == "upstream_unreachable").then_some(reply)
        })
        .await;
        assert_eq!(away.refusal()["executed"], "no");
        assert_eq!(gate.claim("k1").await["status"], "awaiting_input");
        assert_eq!(told(&refund(&client).send().await), pair("replay", "input_required"));
        let upstream = Upstream::start_at(address).await;
        upstream.script("refund_order", [done()]);
        assert_eq!(told(&answered(&client, "s1", true).send().await), pair("first", "complete"));
    })
    .await;
}

#[tokio::test]
async fn a_round_that_may_have_run_is_unknown_to_every_round() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url()).set("upstream.timeout", "1s")).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [question("s1"), Answer::reset(), question("s1"), done()]);
        assert_eq!(refund(&client).send().await.met(), "first");
        for again in [answered(&client, "s1", true), answered(&client, "s1", true), refund(&client)] {
            let reply = again.send().await;
            assert_eq!(
                (reply.met(), &reply.refusal()["executed"]),
                ("outcome_unknown".to_owned(), &json!("maybe"))
            );
        }
        assert_eq!(upstream.calls("refund_order").len(), 2);
        // A person found that it did not run: the call begins anew, with its question.
        let released = ["claims", "resolve", "--tenant", "acme", "--tool", "refund_order", "--key", "k1"];
        let released = [
            &released[..],
            &["--released", "--force", "--operator", "ops", "--because", "a look at the books"],
        ]
        .concat();
        let output = gate.run(&released).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(told(&refund(&client).send().await), pair("first", "input_required"));
        assert_eq!(told(&answered(&client, "s1", true).send().await), pair("first", "complete"));
    })
    .await;
}

#[tokio::test]
async fn a_backend_that_knows_the_key_gets_only_the_round_again_that_was_lost() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url()).set("upstream.timeout", "1s")).await;
        let client = gate.client(Era::Modern);
        let charge = || client.tool("charge_card", &json!({ "cents": 1 })).key("k1");
        let sure = |sure: bool| {
            charge().with(|body| {
                body["params"]["requestState"] = json!("s1");
                body["params"]["inputResponses"] = json!({ "sure": { "action": "accept", "content": sure } });
            })
        };
        upstream.script("charge_card", [question("s1"), Answer::reset(), done()]);
        assert_eq!(charge().send().await.met(), "first");
        assert_eq!(sure(true).send().await.met(), "outcome_unknown");
        for other in [charge(), sure(false)] {
            let reply = other.send().await;
            assert_eq!(
                (reply.met(), &reply.refusal()["retry"]),
                ("outcome_unknown".to_owned(), &json!("no"))
            );
        }
        let met = eventually("the backend's answer", async || {
            let reply = sure(true).send().await;
            (reply.met() != "outcome_unknown").then_some(reply)
        })
        .await;
        assert_eq!(told(&met), pair("first", "complete"));
        assert_eq!(upstream.calls("charge_card").len(), 3);
        for again in [charge(), sure(true)] {
            assert_eq!(told(&again.send().await), pair("replay", "complete"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_question_that_nobody_answered_in_time_is_asked_anew() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate =
            Gate::start(Setup::new(home, &upstream.url()).policy("redact =", "ttl = \"1s\"\nredact =")).await;
        let client = gate.client(Era::Modern);
        upstream.script("refund_order", [question("s1"), question("s2")]);
        assert_eq!(refund(&client).send().await.result()["requestState"], "s1");
        let anew = eventually("the question to expire", async || {
            let reply = refund(&client).send().await;
            (reply.met() == "first").then_some(reply)
        })
        .await;
        assert_eq!(anew.result()["requestState"], "s2");
        assert_eq!(upstream.calls("refund_order").len(), 2);
    })
    .await;
}
