//! A gate whose standard output and error take nothing: its log's disk is full, or nobody reads its pipe any more.
//!
//! Promises tested: `oncegate::cli`: lines are lost, and nothing else.

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era};
use crate::harness::gate::{Gate, binary};
use crate::harness::setup::Setup;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

fn refund(gate: &Gate, key: &str) -> Ask {
    gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key(key)
}

#[tokio::test]
async fn a_gate_that_cannot_log_serves_calls_looks_after_claims_and_ends_as_ever() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let setup = Setup::new(home, &upstream.url()).policy("lease = \"60s\"", "lease = \"1s\"");
        let mut gate = Gate::start(setup).await;
        let refunded = Answer::tool("refunded", &json!({ "run": 3 }));
        upstream.script("refund_order", [Answer::hang(), Answer::reset(), refunded]);
        let open = refund(&gate, "left").open().await;
        upstream.called("refund_order", 1).await;
        gate.kill();
        drop(open);
        gate.mute();
        gate.restart().await;
        assert_eq!(refund(&gate, "lost").send().await.met(), "outcome_unknown");
        assert_eq!(refund(&gate, "good").send().await.met(), "first");
        eventually("the dead gate's claim to be unknown", async || {
            (gate.claim("left").await["status"] == "unknown").then_some(())
        })
        .await;
        let lost = gate.audit(3).await.into_iter().find(|row| row["idempotency_key"] == "lost");
        assert_eq!(lost.expect("its row")["executed"], "maybe");
        assert_eq!(gate.stop().await, Some(0));
    })
    .await;
}

#[test]
fn a_start_that_fails_has_its_exit_code_though_nobody_hears_why() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let status = binary().args(["serve", "--config", "none.toml"]).stderr(full).status();
    assert_eq!(status.expect("the gate's binary").code(), Some(78));
}
