//! What is particular to one file.

use oncegate::domain::ledger::Expect;
use oncegate::domain::time::When;
use oncegate::store::{ClaimFilter, Role, Schema, StoreError, StoreOptions, Write, open};

use super::samples::{Place, completed, fresh, keys, put, row};
use crate::harness::setup::Home;

async fn refusal(url: &str, role: Role) -> String {
    match open(url, StoreOptions::new(role)).await {
        Err(StoreError::Unfit(told)) => told,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{url} was opened"),
    }
}

#[tokio::test]
async fn a_second_serving_process_is_refused_and_a_third_has_the_file_once_it_is_closed() {
    let place = Place::on(Home::Sqlite).await;
    let store = place.serve().await;
    put(&store, fresh("k")).await;
    let told = refusal(&place.url, Role::Serve).await;
    assert!(told.contains("another process serves"), "{told}");
    store.close().await;
    let again = place.serve().await;
    assert_eq!(keys(&again, ClaimFilter::default()).await, ["k"]);
}

#[cfg(unix)]
#[tokio::test]
async fn one_process_serves_a_file_though_its_name_is_a_link_to_where_nothing_was() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, link) = (folder.path().join("file.db"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let [url, link] = [&file, &link].map(|path| format!("sqlite:{}", path.display()));
    refusal(&link, Role::Inspect).await;
    assert!(!file.exists(), "who only looks makes nothing");
    let store = open(&link, StoreOptions::new(Role::Serve)).await.expect("a store");
    for name in [&link, &url] {
        let told = refusal(name, Role::Serve).await;
        assert!(told.contains("another process serves"), "{told}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_dropped_store_hands_its_file_over_with_every_row() {
    let place = Place::on(Home::Sqlite).await;
    for n in 0..3 {
        let store = place.serve().await;
        assert_eq!(keys(&store, ClaimFilter::default()).await.len(), n);
        put(&store, fresh(&format!("k{n}"))).await;
        drop(store);
    }
}

#[tokio::test]
async fn somebody_may_look_and_settle_a_claim_beside_the_serving_process() {
    let place = Place::on(Home::Sqlite).await;
    let serving = place.serve().await;
    let first = put(&serving, fresh("k")).await;
    let beside = open(&place.url, StoreOptions::new(Role::Inspect)).await.expect("a second view");
    assert_eq!(beside.schema().await.expect("the store answers"), Schema::Fits);
    assert_eq!(row(&beside, &super::samples::id("k")).await.as_ref(), Some(&first));
    let next = completed(&first.redraft(), When::Never);
    let settled = put(&beside, Write { expect: Expect::Revision(first.revision), next, ..fresh("k") }).await;
    assert_eq!(row(&serving, &super::samples::id("k")).await, Some(settled));
}

#[tokio::test]
async fn a_place_that_cannot_hold_a_ledger_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    for url in ["sqlite:", "sqlite::memory:"] {
        assert!(refusal(url, Role::Serve).await.contains("vanishes"));
    }
    assert!(refusal(&at("no/such/folder.db"), Role::Serve).await.contains("folder.db"));
    assert!(refusal(&at("missing.db"), Role::Inspect).await.contains("missing.db"));
    std::fs::write(folder.path().join("text.db"), "this is no database, however long it is: ".repeat(99))
        .unwrap();
    assert!(refusal(&at("text.db"), Role::Serve).await.contains("text.db"));
    assert!(refusal("mysql://root@db/x", Role::Serve).await.contains("postgres://"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::on(Home::Sqlite).await;
    let store = place.serve().await;
    put(&store, fresh("k")).await;
    let path = place.url.strip_prefix("sqlite:").expect("a path");
    for end in ["", "-wal", "-shm", ".lock"] {
        let mode = std::fs::metadata(format!("{path}{end}")).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{end} {mode:o}");
    }
}
