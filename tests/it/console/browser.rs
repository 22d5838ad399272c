//! The console in a real browser: a person signs in, looks about and finds out, at a desk and on a phone.
//!
//! Promises: on no page anything runs, loads from elsewhere, or is wider than the window; nobody is shut out who sees badly
//! or has no mouse. `target/console` has a picture of every page.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::shop::Shop;
use super::{gate, place};
use crate::clients::install;
use crate::harness::gate::{ADMIN_TOKEN, Gate};

/// Goes one way through the console of a gate.
async fn walk(gate: &Gate, way: &str, more: Value) {
    install().await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shots = root.join("target/console");
    std::fs::create_dir_all(&shots).expect("a folder for the pictures");
    let mut told = json!({ "way": way, "url": place(gate), "token": ADMIN_TOKEN, "shots": shots });
    for (name, value) in more.as_object().expect("an object") {
        told[name] = value.clone();
    }
    let mut command = tokio::process::Command::new("node");
    command.arg(root.join("tests/clients/browser/walk.cjs")).arg(told.to_string());
    // The packages are beside the other clients', not beside the script.
    command.env("NODE_PATH", root.join(".parts/clients/browser/node_modules")).kill_on_drop(true);
    let walked = command.output().await.expect("node (`tests/clients/install` says how to get it)");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        walked.status.success(),
        "{way} (a missing Chromium is installed by `tests/parts`):\n{}{}",
        said(&walked.stdout),
        said(&walked.stderr)
    );
}

/// Where a picture of every kind of page can be had.
fn pages(row: &str) -> Value {
    json!([
        ["overview", "/"],
        ["overview-week", "/?range=7d"],
        ["search", "/console/search?q=ord_9f2"],
        ["search-all", "/console/search?since=all"],
        ["search-nothing", "/console/search?q=there_is_no_such_thing&user=nobody"],
        ["story", "/console/story?key=rfnd-7781-a&tenant=acme&service=billing&tool=refund_order"],
        ["story-nothing", "/console/story?key=no-such-key"],
        ["row", row],
        ["policy", "/console/policy"],
    ])
}

#[tokio::test]
async fn a_person_signs_in_and_out_and_nothing_else_opens_the_door() {
    let gate = gate().await;
    walk(&gate, "door", json!({})).await;
    assert!(!gate.logged().contains(ADMIN_TOKEN));
}

#[tokio::test]
async fn a_session_ends_with_the_process_that_knows_it() {
    let mut gate = gate().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state: PathBuf = folder.path().join("state.json");
    walk(&gate, "stay", json!({ "state": state })).await;
    assert_eq!(gate.stop().await, Some(0));
    gate.restart().await;
    walk(&gate, "return", json!({ "state": state })).await;
}

async fn is_readable(size: &str, scheme: &str) {
    let gate = gate().await;
    Shop::beside(&gate).await.open_for_a_week().await;
    let row = super::a_row(&gate, "rfnd-7781-a").await;
    walk(&gate, "looks", json!({ "pages": pages(&row), "size": size, "scheme": scheme })).await;
}

#[tokio::test]
async fn every_page_is_readable_at_a_desk_by_day() {
    is_readable("desktop", "light").await;
}

#[tokio::test]
async fn every_page_is_readable_at_a_desk_by_night() {
    is_readable("desktop", "dark").await;
}

#[tokio::test]
async fn every_page_is_readable_on_a_phone_by_day() {
    is_readable("phone", "light").await;
}

#[tokio::test]
async fn every_page_is_readable_on_a_phone_by_night() {
    is_readable("phone", "dark").await;
}

#[tokio::test]
async fn whoever_never_saw_it_finds_who_asked_by_keyboard_and_without_scripts() {
    let gate = gate().await;
    Shop::beside(&gate).await.open_for_a_week().await;
    walk(&gate, "night", json!({})).await;
}

#[tokio::test]
async fn what_strangers_write_is_only_ever_text() {
    let gate = gate().await;
    let texts = [
        "<script>window.ran=1</script>".to_owned(),
        "\"><img src=x onerror=window.ran=1>".to_owned(),
        "'; alert(1); //".to_owned(),
        "</title></style><script>window.ran=1</script>".to_owned(),
        "<svg onload=window.ran=1><a href=javascript:window.ran=1>".to_owned(),
        "javascript:window.ran=1".to_owned(),
        "https://evil.example/?a=b&c=d#e".to_owned(),
        "\u{202e}drawkcab\u{2066} \u{200b}\u{ad}\u{feff}".to_owned(),
        "\u{1}\u{8}\u{1b}[31mred\r\n\t\u{7f}\u{85}".to_owned(),
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{645}\u{631}\u{62d}\u{628}\u{627} 123".to_owned(),
        "a".repeat(240),
        "\u{1f600}e\u{301}\u{301}\u{301}\u{301} %00 &amp; &lt;b&gt; {{7*7}} ${7*7}".to_owned(),
        "../../drain?x=/../".to_owned(),
    ];
    Shop::beside(&gate).await.let_strangers_write(&texts).await;
    let pages = json!([
        ["overview", "/"],
        ["search", "/console/search?since=all"],
        [
            "box",
            "/console/search?q=%3Cscript%3Ewindow.ran%3D1%3C%2Fscript%3E%22%27&user=%22%3E%3Cb%3E&since=all"
        ]
    ]);
    walk(&gate, "hostile", json!({ "pages": pages })).await;
}
