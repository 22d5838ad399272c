//! Where a reload is told: log, counts, `/readyz`, `GET /policy`.

use std::fs;

use serde_json::json;

use super::{BAD, GOOD, STANDS, closed, ready, setup, status, until, until_failed, until_other};
use crate::harness::client::Era;
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::setup::POLICY;
use crate::harness::upstream::Upstream;

#[tokio::test]
async fn a_broken_edit_changes_nothing_and_is_told_everywhere() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    let before = status(&gate).await;
    assert_eq!(ready(&gate).await, format!("ready\npolicy {}\n", before["version"].as_str().unwrap()));
    assert_eq!((gate.count(GOOD).await, gate.count(BAD).await, gate.count(STANDS).await), (0, 0, 1));
    let file = gate.file("policies/tests.toml");
    let broken = POLICY.replace("effect = \"deny\"", "effect = \"denny\"")
        + "\n[tools.more]\neffect = \"read\"\nscopez = []\n";
    fs::write(&file, &broken).unwrap();

    let failed = until_failed(&gate).await;
    assert_eq!((&failed["version"], &failed["since"]), (&before["version"], &before["since"]));
    let mistakes = failed["last_attempt"]["mistakes"].as_array().unwrap();
    let places: Vec<_> = mistakes.iter().map(|mistake| mistake["place"].as_str().unwrap()).collect();
    assert!(places.iter().all(|place| place.contains("tests.toml:")), "{failed}");
    assert!(
        mistakes.iter().any(|mistake| mistake["message"].as_str().unwrap().contains("denny")),
        "{failed}"
    );
    assert_eq!((gate.count(GOOD).await, gate.count(BAD).await, gate.count(STANDS).await), (0, 1, 0));
    let said = ready(&gate).await;
    assert!(
        said.contains("failed") && said.contains(places[0]) && said.contains("oncegate policy status"),
        "{said}"
    );
    assert!(!said.contains("denny") && !said.contains("scopez"), "nothing of the policy's text: {said}");
    let log = gate.logged();
    assert!(log.contains("denny") && log.contains("what was in force stays in force"), "{log}");
    let refund = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "o" })).key("k1");
    assert_eq!(refund.send().await.met(), "first");

    // It is tried again and again, and told once.
    gate.signal("-HUP");
    eventually("it to be tried again", async || (gate.count(BAD).await == 2).then_some(())).await;
    fs::write(&file, POLICY).unwrap();
    let mended = until(&gate, "it to be mended", |status| status["last_attempt"]["result"] == "ok").await;
    assert_eq!((&mended["version"], &mended["since"]), (&before["version"], &before["since"]));
    assert_eq!((gate.count(BAD).await, gate.count(STANDS).await), (2, 1));
    assert_eq!(ready(&gate).await, format!("ready\npolicy {}\n", before["version"].as_str().unwrap()));
}

#[tokio::test]
async fn what_says_the_same_changes_nothing_and_is_not_told_unless_asked() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    let (before, log) = (status(&gate).await, gate.logged());
    for name in ["policies/tests.toml", "secret", "jwt", "admin"] {
        let text = fs::read(gate.file(name)).unwrap();
        fs::write(gate.file(name), text).unwrap();
    }
    fs::write(gate.file("policies/tests.cases.toml"), "of no interest").unwrap();
    gate.signal("-HUP");
    eventually("it to be told", async || (gate.count(GOOD).await == 1).then_some(())).await;
    let after = status(&gate).await;
    assert_eq!((&after["version"], &after["since"]), (&before["version"], &before["since"]));
    let new = gate.logged().replace(&log, "");
    let lines: Vec<_> = new.lines().filter(|line| line.contains("eload")).collect();
    assert_eq!(lines.len(), 2, "that it was asked, and that all is the same: {new}");
}

#[tokio::test]
async fn a_file_that_is_half_written_is_not_told_as_broken() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    let before = status(&gate).await;
    let file = gate.file("policies/tests.toml");
    let (whole, half) = (closed(), closed().len() / 2);
    for _ in 0..5 {
        fs::write(&file, "").unwrap();
        fs::write(&file, &whole[..half]).unwrap();
        tokio::task::yield_now().await;
        fs::write(&file, &whole).unwrap();
    }
    until_other(&gate, &before).await;
    assert_eq!((gate.count(GOOD).await, gate.count(BAD).await), (1, 0), "{}", gate.logged());
}

#[tokio::test]
async fn the_folder_that_is_gone_is_told_and_found_again() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    fs::rename(gate.file("policies"), gate.file("away")).unwrap();
    let failed = until_failed(&gate).await;
    assert!(
        failed["last_attempt"]["mistakes"][0]["place"].as_str().unwrap().ends_with("policies"),
        "{failed}"
    );
    fs::rename(gate.file("away"), gate.file("policies")).unwrap();
    until(&gate, "it to be found", |status| status["last_attempt"]["result"] == "ok").await;
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_the_rest_takes_effect() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream)).await;
    let before = status(&gate).await;
    assert_eq!(before["waits_for_restart"], json!([]));
    fs::write(gate.file("policies/tests.toml"), closed()).unwrap();
    gate.set("upstream.timeout", "7s");
    gate.set("limits.queue_time", "4s");
    let waits = until(&gate, "both", |status| {
        status["waits_for_restart"] != json!([]) && status["version"] != before["version"]
    })
    .await;
    assert_eq!(waits["waits_for_restart"], json!(["limits.queue_time", "upstream.timeout"]));
    assert_eq!(gate.count("oncegate_settings_waiting_for_restart").await, 2);
    assert!(gate.logged().contains("limits.queue_time, upstream.timeout"), "{}", gate.logged());
    // Written another way, it is what it was.
    gate.set("upstream.timeout", "10000ms");
    until(&gate, "one", |status| status["waits_for_restart"] == json!(["limits.queue_time"])).await;
    gate.set("limits.queue_time", "5s");
    until(&gate, "none", |status| status["waits_for_restart"] == json!([])).await;
    assert_eq!(gate.count("oncegate_settings_waiting_for_restart").await, 0);
}

#[tokio::test]
async fn a_configuration_with_a_mistake_leaves_a_good_policy_unread() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream)).await;
    let before = status(&gate).await;
    gate.set("upstream.timeout", "soon");
    let failed = until_failed(&gate).await;
    assert!(
        failed["last_attempt"]["mistakes"][0]["place"].as_str().unwrap().contains("one.toml:"),
        "{failed}"
    );
    fs::write(gate.file("policies/tests.toml"), closed()).unwrap();
    gate.signal("-HUP");
    eventually("it to fail again", async || (gate.count(BAD).await >= 2).then_some(())).await;
    assert_eq!(status(&gate).await["version"], before["version"]);
    gate.set("upstream.timeout", "10s");
    until_other(&gate, &before).await;
}
