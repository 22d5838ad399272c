//! What an answer proves, and what of it is kept.

use serde_json::{Value, json};

use super::{BY_TOOL, found, lost, not_found, reasons, refund, setup, until_it_cannot_run};
use crate::harness::answer::Answer;
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

async fn gate_with(upstream: &Upstream, reconcile: &str) -> Gate {
    Gate::start(setup(Home::Sqlite, upstream, reconcile)).await
}

/// Once an attempt cannot run any more, this answer changes nothing.
async fn check_proves_nothing(upstream: &Upstream, gate: &Gate, key: &str, answer: Answer) {
    lost(upstream, gate, Era::Modern, key).await;
    until_it_cannot_run(gate, key).await;
    upstream.script("get_refund", [answer]);
    let before = upstream.calls("get_refund").len();
    let reply = refund(gate, Era::Modern, key).send().await;
    assert_eq!(upstream.calls("get_refund").len(), before + 1, "{key} was asked about");
    assert_eq!(
        (reply.met().as_str(), gate.claim(key).await["status"].clone()),
        ("outcome_unknown", json!("unknown"))
    );
    assert_eq!(upstream.with_key(key).len(), 1, "{key} did not run again");
    assert!(!reasons(gate, key).await.iter().any(|reason| reason.starts_with("reconciled")), "{key}");
}

#[tokio::test]
async fn whatever_is_no_proof_changes_nothing() {
    let upstream = Upstream::start().await;
    let how = BY_TOOL.replace("every", "timeout = \"300ms\", every");
    let setup = setup(Home::Sqlite, &upstream, &how).set("upstream.timeout", "400ms");
    let gate = Gate::start(setup).await;
    let tool_error = |code: &str| {
        let text = json!({ "code": code }).to_string();
        Answer::result(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
    };
    let answers: [(&str, Answer); 16] = [
        ("hang", Answer::hang()),
        ("reset", Answer::reset()),
        ("cut", Answer::cut("{\"jsonrpc\":\"2.0\",")),
        ("500", Answer::http(500, "text/plain", "oh no")),
        ("503", Answer::http(503, "application/json", "{\"code\":\"refund_not_found\"}")),
        ("404", Answer::http(404, "application/json", "{\"code\":\"refund_not_found\"}")),
        ("html", Answer::http(200, "text/html", "<h1>refund_not_found</h1>")),
        ("other-status", found("failed")),
        ("other-type", Answer::tool("odd", &json!({ "refund": { "status": true } }))),
        ("other-place", Answer::tool("odd", &json!({ "status": "succeeded" }))),
        ("other-code", tool_error("forbidden")),
        ("prose", Answer::tool_error("refund_not_found")),
        ("rpc-error", Answer::error(200, -32601)),
        (
            "strangers",
            Answer::result_for(
                "another",
                &json!({ "structuredContent": { "refund": { "status": "succeeded" } } }),
            ),
        ),
        ("question", Answer::result(json!({ "resultType": "input_required", "inputRequests": {} }))),
        ("stream", Answer::stream_without_result()),
    ];
    for (key, answer) in answers {
        check_proves_nothing(&upstream, &gate, key, answer).await;
    }
}

#[tokio::test]
async fn an_answer_that_proves_both_proves_nothing() {
    let upstream = Upstream::start().await;
    let how = r#"{ tool = "get_refund", arguments = { key = "{key}" }, completed = { id = "*" }, absent = { found = false } , every = "1h" }"#;
    let gate = gate_with(&upstream, how).await;
    let both = Answer::tool("odd", &json!({ "id": 7, "found": false }));
    check_proves_nothing(&upstream, &gate, "both", both).await;
    check_proves_nothing(
        &upstream,
        &gate,
        "null",
        Answer::tool("odd", &json!({ "id": null, "found": null })),
    )
    .await;
    lost(&upstream, &gate, Era::Modern, "one").await;
    upstream.script("get_refund", [Answer::tool("there", &json!({ "id": 7, "found": true }))]);
    assert_eq!(refund(&gate, Era::Modern, "one").send().await.met(), "answer_not_kept");
}

/// A refund that the app says was carried out, and what its retry then meets.
async fn met_with(upstream: &Upstream, gate: &Gate, key: &str, content: &Value) -> (String, Value) {
    lost(upstream, gate, Era::Modern, key).await;
    upstream.script("get_refund", [Answer::tool("there", content)]);
    let reply = refund(gate, Era::Modern, key).send().await;
    assert_eq!(gate.claim(key).await["status"], "completed");
    assert_eq!(refund(gate, Era::Modern, key).send().await.met(), reply.met(), "a retry hears the same");
    (reply.met(), reply.result()["structuredContent"].clone())
}

#[tokio::test]
async fn what_is_kept_was_masked_and_looked_through_like_any_answer() {
    let upstream = Upstream::start().await;
    let gate = gate_with(&upstream, BY_TOOL).await;
    let refund = |more: Value| {
        let mut refund = json!({ "status": "succeeded" });
        refund.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        json!({ "refund": refund })
    };
    let masked = refund(json!({ "card": "4111", "customer": { "email": "a@example.com", "name": "Ann" } }));
    let (met, kept) = met_with(&upstream, &gate, "masked", &masked).await;
    let expected =
        json!({ "status": "succeeded", "card": "***", "customer": { "email": "***", "name": "Ann" } });
    assert_eq!((met.as_str(), kept), ("replay", expected));
    let secret = refund(json!({ "note": "paid with 4111 1111 1111 1111" }));
    assert_eq!(met_with(&upstream, &gate, "secret", &secret).await.0, "answer_not_kept");
    let elsewhere = json!({ "refund": { "status": "succeeded" }, "debug": "4111 1111 1111 1111" });
    assert_eq!(
        met_with(&upstream, &gate, "elsewhere", &elsewhere).await.0,
        "replay",
        "what is not kept is nobody's"
    );
}

#[tokio::test]
async fn an_answer_that_is_too_large_still_completes_its_claim() {
    let upstream = Upstream::start().await;
    let setup = setup(Home::Sqlite, &upstream, BY_TOOL).set("limits.stored_response", "1KiB");
    let gate = Gate::start(setup).await;
    let large = json!({ "refund": { "status": "succeeded", "log": "x".repeat(2000) } });
    assert_eq!(met_with(&upstream, &gate, "large", &large).await.0, "answer_not_kept");
}

#[tokio::test]
async fn the_whole_answer_is_the_result_where_the_policy_says_so() {
    let upstream = Upstream::start().await;
    let gate = gate_with(&upstream, &BY_TOOL.replace("result = \"refund\"", "result = \"*\"")).await;
    lost(&upstream, &gate, Era::Legacy, "k1").await;
    upstream.script("get_refund", [found("pending")]);
    let reply = refund(&gate, Era::Legacy, "k1").send().await;
    assert_eq!(reply.met(), "replay");
    assert_eq!(reply.result()["content"][0]["text"], "it is there");
    assert_eq!(reply.result()["structuredContent"]["refund"]["iban"], "***");
}

#[tokio::test]
async fn an_argument_that_was_masked_is_not_asked_with() {
    let upstream = Upstream::start().await;
    let gate = gate_with(&upstream, BY_TOOL).await;
    upstream.script("get_refund", [not_found()]);
    for (key, order) in [
        ("secret", json!("paid with 4111 1111 1111 1111")),
        ("long", json!("x".repeat(200))),
        ("number", json!(4_111_111_111_111_111_i64)),
        ("missing", Value::Null),
        ("deep", json!({ "id": "ord_9f2" })),
    ] {
        let ask = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": order })).key(key);
        upstream.script(key, [Answer::reset()]);
        let reply = ask.clone().send().await;
        assert_eq!(
            (reply.met().as_str(), &reply.refusal()["retry"]),
            ("outcome_unknown", &json!("no")),
            "{key}"
        );
        assert_eq!(ask.send().await.met(), "outcome_unknown");
        assert_eq!(upstream.with_key(key).len(), 1);
    }
    assert!(upstream.calls("get_refund").is_empty());
    // Whatever is no secret is asked with as it came.
    let ask = gate
        .client(Era::Modern)
        .tool("refund_order", &json!({ "order_id": 9_007_199_254_740_993_i64 }))
        .key("exact");
    upstream.script("exact", [Answer::reset()]);
    ask.clone().send().await;
    ask.send().await;
    let asked = upstream.calls("get_refund").pop().expect("it was asked");
    assert_eq!(asked.json["params"]["arguments"]["order_id"], 9_007_199_254_740_993_i64);
}

#[tokio::test]
async fn a_gate_that_only_observes_asks_nobody() {
    let upstream = Upstream::start().await;
    let how = BY_TOOL.replace("1h", "1s");
    let setup: Setup = setup(Home::Sqlite, &upstream, &how).set("mode", "observe");
    let mut gate = Gate::start(setup).await;
    upstream.script("refund_order", [Answer::reset()]);
    refund(&gate, Era::Modern, "k1").send().await;
    crate::harness::eventually("its claim", async || {
        gate.claims().await.iter().any(|claim| claim["status"] == "unknown").then_some(())
    })
    .await;
    refund(&gate, Era::Modern, "k1").send().await;
    assert_eq!(gate.stop().await, Some(0));
    assert!(upstream.calls("get_refund").is_empty());
}
