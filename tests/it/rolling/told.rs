//! What was told to clients, held against what ran, what is claimed, and what was written down.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::clients::Story;
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::upstream::Upstream;

/// All of it, asked of a gate that still serves. So many releases wrote it down.
pub(super) async fn check(
    gate: &Gate,
    upstream: &Upstream,
    stories: &BTreeMap<String, Story>,
    releases: usize,
) {
    let mut ran: HashMap<String, usize> = HashMap::new();
    for call in upstream.received() {
        *ran.entry(call.http.header("idempotency-key").expect("a key is forwarded").to_owned())
            .or_default() += 1;
    }
    assert_eq!(ran.len(), stories.len(), "nothing else ran");
    for (key, story) in stories {
        assert_eq!(story.answer, json!({ "of": key }), "{key} was answered as another: {story:?}");
        assert_eq!(ran.get(key), Some(&1), "{key} ran, but not once: {story:?}");
    }
    let claims = rows(gate, &["claims", "list", "--json", "--limit", "100000"]).await;
    assert_eq!(claims.len(), stories.len(), "a claim for each key");
    assert!(claims.iter().all(|claim| claim["status"] == "completed"), "{claims:?}");

    let audit = rows(gate, &["audit", "--json", "--limit", "100000"]).await;
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    for row in &audit {
        *counts.entry((text(row, "idempotency_key"), word(row))).or_default() += 1;
    }
    let count = |key: &str, word: &str| counts.get(&(key, word)).copied().unwrap_or_default();
    for (key, story) in stories {
        assert_eq!(count(key, "first"), 1, "{key} stands in the audit as run, but not once: {story:?}");
        for word in ["replay", "request_in_flight"] {
            let seen = story.met.iter().filter(|met| *met == word).count();
            // A try whose answer got lost was written down all the same, if it came to a gate.
            let written = count(key, word);
            assert!(
                (seen..=seen + story.lost).contains(&written),
                "{key}: {written} rows say {word}: {story:?}"
            );
        }
    }
    let met = |word: &str| stories.values().flat_map(|story| &story.met).filter(|met| *met == word).count();
    let lost: usize = stories.values().map(|story| story.lost).sum();
    let draining = audit.iter().filter(|row| word(row) == "overloaded").count();
    let seen = met("overloaded");
    assert!(seen > 0, "nobody met a gate that drains");
    assert!((seen..=seen + lost).contains(&draining), "{draining} rows of {seen} seen and {lost} lost");

    let judged = audit.iter().filter(|row| word(row) != "overloaded");
    let versions: BTreeSet<_> = judged.map(|row| text(row, "policy_version")).collect();
    assert_eq!(versions.len(), releases, "each release wrote down its own policy: {versions:?}");
    check_replays(gate, upstream, stories).await;
    eprintln!(
        "{} calls: {} replays, {} met one in flight, {seen} a draining gate, {lost} got no answer at first",
        stories.len(),
        met("replay"),
        met("request_in_flight")
    );
}

/// The last release knows what the first one answered.
async fn check_replays(gate: &Gate, upstream: &Upstream, stories: &BTreeMap<String, Story>) {
    let ran = upstream.received().len();
    for (key, story) in stories.iter().filter(|(_, story)| !story.plain).step_by(10) {
        let ask = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": key })).key(key);
        let reply = ask.send().await;
        assert_eq!(
            (reply.met().as_str(), &reply.result()["structuredContent"]),
            ("replay", &story.answer),
            "{key}"
        );
    }
    assert_eq!(upstream.received().len(), ran, "a replay runs nothing");
}

/// What a row says, in the word that its client heard.
fn word(row: &Value) -> &'static str {
    let told = (row["decision"].as_str(), row["reason"].as_str(), row["executed"].as_str());
    match told {
        (Some("allowed"), None, Some("yes")) => "first",
        (Some("replayed"), _, _) => "replay",
        (Some("denied"), Some("idempotency_in_flight"), _) => "request_in_flight",
        (Some("denied"), Some("draining"), Some("no")) => "overloaded",
        other => panic!("nobody expects {other:?}: {row}"),
    }
}

fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

async fn rows(gate: &Gate, arguments: &[&str]) -> Vec<Value> {
    let output = gate.run(arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}
