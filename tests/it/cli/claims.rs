//! `oncegate claims`: looked at, and settled by hand.

use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::answer::{Kept, Kind};
use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::Status;
use oncegate::domain::time::When;
use serde_json::{Value, json};

use super::check;
use super::house::{House, facts, put, settled};

const RESOLVE: [&str; 2] = ["claims", "resolve"];
const BECAUSE: [&str; 2] = ["--because", "the bank says so; card 4111 1111 1111 1111"];

fn resolve<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&RESOLVE[..], &[key], &BECAUSE, more].concat()
}

async fn with_claims() -> House {
    let house = House::new().await;
    let store = house.store().await;
    put(&*store, facts("refund_order", "unknown"), |_| {}).await;
    put(&*store, facts("refund_order", "running"), |draft| {
        draft.attempt_until = When::In(Duration::from_mins(5));
    })
    .await;
    put(&*store, facts("refund_order", "owned"), |draft| {
        draft.status = Status::InFlight;
        draft.lease_until = When::In(Duration::from_mins(5));
    })
    .await;
    put(&*store, facts("refund_order", "dead"), |draft| {
        draft.status = Status::InFlight;
        draft.lease_until = When::NOW;
    })
    .await;
    put(&*store, facts("refund_order", "done"), |draft| {
        settled(Status::Completed)(draft);
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = Bytes::from_static(br#"{"refund":{"amount":1.50}}"#);
        draft.response = Some(Kept { kind: Kind::Result, status: 200, headers, body }.encode());
    })
    .await;
    put(
        &*store,
        Facts { tenant_id: "other".to_owned(), user_id: "u2".to_owned(), ..facts("send_mail", "done") },
        settled(Status::Failed),
    )
    .await;
    put(&*store, facts("gone_tool", "orphan"), |_| {}).await;
    store.close().await;
    house
}

fn shown(house: &House, key: &str) -> Value {
    house.lines(&["claims", "show", key, "--json"]).remove(0)
}

#[tokio::test]
async fn every_filter_of_the_list_must_hold_and_the_newest_come_first() {
    let house = with_claims().await;
    let check = |filters: &[&str], keys: &[&str]| {
        let rows = house.lines(&[&["claims", "list", "--json"], filters].concat());
        let found: Vec<_> = rows.iter().map(|row| row["idempotency_key"].as_str().unwrap()).collect();
        assert_eq!(found, keys, "{filters:?}");
    };
    check(&[], &["orphan", "done", "done", "dead", "owned", "running", "unknown"]);
    check(&["--status", "unknown"], &["orphan", "running", "unknown"]);
    check(&["--tenant", "other"], &["done"]);
    check(&["--tool", "gone_tool"], &["orphan"]);
    check(&["--user", "u2"], &["done"]);
    check(&["--key", "done", "--status", "completed"], &["done"]);
    check(&["--service", "support"], &[]);
    check(&["--limit", "1"], &["orphan"]);
    let table = house.succeeds(&["claims", "list", "--key", "done"]);
    let words: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(words, ["CREATED", "TENANT", "USER", "TOOL", "KEY", "STATUS", "FOR", "NEXT"]);
    assert_eq!(table.lines().count(), 3);
}

#[tokio::test]
async fn a_claim_is_shown_with_its_answer_and_its_audit_rows() {
    let house = with_claims().await;
    check(
        &house,
        &["claims", "show", "nothing", "--tool", "refund_order"],
        1,
        "there is no such claim: key nothing; any tenant, service billing, tool refund_order; claims list shows",
    );
    for (tenant, tool, status) in [("acme", "refund_order", "completed"), ("other", "send_mail", "failed")] {
        let named = format!("\n  --tenant={tenant} --service=billing --tool={tool}   # {status}\n");
        check(&house, &["claims", "show", "done"], 1, &named);
    }
    let claim = &house.lines(&["claims", "show", "--key", "done", "--tenant", "acme", "--json"])[0];
    assert_eq!(claim["status"], "completed");
    assert_eq!(claim["attempt"]["args"]["order_id"], "ord_9f2");
    assert_eq!(claim["response"]["body"], json!({ "refund": { "amount": 1.5 } }));
    assert_eq!(claim["response"]["headers"], json!({ "content-type": "application/json" }));
    house.succeeds(&resolve("unknown", &["--released"]));
    let sheet = house.succeeds(&["claims", "show", "unknown"]);
    assert!(sheet.contains("\nstatus ") && sheet.contains("resolved_released"), "{sheet}");
}

#[tokio::test]
async fn a_list_says_what_is_next_and_a_sheet_what_to_do() {
    let house = with_claims().await;
    let store = house.store().await;
    let heard =
        |tool: &str, key: &str, by: &str| Facts { forwarded_key: Some(by.to_owned()), ..facts(tool, key) };
    put(&*store, heard("charge_card", "charge", "acme/charge_card/charge"), |_| {}).await;
    put(&*store, heard("charge_card", "before", "another-template/before"), |_| {}).await;
    put(&*store, facts("asked_tool", "observed"), |_| {}).await;
    put(&*store, heard("asked_tool", "it's asked", "it's asked"), |draft| {
        draft.lease_until = When::In(Duration::from_secs(7 * 60 + 30));
    })
    .await;
    store.close().await;
    let asked = "[tools.asked_tool]\neffect = \"mutation\"\nscopes = [\"s\"]\nreconcile = { get = \"/asked/{key}\", completed = { a = 1 } }\n";
    house.write("policies/asked.toml", asked);
    let list = house.succeeds(&["claims", "list"]);
    let line = |key: &str| list.lines().find(|line| line.contains(&format!(" {key} "))).unwrap().to_owned();
    for (key, next) in [
        ("orphan", "look, then claims resolve"),
        ("charge", "a retry may run it again"),
        ("before", "look, then claims resolve"),
        ("observed", "look, then claims resolve"),
        ("it's asked", "GET /asked/{key} is asked in 7m2"),
        ("owned", "runs; lease for 4m5"),
        ("dead", "its gate is gone: becomes unknown soon"),
    ] {
        assert!(line(key).contains(next), "{key}: {list}");
    }
    let sheet = house.succeeds(&["claims", "show", "it's asked"]);
    assert!(sheet.contains("The app is asked (GET /asked/{key})"), "{sheet}");
    assert!(sheet.contains(r"claims resolve --key='it'\''s asked' --released --because '…'    #"), "{sheet}");
    let sheet = house.succeeds(&["claims", "show", "running"]);
    assert!(
        sheet.contains("Nobody asks the app") && sheet.contains("--released is refused until then"),
        "{sheet}"
    );
    assert!(!house.succeeds(&["claims", "show", "owned"]).contains("Nobody knows"));
}

/// The commands that a sheet ends with, as a shell takes them.
fn offered(house: &House, which: &[&str], user: Option<&str>) -> Vec<String> {
    let mut command = house.command(&[&["claims", "show"], which].concat());
    command.env_remove("USER").envs(user.map(|user| ("USER", user)));
    let sheet = String::from_utf8(command.output().unwrap().stdout).unwrap();
    sheet.lines().filter_map(|line| Some(line.strip_prefix("  oncegate ")?.to_owned())).collect()
}

#[tokio::test]
async fn what_a_sheet_offers_can_be_pasted() {
    let house = with_claims().await;
    let store = house.store().await;
    let odd = "-it's \"$HOME\"";
    for tenant in ["acme", "other"] {
        let tenant_id = tenant.to_owned();
        put(&*store, Facts { tenant_id, ..facts("refund_order", odd) }, |_| {}).await;
    }
    put(&*store, facts("refund_order", "-dash-key"), |_| {}).await;
    store.close().await;
    for (which, user) in [
        (&["--key", "-dash-key"][..], Some("ann")),
        (&["--key", odd, "--tenant", "other"], None),
        (&["--tenant", "acme", "--", odd], Some("")),
    ] {
        let offered = offered(&house, which, user);
        assert_eq!(offered.len(), 2, "{which:?}");
        let mut shell = std::process::Command::new("sh");
        let line = format!("exec \"$0\" {}", offered[1]);
        shell.args(["-c", &line]).arg(crate::harness::gate::binary().get_program());
        shell
            .env_remove("ONCEGATE_TEST_POSTGRES")
            .current_dir(house.path(""))
            .env_remove("USER")
            .envs(user.map(|user| ("USER", user)));
        let output = shell.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
    }
    let released = house.lines(&["claims", "list", "--status", "failed", "--tool", "refund_order", "--json"]);
    let released: Vec<_> = released.iter().map(|row| row["tenant_id"].clone()).collect();
    assert_eq!(released, ["acme", "other", "acme"]);
}

#[tokio::test]
async fn whoever_resolves_a_claim_says_who_it_is() {
    let house = with_claims().await;
    for user in [None, Some(""), Some(" ")] {
        let mut command = house.command(&resolve("unknown", &["--released"]));
        command.env_remove("USER").envs(user.map(|user| ("USER", user)));
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert_eq!(errors, "say who you are: --operator NAME (USER is not set)\n");
    }
    assert_eq!(shown(&house, "unknown")["status"], "unknown");
}

#[tokio::test]
async fn an_answer_that_somebody_found_is_kept_as_a_client_can_read_it() {
    let house = with_claims().await;
    house.write("answer.json", r#"{"id":9007199254740993,"card":"x"}"#);
    house.succeeds(&resolve("unknown", &["--completed", "--response", "answer.json"]));
    let body = &shown(&house, "unknown")["response"]["body"];
    assert_eq!(body["structuredContent"].to_string(), r#"{"card":"***","id":9007199254740993}"#);
    let text = r#"{"id":9007199254740993,"card":"***"}"#;
    assert_eq!(body["content"], json!([{ "type": "text", "text": text }]));
    house.write("answer.json", r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    check(
        &house,
        &resolve("running", &["--completed", "--response", "answer.json"]),
        1,
        "answer.json holds a whole JSON-RPC message; give the object in its `result`",
    );
}

#[tokio::test]
async fn a_released_claim_may_try_again_and_the_audit_says_who_said_so_and_why() {
    let house = with_claims().await;
    assert_eq!(
        house.succeeds(&resolve("unknown", &["--released"])),
        "The claim is released: the same key may try again.\n"
    );
    assert_eq!(shown(&house, "unknown")["status"], "failed");
    let rows = house.lines(&["audit", "--json"]);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (&row["reason"], &row["executed"], &row["decision"]),
        (&json!("resolved_released"), &json!("no"), &json!("allowed"))
    );
    assert_eq!(row["args"], json!({ "operator": "ann", "because": "the bank says so; card ***" }));
    assert_eq!(
        (&row["tenant_id"], &row["tool"], &row["idempotency_key"]),
        (&json!("acme"), &json!("refund_order"), &json!("unknown"))
    );
    assert_eq!(row["attempt_id"], shown(&house, "unknown")["attempt_id"]);
    check(&house, &resolve("unknown", &["--released"]), 1, "the claim is failed, not unknown");
}

#[tokio::test]
async fn a_claim_whose_attempt_may_still_run_is_released_only_by_force() {
    let house = with_claims().await;
    check(
        &house,
        &resolve("running", &["--released"]),
        1,
        " s; wait, or release it with --force: a retry may then run it twice",
    );
    check(
        &house,
        &resolve("owned", &["--released", "--force"]),
        1,
        "the claim is in flight, and its lease holds",
    );
    check(&house, &resolve("running", &["--completed", "--force"]), 2, "cannot be used with");
    assert!(house.lines(&["audit", "--json"]).is_empty(), "nothing was done, nothing is told");
    house.succeeds(&resolve("running", &["--released", "--force", "--operator", "bob"]));
    let row = &house.lines(&["audit", "--json"])[0];
    assert_eq!((&row["args"]["operator"], &row["args"]["forced"]), (&json!("bob"), &json!(true)));
}

#[tokio::test]
async fn a_completed_claim_keeps_the_answer_that_somebody_found() {
    let house = with_claims().await;
    house.write("answer.json", r#"{"content":[],"structuredContent":{"id":9007199254740993,"card":"x"}}"#);
    assert_eq!(
        house.succeeds(&resolve("unknown", &["--completed", "--response", "answer.json"])),
        "The claim is completed: retries get this answer.\n"
    );
    let claim = shown(&house, "unknown");
    assert_eq!(claim["status"], "completed");
    assert_eq!(claim["response"]["body"]["structuredContent"]["id"].to_string(), "9007199254740993");
    assert_eq!(
        claim["response"]["body"]["structuredContent"]["card"], "***",
        "the policy's paths are masked"
    );
    let at = |name: &str| claim[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let kept_for = at("expires_at").duration_since(at("settled_at"));
    assert_eq!(kept_for.as_secs(), 24 * 3600, "the operation's ttl");
    house.succeeds(&resolve("running", &["--completed", "--ttl", "90s"]));
    assert_eq!(shown(&house, "running")["response"], json!(null));
    let reasons: Vec<_> = house.lines(&["audit", "--json"]).iter().map(|row| row["reason"].clone()).collect();
    assert_eq!(reasons, ["resolved_completed", "resolved_completed"]);
}

#[tokio::test]
async fn an_answer_that_may_not_be_kept_is_refused() {
    let house = with_claims().await;
    for (text, says) in [
        ("{", "is not JSON"),
        ("[]", "does not hold a JSON object"),
        (r#"{"a":1,"a":2}"#, "is not JSON"),
        (r#"{"note":"card 4111 1111 1111 1111"}"#, "holds what looks like a secret"),
    ] {
        house.write("answer.json", text);
        check(&house, &resolve("unknown", &["--completed", "--response", "answer.json"]), 1, says);
    }
    house.write("answer.json", &format!("{}{{}}", " ".repeat(1 << 20)));
    check(
        &house,
        &resolve("unknown", &["--completed", "--response", "answer.json"]),
        1,
        "is larger than 1 MiB",
    );
    check(&house, &resolve("unknown", &["--completed", "--response", "none.json"]), 1, "cannot be read");
    assert_eq!(shown(&house, "unknown")["status"], "unknown");
}

#[tokio::test]
async fn an_owner_that_died_gets_its_own_row_before_its_claim_is_resolved() {
    let house = with_claims().await;
    house.succeeds(&resolve("dead", &["--completed"]));
    let rows = house.lines(&["audit", "--json"]);
    let told: Vec<_> =
        rows.iter().map(|row| (row["reason"].as_str().unwrap(), row["executed"].as_str().unwrap())).collect();
    assert_eq!(told, [("abandoned", "maybe"), ("resolved_completed", "yes")]);
    assert_eq!(rows[0]["args"]["order_id"], "ord_9f2");
    assert_eq!(rows[0]["session_id"], "s1");
}

#[tokio::test]
async fn an_operation_that_left_the_policy_needs_a_ttl() {
    let house = with_claims().await;
    check(
        &house,
        &resolve("orphan", &["--released"]),
        1,
        "the policy has no mutation `gone_tool` any more; name a --ttl",
    );
    house.succeeds(&resolve("orphan", &["--released", "--ttl", "1h"]));
    let house = with_claims().await;
    std::fs::remove_dir_all(house.path("policies")).unwrap();
    check(&house, &resolve("unknown", &["--released"]), 78, "policies");
    house.succeeds(&resolve("unknown", &["--released", "--ttl", "1h"]));
}
