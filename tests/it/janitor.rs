//! Owners that die, and owners that only seem to: what becomes of their claims, and what they may still do.
//!
//! Promises tested: `oncegate::janitor`, DESIGN sections 3 and 4.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

fn setup(home: Home, upstream: &Upstream) -> Setup {
    Setup::new(home, &upstream.url()).policy("lease = \"60s\"", "lease = \"1s\"")
}

fn call(gate: &Gate, tool: &str, key: &str) -> Ask {
    gate.client(Era::Modern).tool(tool, &json!({ "order_id": "ord_9f2" })).key(key)
}

async fn until(gate: &Gate, key: &str, status: &str) -> Value {
    eventually(&format!("{key} to be {status}"), async || {
        let claim = gate.claim(key).await;
        (claim["status"] == status).then_some(claim)
    })
    .await
}

/// The reasons of all rows about this key, oldest first.
async fn reasons(gate: &Gate, key: &str) -> Vec<String> {
    let rows = gate.audit(0).await;
    let of_key = rows.iter().filter(|row| row["idempotency_key"] == key);
    of_key.map(|row| row["reason"].as_str().unwrap_or("-").to_owned()).collect()
}

#[tokio::test]
async fn a_dead_gates_claim_is_declared_unknown_though_nobody_asks_for_it() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(setup(home, &upstream)).await;
        upstream.script("refund_order", [Answer::hang()]);
        let open = call(&gate, "refund_order", "k1").open().await;
        upstream.called("refund_order", 1).await;
        gate.kill();
        drop(open);
        gate.restart().await;
        let claim = until(&gate, "k1", "unknown").await;
        assert_eq!((&claim["lease_until"], &claim["expires_at"]), (&Value::Null, &Value::Null), "{claim}");
        let row = gate.audit(1).await.remove(0);
        assert_eq!(
            (&row["reason"], &row["decision"], &row["executed"], &row["attempt_id"]),
            (&json!("abandoned"), &json!("allowed"), &json!("maybe"), &claim["attempt_id"])
        );
        assert_eq!((&row["user_id"], &row["args"]["order_id"]), (&json!("u1"), &json!("ord_9f2")));
        let line =
            gate.logged().lines().find(|line| line.contains("owner of a claim is gone")).map(str::to_owned);
        let line = line.expect("whoever reads the log hears of it");
        assert!(
            ["acme", "refund_order", "k1", "silent_for"].iter().all(|part| line.contains(part)),
            "{line}"
        );
        let series = r#"oncegate_calls_total{tool="refund_order",decision="allowed",reason="abandoned"}"#;
        assert_eq!(gate.count(series).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_dead_gates_claim_is_declared_unknown_under_a_policy_without_mutations() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let setup = setup(home, &upstream);
        let mut gate = Gate::start(setup.clone()).await;
        upstream.script("refund_order", [Answer::hang()]);
        let open = call(&gate, "refund_order", "k1").open().await;
        upstream.called("refund_order", 1).await;
        gate.kill();
        drop(open);
        gate.set_policy(
            &setup.policy,
            "[tools.get_invoice]\neffect = \"read\"\nscopes = [\"billing:read\"]\n",
        );
        gate.restart().await;
        until(&gate, "k1", "unknown").await;
        assert_eq!(reasons(&gate, "k1").await, ["abandoned"]);
    })
    .await;
}

#[tokio::test]
async fn many_janitors_write_a_dead_owners_row_once() {
    let upstream = Upstream::start().await;
    let mut dead = Gate::start(setup(Home::Postgres, &upstream)).await;
    let (two, three) = (dead.another().await, dead.another_as("three").await);
    upstream.script("refund_order", [Answer::hang()]);
    let mut open = Vec::new();
    for n in 0..30 {
        open.push(call(&dead, "refund_order", &format!("k{n}")).open().await);
    }
    upstream.called("refund_order", 30).await;
    dead.kill();
    eventually("every claim to be unknown", async || {
        let claims = two.claims().await;
        (claims.len() == 30 && claims.iter().all(|claim| claim["status"] == "unknown")).then_some(())
    })
    .await;
    let mut keys: Vec<_> = two.audit(30).await.iter().map(|row| row["idempotency_key"].to_string()).collect();
    assert_eq!(keys.len(), 30, "one row each");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 30);
    let series = r#"oncegate_calls_total{tool="refund_order",decision="allowed",reason="abandoned"}"#;
    assert_eq!(
        two.count(series).await + three.count(series).await,
        30,
        "each is counted by whoever wrote it"
    );
}

#[tokio::test]
async fn a_gate_that_was_only_stopped_completes_its_claim_by_its_late_answer() {
    let upstream = Upstream::start().await;
    let stopped = Gate::start(setup(Home::Postgres, &upstream)).await;
    let other = stopped.another().await;
    let hold = upstream.hold("refund_order");
    let open = call(&stopped, "refund_order", "k1").open().await;
    upstream.called("refund_order", 1).await;
    stopped.freeze();
    until(&other, "k1", "unknown").await;
    assert_eq!(call(&other, "refund_order", "k1").send().await.met(), "outcome_unknown");
    hold.release();
    stopped.thaw();
    let reply = open.reply().await;
    assert_eq!(reply.met(), "first", "its own caller hears the answer after all");
    let claim = until(&other, "k1", "completed").await;
    assert_eq!(call(&other, "refund_order", "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
    assert_eq!(reasons(&other, "k1").await, ["abandoned", "outcome_unknown", "-", "-"]);
    assert_eq!(claim["attempt_id"], gate_row(&other, 2).await["attempt_id"]);
}

async fn gate_row(gate: &Gate, number: usize) -> Value {
    gate.audit(number + 1).await.swap_remove(number)
}

#[tokio::test]
async fn what_a_person_resolved_is_not_changed_by_the_late_answer_of_a_stopped_gate() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let stopped = Gate::start(setup(home, &upstream)).await;
        let hold = upstream.hold("refund_order");
        let open = call(&stopped, "refund_order", "k1").open().await;
        upstream.called("refund_order", 1).await;
        stopped.freeze();
        // Refused while the lease holds; it declares the owner dead once it has lapsed.
        let resolve =
            ["claims", "resolve", "k1", "--completed", "--because", "the bank says so", "--operator", "ann"];
        eventually("the lease to lapse", async || stopped.run(&resolve).await.status.success().then_some(()))
            .await;
        let resolved = stopped.claim("k1").await;
        hold.release();
        stopped.thaw();
        let reply = open.reply().await;
        assert_eq!(reply.result()["_meta"]["oncegate/not_recorded"], true, "{}", reply.json());
        let reasons = eventually("the late answer's row", async || {
            let reasons = reasons(&stopped, "k1").await;
            (reasons.len() == 3).then_some(reasons)
        })
        .await;
        assert_eq!(reasons, ["abandoned", "resolved_completed", "late_answer"]);
        assert_eq!(stopped.claim("k1").await, resolved, "not a column changed");
        assert_eq!(call(&stopped, "refund_order", "k1").send().await.met(), "answer_not_kept");
    })
    .await;
}

#[tokio::test]
async fn what_was_taken_over_is_not_changed_by_the_late_owner() {
    let upstream = Upstream::start().await;
    let setup = setup(Home::Postgres, &upstream).set("upstream.timeout", "2s");
    let stopped = Gate::start(setup).await;
    let other = stopped.another().await;
    upstream.script("charge_card", [Answer::hang(), Answer::tool("charged", &json!({ "run": 2 }))]);
    let open = call(&stopped, "charge_card", "k1").open().await;
    upstream.called("charge_card", 1).await;
    stopped.freeze();
    let taken = eventually("the take-over", async || {
        let reply = call(&other, "charge_card", "k1").send().await;
        (reply.met() == "first").then_some(reply)
    })
    .await;
    assert_eq!(taken.result()["structuredContent"]["run"], 2);
    let completed = other.claim("k1").await;
    stopped.thaw();
    assert_eq!(open.reply().await.met(), "outcome_unknown", "the late owner knows nothing of it");
    eventually("the late owner's row", async || {
        reasons(&other, "k1").await.contains(&"late_answer".to_owned()).then_some(())
    })
    .await;
    assert_eq!(other.claim("k1").await, completed, "not a column changed");
    assert_eq!(call(&stopped, "charge_card", "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("charge_card").len(), 2);
}

#[tokio::test]
async fn a_gate_on_sqlite_that_was_stopped_for_longer_than_its_lease_ends_its_call_well() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Home::Sqlite, &upstream)).await;
    let hold = upstream.hold("refund_order");
    let open = call(&gate, "refund_order", "k1").open().await;
    upstream.called("refund_order", 1).await;
    gate.freeze();
    // Its own janitor and its own renewal wake together: whichever is first, the answer completes the claim.
    eventually("the lease to lapse", async || {
        let until = gate.claim("k1").await["lease_until"].as_str().map(str::to_owned)?;
        let until: jiff::Timestamp = until.parse().expect("a time");
        (jiff::Timestamp::now() > until + Duration::from_millis(500)).then_some(())
    })
    .await;
    gate.thaw();
    hold.release();
    assert_eq!(open.reply().await.met(), "first");
    until(&gate, "k1", "completed").await;
    assert_eq!(call(&gate, "refund_order", "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn running_calls_outlive_many_leases_and_an_absence_of_the_store() {
    let upstream = Upstream::start().await;
    let (gate, mut cable) =
        crate::outages::on_a_cable(&upstream, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\""))
            .await;
    let hold = upstream.hold("refund_order");
    let open = call(&gate, "refund_order", "k1").open().await;
    upstream.called("refund_order", 1).await;
    cable.cut().await;
    let said = "Claims are not looked after while the store is away.";
    eventually("the janitor to miss its store", async || gate.logged().contains(said).then_some(())).await;
    cable.mend().await;
    eventually("the janitor to see it again", async || {
        gate.logged().contains("The store is back; claims are looked after again.").then_some(())
    })
    .await;
    hold.release();
    assert_eq!(open.reply().await.met(), "first");
    assert_eq!(gate.logged().matches(said).count(), 1, "an outage is told of once");
    until(&gate, "k1", "completed").await;
    assert_eq!(call(&gate, "refund_order", "k1").send().await.met(), "replay");
}
