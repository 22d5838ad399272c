//! `oncegate prune` and `oncegate migrate`: by hand, whoever leads.

use oncegate::domain::ledger::{Draft, Status};
use oncegate::domain::time::{Timestamp, When};

use super::house::{House, facts, put};

#[tokio::test]
async fn a_dry_run_says_what_would_go_and_a_run_takes_just_that() {
    let house = House::new().await;
    let store = house.store().await;
    for (key, status) in [("old", Status::Completed), ("open", Status::Unknown)] {
        let expired = |draft: &mut Draft| (draft.status, draft.expires_at) = (status, PAST);
        put(&*store, facts("refund_order", key), expired).await;
    }
    store.close().await;

    let told = house.succeeds(&["prune", "--dry-run"]);
    assert_eq!(
        told,
        "1 expired claims would be deleted.\n0 audit rows would be deleted one by one (audit.keep: 400d).\n"
    );
    let told = house.succeeds(&["prune", "--dry-run", "--claims"]);
    assert_eq!(told, "1 expired claims would be deleted.\n");
    assert_eq!(house.succeeds(&["prune", "--audit"]), "0 audit rows were deleted one by one.\n");
    assert_eq!(house.succeeds(&["prune", "--claims"]), "1 expired claims were deleted.\n");
    let told = house.succeeds(&["prune"]);
    assert_eq!(told, "0 expired claims were deleted.\n0 audit rows were deleted one by one.\n");
    assert_eq!(house.lines(&["claims", "list", "--json"]).len(), 1, "what is open stays");
}

const PAST: When = When::At(Timestamp::from_micros(1_700_000_000_000_000));

#[tokio::test]
async fn nothing_is_drawn_where_nobody_watches() {
    let house = House::new().await;
    for arguments in [vec!["migrate"], vec!["prune"]] {
        let output = house.run(&arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(!output.stdout.contains(&b'\r') && !output.stdout.contains(&0x1b), "{output:?}");
    }
}

#[tokio::test]
async fn an_audit_is_never_kept_for_less_than_a_week_by_a_slip_of_the_pen() {
    let house = House::new().await;
    for wrong in ["4d", "400", "never", "0s"] {
        let output = house.run(&["prune", "--audit-keep", wrong]);
        assert_eq!(output.status.code(), Some(78), "{wrong}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("audit.keep"), "{told}");
    }
    let output = house.run(&["migrate", "--audit-floor", "4d"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = house.succeeds(&["prune", "--dry-run", "--audit", "--audit-keep", "forever"]);
    assert_eq!(told, "0 audit rows would be deleted one by one (audit.keep: forever).\n");
}
