//! `oncegate policy explain`: the decision of the gate, step by step.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::gate::binary;
use crate::harness::setup::{ISSUER, sign};

const POLICY: &str = r#"
[tools.pay]
effect = "mutation"
scopes = ["pay"]
allow = "args.amount_cents <= 50000 || 'pay:large' in actor.scopes"
forward_key = "{tenant}/{tool}/{key}"
redact = ["iban"]
[tools.look]
effect = "read"
[routes.refund]
method = "POST"
path = "/orders/{order}/refunds"
effect = "mutation"
scopes = ["pay"]
allow = "args.body.amount <= 5"
"#;

fn explain(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    explain_in(&folder, arguments)
}

fn explain_in(folder: &TempDir, arguments: &[&str]) -> Output {
    fs::create_dir_all(folder.path().join("p")).expect("a folder");
    fs::write(folder.path().join("p/p.toml"), POLICY).expect("a policy");
    let mut command = binary();
    command.args(["policy", "explain"]).args(arguments).arg("p").current_dir(folder.path());
    command.output().expect("the binary")
}

/// The call is decided so, and these lines are told among others.
#[track_caller]
fn check(arguments: &[&str], code: i32, lines: &[&str]) {
    let actor = ["--tenant", "acme", "--user", "ann", "--scope", "pay"];
    let output = explain(&[&actor, arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}{told}");
    for line in lines {
        assert!(text.contains(line) || told.contains(line), "no \"{line}\" in\n{text}{told}");
    }
}

#[test]
fn an_allowed_call_is_told_with_its_claim_and_its_terms() {
    let arguments = r#"{"amount_cents": 500, "tenant_id": "globex", "iban": "DE02"}"#;
    check(
        &["--tool", "pay", "--key", "k1", "--args", arguments],
        0,
        &[
            "caller          tenant acme, user ann",
            "operation   yes [tools.pay] at p/p.toml:2:8",
            "scopes      yes needed: pay",
            "taken out: tenant_id",
            r#"{"amount_cents":500,"iban":"***"}"#,
            "rule        yes args.amount_cents <= 50000",
            "args.amount_cents is 500",
            "key         yes \"k1\"",
            "tool pay, key k1",
            "the app hears Idempotency-Key: acme/pay/k1",
            "ttl: 1d",
            "decision        allowed",
        ],
    );
}

#[test]
fn a_denied_call_is_told_with_the_part_of_the_rule_that_denies_it() {
    let large = r#"{"amount_cents": 60000}"#;
    check(
        &["--tool", "pay", "--key", "k1", "--args", large],
        1,
        &[
            "rule        no",
            "args.amount_cents <= 50000: false",
            "args.amount_cents is 60000",
            "'pay:large' in actor.scopes: false",
            "denied (argument_rule)",
        ],
    );
    let text = r#"{"amount_cents": "500"}"#;
    check(
        &["--tool", "pay", "--key", "k1", "--args", text],
        1,
        &["says nothing, since a text and a number cannot be compared"],
    );
}

#[test]
fn every_denial_is_the_one_of_the_gate() {
    for (arguments, reason) in [
        (vec!["--tool", "pay", "--args", r#"{"amount_cents": 1}"#], "missing_idempotency_key"),
        (vec!["--tool", "other"], "not_in_policy"),
        (vec!["--method", "pay"], "not_in_policy"),
        (
            vec!["--request", "POST /orders/o1/refunds", "--key", "k", "--args", r#"{"amount": 6}"#],
            "argument_rule",
        ),
        (vec!["--request", "GET /orders/o1/refunds"], "method_not_allowed"),
        (vec!["--request", "POST /orders//refunds"], "path_not_normal"),
    ] {
        check(&arguments, 1, &[&format!("denied ({reason})")]);
    }
    check(
        &["--request", "POST /orders/o1/refunds", "--key", "k", "--args", r#"{"amount": 5}"#],
        0,
        &["allowed"],
    );
    check(&["--tool", "look"], 0, &["a read: no key, no claim", "none are needed"]);
}

#[test]
fn a_command_line_that_cannot_be_understood_ends_with_2() {
    for arguments in [
        vec!["--tenant", "t", "--user", "u"],
        vec!["--tool", "pay"],
        vec!["--tenant", "t", "--user", "u", "--tool", "pay", "--method", "m"],
        vec!["--tenant", "t", "--user", "u", "--tool", "pay", "--args", "[1]"],
        vec!["--tenant", "t", "--user", "u", "--request", "orders"],
    ] {
        assert_eq!(explain(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_token_is_judged_as_the_gate_judges_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("secret"), crate::harness::setup::JWT_SECRET).expect("a secret");
    let config = format!(
        "service = \"billing\"\n[auth]\nissuer = \"{ISSUER}\"\naudience = [\"{}\"]\nhs256_secret_file = \"secret\"\nmax_session_age = \"12h\"\n",
        crate::harness::setup::AUDIENCE
    );
    fs::write(folder.path().join("oncegate.toml"), config).expect("a configuration");
    let token = sign(&crate::harness::setup::claims_with(&serde_json::json!({ "scope": "pay" })));
    fs::write(folder.path().join("token"), &token).expect("a token");
    let call = ["--tool", "pay", "--key", "k1", "--args", r#"{"amount_cents": 1}"#, "--json", "--token"];
    let output = explain_in(&folder, &[&call[..], &["@token"]].concat());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["decision"], output.status.code()), (&"allowed".into(), Some(0)), "{told}");
    assert!(told["token_until"].is_u64() || told["token_until"].is_i64(), "{told}");
    let output = explain_in(&folder, &[&call[..], &[&format!("{token}x")]].concat());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["reason"], output.status.code()), (&"invalid_token".into(), Some(1)), "{told}");
}
