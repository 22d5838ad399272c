//! Plain requests through a gate, or an operation, that only observes.

use serde_json::json;

use super::told;
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

const POLICY: &str = r#"
[routes.create_refund]
method = "POST"
path = "/api/refunds"
effect = "mutation"
scopes = ["billing:refund"]

[routes.show_refund]
method = "GET"
path = "/api/refunds/{refund}"
effect = "read"
scopes = ["billing:read"]
"#;

const REFUND: &str = "POST /api/refunds";

async fn scene(home: Home, policy: &str, mode: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(home, &upstream.url()).set("mode", mode);
    policy.clone_into(&mut setup.policy);
    (upstream, Gate::start(setup).await)
}

#[tokio::test]
async fn a_gate_that_observes_says_of_plain_requests_what_would_have_come_of_them() {
    on_every_store(async |home| {
        let (upstream, gate) = scene(home, POLICY, "observe").await;
        let client = gate.client(Era::Modern).bearing(&token());
        let nobody = Client::new(gate.address(), Era::Modern);
        let (json, other) = (json!({ "amount": 5 }), json!({ "amount": 6 }));
        let keyed = |client: &Client, key: &str| client.plain(REFUND).header("Idempotency-Key", key);
        let asks = [
            (keyed(&client, "k1").json(&json), ("allowed", "", "yes")),
            (keyed(&client, "k1").json(&json), ("replayed", "would_replay", "yes")),
            (keyed(&client, "k1").json(&other), ("denied", "would_idempotency_payload_mismatch", "yes")),
            (client.plain(REFUND).json(&json), ("denied", "would_missing_idempotency_key", "yes")),
            (client.plain("GET /api/refunds/7"), ("allowed", "", "yes")),
            (client.plain("GET /api/other"), ("denied", "would_not_in_policy", "yes")),
            (client.plain("PUT /api/refunds"), ("denied", "would_method_not_allowed", "yes")),
            (client.plain("GET /api//refunds/7"), ("denied", "would_path_not_normal", "yes")),
            (
                client.plain(REFUND).json(&json!({ "_method": "PUT" })),
                ("denied", "would_method_override", "yes"),
            ),
            (
                keyed(&client, "k9").json(&json!({ "tenant_id": "umbrella" })),
                ("denied", "would_foreign_tenant", "yes"),
            ),
            (nobody.plain("GET /api/refunds/7"), ("denied", "would_unauthenticated", "yes")),
        ];
        for (place, (ask, expected)) in asks.into_iter().enumerate() {
            let reply = ask.send().await;
            assert_eq!(
                (reply.status(), upstream.received().len()),
                (200, place + 1),
                "{expected:?}: {reply:?}"
            );
            let row = gate.audit(place + 1).await.pop().expect("a row");
            assert_eq!(told(&row), expected, "{row}");
        }
        let first = &upstream.received()[0];
        assert_eq!(first.http.header("idempotency-key"), Some("k1"));
        assert!(first.http.header("authorization").is_some(), "as its client sent it");
        assert_eq!(gate.claim("k1").await["status"], "completed");
    })
    .await;
}

#[tokio::test]
async fn what_was_recorded_while_observing_is_replayed_by_a_gate_that_enforces() {
    on_every_store(async |home| {
        let (upstream, mut gate) = scene(home, POLICY, "observe").await;
        let client = gate.client(Era::Modern).bearing(&token());
        let ask = client.plain(REFUND).header("Idempotency-Key", "k1").json(&json!({ "amount": 5 }));
        let first = ask.clone().send().await;
        gate.audit(1).await;
        gate.stop().await;
        gate.set("mode", "enforce");
        gate.restart().await;
        let again = ask.send().await;
        assert_eq!((again.status(), &again.http.body), (200, &first.http.body));
        assert_eq!(again.http.header("idempotent-replayed"), Some("true"));
        assert_eq!(upstream.plain(REFUND).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_route_that_is_only_observed_lets_everything_through_and_owns_the_claims_that_it_can() {
    on_every_store(async |home| {
        let policy =
            POLICY.replace("[routes.create_refund]\n", "[routes.create_refund]\nmode = \"observe\"\n");
        let (upstream, gate) = scene(home, &policy, "enforce").await;
        let client = gate.client(Era::Modern).bearing(&token());
        let json = json!({ "amount": 5 });
        let asks = [
            (client.plain(REFUND).json(&json), ("denied", "would_missing_idempotency_key", "yes")),
            (client.plain(REFUND).header("Idempotency-Key", "k1").json(&json), ("allowed", "", "yes")),
            (
                client.plain(REFUND).header("Idempotency-Key", "k1").json(&json),
                ("replayed", "would_replay", "yes"),
            ),
        ];
        for (place, (ask, expected)) in asks.into_iter().enumerate() {
            let reply = ask.send().await;
            assert_eq!(
                (reply.status(), reply.json()["run"].clone()),
                (200, json!(place + 1)),
                "{expected:?}"
            );
            let row = gate.audit(place + 1).await.pop().expect("a row");
            assert_eq!(told(&row), expected, "{row}");
        }
        assert_eq!(upstream.plain(REFUND)[1].http.header("idempotency-key"), Some("k1"));
        assert_eq!(client.plain("GET /api/other").send().await.status(), 403);
    })
    .await;
}
