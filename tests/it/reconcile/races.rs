//! A question, and what else happens to its claim meanwhile: whoever writes first is right, and nobody writes over it.

use serde_json::json;

use super::{BY_TOOL, found, lost, reasons, refund, setup, until_it_cannot_run};
use crate::harness::answer::{Answer, Hold};
use crate::harness::client::{Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::Home;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

/// A call whose gate is stopped while the app carries it out, and another gate that found its claim.
struct Stopped {
    upstream: Upstream,
    gate: Gate,
    other: Gate,
    call: tokio::task::JoinHandle<Reply>,
    /// Behind which the app's answer to the call waits.
    answer: Hold,
}

async fn stopped() -> Stopped {
    let upstream = Upstream::start().await;
    // Its time is long: the attempt may still run whatever the app says.
    let setup = setup(Home::Postgres, &upstream, BY_TOOL).set("upstream.timeout", "20s");
    let stopped = Gate::start(setup).await;
    let other = stopped.another().await;
    let answer = upstream.hold("refund_order");
    let call = tokio::spawn(refund(&stopped, Era::Modern, "k1").send());
    upstream.called("refund_order", 1).await;
    stopped.freeze();
    eventually("the claim to be unknown", async || {
        (other.claim("k1").await["status"] == "unknown").then_some(())
    })
    .await;
    Stopped { upstream, gate: stopped, other, call, answer }
}

#[tokio::test]
async fn a_late_answer_that_comes_while_the_app_is_asked_stands() {
    let Stopped { upstream, gate: stopped, other, call, answer } = stopped().await;
    let hold = Hold::new();
    upstream.script("get_refund", [found("succeeded").behind(&hold)]);
    let retry = tokio::spawn(refund(&other, Era::Modern, "k1").send());
    upstream.called("get_refund", 1).await;
    answer.release();
    stopped.thaw();
    let first = call.await.expect("the caller");
    assert_eq!(first.met(), "first");
    hold.release();
    let retry = retry.await.expect("the caller");
    assert_eq!(retry.met(), "replay");
    assert_eq!(retry.result()["structuredContent"], json!({ "held": true }), "the attempt's own answer");
    let reasons = reasons(&other, "k1").await;
    assert!(!reasons.iter().any(|reason| reason.starts_with("reconciled")), "{reasons:?}");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn what_the_app_said_stands_when_the_late_answer_comes() {
    let Stopped { upstream, gate: stopped, other, call, answer } = stopped().await;
    upstream.script("get_refund", [found("succeeded")]);
    let retry = refund(&other, Era::Modern, "k1").send().await;
    assert_eq!(retry.result()["structuredContent"]["id"], "re_1");
    let resolved = other.claim("k1").await;
    answer.release();
    stopped.thaw();
    let late = call.await.expect("the caller");
    assert_eq!(late.result()["_meta"]["oncegate/not_recorded"], true, "{}", late.json());
    eventually("the late answer's row", async || {
        reasons(&other, "k1").await.contains(&"late_answer".to_owned()).then_some(())
    })
    .await;
    assert_eq!(other.claim("k1").await, resolved, "not a column changed");
    assert_eq!(refund(&stopped, Era::Modern, "k1").send().await.result()["structuredContent"]["id"], "re_1");
}

#[tokio::test]
async fn a_call_that_may_still_run_is_not_released_by_an_app_that_does_not_know_it_yet() {
    let Stopped { upstream, gate: stopped, other, call, answer } = stopped().await;
    upstream.script("get_refund", [super::not_found()]);
    assert_eq!(refund(&other, Era::Modern, "k1").send().await.met(), "outcome_unknown");
    assert_eq!(upstream.calls("get_refund").len(), 1);
    answer.release();
    stopped.thaw();
    assert_eq!(call.await.expect("the caller").met(), "first");
    eventually("its claim to be completed", async || {
        (other.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn that_a_call_did_not_run_counts_only_if_it_was_asked_after_the_calls_time() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream, BY_TOOL)).await;
        lost(&upstream, &gate, Era::Modern, "k1").await;
        let hold = Hold::new();
        upstream.script("get_refund", [super::not_found().behind(&hold)]);
        let retry = tokio::spawn(refund(&gate, Era::Modern, "k1").send());
        upstream.called("get_refund", 1).await;
        // Then comes the answer to a question from before.
        until_it_cannot_run(&gate, "k1").await;
        hold.release();
        assert_eq!(retry.await.expect("the caller").met(), "outcome_unknown");
        assert_eq!(gate.claim("k1").await["status"], "unknown");
        assert_eq!(upstream.with_key("k1").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn two_gates_ask_about_one_claim_once() {
    let upstream = Upstream::start().await;
    let one = Gate::start(setup(Home::Postgres, &upstream, BY_TOOL)).await;
    let two = one.another().await;
    lost(&upstream, &one, Era::Modern, "k1").await;
    let hold = Hold::new();
    upstream.script("get_refund", [found("succeeded").behind(&hold)]);
    let asking = tokio::spawn(refund(&one, Era::Modern, "k1").send());
    upstream.called("get_refund", 1).await;
    // The other gate sees that somebody asks, and says when it is worth while to come back.
    let meanwhile = refund(&two, Era::Modern, "k1").send().await;
    assert_eq!(
        (meanwhile.met().as_str(), &meanwhile.refusal()["retry"]),
        ("outcome_unknown", &json!("same_key"))
    );
    hold.release();
    assert_eq!(asking.await.expect("the caller").met(), "replay");
    assert_eq!(refund(&two, Era::Modern, "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("get_refund").len(), 1);
    let rows = reasons(&one, "k1").await;
    assert_eq!(rows.iter().filter(|reason| *reason == "reconciled_completed").count(), 1, "{rows:?}");
}

#[tokio::test]
async fn janitors_of_three_gates_ask_about_many_claims_once_each() {
    let upstream = Upstream::start().await;
    let one = Gate::start(setup(Home::Postgres, &upstream, &BY_TOOL.replace("1h", "1s"))).await;
    let _others = (one.another().await, one.another_as("three").await);
    upstream.script("get_refund", [found("succeeded")]);
    let keys: Vec<_> = (0..30).map(|n| format!("k{n}")).collect();
    upstream.script("refund_order", [Answer::reset()]);
    for key in &keys {
        assert_eq!(refund(&one, Era::Modern, key).send().await.met(), "outcome_unknown");
    }
    eventually("all to be resolved", async || {
        one.claims().await.iter().all(|claim| claim["status"] == "completed").then_some(())
    })
    .await;
    let asked = upstream.calls("get_refund");
    assert_eq!(asked.len(), keys.len(), "each once");
    let rows = one.audit(0).await;
    let resolved = rows.iter().filter(|row| row["reason"] == "reconciled_completed").count();
    assert_eq!(resolved, keys.len());
}
