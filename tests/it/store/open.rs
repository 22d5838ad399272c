//! How many claims are open, and how old they are: what metrics ask, again and again.

use std::time::Duration;

use oncegate::domain::ledger::{Draft, Status};
use oncegate::domain::time::Timestamp;
use oncegate::store::{OpenClaims, Write};

use super::samples::{fresh, on_every_store, put, store_on};
use crate::harness::setup::Home;

fn made(key: &str, status: Status, at: Timestamp) -> Write {
    let fresh = fresh(key);
    Write { next: Draft { status, created_at: Some(at), ..fresh.next }, ..fresh }
}

#[tokio::test]
async fn open_claims_of_a_service_are_counted_and_the_oldest_is_known() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        assert_eq!(store.open_counts("billing").await.expect("the store answers"), []);
        let now = put(&store, fresh("running")).await.created_at;
        let ago = |minutes| now.minus(Duration::from_mins(minutes));
        for status in Status::ALL {
            put(&store, made(&format!("{}-1", status.as_str()), status, ago(1))).await;
        }
        put(&store, made("old", Status::Unknown, ago(60))).await;
        for service in ["billing:stripe", "support"] {
            let mut other = made("other", Status::Unknown, ago(90));
            other.id.service = service.into();
            put(&store, other).await;
        }
        let found = store.open_counts("billing").await.expect("the store answers");
        let [running, unknown] = <[OpenClaims; 2]>::try_from(found).expect("two states");
        assert_eq!((running.status, running.count), (Status::InFlight, 2));
        assert_eq!((unknown.status, unknown.count), (Status::Unknown, 2));
        let minutes = |open: OpenClaims| open.oldest.as_secs() / 60;
        assert_eq!((minutes(running), minutes(unknown)), (1, 60));
        let theirs = store.open_counts("billing:stripe").await.expect("the store answers");
        assert_eq!(theirs.iter().map(|open| open.count).collect::<Vec<_>>(), [1]);
    })
    .await;
}

#[tokio::test]
async fn sqlite_counts_open_claims_from_an_index() {
    let (_store, place) = store_on(Home::Sqlite).await;
    let file = rusqlite::Connection::open(place.url.trim_start_matches("sqlite:")).expect("the file");
    let sql = include_str!("../../../src/store/sqlite/sql/open_claims.sql");
    let plan: String = file
        .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), ["billing"], |row| row.get("detail"))
        .expect("a plan");
    assert!(plan.contains("USING INDEX idempotency_claims_open"), "{plan}");
}

/// A store that is timed passes on whatever is asked of it: a question that a home answers, and it does not know, would be
/// answered by the trait's own default.
#[test]
fn a_timed_store_knows_every_question() {
    let port = include_str!("../../../src/store/mod.rs");
    let port =
        port.split("pub trait Store").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the trait");
    let timed = include_str!("../../../src/store/timed.rs");
    let names = port.split("fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap_or_default());
    let missing: Vec<_> = names.filter(|name| !timed.contains(&format!("fn {name}("))).collect();
    // The trait says of this one that it is `migrate_telling`, with nobody to tell.
    assert_eq!(missing, ["migrate"]);
}
