//! How the ways out end: after the gate before the app, and never in the middle of a call.

use serde_json::json;

use super::scene::{Plan, Scene, is, scene};
use crate::drain::standing;
use crate::harness::client::Era;
use crate::harness::setup::Home;
use crate::harness::{eventually, on_every_store};

const REFUND: &str = "POST /v1/refunds";

#[tokio::test]
async fn a_drained_gate_leads_out_until_it_is_told_to_stop() {
    let plan = Plan::new(Home::Sqlite).await.set("admin_token_file", "admin");
    let scene = plan.start().await;
    let held = scene.app.hold("refund_order");
    let call = |key: &str| scene.gate.client(Era::Modern).tool("refund_order", &json!({})).key(key);
    let running = call("k1").open().await;
    scene.app.called("refund_order", 1).await;
    standing(&scene.gate, "POST /drain?settle=0s").await;
    eventually("no new calls", async || {
        (standing(&scene.gate, "GET /drain").await["state"] == "closed").then_some(())
    })
    .await;
    assert_eq!(call("k2").send().await.met(), "overloaded");
    // What runs on inside needs the provider.
    assert_eq!(scene.form(REFUND, "k1", "a=1").send().await.status(), 200);
    held.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(scene.form(REFUND, "k2", "a=1").send().await.status(), 200);
}

#[tokio::test]
async fn calls_that_came_in_may_call_out_until_the_gate_has_ended_and_what_runs_is_stored() {
    on_every_store(async |home| {
        let mut scene = scene(home).await;
        let (held, payment) = (scene.app.hold("refund_order"), scene.provider.hold(REFUND));
        let running = scene.gate.client(Era::Modern).tool("refund_order", &json!({})).key("k1").open().await;
        scene.app.called("refund_order", 1).await;
        scene.gate.signal("-TERM");
        eventually("the gate to stop", async || scene.gate.logged().contains("Stopping").then_some(())).await;
        let out = scene.form(REFUND, "k1", "a=1").open().await;
        let sent = async || (scene.provider.plain(REFUND).len() == 1).then_some(());
        eventually("the call to go out", sent).await;
        held.release();
        assert_eq!(running.reply().await.met(), "first");
        payment.release();
        let answer = out.reply().await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert_eq!(scene.gate.ended().await, Some(0));
        scene.gate.restart().await;
        let replay = scene.form(REFUND, "k1", "a=1").send().await;
        assert_eq!(replay.http.header("idempotent-replayed"), Some("true"), "{replay:?}");
        assert_eq!(scene.provider.plain(REFUND).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_gate_died_on_the_way_out_is_found_and_told() {
    on_every_store(async |home| {
        let plan = Plan::new(home).await;
        let policy = super::scene::POLICY.replace("[defaults]", "[defaults]\nlease = \"1s\"");
        std::fs::write(plan.folder.path().join("out/provider.toml"), policy).expect("the policy");
        let mut scene = plan.start().await;
        scene.provider.script("POST /v1/payouts", [crate::harness::answer::Answer::hang()]);
        let gone = scene.form("POST /v1/payouts", "k1", "a=1").open().await;
        let sent = async || (scene.provider.plain("POST /v1/payouts").len() == 1).then_some(());
        eventually("the call to go out", sent).await;
        scene.gate.kill();
        drop(gone);
        scene.gate.restart().await;
        eventually("the claim to be found", async || {
            (scene.gate.claim("k1").await["status"] == "unknown").then_some(())
        })
        .await;
        let rows = scene.gate.audit(1).await;
        assert_eq!(
            (&rows[0]["service"], &rows[0]["reason"]),
            (&json!("billing:stripe"), &json!("abandoned"))
        );
        is(&scene.form("POST /v1/payouts", "k1", "a=1").send().await, 409, "outcome_unknown", "maybe", "no");
        assert_eq!(scene.provider.plain("POST /v1/payouts").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn calls_that_came_in_leave_room_for_those_that_they_make() {
    let plan = Plan::new(Home::Sqlite).await.set("limits.concurrent_calls", 1).set("limits.queued_calls", 1);
    let scene = plan.start().await;
    let held = scene.app.hold("refund_order");
    let running = scene.gate.client(Era::Modern).tool("refund_order", &json!({})).key("k1").open().await;
    scene.app.called("refund_order", 1).await;
    assert_eq!(scene.form(REFUND, "k1", "a=1").send().await.status(), 200);
    held.release();
    assert_eq!(running.reply().await.met(), "first");
}

#[tokio::test]
async fn a_gate_that_observes_enforces_at_its_listeners() {
    let Scene { app, provider, gate, addresses, folder, .. } =
        Plan::new(Home::Sqlite).await.set("mode", "observe").start().await;
    let _kept = (&app, &folder);
    let stranger = crate::harness::client::Client::new(addresses[0], Era::Modern).plain(REFUND).send().await;
    is(&stranger, 403, "caller_unknown", "no", "same_key");
    assert!(provider.received().is_empty());
    assert_eq!(gate.client(Era::Modern).plain("GET /anything").send().await.status(), 405, "as the app says");
    assert!(gate.logged().contains("Listeners enforce"), "{}", gate.logged());
}
