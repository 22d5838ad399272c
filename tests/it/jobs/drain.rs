//! A gate on its way out: it hands out no work, and hears of what it handed out until the very end.

use serde_json::json;

use super::{Scene, job};
use crate::drain::standing;
use crate::harness::eventually;
use crate::harness::on_every_store;
use crate::harness::setup::Home;

#[tokio::test]
async fn a_gate_that_leaves_hands_out_no_work_and_takes_every_report() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        let (done, undone) = (job("settle_refund", "done"), job("settle_refund", "undone"));
        let (done_id, undone_id) = (scene.begin(&done).await, scene.begin(&undone).await);
        let drained = scene.gate.run(&["drain", "--settle", "100ms", "--wait", "10s"]).await;
        assert!(drained.status.success(), "work that runs elsewhere keeps no gate: {drained:?}");
        assert_eq!(standing(&scene.gate, "GET /drain").await["state"], "closed");
        let told = scene.claim(&job("settle_refund", "new")).await;
        assert_eq!(told.refusal(), (503, "overloaded", "no", "same_key"));
        assert_eq!(scene.claim(&done).await.refusal().1, "overloaded", "whatever became of it");
        assert_eq!(scene.renew(&done, &done_id).await.outcome(), "renewed");
        assert_eq!(scene.complete(&done, &done_id, json!("done")).await.outcome(), "completed");
        assert_eq!(scene.fail(&undone, &undone_id, "no").await.outcome(), "failed");
        let rows = scene.gate.audit(4).await;
        assert_eq!(rows.iter().filter(|row| row["reason"] == "draining").count(), 2, "{rows:?}");
    })
    .await;
}

#[tokio::test]
async fn while_the_last_call_of_a_gate_that_was_told_to_stop_runs_reports_are_taken() {
    let mut scene = Scene::on(Home::Sqlite).await;
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    let hold = scene.upstream.hold("refund_order");
    let client = scene.gate.client(crate::harness::client::Era::Modern);
    let running = client.tool("refund_order", &json!({ "order_id": "x" })).key("call").open().await;
    scene.upstream.called("refund_order", 1).await;
    scene.gate.signal("-TERM");
    eventually("the gate to leave", async || {
        (standing(&scene.gate, "GET /drain").await["state"] == "closed").then_some(())
    })
    .await;
    assert_eq!(scene.renew(&job, &id).await.outcome(), "renewed");
    assert_eq!(scene.complete(&job, &id, json!("done")).await.outcome(), "completed");
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(scene.gate.ended().await, Some(0));
    assert_eq!(scene.gate.claim("k1").await["status"], "completed");
}
