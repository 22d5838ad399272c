//! `oncegate audit`, `migrate` and `prune`.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use oncegate::domain::audit::{Decision, Facts};
use oncegate::domain::ledger::Status;
use oncegate::domain::time::When;
use serde_json::json;

use super::house::{House, event, facts, put};

async fn with_rows() -> House {
    let house = House::new().await;
    let store = house.store().await;
    let first = facts("refund_order", "k1");
    for row in [
        event(first.clone(), Decision::Allowed, None),
        event(first.clone(), Decision::Replayed, None),
        event(
            Facts { user_id: "u2".to_owned(), session_id: None, ..first.clone() },
            Decision::Denied,
            Some("missing_scope"),
        ),
        event(
            Facts {
                tenant_id: "other".to_owned(),
                args: Some(r#"{"order_id":"ord_1"}"#.to_owned()),
                ..facts("send_mail", "k2")
            },
            Decision::Allowed,
            None,
        ),
        event(Facts { service: "support".to_owned(), ..first }, Decision::Allowed, None),
    ] {
        store.append(row).await.unwrap();
    }
    store.close().await;
    house
}

#[tokio::test]
async fn every_filter_of_the_audit_must_hold() {
    let house = with_rows().await;
    let check = |filters: &[&str], users: &[&str]| {
        let rows = house.lines(&[&["audit", "--json"], filters].concat());
        let found: Vec<_> = rows.iter().map(|row| row["user_id"].as_str().unwrap()).collect();
        assert_eq!(found, users, "{filters:?}");
    };
    check(&[], &["u1", "u1", "u2", "u1"]);
    check(&["--tenant", "other"], &["u1"]);
    check(&["--tool", "refund_order"], &["u1", "u1", "u2"]);
    check(&["--key", "k2"], &["u1"]);
    check(&["--user", "u2"], &["u2"]);
    check(&["--session", "s1"], &["u1", "u1", "u1"]);
    check(&["--decision", "denied"], &["u2"]);
    check(&["--reason", "missing_scope"], &["u2"]);
    check(&["--arg", "order_id=ord_9f2"], &["u1", "u1", "u2"]);
    check(&["--arg", "order_id=ord_9f2", "--arg", "amount_cents=7"], &[]);
    check(&["--since", "1h"], &["u1", "u1", "u2", "u1"]);
    check(&["--decision", "allowed", "--tool", "refund_order", "--user", "u1"], &["u1"]);
    check(&["--service", "support"], &["u1"]);
}

#[tokio::test]
async fn an_audit_row_in_json_has_every_column_by_its_name() {
    let house = with_rows().await;
    let row = &house.lines(&["audit", "--json", "--decision", "replayed"])[0];
    let names: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "id",
        "at",
        "tenant_id",
        "service",
        "user_id",
        "session_id",
        "tool",
        "decision",
        "reason",
        "args_hash",
        "args",
        "result_summary",
        "idempotency_key",
        "duration_ms",
        "attempt_id",
        "executed",
        "upstream_status",
        "policy_version",
        "trace_id",
        "protocol",
        "client",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(row["idempotency_key"], "k1");
    assert_eq!(row["args_hash"], "0a1b2c3d:00ff");
    assert_eq!(row["args"]["order_id"], "ord_9f2");
    assert_eq!(row["result_summary"], json!({ "refund.id": "re_1" }));
    assert_eq!(row["reason"], json!(null));
    assert_eq!((&row["duration_ms"], &row["upstream_status"]), (&json!(12), &json!(200)));
    let at: jiff::Timestamp = row["at"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(at).as_secs().abs() < 60, "{at}");
    let text = house.succeeds(&["audit", "--json", "--decision", "replayed"]);
    assert!(text.contains("1200.50"), "numbers keep their text: {text}");
}

#[tokio::test]
async fn a_limit_keeps_the_newest_rows_and_says_so() {
    let house = with_rows().await;
    let output = house.run(&["audit", "--limit", "2"]);
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[0].starts_with("AT ") && rows[1].contains(" u2 ") && rows[2].contains(" other "), "{table}");
    assert_eq!(said, "Only the newest 2 rows are shown; --limit shows more.\n");
}

#[tokio::test]
async fn what_somebody_stored_cannot_write_to_the_terminal() {
    let house = House::new().await;
    let store = house.store().await;
    let hostile = "k\u{1b}]0;gotcha\u{7}\u{9b}31m\u{202e}\r\n";
    let row = Facts { client: Some(hostile.to_owned()), ..facts(hostile, hostile) };
    store.append(event(row.clone(), Decision::Denied, Some(hostile))).await.unwrap();
    put(&*store, row, |_| {}).await;
    store.close().await;
    let commands: [&[&str]; 5] = [
        &["audit"],
        &["audit", "--json"],
        &["claims", "list"],
        &["claims", "list", "--json"],
        &["claims", "show", hostile],
    ];
    for command in commands {
        let text = house.succeeds(command);
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(obeyed), "{command:?}: {text:?}");
        assert!(text.contains("gotcha"), "{command:?}: {text}");
    }
    assert_eq!(house.lines(&["audit", "--json"])[0]["tool"], hostile, "a program reads what was stored");
    let output = house.run(&["claims", "show", "\u{1b}[2J"]);
    assert!(!output.stderr.contains(&0x1b));
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_no_failure() {
    let house = House::new().await;
    let store = house.store().await;
    for _ in 0..40 {
        let long = Facts { session_id: Some("x".repeat(4000)), ..facts("refund_order", "k1") };
        store.append(event(long, Decision::Allowed, None)).await.unwrap();
    }
    store.close().await;
    let mut child =
        house.command(&["audit", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[tokio::test]
async fn pruning_deletes_what_has_expired_and_nothing_else() {
    let house = House::new().await;
    let store = house.store().await;
    for key in ["old1", "old2", "old3"] {
        put(&*store, facts("refund_order", key), |draft| {
            draft.status = Status::Completed;
            draft.expires_at = When::NOW;
        })
        .await;
    }
    put(&*store, facts("refund_order", "unknown"), |_| {}).await;
    put(&*store, facts("refund_order", "kept"), |draft| {
        draft.status = Status::Completed;
        draft.expires_at = When::In(Duration::from_hours(1));
    })
    .await;
    store.close().await;
    assert_eq!(house.succeeds(&["prune", "--claims", "--batch", "2"]), "3 expired claims were deleted.\n");
    assert_eq!(house.succeeds(&["prune", "--claims"]), "0 expired claims were deleted.\n");
    assert_eq!(house.lines(&["claims", "list", "--json"]).len(), 2);
}
