//! `oncegate policy init`: a first policy from a real server's list of tools, and from hostile ones.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use oncegate::config::load_policy;
use oncegate::domain::policy::{Effect, Kind};

use crate::harness::answer::Answer;
use crate::harness::billing::Billing;
use crate::harness::gate::binary;
use crate::harness::upstream::Upstream;

async fn init(folder: &Path, url: &str, more: &[&str]) -> std::process::Output {
    let mut command = Command::from(binary());
    command.args(["policy", "init", "--from", url]).args(more).current_dir(folder);
    command.output().await.expect("the binary")
}

/// The policy that is proposed for this server.
async fn proposed(url: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = init(folder.path(), url, &["--out", "p.toml"]).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let text = fs::read_to_string(folder.path().join("p.toml")).expect("a policy");
    (folder, text)
}

#[tokio::test]
async fn a_server_on_the_rust_sdk_gets_a_policy_that_can_be_used() {
    let billing = Billing::start("0s").await;
    let (folder, text) = proposed(&format!("{}/mcp", billing.url())).await;
    let (policy, _) = load_policy(folder.path()).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let refund =
        policy.named(Kind::Tool, "refund_order").unwrap_or_else(|| panic!("no refund_order in {text}"));
    assert_eq!(refund.effect(), Effect::Mutation);
    assert!(!refund.scopes().is_empty());
}

#[tokio::test]
async fn what_is_there_is_not_written_over() {
    let billing = Billing::start("0s").await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("p.toml"), "mine").expect("a file");
    let output = init(folder.path(), &format!("{}/mcp", billing.url()), &["--out", "p.toml"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path().join("p.toml")).expect("a file"), "mine");
}

#[tokio::test]
async fn annotations_become_proposals_and_doubt_a_mutation() {
    let upstream = Upstream::start().await;
    let tool = |name: &str, annotations: Value, properties: Value| json!({ "name": name, "annotations": annotations, "inputSchema": { "type": "object", "properties": properties } });
    let tools = json!([
        tool("get_order", json!({ "readOnlyHint": true }), json!({ "org_id": {} })),
        tool("delete_order", json!({ "destructiveHint": true }), json!({ "idempotencyKey": {}, "card": {} })),
        tool("charge", json!({ "idempotentHint": true }), json!({})),
        tool("unsaid", json!({}), json!({})),
    ]);
    upstream.script("tools/list", [Answer::result(json!({ "resultType": "complete", "tools": tools }))]);
    let (folder, text) = proposed(&format!("{}/mcp", upstream.url())).await;
    let (policy, _) = load_policy(folder.path()).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let effect = |name: &str| policy.named(Kind::Tool, name).map(|operation| operation.effect());
    assert_eq!(effect("get_order"), Some(Effect::Read));
    for name in ["delete_order", "charge", "unsaid"] {
        assert_eq!(effect(name), Some(Effect::Mutation), "{text}");
    }
    let delete = policy.named(Kind::Tool, "delete_order").expect("named");
    assert_eq!(delete.key_argument(), "idempotencyKey");
    let mutation = delete.mutation().expect("a mutation");
    assert!(mutation.forward_argument() && mutation.destructive() == Some(true));
    assert_eq!(delete.scopes(), ["order:delete"]);
    assert_eq!(delete.tenant_arguments(), ["tenant_id"], "what an argument is, only a person knows: {text}");
    for line in [
        "# tenant_arguments = [\"tenant_id\", \"org_id\"]",
        "# redact = [\"card\"]",
        "readOnlyHint",
        "idempotentHint",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn hostile_names_and_descriptions_stay_where_they_belong() {
    let upstream = Upstream::start().await;
    let names = [
        "a\"]\neffect = \"read\"",
        "b\u{202e}c",
        "x.y",
        "'''",
        "\\",
        "",
        " blank ",
        "dup",
        "dup",
        "\u{0}",
        "日本",
    ];
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "description": "line\n[tools.evil]\neffect = \"read\"\r[tools.worse]\u{2028}\u{7}",
                "inputSchema": { "properties": { "token\n[x]": {}, "tenant\"id": {}, "idempotency_key\n": {} } },
            })
        })
        .collect();
    upstream.script("tools/list", [Answer::result(json!({ "resultType": "complete", "tools": tools }))]);
    let (folder, text) = proposed(&format!("{}/mcp", upstream.url())).await;
    let (policy, _) = load_policy(folder.path()).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    assert!(policy.operations().all(|operation| operation.effect() == Effect::Mutation), "{text}");
    let mut found: Vec<&str> = policy.operations().map(|operation| operation.name()).collect();
    found.sort_unstable();
    assert_eq!(found, ["'''", "\\", "b\u{202e}c", "dup", "x.y", "日本"], "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{7}'), "{text}");
}
