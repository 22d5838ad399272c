//! Progress while the result is still held back, and calls that are given up: a mutation is carried out once and its
//! retry is a replay, a read is cancelled upstream, and the session goes on.

use serde_json::json;

use super::agent::{Agent, call};
use super::kinds::{GivesUp, Shows};
use super::scene::Scene;
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::setup::token;
use crate::harness::{eventually, in_time};

pub(super) async fn check(agent: &mut Agent, scene: &Scene) {
    hears_progress_before_the_result_is_there(agent, scene).await;
    a_mutation_is_carried_out_once(agent, scene).await;
    a_read_is_cancelled_upstream(agent, scene).await;
}

/// The upstream holds its result back until the client has told of the progress.
async fn hears_progress_before_the_result_is_there(agent: &mut Agent, scene: &Scene) {
    let hold = Hold::new();
    let answer = Answer::events().progress(1).then(Step::Hold(hold.clone())).progress(2);
    scene.upstream.script("refund_order", [answer.then_result("", &json!({ "content": [] }))]);
    agent.connect("slow", &scene.gate, &token()).await;
    let step = agent.begin("slow", &call("refund_order", &json!({ "order_id": "o" })).key("slow-1")).await;
    scene.upstream.called("refund_order", 1).await;
    if agent.kind.shows == Shows::All {
        agent.hear(&step, "progress").await;
        assert_eq!(scene.gate.claim("slow-1").await["status"], "in_flight");
    }
    hold.release();
    let told = agent.end(&step).await;
    told.is_first();
    let heard = if agent.kind.shows == Shows::All { 2 } else { 0 };
    assert_eq!(told.progress.len(), heard, "{told:?}");
}

async fn a_mutation_is_carried_out_once(agent: &mut Agent, scene: &Scene) {
    let hold = Hold::new();
    let result = json!({ "content": [], "structuredContent": { "run": 1 } });
    let answer = Answer::events().progress(1).then(Step::Hold(hold.clone())).then_result("", &result);
    let before = scene.upstream.calls("refund_order").len();
    scene.upstream.script("refund_order", [answer]);
    let refund = call("refund_order", &json!({ "order_id": "o" })).key("left-1");
    agent.connect("left", &scene.gate, &token()).await;
    let step = agent.begin("left", &refund).await;
    scene.upstream.called("refund_order", before + 1).await;
    if agent.kind.shows == Shows::All {
        agent.hear(&step, "progress").await;
    }
    agent.cancel(&step).await;
    assert_eq!(agent.end(&step).await.end["outcome"], "cancelled");
    if agent.kind.gives_up == GivesUp::Leaves {
        agent.close("left").await;
        agent.connect("left", &scene.gate, &token()).await;
    }
    // The retry comes in the same session, as the agent's next step would.
    agent.call("left", &refund).await.is_refusal("request_in_flight", "maybe");
    hold.release();
    eventually("the call to be settled", async || {
        (scene.gate.claim("left-1").await["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(*agent.call("left", &refund).await.is_replay(), json!({ "run": 1 }));
    assert_eq!(scene.upstream.calls("refund_order").len(), before + 1, "it was carried out once");
    assert_eq!(notices(scene), 0, "the upstream was never asked to stop it");
}

async fn a_read_is_cancelled_upstream(agent: &mut Agent, scene: &Scene) {
    let gone = Hold::new();
    let before = scene.upstream.calls("get_invoice").len();
    let answer = Answer::events().progress(1).then(Step::UntilGone(gone.clone()));
    scene.upstream.script("get_invoice", [answer, Answer::tool("an invoice", &json!({}))]);
    let step = agent.begin("left", &call("get_invoice", &json!({}))).await;
    let read = scene.upstream.called("get_invoice", before + 1).await.remove(before);
    if agent.kind.shows == Shows::All {
        agent.hear(&step, "progress").await;
    }
    agent.cancel(&step).await;
    assert_eq!(agent.end(&step).await.end["outcome"], "cancelled");
    match agent.kind.gives_up {
        GivesUp::Notice => {
            eventually("the upstream to be told", async || (notices(scene) == 1).then_some(())).await;
            let told = scene.upstream.received();
            let notice = told.iter().find(|message| message.rpc() == CANCELLED).expect("it was told");
            assert_eq!(notice.json["params"]["requestId"], read.json["id"], "{:?}", notice.json);
        }
        GivesUp::HangUp => in_time("the upstream's client to go", gone.passed()).await,
        GivesUp::Leaves => {
            agent.close("left").await;
            in_time("the upstream's client to go", gone.passed()).await;
            agent.connect("left", &scene.gate, &token()).await;
        }
    }
    agent.call("left", &call("get_invoice", &json!({}))).await.is_first();
    agent.close("left").await;
}

const CANCELLED: &str = "notifications/cancelled";

fn notices(scene: &Scene) -> usize {
    scene.upstream.received().iter().filter(|message| message.rpc() == CANCELLED).count()
}
