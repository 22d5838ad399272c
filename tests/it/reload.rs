//! Reloading, with real gates: what a change of files does to calls, and where it is told.

mod keys;
mod policies;
mod told;

use serde_json::Value;

use crate::harness::client::{Client, Era, Reply};
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, POLICY, Setup};
use crate::harness::upstream::Upstream;

/// What tells of good reloads, and what of bad ones.
const GOOD: &str = "oncegate_policy_reloads_total{result=\"ok\"}";
const BAD: &str = "oncegate_policy_reloads_total{result=\"failed\"}";
const STANDS: &str = "oncegate_policy_last_reload_successful";

fn setup(upstream: &Upstream) -> Setup {
    Setup::new(Home::Sqlite, &upstream.url()).set("admin_token_file", "admin")
}

/// The policy of the tests, with one text replaced.
fn policy(old: &str, new: &str) -> String {
    assert!(POLICY.contains(old), "the policy has no {old:?}");
    POLICY.replace(old, new)
}

/// The policy of the tests without `refund_order`.
fn closed() -> String {
    let rule = "effect = \"mutation\"\nscopes = [\"billing:refund\"]\nredact = [\"customer.email\", \"card\"]\nsummary = [\"run\", \"refund.id\"]";
    policy(rule, "effect = \"deny\"")
}

/// What `GET /policy` tells.
async fn status(gate: &Gate) -> Value {
    let reply = gate.admin().plain("GET /policy").send().await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    reply.json()
}

/// Waits for a status of which this is true.
async fn until(gate: &Gate, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || Some(status(gate).await).filter(|status| is(status))).await
}

async fn until_failed(gate: &Gate) -> Value {
    until(gate, "the reload to fail", |status| status["last_attempt"]["result"] == "failed").await
}

/// Waits until another policy is in force than this status tells.
async fn until_other(gate: &Gate, than: &Value) -> Value {
    until(gate, "another policy", |status| status["version"] != than["version"]).await
}

/// What `/readyz` says.
async fn ready(gate: &Gate) -> String {
    let reply: Reply = Client::new(gate.health_address(), Era::Legacy).plain("GET /readyz").send().await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    String::from_utf8(reply.http.body.to_vec()).expect("UTF-8")
}
