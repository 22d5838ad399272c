//! `oncegate audit`: ranges of time, what else can be asked for, and the forms in which rows come.

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};

use super::house::{House, event, facts};
use crate::harness::setup::Home;

#[tokio::test]
async fn a_range_of_time_has_two_ends_that_are_told_as_one_likes() {
    for home in Home::ALL {
        let house = House::on(home).await;
        let store = house.store().await;
        store.append(event(facts("refund_order", "k1"), Decision::Allowed, None)).await.unwrap();
        let keys = |filters: &[&str]| -> Vec<String> {
            let rows = house.lines(&[&["audit", "--json"], filters].concat());
            rows.iter().map(|row| row["idempotency_key"].as_str().unwrap().to_owned()).collect()
        };
        let row = &house.lines(&["audit", "--json"])[0];
        let at: jiff::Timestamp = row["at"].as_str().unwrap().parse().unwrap();
        let (before, after) = (
            (at - jiff::SignedDuration::from_secs(1)).to_string(),
            (at + jiff::SignedDuration::from_secs(1)).to_string(),
        );
        assert_eq!(keys(&["--since", &before, "--until", &after]), ["k1"], "{home:?}");
        assert_eq!(keys(&["--since", &at.to_string()]), ["k1"], "the first moment belongs to it");
        for outside in
            [["--since", &after], ["--until", &before], ["--until", &at.to_string()], ["--until", "1h"]]
        {
            assert_eq!(keys(&outside), [""; 0], "{home:?} {outside:?}");
        }
        assert_eq!(keys(&["--since", "1h", "--until", &after]), ["k1"], "{home:?}");
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_an_attempt_and_what_ran_can_be_asked_for() {
    let house = House::on(Home::Sqlite).await;
    let store = house.store().await;
    let attempt = uuid::Uuid::new_v4();
    let traced =
        Facts { trace_id: Some("4bf9".into()), attempt_id: Some(attempt), ..facts("refund_order", "k1") };
    store.append(event(traced, Decision::Allowed, None)).await.unwrap();
    let lost = event(facts("refund_order", "k2"), Decision::Allowed, Some("outcome_unknown"));
    store.append(AuditEvent { executed: Executed::Maybe, ..lost }).await.unwrap();
    store.close().await;
    for (filter, key) in [
        (["--trace", "4bf9"], "k1"),
        (["--attempt", &attempt.to_string()], "k1"),
        (["--executed", "maybe"], "k2"),
        (["--executed", "yes"], "k1"),
    ] {
        let rows = house.lines(&[&["audit", "--json"][..], &filter].concat());
        assert_eq!(rows.len(), 1, "{filter:?}");
        assert_eq!(rows[0]["idempotency_key"], key, "{filter:?}");
    }
}

#[tokio::test]
async fn a_spreadsheet_gets_every_column_and_computes_none() {
    let house = House::on(Home::Sqlite).await;
    let store = house.store().await;
    let hostile = Facts {
        user_id: "=cmd|' /C calc'!A0".into(),
        session_id: Some("@SUM(1)".into()),
        client: Some("a\u{1b}[2J,\"b\"\r\nc".into()),
        ..facts("refund_order", "-1+1")
    };
    store.append(event(hostile, Decision::Denied, Some("missing_scope"))).await.unwrap();
    store.append(event(facts("refund_order", "k2"), Decision::Allowed, None)).await.unwrap();
    store.close().await;
    let text = house.succeeds(&["audit", "--csv"]);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads: Vec<_> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let json = house.lines(&["audit", "--json"]);
    assert_eq!(heads.len(), json[0].as_object().unwrap().len());
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    let cell =
        |row: usize, name: &str| rows[row][heads.iter().position(|head| head == name).unwrap()].to_owned();
    assert_eq!(cell(0, "user_id"), "'=cmd|' /C calc'!A0");
    assert_eq!(cell(0, "session_id"), "'@SUM(1)");
    assert_eq!(cell(0, "idempotency_key"), "'-1+1");
    assert_eq!(cell(0, "client"), "a\\u{1b}[2J,\"b\"\\u{d}\\u{a}c");
    assert_eq!(cell(1, "args"), r#"{"order_id":"ord_9f2","amount_cents":1200.50}"#, "as it was written");
    assert_eq!(
        (cell(1, "duration_ms"), cell(1, "reason"), cell(1, "executed")),
        ("12".into(), String::new(), "yes".into())
    );
}

#[tokio::test]
async fn whoever_asked_for_an_order_is_found_wherever_its_number_stands() {
    for home in Home::ALL {
        let house = House::on(home).await;
        let store = house.store().await;
        for (user, args) in [
            ("tool", r#"{"order_id":"X-1","amount":5}"#),
            ("number", r#"{"order_id":71,"amount":5}"#),
            ("route", r#"{"path":{"order":"X-1"},"body":{"order_id":"X-1"}}"#),
            ("form", r#"{"body":{"order_id":["X-1","X-2"]}}"#),
            ("inner", r#"{"calls":[{"tool":"refund","arguments":{"order_id":"X-1"}}]}"#),
            ("other", r#"{"order_id":"X-10","note":"X-1"}"#),
        ] {
            let row = Facts { user_id: user.into(), args: Some(args.into()), ..facts("refund_order", user) };
            store.append(event(row, Decision::Allowed, None)).await.unwrap();
        }
        let users = |filters: &[&str]| -> Vec<String> {
            let rows = house.lines(&[&["audit", "--json"], filters].concat());
            rows.iter().map(|row| row["user_id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(users(&["--arg", "order_id=X-1"]), ["tool", "route", "form", "inner"], "{home:?}");
        assert_eq!(users(&["--arg", "order_id=71"]), ["number"]);
        assert_eq!(users(&["--arg", "body.order_id=X-1"]), ["route", "form"]);
        assert_eq!(users(&["--arg", "order=X-1", "--arg", "order_id=X-1"]), ["route"]);
        assert_eq!(users(&["--arg", "order_id=X-1", "--user", "inner"]), ["inner"]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_help_lists_the_settings_that_its_command_looks_at() {
    let house = House::empty();
    for (command, has, has_not) in [
        (&["audit"][..], "--store-url", "--auth-issuer"),
        (&["story"], "--policy-dir", "--auth-issuer"),
        (&["claims", "resolve"], "--policy-dir", "--listen"),
        (&["token"], "--auth-issuer", "--store-url"),
        (&["drain"], "--admin-token-file", "--store-url"),
        (&["serve"], "--limits-connections", "--no-such-flag"),
    ] {
        let long = house.succeeds(&[command, &["--help"]].concat());
        assert!(
            long.contains(&format!("{has} <")) && !long.contains(&format!("{has_not} <")),
            "{command:?}: {long}"
        );
        let short = house.succeeds(&[command, &["-h"]].concat());
        assert!(!short.contains(&format!("{has} <")), "{command:?}: {short}");
        let others = long.contains("`oncegate serve --help` lists them all");
        assert_eq!(others, command != ["serve"], "{command:?}: {long}");
    }
    // All are taken all the same: one environment, one file and one set of flags serve every command.
    house
        .run(&["audit", "--auth-issuer", "https://id.example.com"])
        .status
        .code()
        .filter(|code| *code != 2)
        .unwrap();
}
