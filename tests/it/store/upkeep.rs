//! Schema, text that a database cannot hold, expiry, pruning.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Facts};
use oncegate::domain::ledger::{Draft, Expect, Status};
use oncegate::domain::time::When;
use oncegate::store::{AuditFilter, ClaimFilter, Role, Schema, Store, StoreOptions, Write, open};

use super::samples::{
    Place, applied, completed, draft, event, facts, fresh, id, keys, mismatch, on_every_store, pruned, put,
    row, store_on, told,
};
use crate::harness::in_time;

const PAST: When = When::At(oncegate::domain::time::Timestamp::from_micros(1_700_000_000_000_000));

async fn put_settled(store: &Arc<dyn Store>, key: &str, status: Status, expires_at: When) {
    let next = Draft { status, ..completed(&draft(key), expires_at) };
    put(store, Write { next, ..fresh(key) }).await;
}

#[tokio::test]
async fn eight_that_migrate_at_once_make_one_schema() {
    on_every_store(async |site| {
        let place = Place::on(site).await;
        let first = open(&place.url, StoreOptions::new(Role::Serve)).await.expect("a store");
        if place.url.starts_with("postgres") {
            assert_eq!(first.schema().await.expect("the store answers"), Schema::Missing);
        }
        let migrating: Vec<_> = (0..8)
            .map(|_| {
                let url = place.url.clone();
                tokio::spawn(async move {
                    let store = open(&url, StoreOptions::new(Role::Inspect)).await.expect("a store");
                    store.migrate().await.expect("a schema")
                })
            })
            .collect();
        for migrated in migrating {
            assert_eq!(in_time("a migration", migrated).await.expect("it does not panic"), 2);
        }
        assert_eq!(first.schema().await.expect("the store answers"), Schema::Fits);
        put(&first, fresh("k")).await;
        assert_eq!(first.migrate().await.expect("again"), 2);
        assert_eq!(keys(&first, ClaimFilter::default()).await, ["k"]);
    })
    .await;
}

#[tokio::test]
async fn a_nul_in_text_is_escaped_and_fails_nothing() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let odd = Facts {
            client: Some("a\0b".into()),
            args: Some("{\"x\":\"a\0b\"}".into()),
            tool: "run\0sql".into(),
            ..facts("nul")
        };
        let told_of = AuditEvent { facts: odd.clone(), reason: Some("\0".into()), ..event("nul") };
        store.append(told_of).await.expect("it is written");
        let told = told(&store, "nul").await;
        let kept = &told.first().expect("it was written").event;
        assert_eq!(kept.facts.client.as_deref(), Some("a\\u0000b"));
        assert_eq!(kept.facts.tool, "run\\u0000sql");
        assert_eq!(kept.reason.as_deref(), Some("\\u0000"));

        // The claim keeps its attempt's fields as JSON, which has an escape of its own: nothing is lost.
        let next = Draft { facts: odd.clone(), ..draft("nul") };
        let stored = put(&store, Write { next, ..fresh("nul") }).await;
        assert_eq!(stored.facts, odd);
    })
    .await;
}

#[tokio::test]
async fn a_refused_call_with_an_endless_tool_name_is_written_down() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        // Nothing that a page could compress.
        let name: String = (0..2000).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
        let odd = Facts { tool: name.clone(), idempotency_key: Some(name.clone()), ..facts("x") };
        store.append(AuditEvent { facts: odd, ..event("x") }).await.expect("it is written");
        let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
        let told = store.events(&filter).await.expect("the store answers");
        let kept = &told.first().expect("it was written").event.facts;
        assert!(name.starts_with(kept.tool.trim_end_matches('…')) && kept.tool.len() > 200, "{}", kept.tool);
    })
    .await;
}

#[tokio::test]
async fn an_expired_row_is_seen_as_it_stands_and_claimed_anew_over_its_revision() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put_settled(&store, "k", Status::Completed, PAST).await;
        let old = mismatch(store.swap(fresh("k")).await).expect("it is still there");
        let anew = Write { expect: Expect::Revision(old.revision), ..fresh("k") };
        let now = applied(store.swap(anew.clone()).await);
        assert_eq!(row(&store, &id("k")).await, Some(anew.next.at(now, anew.expect)));
    })
    .await;
}

#[tokio::test]
async fn pruning_takes_what_expired_in_batches_and_nothing_that_is_open() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        for status in Status::ALL {
            put_settled(&store, status.as_str(), status, PAST).await;
        }
        put_settled(&store, "young", Status::Completed, When::In(Duration::from_mins(1))).await;
        put_settled(&store, "ageless", Status::Completed, When::Never).await;
        assert_eq!(pruned(&store, 2).await, 2);
        assert_eq!(pruned(&store, 100).await, 1);
        assert_eq!(pruned(&store, 100).await, 0);
        let mut left = keys(&store, ClaimFilter::default()).await;
        left.sort();
        assert_eq!(left, ["ageless", "in_flight", "unknown", "young"]);
    })
    .await;
}

#[tokio::test]
async fn a_revision_never_comes_back_after_its_row_was_pruned() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put_settled(&store, "k", Status::Completed, PAST).await;
        let old = row(&store, &id("k")).await.expect("it was written");
        // Somebody read the expired row and fell asleep. Meanwhile it is pruned, and another claims and settles.
        pruned(&store, 10).await;
        let new = put(&store, fresh("k")).await;
        let next = completed(&new.redraft(), When::In(Duration::from_hours(1)));
        put(&store, Write { expect: Expect::Revision(new.revision), next, ..fresh("k") }).await;

        let sleeper = Write { expect: Expect::Revision(old.revision), ..fresh("k") };
        let there = mismatch(store.swap(sleeper).await).expect("the new claim");
        assert_eq!(there.status, Status::Completed);
    })
    .await;
}
