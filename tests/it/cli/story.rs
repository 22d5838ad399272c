//! `oncegate story`: a key's life on the terminal.

use std::process::Command;

use oncegate::domain::audit::{Decision, Executed, Facts};
use oncegate::domain::ledger::Status;

use super::check;
use super::house::{House, event, facts, put, settled};
use crate::harness::setup::Home;

async fn with_life(home: Home) -> House {
    let house = House::on(home).await;
    let store = house.store().await;
    put(&*store, facts("refund_order", "k1"), settled(Status::Completed)).await;
    let attempt = Facts {
        attempt_id: Some(uuid::Uuid::new_v4()),
        client: Some("agent/1.0".into()),
        ..facts("refund_order", "k1")
    };
    store.append(event(attempt.clone(), Decision::Allowed, None)).await.unwrap();
    let retry = Facts { session_id: Some("s2".into()), attempt_id: None, ..attempt.clone() };
    store.append(event(retry.clone(), Decision::Replayed, None)).await.unwrap();
    let other = Facts { args: Some(r#"{"order_id":"ord_9f2","amount_cents":7}"#.into()), ..retry };
    let mut refused = event(other, Decision::Denied, Some("idempotency_payload_mismatch"));
    (refused.executed, refused.result_summary, refused.upstream_status) = (Executed::No, None, None);
    store.append(refused).await.unwrap();
    put(&*store, facts("refund_order", "lost"), |_| {}).await;
    store.close().await;
    house
}

#[tokio::test]
async fn a_timeline_says_how_it_stands_and_then_who_sent_what_and_what_came_of_it() {
    for home in Home::ALL {
        let house = with_life(home).await;
        let told = house.succeeds(&["story", "k1"]);
        let lines: Vec<_> = told.lines().map(str::trim).collect();
        assert_eq!(lines[0], "refund_order, key k1, tenant acme, service billing");
        assert_eq!(
            lines[1],
            "It ran. Its answer was not kept: for another 59m59s a retry hears that, and nothing runs again."
        );
        for line in [
            "u1 of acme, session s1, by agent/1.0, over mcp/2026-07-28",
            r#"sent {"order_id":"ord_9f2","amount_cents":1200.50}"#,
            "It ran: the app answered HTTP 200 after 12 ms.",
            r#"result {"refund.id":"re_1"}"#,
            "sent the same",
            "A retry got the first answer again, and came from another session. Nothing ran.",
            "Refused: the key was already used with other arguments. Nothing ran. amount_cents was 1200.50, here it is 7.",
        ] {
            assert!(lines.contains(&line), "{line:?} is not in\n{told}");
        }
        assert!(!told.contains('\u{1b}'), "no colour for a pipe");
        let story = house.lines(&["story", "k1", "--json"]).remove(0);
        assert_eq!(story["claim"]["status"], "completed");
        assert_eq!(story["moments"].as_array().unwrap().len(), 3);
        assert_eq!(story["moments"][0]["sentence"], "It ran: the app answered HTTP 200 after 12 ms.");
        assert_eq!(story["moments"][0]["user_id"], "u1");
        let told = house.succeeds(&["story", "--key", "lost"]);
        assert!(told.contains("\nNobody knows whether it ran, since 0s."), "{told}");
        assert!(told.contains("\n  oncegate claims resolve --key=lost --released --because '…'"), "{told}");
    }
}

#[tokio::test]
async fn a_key_that_nobody_used_is_answered_with_those_like_it_and_another_way_to_search() {
    let house = with_life(Home::Sqlite).await;
    let store = house.store().await;
    put(&*store, facts("refund_order", "refund-4711"), |_| {}).await;
    store.close().await;
    check(
        &house,
        &["story", "refund-4712"],
        1,
        "nobody used the key refund-4712, service billing\nkeys like it, the newest first:\n  refund-4711\n",
    );
    check(&house, &["story", "zzz"], 1, "oncegate audit --arg NAME=VALUE finds calls by what they sent");
    check(
        &house,
        &["story", "k1", "--tenant", "globex"],
        1,
        "nobody used the key k1, tenant globex, service billing",
    );
    let output = house.run(&["story", "zzz", "--json"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}

/// What a terminal of this width gets.
fn on_a_terminal(house: &House, columns: u32, more: &str) -> String {
    let binary = crate::harness::gate::binary();
    let line = format!(
        "stty rows 24 cols {columns}; {more} exec {} story k1",
        binary.get_program().to_str().unwrap()
    );
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(house.path(""))
        .env_remove("NO_COLOR")
        .env_remove("ONCEGATE_TEST_POSTGRES")
        .env("TERM", "xterm");
    let output = command.output().unwrap_or_else(|error| panic!("script (util-linux) is needed: {error}"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_terminal_gets_lines_that_fit_and_colours_unless_they_are_not_wanted() {
    let house = with_life(Home::Sqlite).await;
    let told = on_a_terminal(&house, 60, "");
    assert!(told.contains("\u{1b}[1mrefund_order"), "{told:?}");
    let bare = on_a_terminal(&house, 60, "NO_COLOR=1");
    assert!(!bare.contains('\u{1b}'), "{bare:?}");
    let lines: Vec<_> = bare.lines().map(|line| line.trim_end_matches('\r')).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
    assert!(lines.len() > house.succeeds(&["story", "k1"]).lines().count());
}

#[tokio::test]
async fn a_story_cannot_write_to_the_terminal() {
    let house = House::on(Home::Sqlite).await;
    let store = house.store().await;
    let hostile = "k\u{1b}]0;gotcha\u{7}\u{9b}31m\u{202e}\r\n";
    let row = Facts {
        client: Some(hostile.to_owned()),
        session_id: Some(hostile.to_owned()),
        args: Some(hostile.to_owned()),
        ..facts(hostile, hostile)
    };
    store.append(event(row.clone(), Decision::Denied, Some(hostile))).await.unwrap();
    put(&*store, row, |_| {}).await;
    store.close().await;
    for command in [&["story", hostile][..], &["story", hostile, "--json"]] {
        let text = house.succeeds(command);
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(obeyed) && text.contains("gotcha"), "{text:?}");
    }
}
