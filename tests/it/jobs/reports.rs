//! What a worker tells of its attempt: whose word counts, how often, and until when.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Scene, job};
use crate::harness::gate::Gate;
use crate::harness::setup::Home;
use crate::harness::{eventually, on_every_store};

/// Waits until the claim with this key stands so.
pub(super) async fn until(gate: &Gate, key: &str, status: &str) -> Value {
    eventually(&format!("{key} to be {status}"), async || {
        let claim = gate.claim(key).await;
        (claim["status"] == status).then_some(claim)
    })
    .await
}

/// Resolves the unknown claim with this key by hand.
async fn resolve(gate: &Gate, key: &str, how: &[&str]) {
    let fixed = ["claims", "resolve", "--key", key, "--operator", "ann", "--because", "looked"];
    let resolved = gate.run(&[&fixed[..], how].concat()).await;
    assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
}

#[tokio::test]
async fn only_the_attempt_that_has_the_claim_settles_it() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let job = job("settle_refund", "k1");
        let mine = scene.begin(&job).await;
        let (forged, over) = (json!(Uuid::new_v4()), (409, "attempt_over", "maybe", "no"));
        assert_eq!(scene.complete(&job, &forged, json!(1)).await.refusal(), over);
        assert_eq!(scene.fail(&job, &forged, "no").await.refusal(), over);
        assert_eq!(scene.renew(&job, &forged).await.refusal(), over);
        assert_eq!(scene.gate.claim("k1").await["status"], "in_flight");
        let never = super::job("settle_refund", "never");
        assert_eq!(scene.complete(&never, &mine, json!(1)).await.refusal(), over);
        let mut foreign = job.clone();
        foreign["tenant"] = json!("globex");
        assert_eq!(scene.complete(&foreign, &mine, json!(1)).await.refusal(), over, "of another tenant");
        assert_eq!(scene.complete(&job, &mine, json!(1)).await.outcome(), "completed");
        let rows = scene.gate.audit(6).await;
        let of = |reason: &str| rows.iter().filter(|row| row["reason"] == reason).count();
        assert_eq!((of("late_answer"), of("attempt_over"), rows.len()), (4, 1, 6), "{rows:?}");
    })
    .await;
}

#[tokio::test]
async fn a_report_that_comes_again_gets_the_same_answer_and_changes_nothing() {
    on_every_store(async |home| {
        let mut scene = Scene::on(home).await;
        let done = job("settle_refund", "done");
        let id = scene.begin(&done).await;
        for turn in 0..3 {
            let told = scene.complete(&done, &id, json!({ "refund": { "id": "re_1" } })).await;
            assert_eq!((told.outcome(), &told.body["kept"]), ("completed", &json!(true)), "{turn}");
            if turn == 0 {
                // Nothing of it is in the process.
                assert_eq!(scene.gate.stop().await, Some(0));
                scene.gate.restart().await;
            }
        }
        assert_eq!(
            scene.complete(&done, &id, json!("else")).await.refusal().1,
            "attempt_over",
            "not the same"
        );
        assert_eq!(scene.fail(&done, &id, "no").await.refusal().1, "attempt_over");
        assert_eq!(scene.claim(&done).await.body["result"], json!({ "refund": { "id": "re_1" } }));
        for (key, executed, outcome) in [("failed", "no", "failed"), ("unknown", "maybe", "unknown")] {
            let job = job("settle_refund", key);
            let id = scene.begin(&job).await;
            for _ in 0..3 {
                assert_eq!(scene.fail(&job, &id, executed).await.outcome(), outcome);
            }
            scene.rows(key, 1).await;
        }
    })
    .await;
}

#[tokio::test]
async fn many_that_report_the_same_at_once_hear_the_same() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        for turn in 0..10 {
            let job = job("settle_refund", &format!("k{turn}"));
            let id = scene.begin(&job).await;
            let reporting = (0..4).map(|_| scene.complete(&job, &id, json!("done")));
            for told in futures_util::future::join_all(reporting).await {
                assert_eq!((told.outcome(), &told.body["kept"]), ("completed", &json!(true)));
            }
            assert_eq!(scene.rows(&format!("k{turn}"), 1).await, ["allowed - yes"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_late_report_counts_until_somebody_else_has_decided() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
        let (late, freed) = (job("settle_refund", "late"), job("settle_refund", "freed"));
        let (late_id, freed_id) = (scene.begin(&late).await, scene.begin(&freed).await);
        until(&scene.gate, "late", "unknown").await;
        until(&scene.gate, "freed", "unknown").await;
        assert_eq!(scene.renew(&late, &late_id).await.refusal(), (409, "lease_lost", "maybe", "no"));
        assert_eq!(scene.complete(&late, &late_id, json!("late")).await.outcome(), "completed");
        assert_eq!(scene.claim(&late).await.body["result"], "late");
        assert_eq!(
            scene.rows("late", 4).await,
            ["allowed abandoned maybe", "denied lease_lost maybe", "allowed - yes", "replayed - yes"]
        );
        resolve(&scene.gate, "freed", &["--released", "--force"]).await;
        assert_eq!(scene.complete(&freed, &freed_id, json!(1)).await.refusal().1, "attempt_over");
        assert_eq!(scene.gate.claim("freed").await["status"], "failed");
        let next = scene.begin(&freed).await;
        assert_eq!(scene.fail(&freed, &freed_id, "maybe").await.refusal().1, "attempt_over");
        assert_eq!(scene.complete(&freed, &next, json!(2)).await.outcome(), "completed");
        assert_eq!(
            scene.rows("freed", 5).await,
            [
                "allowed abandoned maybe",
                "allowed resolved_released no",
                "allowed late_answer yes",
                "allowed late_answer maybe",
                "allowed - yes"
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn what_a_person_said_of_a_job_stands() {
    let scene = Scene::on(Home::Sqlite).await;
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    assert_eq!(scene.fail(&job, &id, "maybe").await.outcome(), "unknown");
    resolve(&scene.gate, "k1", &["--completed"]).await;
    assert_eq!(scene.claim(&job).await.refusal(), (409, "answer_not_kept", "yes", "no"));
    assert_eq!(scene.complete(&job, &id, json!("mine")).await.refusal().1, "attempt_over");
    assert_eq!(scene.claim(&job).await.refusal().1, "answer_not_kept");
}
