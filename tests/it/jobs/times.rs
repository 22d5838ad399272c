//! Leases, renewals, and the time that a job may take, whole.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::reports::until;
use super::{Scene, job};
use crate::harness::{eventually, on_every_store};

#[tokio::test]
async fn a_worker_that_renews_keeps_its_job_for_as_long_as_the_job_may_take() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| {
            setup
                .policy("lease = \"60s\"", "lease = \"4s\"")
                .policy("[jobs.notify]\n", "[jobs.notify]\ntimeout = \"6s\"\n")
        })
        .await;
        let job = job("notify", "k1");
        let (began, id) = (Instant::now(), scene.begin(&job).await);
        let lost = eventually("its time to be over", async || {
            // As its heart beats: three to a lease.
            sleep(Duration::from_millis(300)).await;
            let told = scene.renew(&job, &id).await;
            if told.status == 200 {
                assert_eq!((told.outcome(), &told.body["lease_ms"]), ("renewed", &json!(4000)));
                return None;
            }
            Some(told)
        })
        .await;
        assert!(
            began.elapsed() >= Duration::from_secs(6),
            "its lease alone is shorter: {:?}",
            began.elapsed()
        );
        assert_eq!(lost.refusal(), (409, "lease_lost", "maybe", "no"));
        assert_eq!(scene.complete(&job, &id, json!("done")).await.outcome(), "completed");
        assert_eq!(scene.renew(&job, &id).await.refusal().1, "attempt_over", "it is over");
    })
    .await;
}

#[tokio::test]
async fn where_the_provider_knows_the_key_a_dead_workers_job_is_taken_over_with_the_same_key() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
        let job = job("charge", "k1");
        let (began, first) = (Instant::now(), scene.claim(&job).await);
        assert_eq!((first.outcome(), &first.body["forward_key"]), ("fresh", &json!("acme/charge/k1")));
        assert_eq!(first.body["timeout_ms"], 1000);
        let second = eventually("the job to be taken over", async || {
            let told = scene.claim(&job).await;
            if told.status != 200 {
                assert!(["request_in_flight", "outcome_unknown"].contains(&told.refusal().1), "{told:?}");
                return None;
            }
            Some(told)
        })
        .await;
        assert_eq!((second.outcome(), &second.body["forward_key"]), ("fresh", &json!("acme/charge/k1")));
        assert!(began.elapsed() >= Duration::from_secs(1), "while its lease lasts a job is nobody else's");
        assert_ne!(second.body["attempt_id"], first.body["attempt_id"]);
        let late = scene.complete(&job, &first.body["attempt_id"], json!("late")).await;
        assert_eq!(late.refusal(), (409, "attempt_over", "maybe", "no"));
        // That this attempt did nothing says nothing of the first.
        let told = scene.fail(&job, &second.body["attempt_id"], "no").await;
        assert_eq!(told.outcome(), "unknown");
        assert_eq!(scene.gate.claim("k1").await["status"], "unknown");
    })
    .await;
}

#[tokio::test]
async fn a_first_attempt_that_did_nothing_frees_its_key_at_once() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let job = job("charge", "k1");
        let id = scene.begin(&job).await;
        assert_eq!(scene.fail(&job, &id, "no").await.outcome(), "failed");
        let id = scene.begin(&job).await;
        assert_eq!(scene.complete(&job, &id, json!(1)).await.outcome(), "completed");
    })
    .await;
}

#[tokio::test]
async fn a_silent_workers_job_is_found_though_nobody_asks_for_it() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
        let job = job("settle_refund", "k1");
        let id = scene.begin(&job).await;
        until(&scene.gate, "k1", "unknown").await;
        assert_eq!(scene.rows("k1", 1).await, ["allowed abandoned maybe"]);
        let rows = scene.gate.audit(1).await;
        assert_eq!((&rows[0]["attempt_id"], &rows[0]["tool"]), (&id, &json!("settle_refund")));
    })
    .await;
}
