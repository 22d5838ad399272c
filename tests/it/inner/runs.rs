//! Mutations inside: once each, replayed each, and nothing after the first that fails.

use serde_json::{Value, json};

use super::{all_scopes, call, client, execute, inner_calls, refund, setup, started, text, told};
use crate::harness::answer::{Answer, Hold};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::Home;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

#[tokio::test]
async fn mutations_inside_run_once_each_and_are_replayed_each() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream)).await;
        for era in Era::ALL {
            let (one, two) = (format!("{era:?}-1"), format!("{era:?}-2"));
            let read = call("get_invoice", &json!({ "idempotency_key": "r" }));
            let first = execute(&client(&gate, era), &[refund(&one, "a"), read.clone()]).send().await;
            assert_eq!(told(&first)["results"].as_array().expect("results").len(), 2);
            assert!(!first.is_replay());
            assert_eq!(upstream.with_key(&one).len(), 1, "the app hears each call's own key");
            let run = inner_calls(&upstream).len();
            // The first of these ran; the second is new.
            let calls = [refund(&one, "a"), refund(&two, "b")];
            let second = told(&execute(&client(&gate, era), &calls).send().await);
            assert_eq!(
                text(&second["results"][0]),
                text(&told(&first)["results"][0]),
                "what it came to first"
            );
            assert_eq!(second["results"][0]["_meta"]["oncegate/replayed"], true);
            assert_eq!(second["results"][1]["_meta"].get("oncegate/replayed"), None);
            assert_eq!(inner_calls(&upstream).len(), run + 1);
            let third = execute(&client(&gate, era), &calls).send().await;
            assert!(third.is_replay(), "all of it");
            assert_eq!(inner_calls(&upstream).len(), run + 1);
            for key in [&one, &two] {
                let claim = gate.claim(key).await;
                assert_eq!((&claim["tool"], &claim["status"]), (&json!("refund_order"), &json!("completed")));
            }
            // It is the same intent when it is called directly, and the answer is its own.
            let direct = client(&gate, era).tool("refund_order", &json!({ "order_id": "a" })).key(&one);
            let direct = direct.send().await;
            assert!(direct.is_replay());
            assert_eq!(text(&direct.result()), text(&told(&first)["results"][0]));
            assert_eq!(upstream.calls("refund_order").len(), 0);
        }
        let sent = &inner_calls(&upstream)[0];
        assert_eq!(sent, &call("refund_order", &json!({ "order_id": "a" })), "the key is taken out");
    })
    .await;
}

/// A single inner call's answer, as the tool around it gives it.
fn single(tool: &str, result: &Value, ok: bool) -> Answer {
    let mut entry = result.clone();
    entry["name"] = json!(tool);
    Answer::inner(&json!({ "ok": ok, "results": [entry] }), !ok)
}

#[tokio::test]
async fn nothing_is_run_after_the_first_error() {
    let (upstream, gate) = started().await;
    let failed = json!({ "content": [{ "type": "text", "text": "no such order" }], "isError": true });
    upstream.script("k2", [single("refund_order", &failed, false)]);
    let calls = [refund("k1", "a"), refund("k2", "b"), refund("k3", "c")];
    for (era, replayed) in [(Era::Modern, false), (Era::Legacy, true)] {
        let reply = execute(&client(&gate, era), &calls).send().await;
        let told = told(&reply);
        assert_eq!((&told["ok"], told["results"].as_array().expect("results").len()), (&json!(false), 2));
        assert_eq!(told["results"][1]["content"][0]["text"], "no such order");
        assert_eq!(reply.is_replay(), replayed);
    }
    assert_eq!(inner_calls(&upstream).len(), 2, "an error is an answer, and is replayed");
    assert_eq!(gate.claims().await.len(), 2);
}

#[tokio::test]
async fn a_call_inside_that_is_refused_stops_the_rest_and_says_why() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let key = |n: usize| format!("{era:?}-{n}");
        let run = inner_calls(&upstream).len();
        let taken = client(&gate, era).tool("refund_order", &json!({ "order_id": "other" })).key(&key(2));
        assert_eq!(taken.send().await.met(), "first");
        let calls = [refund(&key(1), "a"), refund(&key(2), "b"), refund(&key(3), "c")];
        let before = gate.audit(0).await.len();
        let reply = execute(&client(&gate, era), &calls).send().await;
        let told = told(&reply);
        assert_eq!(told["results"].as_array().expect("results").len(), 2, "{told}");
        let refusal = &told["results"][1]["_meta"]["oncegate/refusal"];
        assert_eq!(refusal["code"], "idempotency_key_reuse_with_different_args", "{told}");
        assert_eq!((&refusal["executed"], &told["results"][1]["isError"]), (&json!("no"), &json!(true)));
        assert_eq!(inner_calls(&upstream).len(), run + 1);
        let rows = gate.audit(before + 2).await.split_off(before);
        let seen: Vec<_> = rows.iter().map(|row| (&row["tool"], &row["decision"])).collect();
        let tool = json!("refund_order");
        assert_eq!(seen, [(&tool, &json!("allowed")), (&tool, &json!("denied"))]);
        // The first to be refused is the whole answer: nothing was run.
        let refused = execute(&client(&gate, era), &calls[1..]).send().await;
        assert_eq!(refused.word(), "idempotency_key_reuse_with_different_args");
        assert_eq!(inner_calls(&upstream).len(), run + 1);
        let rows = gate.audit(before + 3).await.split_off(before + 2);
        assert_eq!((rows.len(), &rows[0]["tool"]), (1, &tool), "{rows:?}");
    }
}

#[tokio::test]
async fn an_outcome_that_nobody_knows_stays_unknown_in_the_whole() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream)).await;
        upstream.script("k2", [Answer::reset()]);
        let calls = [refund("k1", "a"), refund("k2", "b"), refund("k3", "c")];
        for era in Era::ALL {
            let told = told(&execute(&client(&gate, era), &calls).send().await);
            let refusal = &told["results"][1]["_meta"]["oncegate/refusal"];
            assert_eq!(
                (&refusal["code"], &refusal["executed"]),
                (&json!("outcome_unknown"), &json!("maybe"))
            );
            assert_eq!(told["results"].as_array().expect("results").len(), 2);
        }
        assert_eq!(inner_calls(&upstream).len(), 2, "neither ran again, and the third never did");
        let status = async |key| gate.claim(key).await["status"].clone();
        assert_eq!((status("k1").await, status("k2").await), (json!("completed"), json!("unknown")));
    })
    .await;
}

#[tokio::test]
async fn a_token_that_runs_out_on_the_way_lets_nothing_more_be_run() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream).set("auth.leeway", "0s")).await;
    let hold = Hold::new();
    upstream.script("k1", [single("refund_order", &json!({ "content": [] }), true).behind(&hold)]);
    let until = jiff::Timestamp::now().as_second() + 3;
    let mut claims = all_scopes();
    claims["exp"] = json!(until);
    let calls = [refund("k1", "a"), refund("k2", "b")];
    let open = execute(&gate.client_with(Era::Modern, &claims), &calls).open().await;
    upstream.called("execute_tools", 1).await;
    eventually("the token to run out", async || (jiff::Timestamp::now().as_second() > until).then_some(()))
        .await;
    hold.release();
    let told = told(&open.reply().await);
    assert_eq!(told["results"][1]["_meta"]["oncegate/refusal"]["code"], "invalid_token", "{told}");
    assert_eq!(inner_calls(&upstream).len(), 1);
    let rows = gate.audit(2).await;
    let row = (&rows[1]["tool"], &rows[1]["decision"], &rows[1]["reason"]);
    assert_eq!(row, (&json!("refund_order"), &json!("denied"), &json!("invalid_token")));
}

#[tokio::test]
async fn a_caller_that_hangs_up_stops_none_of_them() {
    let (upstream, gate) = started().await;
    let hold = Hold::new();
    upstream.script("k1", [single("refund_order", &json!({ "content": [] }), true).behind(&hold)]);
    let calls = [refund("k1", "a"), refund("k2", "b"), refund("k3", "c")];
    let open = execute(&client(&gate, Era::Modern), &calls).open().await;
    upstream.called("execute_tools", 1).await;
    open.reset();
    hold.release();
    upstream.called("execute_tools", 3).await;
    let rows = gate.audit(3).await;
    assert!(rows.iter().all(|row| row["decision"] == "allowed" && row["tool"] == "refund_order"), "{rows:?}");
    for key in ["k1", "k2", "k3"] {
        assert_eq!(gate.claim(key).await["status"], "completed");
    }
    assert!(execute(&client(&gate, Era::Modern), &calls).send().await.is_replay());
}

#[tokio::test]
async fn an_error_of_the_tool_around_a_call_never_says_that_it_did_not_run() {
    let (upstream, gate) = started().await;
    let mail = |key: &str| [call("send_mail", &json!({ "idempotency_key": key }))];
    let own = json!({ "content": [{ "type": "text", "text": "no such address" }], "isError": true });
    upstream.script(
        "k1",
        [single("send_mail", &own, false), single("send_mail", &json!({ "content": [] }), true)],
    );
    let limit = json!({ "ok": false, "error": { "kind": "OutputLimitExceeded" } });
    upstream.script("k2", [Answer::inner(&limit, true), Answer::tool("sent twice", &json!({}))]);
    let met = async |key: &str| execute(&client(&gate, Era::Modern), &mail(key)).send().await.met();
    assert_eq!(met("k1").await, "execution_failed", "its own error, which its rule takes for not run");
    assert_eq!(met("k1").await, "first");
    assert_eq!(met("k2").await, "first");
    assert_eq!(met("k2").await, "replay");
    assert_eq!(upstream.with_key("k2").len(), 1);
}

#[tokio::test]
async fn a_stream_inside_is_read_to_its_end() {
    let (upstream, gate) = started().await;
    let result = |told: &str, tool: &str| {
        let entry = json!({ "name": tool, "content": [{ "type": "text", "text": told }] });
        let text = json!({ "ok": true, "results": [entry] }).to_string();
        json!({ "content": [{ "type": "text", "text": text }] })
    };
    for era in Era::ALL {
        let key = format!("{era:?}");
        upstream.script(&key, [Answer::stream(result("refunded", "refund_order"))]);
        upstream.script("execute_tools", [Answer::stream(result("{\"email\":\"a@b.c\"}", "get_customer"))]);
        let read = call("get_customer", &json!({ "idempotency_key": "r" }));
        let told = told(&execute(&client(&gate, era), &[refund(&key, "a"), read]).send().await);
        assert_eq!(told["results"][0]["content"][0]["text"], "refunded");
        assert_eq!(text(&told["results"][1])["email"], "***");
        assert_eq!(gate.claim(&key).await["status"], "completed");
    }
    upstream.script("cut", [Answer::stream_without_result()]);
    let told =
        told(&execute(&client(&gate, Era::Modern), &[refund("k", "a"), refund("cut", "a")]).send().await);
    assert_eq!(told["results"][1]["_meta"]["oncegate/refusal"]["code"], "outcome_unknown");
}

#[tokio::test]
async fn what_asks_for_input_cannot_do_so_inside() {
    let (upstream, gate) = started().await;
    let asks = json!({ "resultType": "input_required", "inputRequests": { "a": {} }, "requestState": "s" });
    upstream.script("k1", [Answer::result(asks)]);
    let reply = execute(&client(&gate, Era::Modern), &[refund("k1", "a"), refund("k2", "b")]).send().await;
    let told = told(&reply);
    assert_eq!(
        (&told["ok"], told["results"].as_array().expect("results").len()),
        (&json!(false), 1),
        "{told}"
    );
    assert_eq!(reply.result()["resultType"], "complete");
    assert_eq!(inner_calls(&upstream).len(), 1);
}

#[tokio::test]
async fn a_json_rpc_error_is_the_answer_or_the_last_of_the_results() {
    let (upstream, gate) = started().await;
    upstream.script("k2", [Answer::error(200, -32603)]);
    let alone = execute(&client(&gate, Era::Modern), &[refund("k2", "b")]).send().await;
    assert_eq!(alone.word(), "-32603");
    let told =
        told(&execute(&client(&gate, Era::Modern), &[refund("k1", "a"), refund("k2", "b")]).send().await);
    assert!(told["results"][1]["content"][0]["text"].to_string().contains("-32603"), "{told}");
    assert_eq!(inner_calls(&upstream).len(), 2);
}

#[tokio::test]
async fn a_cancellation_that_means_a_read_inside_never_meets_the_mutation_after_it() {
    let (upstream, gate) = started().await;
    let hold = Hold::new();
    // Each call goes out as the outer tool's: the first one is the read.
    upstream.script("execute_tools", [single("get_invoice", &json!({ "content": [] }), true).behind(&hold)]);
    let client = client(&gate, Era::Legacy);
    let read = call("get_invoice", &json!({ "idempotency_key": "r" }));
    let open = execute(&client, &[read, refund("k1", "a")]).id(7).open().await;
    upstream.called("execute_tools", 1).await;
    let cancel = client.rpc("notifications/cancelled", &json!({ "requestId": 7 }));
    let cancel = cancel.with(|body| drop(body.as_object_mut().map(|body| body.remove("id"))));
    assert_eq!(cancel.send().await.status(), 202);
    hold.release();
    open.reply().await;
    let heard = upstream.received().into_iter().filter(|it| it.rpc() == "notifications/cancelled").count();
    assert_eq!(heard, 0);
}
