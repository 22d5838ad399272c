//! The store away: before a claim, in the middle of one, at its report. And workers that hang up.

use serde_json::{Value, json};
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::{Scene, attempt, job, question, setup};
use crate::harness::cable::Cable;
use crate::harness::gate::{Gate, WORKER_TOKEN};
use crate::harness::setup::Home;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, postgres};

/// A scene whose Postgres hangs on a cable.
async fn on_a_cable() -> (Scene, Cable) {
    let upstream = Upstream::start().await;
    let (url, server) = (postgres::database().await, postgres::address());
    let cable = Cable::to(server).await;
    let url = url.replace(&server.to_string(), &cable.address().to_string());
    let gate = Gate::start_on(setup(Home::Postgres, &upstream), Some(url)).await;
    (Scene::of(gate, upstream).await, cable)
}

#[tokio::test]
async fn in_an_outage_nothing_is_claimed_and_a_report_comes_again() {
    let (scene, mut cable) = on_a_cable().await;
    let (begun, new) = (job("settle_refund", "begun"), job("settle_refund", "new"));
    let id = scene.begin(&begun).await;
    cable.cut().await;
    for _ in 0..2 {
        let told = scene.claim(&new).await;
        assert_eq!(told.refusal(), (503, "store_unavailable", "no", "same_key"));
        assert!(told.reply.http.header("retry-after").is_some());
        for told in [
            scene.renew(&begun, &id).await,
            scene.complete(&begun, &id, json!("done")).await,
            scene.fail(&begun, &id, "no").await,
        ] {
            assert_eq!(told.refusal(), (503, "store_unavailable", "maybe", "same_key"));
            assert!(told.reply.http.header("retry-after").is_some());
        }
    }
    cable.mend().await;
    let told = eventually("the store to be back", async || {
        let told = scene.complete(&begun, &id, json!("done")).await;
        (told.status != 503).then_some(told)
    })
    .await;
    assert_eq!(told.outcome(), "completed");
    assert_eq!(scene.complete(&begun, &id, json!("done")).await.outcome(), "completed");
    assert_eq!(scene.claim(&begun).await.body["result"], "done");
    scene.begin(&new).await;
    let rows = scene.gate.audit(3).await;
    let of_begun = rows.iter().filter(|row| row["idempotency_key"] == "begun");
    assert_eq!(of_begun.map(|row| row["decision"].clone()).collect::<Vec<Value>>(), ["allowed", "replayed"]);
}

/// Somebody who keeps writers of claims waiting, until it lets go.
async fn blocker(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the test's own connection");
    tokio::spawn(connection);
    client
        .batch_execute("BEGIN; LOCK TABLE oncegate.idempotency_claims IN EXCLUSIVE MODE")
        .await
        .expect("a lock");
    client
}

/// Waits until somebody waits for it.
async fn until_blocking(blocker: &tokio_postgres::Client) {
    eventually("a writer to wait", async || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'oncegate.idempotency_claims'::regclass";
        let count: i64 = blocker.query_one(waiting, &[]).await.expect("a count").get(0);
        (count > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_its_worker_did_not_wait_for_is_given_back() {
    let scene = Scene::on(Home::Postgres).await;
    // A gate that hears of it only once it has answered cannot help it: then the next worker that hangs up shows it.
    let key = eventually("a claim to be given back", async || {
        let key = Uuid::new_v4().to_string();
        let client = blocker(&scene.gate.setting("store.url")).await;
        let body = job("settle_refund", &key).to_string();
        let open = question(&scene.gate, WORKER_TOKEN, "POST /gate/claims").body(body).open().await;
        until_blocking(&client).await;
        drop(open);
        scene.gate.admin().plain("GET /drain").send().await;
        client.batch_execute("COMMIT").await.expect("it lets go");
        let claim = eventually("the claim", async || {
            let claims = scene.gate.claims().await;
            claims.into_iter().find(|claim| claim["idempotency_key"] == key.as_str())
        })
        .await;
        (claim["status"] == "failed" || until_failed(&scene, &key).await).then_some(key)
    })
    .await;
    assert_eq!(scene.rows(&key, 1).await, ["allowed client_gone no"]);
    let job = job("settle_refund", &key);
    let id = scene.begin(&job).await;
    assert_eq!(scene.complete(&job, &id, json!(1)).await.outcome(), "completed");
}

/// Whether a claim that is in flight is given back while a few questions are answered.
async fn until_failed(scene: &Scene, key: &str) -> bool {
    for _ in 0..5 {
        if scene.gate.claim(key).await["status"] == "failed" {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_report_whose_worker_did_not_wait_is_stored() {
    let scene = Scene::on(Home::Postgres).await;
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    let client = blocker(&scene.gate.setting("store.url")).await;
    let body = attempt(&job, &id, &json!({ "result": "done" }));
    let ask = question(&scene.gate, WORKER_TOKEN, "POST /gate/claims/complete").body(body.to_string());
    let open = ask.open().await;
    until_blocking(&client).await;
    open.reset();
    client.batch_execute("COMMIT").await.expect("it lets go");
    super::reports::until(&scene.gate, "k1", "completed").await;
    assert_eq!(scene.complete(&job, &id, json!("done")).await.outcome(), "completed");
    scene.rows("k1", 1).await;
}
