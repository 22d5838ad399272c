//! A legacy session that the app has lost, by a restart say: its client hears 404 and begins a new one, each in its own
//! way. The call that met it was not run; sent again under its key it runs once. What had been answered before needs no
//! app to be given again.

use serde_json::json;

use super::agent::{Agent, call};
use super::kinds::Kind;
use super::scene::Shop;
use crate::harness::setup::token;

pub(super) async fn check(agent: &mut Agent, shop: &mut Shop) {
    let refund =
        |key: &str| call("refund_order", &json!({ "order_id": "ord_a17", "amount_cents": 1 })).key(key);
    let before = shop.effects("refund_order").len();
    agent.connect("lost", &shop.gate, &token()).await;
    let first = agent.call("lost", &refund("before")).await;
    shop.billing.restart().await;
    let replay = agent.call("lost", &refund("before")).await;
    assert_eq!(replay.is_replay(), first.is_first());

    let told = agent.call("lost", &refund("after")).await;
    let Kind { lost_session, .. } = &agent.kind;
    if let Some(seen) = lost_session {
        assert_eq!(told.end["outcome"], "raised", "{told:?}");
        told.is_like(seen);
        assert_eq!(shop.gate.claim("after").await["status"], "failed", "it was not run");
        agent.connect("anew", &shop.gate, &token()).await;
        agent.call("anew", &refund("after")).await.is_first();
        agent.close("anew").await;
    } else {
        told.is_first();
    }
    assert_eq!(shop.effects("refund_order").len(), before + 2, "each ran once");
}
