//! What a change of policies does to calls.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{closed, policy, setup, status, until, until_other};
use crate::egress::scene::Plan;
use crate::harness::callers::{Callers, check_once};
use crate::harness::client::{Ask, Era};
use crate::harness::gate::Gate;
use crate::harness::mount::Mount;
use crate::harness::setup::{Home, POLICY, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

fn refund(gate: &Gate, key: &str) -> Ask {
    gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": key })).key(key)
}

/// A gate whose policy is mounted.
async fn mounted(home: Home, upstream: &Upstream) -> (Gate, Mount) {
    let mount = Mount::new(&[("tests.toml", POLICY)]);
    let setup = Setup::new(home, &upstream.url()).set("admin_token_file", "admin");
    let gate = Gate::start(setup.set("policy.dir", mount.text())).await;
    (gate, mount)
}

fn versions(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["policy_version"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_swap_takes_effect_within_two_seconds_under_load_and_no_call_is_lost() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let (gate, mount) = mounted(home, &upstream).await;
        let before = status(&gate).await;
        let mut callers = Callers::start(&[&gate], &upstream);
        callers.answered(20).await;
        let swapped = Instant::now();
        let more = "[tools.run_sql]\neffect = \"read\"\nscopes = [\"billing:read\"]";
        mount.swap(&[("tests.toml", &policy("[tools.run_sql]\neffect = \"deny\"", more))]);
        eventually("the tool to be shown", async || {
            let reply = gate.client(Era::Modern).rpc("tools/list", &json!({})).send().await;
            reply.json().to_string().contains("run_sql").then_some(())
        })
        .await;
        let took = swapped.elapsed();
        let after = status(&gate).await;
        callers.answered(20).await;
        let answers = callers.end().await;
        check_once(&[&gate], &upstream, &answers).await;
        assert!(took < Duration::from_secs(2), "it took {took:?}");

        let (old, new) = (before["version"].as_str().unwrap(), after["version"].as_str().unwrap());
        assert_ne!(old, new);
        assert!(after["since"].as_str() >= before["since"].as_str(), "{after}");
        let output = gate.run(&["audit", "--json", "--tool", "refund_order", "--limit", "100000"]).await;
        let rows = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |version| rows.iter().filter(|row| row["policy_version"] == version).count();
        assert!(of(old) >= 20 && of(new) >= 20, "{} and {} of {}", of(old), of(new), rows.len());
        assert_eq!(of(old) + of(new), rows.len(), "each row says which of the two decided it");
    })
    .await;
}

#[tokio::test]
async fn a_call_that_runs_keeps_the_policy_that_it_began_with() {
    let upstream = Upstream::start().await;
    let (gate, mount) = mounted(Home::Sqlite, &upstream).await;
    let before = status(&gate).await;
    let hold = upstream.hold("refund_order");
    let running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    mount.swap(&[("tests.toml", &closed())]);
    let after = until_other(&gate, &before).await;
    assert_eq!(refund(&gate, "k2").send().await.word(), "operation_not_allowed");
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    // To hear it again one must be allowed now.
    assert_eq!(refund(&gate, "k1").send().await.word(), "operation_not_allowed");
    let (old, new) = (before["version"].as_str().unwrap(), after["version"].as_str().unwrap());
    let rows = gate.audit(3).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["idempotency_key"].as_str().unwrap(),
                row["decision"].as_str().unwrap(),
                row["policy_version"].as_str().unwrap(),
            )
        })
        .collect();
    assert!(told.contains(&("k1", "allowed", old)), "{told:?}");
    assert!(told.contains(&("k1", "denied", new)) && told.contains(&("k2", "denied", new)), "{told:?}");
}

#[tokio::test]
async fn whoever_waited_is_judged_by_the_policy_in_force() {
    let upstream = Upstream::start().await;
    let waits = POLICY.replace("[defaults]", "[defaults]\nin_flight = \"wait\"\nwait_up_to = \"20s\"");
    let (gate, mount) = mounted(Home::Sqlite, &upstream).await;
    let first = status(&gate).await;
    mount.swap(&[("tests.toml", &waits)]);
    let before = until_other(&gate, &first).await;
    let hold = upstream.hold("refund_order");
    let running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    let waiting = refund(&gate, "k1").open().await;
    eventually("it to wait", async || (gate.count("oncegate_calls_waiting").await == 1).then_some(())).await;
    mount.swap(&[("tests.toml", &closed())]);
    let after = until_other(&gate, &before).await;
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(waiting.reply().await.word(), "operation_not_allowed");
    let rows = gate.audit(2).await;
    let denied = rows.iter().find(|row| row["decision"] == "denied").expect("a denial");
    assert_eq!(denied["policy_version"], after["version"], "what denied it, not what it began with");
}

#[tokio::test]
async fn lists_challenges_and_counts_follow_the_policy() {
    let upstream = Upstream::start().await;
    let (gate, mount) = mounted(Home::Sqlite, &upstream).await;
    let before = status(&gate).await;
    let listed = async || {
        let reply = gate.client(Era::Modern).rpc("tools/list", &json!({})).send().await;
        let tools = reply.result()["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["get_invoice", "refund_order"]);
    let more = format!(
        "{POLICY}\n[tools.unnamed_tool]\neffect = \"read\"\nscopes = [\"new:scope\", \"billing:read\"]\n"
    );
    mount.swap(&[("tests.toml", &more.replace("\"new:scope\", ", ""))]);
    let second = until_other(&gate, &before).await;
    assert_eq!(listed().await, ["get_invoice", "refund_order", "unnamed_tool"]);
    assert_eq!(gate.client(Era::Modern).tool("unnamed_tool", &json!({})).send().await.met(), "first");
    let counted = "oncegate_calls_total{tool=\"unnamed_tool\",decision=\"allowed\",reason=\"\"}";
    assert_eq!(gate.count(counted).await, 1, "it has a name of its own");
    mount.swap(&[("tests.toml", &more)]);
    until_other(&gate, &second).await;
    assert_eq!(listed().await, ["get_invoice", "refund_order"]);
    let reply = gate.client(Era::Modern).tool("unnamed_tool", &json!({})).send().await;
    let challenge = reply.http.header("www-authenticate").unwrap_or_default();
    assert!(reply.status() == 403 && challenge.contains("new:scope"), "{reply:?}");
}

#[tokio::test]
async fn a_listeners_policy_is_reloaded_too() {
    let plan = Plan::new(Home::Sqlite).await;
    let scene = plan.with("").start().await;
    let gate = &scene.gate;
    let send = async |key: &str| scene.form("POST /v1/refunds", key, "charge=ch_1").send().await;
    assert_eq!(send("k1").await.status(), 200);
    let file = scene.folder.path().join("out/provider.toml");
    let old = fs::read_to_string(&file).unwrap();
    fs::write(&file, old.replace("stripe:refund", "stripe:other")).unwrap();
    eventually("the listener's policy", async || (send("k2").await.status() == 403).then_some(())).await;
    let rows = gate.audit(2).await;
    let told = versions(&rows);
    let (first, last) = (told.first().unwrap(), told.last().unwrap());
    assert!(first != last && !first.is_empty() && !last.is_empty(), "{told:?}");
}

#[tokio::test]
async fn a_plain_edit_and_a_file_that_is_renamed_over_take_effect() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    let first = status(&gate).await;
    let (dir, file) = (gate.file("policies"), gate.file("policies/tests.toml"));
    fs::write(&file, closed()).unwrap();
    let second = until_other(&gate, &first).await;
    assert_eq!(refund(&gate, "k1").send().await.word(), "operation_not_allowed");
    fs::write(dir.join("draft"), POLICY).unwrap();
    fs::rename(dir.join("draft"), &file).unwrap();
    let third = until_other(&gate, &second).await;
    assert_eq!(third["version"], first["version"]);
    assert_eq!(refund(&gate, "k1").send().await.met(), "first");
    // A file more, and the whole folder replaced.
    fs::write(dir.join("more.toml"), "[tools.unnamed_tool]\neffect = \"deny\"\n").unwrap();
    let fourth = until_other(&gate, &third).await;
    let other = gate.file("anew");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("tests.toml"), POLICY).unwrap();
    fs::rename(&dir, gate.file("away")).unwrap();
    fs::rename(&other, &dir).unwrap();
    let fifth = until_other(&gate, &fourth).await;
    assert_eq!(fifth["version"], first["version"]);
    fs::write(&file, closed()).unwrap();
    until(&gate, "an edit in the new folder", |status| status["version"] == second["version"]).await;
}
