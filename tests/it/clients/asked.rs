//! Elicitation, in both forms: asked on the stream of a call that waits (legacy), or by an answer that wants the call
//! again with the input (modern). Either way it is one call under one key.

use serde_json::{Value, json};

use super::agent::{Agent, Told, call};
use super::kinds::Asked;
use super::scene::Shop;
use crate::harness::client::Era;
use crate::harness::setup::token;

pub(super) async fn check(agent: &mut Agent, shop: &Shop) {
    let answers = json!({ "reason": "it moved away", "confirmed_by": "Ann" });
    let close = call("close_account", &json!({ "account_id": "acc_7" })).key("closing-1");
    agent.connect("asked", &shop.gate, &token()).await;
    let told = agent.call("asked", &close.clone().answers(&answers)).await;
    match agent.kind.asked {
        Asked::Answers => {
            let closed = json!([{ "reason": "it moved away" }, { "confirmed_by": "Ann" }]);
            assert_eq!(told.is_first()["closing"]["answers"], closed);
            assert_eq!(questions(&told), 2, "{told:?}");
            agent.close("asked").await;
            agent.connect("asked", &shop.gate, &token()).await;
            let replay = agent.call("asked", &close.answers(&answers)).await;
            assert_eq!(replay.is_replay(), told.is_first());
            assert_eq!(questions(&replay), 0, "the answer is there, nobody is asked again: {replay:?}");
            assert_eq!(shop.effects("close_account").len(), 1);
            check_rows(shop, agent.kind.era).await;

            let other = call("close_account", &json!({ "account_id": "acc_8" })).key("closing-2");
            let told = agent.call("asked", &other).await;
            assert_eq!(*told.is_first(), json!({ "closed": false }), "the user declined");
            assert_eq!(questions(&told), 1, "{told:?}");
        }
        Asked::Declines => assert_eq!(*told.is_first(), json!({ "closed": false })),
        Asked::Stops => {
            assert_eq!((&told.end["outcome"], &told.end["exit"]), (&json!("nothing"), &json!(0)), "{told:?}");
            assert_eq!(shop.gate.claim("closing-1").await["status"], "awaiting_input");
        }
    }
    agent.close("asked").await;
    let closed = usize::from(agent.kind.asked == Asked::Answers);
    assert_eq!(shop.effects("close_account").len(), closed);
}

fn questions(told: &Told) -> usize {
    told.asked.len()
}

/// One row for each message that called the tool: a modern client sends one for each round.
async fn check_rows(shop: &Shop, era: Era) {
    let messages = if era == Era::Modern { 3 } else { 1 };
    let rows = shop.gate.audit(1).await;
    let of_call = |row: &&Value| row["idempotency_key"] == "closing-1" && row["decision"] == "allowed";
    let rows: Vec<_> = rows.iter().filter(of_call).collect();
    assert_eq!(rows.len(), messages, "{rows:?}");
    assert_eq!(shop.gate.claim("closing-1").await["status"], "completed");
}
