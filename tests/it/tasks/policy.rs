//! Whoever follows a task up must still be allowed the call that made it, and what the policy says of the method.

use serde_json::json;

use super::{about, made, started, state};
use crate::harness::answer::Answer;
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// A gate whose policy says one thing more.
async fn with(rules: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let end = "[methods.\"resources/read\"]";
    let setup = Setup::new(Home::Sqlite, &upstream.url()).policy(end, &format!("{rules}\n{end}"));
    let gate = Gate::start(setup).await;
    (upstream, gate)
}

#[tokio::test]
async fn a_task_is_lost_with_the_scope_for_its_call() {
    let (upstream, gate) = started().await;
    let id = made(&upstream, &gate.client(Era::Modern), Era::Modern).await;
    let poor = gate.client_with(Era::Modern, &json!({ "scope": "billing:read" }));
    for method in ["tasks/get", "tasks/cancel"] {
        let reply = about(&poor, method, &id).send().await;
        assert_eq!(reply.status(), 403);
        let challenge = reply.http.header("www-authenticate").unwrap_or_default().to_owned();
        assert!(challenge.contains("billing:refund"), "{challenge}");
    }
}

#[tokio::test]
async fn a_denied_method_is_denied_to_the_owner_too() {
    let (upstream, gate) = with("[methods.\"tasks/cancel\"]\neffect = \"deny\"").await;
    let client = gate.client(Era::Modern);
    let id = made(&upstream, &client, Era::Modern).await;
    assert_eq!(about(&client, "tasks/cancel", &id).send().await.word(), "40301");
    upstream.script("tasks/get", [Answer::result(state(Era::Modern, "t-1", "working"))]);
    assert_eq!(about(&client, "tasks/get", &id).send().await.met(), "first");
    assert_eq!(gate.audit(3).await.iter().filter(|row| row["reason"] == "denied_by_policy").count(), 1);
}

#[tokio::test]
async fn a_methods_own_scopes_and_masks_hold_on_top() {
    let rules =
        "[methods.\"tasks/get\"]\neffect = \"read\"\nscopes = [\"accounts:mail\"]\nredact = [\"iban\"]";
    let (upstream, gate) = with(rules).await;
    let id = made(&upstream, &gate.client(Era::Modern), Era::Modern).await;
    let mut answer = state(Era::Modern, "t-1", "completed");
    answer["result"] = json!({ "content": [], "structuredContent": { "iban": "DE02", "card": "4242" } });
    upstream.script("tasks/get", [Answer::result(answer)]);
    let reply = about(&gate.client(Era::Modern), "tasks/get", &id).send().await;
    assert_eq!(reply.result()["result"]["structuredContent"], json!({ "iban": "***", "card": "***" }));
    for scope in ["billing:refund", "accounts:mail"] {
        let poor = gate.client_with(Era::Modern, &json!({ "scope": scope }));
        assert_eq!(about(&poor, "tasks/get", &id).send().await.status(), 403, "{scope} alone");
    }
}

#[tokio::test]
async fn a_method_that_is_a_mutation_runs_once_for_its_key() {
    let rules = "[methods.\"tasks/update\"]\neffect = \"mutation\"\nscopes = [\"billing:refund\"]";
    let (upstream, gate) = with(rules).await;
    let client = gate.client(Era::Modern);
    let id = made(&upstream, &client, Era::Modern).await;
    upstream.script("tasks/update", [Answer::result(json!({ "heard": true }))]);
    let update = |id: &str, sure: bool, key: Option<&str>| {
        about(&client, "tasks/update", id).with(|body| {
            body["params"]["inputResponses"] = json!({ "sure": { "action": "accept", "content": sure } });
            if let Some(key) = key {
                body["params"]["_meta"]["oncegate/idempotency-key"] = json!(key);
            }
        })
    };
    assert_eq!(update(&id, true, None).send().await.word(), "40000", "it needs a key");
    assert_eq!(update(&id, true, Some("u1")).send().await.met(), "first");
    let replay = update(&id, true, Some("u1")).send().await;
    assert_eq!((replay.met(), &replay.result()["heard"]), ("replay".to_owned(), &json!(true)));
    assert_eq!(
        update(&id, false, Some("u1")).send().await.word(),
        "42201",
        "other inputs are another intent"
    );
    assert_eq!(super::sent(&upstream, "tasks/update").len(), 1);
    let neighbour = gate.client_with(Era::Modern, &json!({ "sub": "u2" }));
    let foreign = about(&neighbour, "tasks/update", &id).header("Idempotency-Key", "u2").send().await;
    super::check_refused(Era::Modern, "tasks/update", &foreign);
}
