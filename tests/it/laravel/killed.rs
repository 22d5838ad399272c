//! Jobs whose worker gets SIGKILL in the middle of its call to the provider, and jobs that are queued twice.
//!
//! Promises: the queue gives the job to another worker by itself, as it does in production; what the provider received
//! is the truth about what was paid.

use std::collections::BTreeSet;

use super::scene::{REFUND, Scene};
use crate::harness::answer::{Answer, Hold};
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::setup::Home;

/// What the shipped policy says of a job that does nothing but call the provider through the gate.
const IDEMPOTENT: (&str, &str) = (
    "forward_key = \"{digest}\"\ndownstream = \"idempotent\"\ndownstream_retention = \"24h\"\n",
    "forward_key = \"{digest}\"\n",
);

const PAID: &str = r#"{"id":"re_1","object":"refund","status":"succeeded"}"#;

/// A worker that was killed in its call to the provider, which waits at this barrier.
async fn killed_in_its_call(scene: &Scene, hold: &Hold) {
    scene.provider.script(REFUND, [Answer::http(200, "application/json", PAID).behind(hold)]);
    let queued = scene.refund("k1").send().await;
    assert_eq!(queued.met(), "first", "{queued:?}");
    let worker = scene.app.worker("one");
    paying(scene, 1).await;
    worker.kill();
}

/// Waits until the provider was called so many times.
async fn paying(scene: &Scene, times: usize) {
    let what = format!("{times} calls of the provider");
    eventually(&what, async || (scene.payments().len() >= times).then_some(())).await;
}

/// Nobody knows whether the dead worker's job paid, and its policy does not say that it may run again.
async fn check_left_alone(home: Home) {
    let scene = Scene::start(home, &[IDEMPOTENT]).await;
    let hold = Hold::new();
    killed_in_its_call(&scene, &hold).await;
    hold.release();
    let _worker = scene.app.worker("two");
    let said = scene.app.says("two", "A refund needs somebody to look.").await;
    assert!(said.contains("outcome_unknown"), "{said}");
    assert_eq!(scene.payments().len(), 1);
    assert!(!scene.app.logged("two").contains("A refund was paid."));
}

/// It goes out under the same key, and the gate on the way has the provider's answer: it waited for it, though the worker
/// was gone.
async fn check_taken_over(home: Home) {
    let scene = Scene::start(home, &[]).await;
    let hold = Hold::new();
    killed_in_its_call(&scene, &hold).await;
    hold.release();
    let _worker = scene.app.worker("two");
    scene.app.says("two", "A refund was paid.").await;
    assert_eq!(scene.payments().len(), 1);
    // It says so before its middleware reports it.
    eventually("the job to be reported", async || {
        let claims = scene.gate.claims().await;
        claims.into_iter().find(|claim| claim["tool"] == "settle_refund" && claim["status"] == "completed")
    })
    .await;
}

#[tokio::test]
async fn a_killed_workers_job_is_not_run_again_where_nobody_honours_its_key_on_sqlite() {
    check_left_alone(Home::Sqlite).await;
}

#[tokio::test]
async fn a_killed_workers_job_is_not_run_again_where_nobody_honours_its_key_on_postgres() {
    check_left_alone(Home::Postgres).await;
}

#[tokio::test]
async fn a_killed_workers_job_gets_the_answer_that_the_gate_waited_for_on_sqlite() {
    check_taken_over(Home::Sqlite).await;
}

#[tokio::test]
async fn a_killed_workers_job_gets_the_answer_that_the_gate_waited_for_on_postgres() {
    check_taken_over(Home::Postgres).await;
}

#[tokio::test]
async fn a_provider_that_honours_keys_is_asked_again_with_the_same_one() {
    let scene = Scene::start(Home::Postgres, &[]).await;
    let never = Hold::new();
    killed_in_its_call(&scene, &never).await;
    // What it did with the first call nobody hears. It remembers the key, and says what it did then.
    scene.provider.script(REFUND, [Answer::http(200, "application/json", PAID)]);
    let _worker = scene.app.worker("two");
    scene.app.says("two", "A refund was paid.").await;
    let payments = scene.payments();
    let keys: BTreeSet<_> = payments.iter().map(|one| one.http.header("idempotency-key")).collect();
    assert_eq!((payments.len(), keys.len()), (2, 1), "{keys:?}");
    assert!(keys.iter().all(|key| key.is_some_and(|key| key.len() == 64)), "{keys:?}");
    let bodies: BTreeSet<_> = payments.iter().map(|one| one.http.body.clone()).collect();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn a_job_that_is_queued_twice_pays_once_and_hears_its_result() {
    let scene = Scene::start(Home::Sqlite, &[]).await;
    // As the gate would send it, twice: it may, where an answer of the app's got lost.
    for _ in 0..2 {
        let ask = Client::new(scene.app.address(), Era::Modern)
            .tool("refund_order", &serde_json::json!({ "order_id": "ord_1", "amount_cents": 500 }));
        let ask = ask.header("X-Oncegate-Tenant", "acme").header("X-Oncegate-User", "u1");
        assert_eq!(ask.header("Idempotency-Key", "k1").send().await.status(), 200);
    }
    let _worker = scene.app.worker("one");
    scene.app.says("one", "A refund was paid.").await;
    let said = scene.app.says("one", "A refund had been paid.").await;
    assert!(said.contains("re_1"), "{said}");
    assert_eq!(scene.payments().len(), 1);
}
