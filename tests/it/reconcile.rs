//! The app is asked what became of a call whose outcome is unknown, and the claim is resolved by what it says.
//!
//! Promises tested: `oncegate::layers::claim::reconcile`, DESIGN section 3. What the upstream received is the judge.

mod answers;
mod races;
mod ways;

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

/// A tool that is asked.
const BY_TOOL: &str = r#"{ tool = "get_refund", arguments = { key = "{forwarded_key}", order_id = "{args.order_id}" }, completed = { "refund.status" = ["succeeded", "pending"] }, absent_errors = ["refund_not_found"], result = "refund", every = "1h" }"#;

/// A gate whose refunds can be asked about so; a retry asks, and the janitor comes too late to meddle.
fn setup(home: Home, upstream: &Upstream, reconcile: &str) -> Setup {
    Setup::new(home, &upstream.url())
        .set("upstream.timeout", "1s")
        .policy("lease = \"60s\"", "lease = \"1s\"")
        .policy("summary = [\"run\", \"refund.id\"]", &format!("summary = [\"id\"]\nreconcile = {reconcile}"))
        .policy("[tools.run_sql]", "[tools.get_refund]\neffect = \"read\"\nscopes = [\"billing:read\"]\nredact = [\"refund.iban\"]\n\n[tools.run_sql]")
}

fn refund(gate: &Gate, era: Era, key: &str) -> Ask {
    gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2", "amount_cents": 500 })).key(key)
}

/// A refund whose answer gets lost.
async fn lost(upstream: &Upstream, gate: &Gate, era: Era, key: &str) -> Reply {
    upstream.script(key, [Answer::reset(), Answer::tool("refunded", &json!({ "run": 2 }))]);
    let reply = refund(gate, era, key).send().await;
    assert_eq!(reply.met(), "outcome_unknown", "{}", reply.json());
    reply
}

fn found(status: &str) -> Answer {
    let refund = json!({ "id": "re_1", "status": status, "iban": "DE02120300000000202051" });
    Answer::tool("it is there", &json!({ "refund": refund }))
}

fn not_found() -> Answer {
    Answer::result(
        json!({ "content": [{ "type": "text", "text": "{\"code\":\"refund_not_found\"}" }], "isError": true }),
    )
}

/// The rows about this key that have a reason, oldest first.
async fn reasons(gate: &Gate, key: &str) -> Vec<String> {
    let rows = gate.audit(0).await;
    let of_key = rows.iter().filter(|row| row["idempotency_key"] == key);
    of_key.filter_map(|row| row["reason"].as_str().map(str::to_owned)).collect()
}

/// Waits until the attempt's whole time is over: from then on the app can know that it did not run.
async fn until_it_cannot_run(gate: &Gate, key: &str) {
    let until = gate.claim(key).await["attempt_until"].as_str().expect("a time").parse::<jiff::Timestamp>();
    let until = until.expect("a time") + std::time::Duration::from_millis(100);
    eventually("the attempt's time to pass", async || (jiff::Timestamp::now() > until).then_some(())).await;
}

/// Repeats a call until it meets something else than that nobody knows.
async fn after_a_while(ask: Ask) -> Reply {
    eventually("somebody to know", async || {
        let reply = ask.clone().send().await;
        (reply.met() != "outcome_unknown").then_some(reply)
    })
    .await
}

#[tokio::test]
async fn a_retry_gets_the_result_that_the_app_tells_of() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream, BY_TOOL)).await;
        upstream.script("get_refund", [found("succeeded")]);
        for era in Era::ALL {
            let key = format!("k-{era:?}");
            let first = lost(&upstream, &gate, era, &key).await;
            assert_eq!(first.refusal()["retry"], "same_key", "asking again is worth while");
            let reply = refund(&gate, era, &key).send().await;
            assert_eq!(reply.met(), "replay", "{}", reply.json());
            let told = json!({ "id": "re_1", "status": "succeeded", "iban": "***" });
            assert_eq!(reply.result()["structuredContent"], told, "masked as whoever was asked masks it");
            let text: Value =
                serde_json::from_str(reply.result()["content"][0]["text"].as_str().expect("a text"))
                    .expect("JSON");
            assert_eq!(text, told);
            assert_eq!(upstream.with_key(&key).len(), 1, "the refund went out once");

            let question = upstream.calls("get_refund").pop().expect("the app was asked");
            assert_eq!(question.json["params"]["arguments"], json!({ "key": key, "order_id": "ord_9f2" }));
            let heard = |name: &str| question.http.header(name).map(str::to_owned);
            assert_eq!(heard("x-oncegate-tenant").as_deref(), Some("acme"));
            assert_eq!(heard("x-oncegate-user").as_deref(), Some("u1"));
            assert_eq!(heard("x-oncegate-scopes").as_deref(), Some("billing:read billing:refund"));
            assert_eq!((heard("authorization"), heard("idempotency-key")), (None, None));

            let rows = gate.audit(3).await;
            let row = rows
                .iter()
                .find(|row| row["reason"] == "reconciled_completed" && row["idempotency_key"] == *key);
            let row = row.expect("its own row");
            assert_eq!((&row["executed"], &row["decision"]), (&json!("yes"), &json!("allowed")));
            assert_eq!((&row["args"]["asked"], &row["user_id"]), (&json!("get_refund"), &json!("u1")));
            assert_eq!(row["result_summary"], json!({ "id": "re_1" }));
            assert_eq!(row["attempt_id"], gate.claim(&key).await["attempt_id"]);
        }
        assert_eq!(upstream.calls("get_refund").len(), Era::ALL.len(), "a replay asks nobody");
    })
    .await;
}

#[tokio::test]
async fn what_the_app_does_not_know_runs_again_once_the_first_attempt_cannot_run_any_more() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let how = BY_TOOL.replace("1h", "1s");
        let gate = Gate::start(setup(home, &upstream, &how).set("upstream.timeout", "3s")).await;
        upstream.script("get_refund", [not_found()]);
        lost(&upstream, &gate, Era::Modern, "k1").await;
        let early = refund(&gate, Era::Modern, "k1").send().await;
        assert_eq!(
            (early.met(), early.refusal()["retry"].clone()),
            ("outcome_unknown".into(), json!("same_key"))
        );
        assert_eq!(upstream.calls("get_refund").len(), 1, "it was asked, and could not know yet");
        assert_eq!(gate.claim("k1").await["status"], "unknown");
        let reply = after_a_while(refund(&gate, Era::Modern, "k1")).await;
        assert_eq!(reply.met(), "first", "{}", reply.json());
        assert_eq!(upstream.with_key("k1").len(), 2);
        let reasons = reasons(&gate, "k1").await;
        assert_eq!(
            reasons.iter().filter(|reason| *reason == "reconciled_released").count(),
            1,
            "{reasons:?}"
        );
        let row = gate.audit(0).await.into_iter().find(|row| row["reason"] == "reconciled_released");
        assert_eq!(row.expect("its row")["executed"], "no");
        assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "replay");
    })
    .await;
}

#[tokio::test]
async fn the_janitor_asks_though_nobody_comes_back() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let how = BY_TOOL.replace("1h", "1s");
        let gate = Gate::start(setup(home, &upstream, &how)).await;
        upstream.script(
            "get_refund",
            [Answer::http(500, "text/plain", "not now"), found("pending"), not_found()],
        );
        lost(&upstream, &gate, Era::Modern, "k1").await;
        eventually("the janitor to be told", async || {
            (gate.claim("k1").await["status"] == "completed").then_some(())
        })
        .await;
        assert_eq!(upstream.calls("get_refund").len(), 2, "what proved nothing is asked again");
        assert_eq!(reasons(&gate, "k1").await, ["outcome_unknown", "reconciled_completed"]);
        lost(&upstream, &gate, Era::Modern, "k2").await;
        eventually("the other to be released", async || {
            (gate.claim("k2").await["status"] == "failed").then_some(())
        })
        .await;
        let series =
            r#"oncegate_calls_total{tool="refund_order",decision="allowed",reason="reconciled_released"}"#;
        assert_eq!(gate.count(series).await, 1);
    })
    .await;
}

#[tokio::test]
async fn about_one_claim_is_asked_no_more_often_than_the_policy_says() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream, BY_TOOL)).await;
    upstream.script("get_refund", [found("unheard of"), found("succeeded")]);
    lost(&upstream, &gate, Era::Modern, "k1").await;
    for _ in 0..5 {
        let reply = refund(&gate, Era::Modern, "k1").send().await;
        assert_eq!(reply.met(), "outcome_unknown");
        let wait = reply.refusal()["retry_after_ms"].as_u64().expect("when asking is worth while");
        assert!((3_500_000..3_600_200).contains(&wait), "{wait}");
    }
    assert_eq!(upstream.calls("get_refund").len(), 1);
}

#[tokio::test]
async fn a_herd_of_retries_asks_once() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream, BY_TOOL)).await;
        lost(&upstream, &gate, Era::Modern, "k1").await;
        let hold = crate::harness::answer::Hold::new();
        upstream.script("get_refund", [found("succeeded").behind(&hold)]);
        let herd: Vec<_> =
            (0..50).map(|n| tokio::spawn(refund(&gate, Era::Modern, "k1").id(n).send())).collect();
        upstream.called("get_refund", 1).await;
        hold.release();
        for one in herd {
            assert_eq!(one.await.expect("no caller panics").met(), "replay");
        }
        assert_eq!(upstream.calls("get_refund").len(), 1);
        assert_eq!(upstream.with_key("k1").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_only_observed_is_not_asked_about_though_its_operation_is_enforced_since() {
    let upstream = Upstream::start().await;
    let how = BY_TOOL.replace("1h", "1s");
    let observed =
        setup(Home::Sqlite, &upstream, &how).policy("reconcile =", "mode = \"observe\"\nreconcile =");
    let gate = Gate::start(observed).await;
    upstream.script("refund_order", [Answer::reset()]);
    refund(&gate, Era::Modern, "k1").send().await;
    eventually("the claim to be unknown", async || {
        let claims = gate.claims().await;
        claims.iter().any(|claim| claim["status"] == "unknown").then_some(())
    })
    .await;
    // From here on it is enforced. The call went as its client sent it, under no key by which the app could know it.
    let mut other = gate;
    assert_eq!(other.stop().await, Some(0));
    other.set_policy("mode = \"observe\"\n", "");
    other.restart().await;
    let refused = refund(&other, Era::Modern, "k1").send().await;
    assert_eq!((refused.met().as_str(), &refused.refusal()["retry"]), ("outcome_unknown", &json!("no")));
    upstream.script("refund_order", [Answer::reset()]);
    refund(&other, Era::Modern, "k2").send().await;
    // Once the gate has asked by itself about the second, it has had its chance with the first.
    eventually("the second call to be asked about", async || {
        (!upstream.calls("get_refund").is_empty()).then_some(())
    })
    .await;
    let asked = upstream.calls("get_refund");
    assert!(asked.iter().all(|call| !call.json.to_string().contains("k1")), "{asked:?}");
    assert_eq!(other.claim("k1").await["status"], "unknown");
}
