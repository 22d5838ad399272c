//! What a worker meets that asks for a job: it may begin, it was done, another has it, nobody knows.

use serde_json::{Value, json};

use super::{Scene, job};
use crate::harness::client::Era;
use crate::harness::gate::OTHER_TOKEN;
use crate::harness::on_every_store;
use crate::harness::setup::Home;

#[tokio::test]
async fn a_job_is_one_workers_and_later_workers_get_its_result() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let job = job("settle_refund", "k1");
        let fresh = scene.claim(&job).await;
        assert_eq!(fresh.outcome(), "fresh");
        assert_eq!(
            (&fresh.body["lease_ms"], &fresh.body["timeout_ms"], &fresh.body["forward_key"]),
            (&json!(60_000), &json!(900_000), &json!("k1"))
        );
        assert_eq!(scene.gate.claim("k1").await["attempt_id"], fresh.body["attempt_id"]);
        let other = scene.claim(&job).await;
        assert_eq!(other.refusal(), (409, "request_in_flight", "maybe", "same_key"));
        let wait: u64 =
            other.reply.http.header("retry-after").and_then(|text| text.parse().ok()).expect("when");
        assert!((50..=60).contains(&wait), "until its lease is up: {wait}");
        let id = &fresh.body["attempt_id"];
        let result = json!({ "refund": { "id": "re_1" }, "card": { "holder": "Ann", "last4": "4242" } });
        let done = scene.complete(&job, id, result).await;
        assert_eq!((done.outcome(), &done.body["kept"]), ("completed", &json!(true)));
        let kept = json!({ "refund": { "id": "re_1" }, "card": { "holder": "***", "last4": "4242" } });
        for _ in 0..2 {
            let again = scene.claim(&job).await;
            assert_eq!((again.outcome(), &again.body["result"]), ("replay", &kept));
            assert_eq!(again.reply.http.header("idempotent-replayed"), Some("true"));
        }
        assert_eq!(
            scene.rows("k1", 4).await,
            ["denied idempotency_in_flight maybe", "allowed - yes", "replayed - yes", "replayed - yes"]
        );
        let rows = scene.gate.audit(4).await;
        let done = rows.iter().find(|row| row["decision"] == "allowed").expect("its own row");
        assert_eq!(
            (&done["tool"], &done["user_id"], &done["tenant_id"], &done["attempt_id"], &done["protocol"]),
            (&json!("settle_refund"), &json!("worker"), &json!("acme"), id, &json!("jobs/1"))
        );
        assert_eq!(done["args"], json!({ "order": "ord_9f2", "amount": 12.5 }));
        assert_eq!(done["result_summary"], json!({ "refund.id": "re_1" }));
        for (labels, count) in
            [(r#"decision="replayed",reason="""#, 2), (r#"decision="allowed",reason="""#, 1)]
        {
            let series = format!(r#"oncegate_calls_total{{tool="settle_refund",{labels}}}"#);
            assert_eq!(scene.gate.count(&series).await, count, "{series}");
        }
        assert!(scene.upstream.received().is_empty(), "nothing of a job passes to the app");
    })
    .await;
}

#[tokio::test]
async fn a_key_is_for_one_intent_of_one_service() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let first = job("settle_refund", "k1");
        scene.begin(&first).await;
        let mut other = first.clone();
        other["arguments"]["amount"] = json!(13);
        let told = scene.claim(&other).await;
        let code = "idempotency_key_reuse_with_different_args";
        assert_eq!(told.refusal(), (422, code, "no", "new_key"));
        let line = "POST /gate/claims";
        let told = scene.ask_at(&scene.gate, OTHER_TOKEN, line, &first).await;
        assert_eq!(told.refusal(), (422, code, "no", "new_key"));
        let rows = ["denied idempotency_payload_mismatch no", "denied idempotency_key_of_another_user no"];
        assert_eq!(scene.rows("k1", 2).await, rows);
        let mut same = first.clone();
        same["arguments"] =
            serde_json::from_str(r#"{ "amount": 1.250e1, "order": "ord_9f2" }"#).expect("JSON");
        assert_eq!(scene.claim(&same).await.refusal().1, "request_in_flight", "the same, written otherwise");
        let mut foreign = first;
        foreign["tenant"] = json!("globex");
        scene.begin(&foreign).await;
    })
    .await;
}

#[tokio::test]
async fn what_an_attempt_came_to_decides_what_the_next_one_meets() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let job = job("settle_refund", "k1");
        let first = scene.begin(&job).await;
        assert_eq!(scene.fail(&job, &first, "no").await.outcome(), "failed");
        let second = scene.begin(&job).await;
        assert_ne!(first, second);
        assert_eq!(scene.fail(&job, &second, "maybe").await.outcome(), "unknown");
        assert_eq!(scene.claim(&job).await.refusal(), (409, "outcome_unknown", "maybe", "no"));
        assert_eq!(
            scene.rows("k1", 3).await,
            ["allowed execution_failed no", "allowed outcome_unknown maybe", "denied outcome_unknown maybe"]
        );
        let rows = scene.gate.audit(3).await;
        assert_eq!(rows[0]["result_summary"], json!({ "reason": "the provider said *** no" }));
    })
    .await;
}

#[tokio::test]
async fn a_result_that_may_not_or_cannot_be_kept_completes_its_job_all_the_same() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.set("limits.stored_response", "1KiB")).await;
        let large: Value = json!("x".repeat(2000));
        for (key, result) in [("large", large), ("secret", json!({ "card": "4111 1111 1111 1111" }))] {
            let job = job("settle_refund", key);
            let id = scene.begin(&job).await;
            for _ in 0..2 {
                let told = scene.complete(&job, &id, result.clone()).await;
                assert_eq!((told.outcome(), &told.body["kept"]), ("completed", &json!(false)));
            }
            assert_eq!(scene.claim(&job).await.refusal(), (409, "answer_not_kept", "yes", "no"));
            assert_eq!(scene.rows(key, 2).await, ["allowed - yes", "denied answer_not_kept yes"]);
        }
        let nothing = job("settle_refund", "nothing");
        let id = scene.begin(&nothing).await;
        let told = scene.post("/complete", &super::attempt(&nothing, &id, &json!({}))).await;
        assert_eq!((told.outcome(), &told.body["kept"]), ("completed", &json!(true)));
        assert_eq!(scene.claim(&nothing).await.body, json!({ "outcome": "replay", "result": null }));
    })
    .await;
}

#[tokio::test]
async fn the_call_that_queued_a_job_and_the_job_are_two_claims() {
    let scene = Scene::on(Home::Sqlite).await;
    let call =
        scene.gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("k1");
    assert_eq!(call.clone().send().await.met(), "first");
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    assert_eq!(scene.complete(&job, &id, json!("done")).await.outcome(), "completed");
    assert_eq!(call.send().await.met(), "replay");
    assert_eq!(scene.gate.claims().await.len(), 2);
}

#[tokio::test]
async fn a_new_key_for_the_same_job_is_flagged_or_refused_as_the_policy_says() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        for name in ["notify", "notify_once"] {
            let fresh = scene.claim(&job(name, "k1")).await;
            assert_eq!((fresh.outcome(), &fresh.body["possible_duplicate"]), ("fresh", &Value::Null));
        }
        let flagged = scene.claim(&job("notify", "k2")).await;
        assert_eq!((flagged.outcome(), &flagged.body["possible_duplicate"]), ("fresh", &json!("k1")));
        let id = &flagged.body["attempt_id"];
        assert_eq!(scene.complete(&job("notify", "k2"), id, json!(1)).await.outcome(), "completed");
        let refused = scene.claim(&job("notify_once", "k2")).await;
        assert_eq!(refused.refusal(), (409, "possible_duplicate", "no", "same_key"));
        assert_eq!(refused.body["earlier_key"], "k1");
        assert_eq!(
            scene.rows("k2", 2).await,
            ["allowed possible_duplicate yes", "denied possible_duplicate no"]
        );
    })
    .await;
}
