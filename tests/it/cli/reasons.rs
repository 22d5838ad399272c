//! `oncegate audit --reason`: a word that nothing writes is told from a word that nothing was written with.

use oncegate::domain::audit::Decision;

use super::house::{House, event, facts};

/// What is said on standard error of a listing by this reason; it must end well.
fn said(house: &House, reason: &str) -> String {
    let output = house.run(&["audit", "--reason", reason]);
    assert!(output.status.success(), "{reason}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn an_unknown_reason_that_no_row_has_is_answered_with_the_nearest_known_one() {
    let house = House::new().await;
    for (slip, meant) in [
        ("missing_scopes", "missing_scope"),
        ("would_missing_scopes", "would_missing_scope"),
        ("would_replayed", "would_replay"),
        ("outcome-unknown", "outcome_unknown"),
    ] {
        let told = said(&house, slip);
        let says = format!("\"{slip}\" is no reason of the gate's own; did you mean \"{meant}\"?");
        assert!(told.contains(&says) && told.contains("docs/answers.md"), "{told}");
    }
    let told = said(&house, "zzz");
    assert!(told.contains("\"zzz\" is no reason") && !told.contains("mean"), "{told}");
}

#[tokio::test]
async fn a_word_that_is_known_or_that_a_row_has_is_left_alone() {
    let house = House::new().await;
    let store = house.store().await;
    let row = event(facts("get_invoice", "k1"), Decision::Allowed, Some("not_found_or_foreign"));
    store.append(row).await.unwrap();
    store.close().await;
    for reason in ["missing_scope", "would_missing_scope", "would_replay", "late_answer"] {
        assert_eq!(said(&house, reason), "No row was found.\n", "{reason}");
    }
    assert_eq!(said(&house, "not_found_or_foreign"), "");
}
