//! Every refusal that a client can meet, in the form that its SDK hands to its caller, and that none of them costs it its
//! session unless the SDK is made so.

use serde_json::{Value, json};

use super::agent::{Agent, Call, call};
use super::first::poor_token;
use super::scene::{PLACES, Scene};
use crate::harness::answer::Answer;
use crate::harness::client::{Era, Open};
use crate::harness::eventually;
use crate::harness::setup::{claims_with, sign, token};

pub(super) async fn check(agent: &mut Agent, mut scene: Scene) {
    agent.connect("refused", &scene.gate, &token()).await;
    keys(agent, &scene).await;
    challenges(agent, &scene).await;
    // A process for each order takes its time, and what the Inspector prints of a tool error is the same in both eras.
    if agent.kind.keeps_session || agent.kind.era == Era::Modern {
        policy(agent, &scene).await;
        what_another_call_left(agent, &scene).await;
        what_the_upstream_said(agent, &scene).await;
        what_is_away_or_busy(agent, &mut scene).await;
    }
}

fn refund(key: &str) -> Call {
    call("refund_order", &json!({ "order_id": "o" })).key(key)
}

/// The call is refused so, and the session that made it goes on.
async fn refused(agent: &mut Agent, name: &str, call: &Call, code: &str, executed: &str) -> Value {
    let told = agent.call(name, call).await;
    let refusal = told.is_refusal(code, executed).clone();
    goes_on(agent, name).await;
    refusal
}

/// The same session completes another call.
async fn goes_on(agent: &mut Agent, name: &str) {
    // Where every order is a session of its own there is none to lose.
    if agent.kind.keeps_session {
        agent.call(name, &call("get_invoice", &json!({}))).await.is_first();
    }
}

async fn keys(agent: &mut Agent, scene: &Scene) {
    let bare = call("refund_order", &json!({ "order_id": "o" }));
    refused(agent, "refused", &bare, "idempotency_key_required", "no").await;
    refused(agent, "refused", &refund("ключ"), "idempotency_key_invalid", "no").await;
    let two = refund("k1").meta("oncegate/idempotency-key", "k2");
    refused(agent, "refused", &two, "idempotency_key_ambiguous", "no").await;

    let before = scene.upstream.calls("refund_order").len();
    scene.upstream.script("refund_order", [Answer::tool("refunded", &json!({}))]);
    agent.call("refused", &bare.meta("oncegate/idempotency-key", "used")).await.is_first();
    let other = call("refund_order", &json!({ "order_id": "another" })).key("used");
    refused(agent, "refused", &other, REUSED, "no").await;
    agent.connect("another", &scene.gate, &sign(&claims_with(&json!({ "sub": "u2" })))).await;
    refused(agent, "another", &refund("used"), REUSED, "no").await;
    agent.close("another").await;
    assert_eq!(scene.upstream.calls("refund_order").len(), before + 1);
}

const REUSED: &str = "idempotency_key_reuse_with_different_args";

async fn policy(agent: &mut Agent, scene: &Scene) {
    agent.connect("poor", &scene.gate, &poor_token()).await;
    for tool in ["run_sql", "unnamed_tool"] {
        told_or_not_shown(agent, "refused", tool, "operation_not_allowed").await;
    }
    told_or_not_shown(agent, "poor", "send_mail", "forbidden").await;
    agent.close("poor").await;
    assert!(scene.upstream.calls("send_mail").is_empty());
}

/// What the policy forbids is refused; a client that calls only what it was shown does not even ask.
async fn told_or_not_shown(agent: &mut Agent, name: &str, tool: &str, code: &str) {
    let call = call(tool, &json!({})).key("p1");
    if agent.kind.calls_blindly {
        refused(agent, name, &call, code, "no").await;
    } else {
        let expected = json!({ "outcome": "raised", "type": "tool_not_found", "exit": 5 });
        agent.call(name, &call).await.is_like(&expected);
    }
}

async fn what_another_call_left(agent: &mut Agent, scene: &Scene) {
    let hold = scene.upstream.hold("refund_order");
    let first = ahead(scene, "running").await;
    let refusal = refused(agent, "refused", &refund("running"), "request_in_flight", "maybe").await;
    assert!(refusal["retry_after_ms"].is_u64(), "{refusal}");
    hold.release();
    assert_eq!(first.reply().await.met(), "first");

    let once = call("send_once", &json!({ "to": "ann" }));
    agent.call("refused", &once.clone().key("once-1")).await.is_first();
    let refusal = refused(agent, "refused", &once.key("once-2"), "possible_duplicate", "no").await;
    assert!(refusal.to_string().contains("once-1"), "{refusal}");
}

/// Another client's call of the same actor, on its way upstream.
async fn ahead(scene: &Scene, key: &str) -> Open {
    let calls = scene.upstream.calls("refund_order").len();
    let ask = scene.gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "o" })).key(key);
    let open = ask.open().await;
    scene.upstream.called("refund_order", calls + 1).await;
    open
}

async fn what_the_upstream_said(agent: &mut Agent, scene: &Scene) {
    let calls = scene.upstream.calls("refund_order").len();
    scene.upstream.script("refund_order", [Answer::reset()]);
    for _first_and_retry in 0..2 {
        let refusal = refused(agent, "refused", &refund("lost"), "outcome_unknown", "maybe").await;
        assert_eq!(refusal["retry"], "no");
    }
    assert_eq!(scene.upstream.calls("refund_order").len(), calls + 1, "never again by itself");
    scene.upstream.script("charge_card", [Answer::reset()]);
    let charge = call("charge_card", &json!({ "order_id": "o" })).key("lost");
    let refusal = refused(agent, "refused", &charge, "outcome_unknown", "maybe").await;
    assert_eq!(refusal["retry"], "same_key", "the app honours the key");

    scene.upstream.script("refund_order", [Answer::tool("sk_live_abcdefghijklmnop", &json!({}))]);
    agent.call("refused", &refund("secret")).await.is_first();
    refused(agent, "refused", &refund("secret"), "answer_not_kept", "yes").await;

    scene.upstream.script("refund_order", [Answer::error(200, -32601), Answer::tool("done", &json!({}))]);
    refused(agent, "refused", &refund("early"), "execution_failed", "no").await;
    agent.call("refused", &refund("early")).await.is_first();

    let html = Answer::http(200, "text/html", "<h1>Welcome</h1>");
    scene.upstream.script("get_invoice", [html, Answer::tool("an invoice", &json!({}))]);
    let read = call("get_invoice", &json!({}));
    refused(agent, "refused", &read, "execution_failed", "maybe").await;
}

async fn what_is_away_or_busy(agent: &mut Agent, scene: &mut Scene) {
    let hold = scene.upstream.hold("refund_order");
    let mut others = Vec::new();
    for place in 0..PLACES {
        others.push(ahead(scene, &format!("busy-{place}")).await);
    }
    // Every message of a client takes a place, the list that the Inspector begins with too.
    if agent.kind.keeps_session {
        agent.call("refused", &refund("late")).await.is_refusal("overloaded", "no");
    }
    hold.release();
    for other in others {
        assert_eq!(other.reply().await.met(), "first");
    }
    goes_on(agent, "refused").await;
    agent.call("refused", &refund("late")).await.is_first();

    scene.to_store.cut().await;
    agent.call("refused", &refund("unwritten")).await.is_refusal("store_unavailable", "no");
    // A read leaves a row, too.
    agent.call("refused", &call("get_invoice", &json!({}))).await.is_refusal("store_unavailable", "no");
    scene.to_store.mend().await;
    let written = eventually("the store to be back", async || {
        let told = agent.call("refused", &refund("unwritten")).await;
        (told.end["is_error"] == false).then_some(told)
    })
    .await;
    written.is_first();
    goes_on(agent, "refused").await;

    // What a client asks before it calls would find nobody either.
    if agent.kind.keeps_session {
        scene.to_upstream.cut().await;
        agent.call("refused", &refund("unsent")).await.is_refusal("upstream_unreachable", "no");
        scene.to_upstream.mend().await;
        goes_on(agent, "refused").await;
        agent.call("refused", &refund("unsent")).await.is_first();
    }
}

/// What is not answered with 200: who calls at all, and with which scopes.
async fn challenges(agent: &mut Agent, scene: &Scene) {
    agent.connect("poor", &scene.gate, &poor_token()).await;
    let told = agent.call("poor", &refund("poor-1")).await;
    assert_eq!(told.end["outcome"], "raised", "{told:?}");
    told.is_like(&agent.kind.step_up);
    after_a_challenge(agent, "poor").await;

    let mut stranger = agent.try_connect("stranger", &scene.gate, "no token of ours").await;
    if stranger.end["outcome"] == "connected" {
        stranger = agent.list("stranger").await;
    }
    assert_eq!(stranger.end["outcome"], "raised", "{stranger:?}");
    stranger.is_like(&agent.kind.unauthorized);

    // The upstream's own challenges, where it and the gate are one audience.
    let (unauthorized, step_up) = (agent.kind.unauthorized.clone(), agent.kind.step_up.clone());
    for (status, error, seen) in [(401, "invalid_token", unauthorized), (403, "insufficient_scope", step_up)]
    {
        if status == 403 && !agent.kind.calls_blindly {
            continue; // what it says of the gate's own is that it was not shown the tool
        }
        let challenge = format!("Bearer error=\"{error}\", scope=\"billing:refund\"");
        let answer = Answer::http(status, "text/plain", "no").with_header("www-authenticate", &challenge);
        scene.upstream.script("refund_order", [answer, Answer::tool("done", &json!({}))]);
        agent.connect("theirs", &scene.gate, &token()).await;
        let told = agent.call("theirs", &refund(error)).await;
        assert_eq!(told.end["outcome"], "raised", "{told:?}");
        told.is_like(&seen);
        after_a_challenge(agent, "theirs").await;
        assert_eq!(scene.gate.claim(error).await["status"], "failed", "it did not run");
    }
}

/// A challenge is no 200: it may cost a client its session, if the client is made so.
async fn after_a_challenge(agent: &mut Agent, name: &str) {
    if agent.kind.step_up["ended"] == true {
        let told = agent.call(name, &call("get_invoice", &json!({}))).await;
        assert_eq!(told.end["outcome"], "no session", "{told:?}");
    } else {
        goes_on(agent, name).await;
    }
}
