//! Compare-and-swap: what is applied, what is returned, what is written down with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::{Claim, Draft, Expect, Status};
use oncegate::domain::time::{Timestamp, When};
use oncegate::store::{ClaimFilter, Store, Swap, Write};

use super::samples::{
    applied, asked_round, completed, draft, event, fresh, id, keys, mismatch, on_every_store, put, row,
    store_on, told,
};
use crate::harness::in_time;

/// What a store does with a draft is what the draft says.
async fn check(store: &Arc<dyn Store>, key: &str, expect: Expect, next: Draft) -> Claim {
    let write = Write { id: id(key), expect, next: next.clone(), event: None };
    let now = applied(store.swap(write).await);
    let stored = row(store, &id(key)).await.expect("it was written");
    assert_eq!(stored, next.at(now, expect));
    stored
}

#[tokio::test]
async fn a_row_reads_back_as_its_draft_says_column_by_column() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let sparse = Draft {
            facts: Facts::default(),
            lease_until: When::Never,
            attempt_until: When::Never,
            first_sent_at: When::Never,
            ..draft("sparse")
        };
        check(&store, "sparse", Expect::Absent, sparse).await;

        let told_before = Timestamp::from_micros(1_700_000_000_123_456);
        let full = Draft {
            status: Status::AwaitingInput,
            round: asked_round(),
            first_sent_at: When::At(told_before),
            response: Some(Bytes::from_static(b"\0\xff{}")),
            created_at: Some(told_before),
            settled_at: When::NOW,
            expires_at: When::In(Duration::from_micros(172_800_000_001)),
            ..draft("full")
        };
        let stored = check(&store, "full", Expect::Absent, full).await;

        for status in Status::ALL {
            let next = Draft { status, response: Some(Bytes::new()), ..draft("status") };
            let key = status.as_str();
            let stored = check(&store, key, Expect::Absent, next).await;
            assert_eq!(stored.response, Some(Bytes::new()), "an empty answer is an answer");
        }

        // Every column again, over a row that has other values.
        let next = Draft { response: None, ..draft("full") };
        check(&store, "full", Expect::Revision(stored.revision), next).await;
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_inserted_over_and_its_row_comes_back() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let stored = put(&store, fresh("k")).await;
        assert_eq!(mismatch(store.swap(fresh("k")).await), Some(stored.clone()));
        assert_eq!(row(&store, &id("k")).await, Some(stored));
    })
    .await;
}

#[tokio::test]
async fn each_part_of_a_name_counts() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put(&store, fresh("k")).await;
        for part in ["tenant", "service", "tool", "key"] {
            let mut other = fresh("k");
            match part {
                "tenant" => other.id.tenant = "Acme".into(),
                "service" => other.id.service = "Billing".into(),
                "tool" => other.id.tool = "Refund_order".into(),
                _ => other.id.key = "K".into(),
            }
            put(&store, other).await;
        }
    })
    .await;
}

#[tokio::test]
async fn only_the_expected_revision_is_written_over() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let first = put(&store, fresh("k")).await;
        let next = completed(&first.redraft(), When::In(Duration::from_hours(1)));
        let write = Write { id: id("k"), expect: Expect::Revision(first.revision), next, event: None };
        let second = put(&store, write.clone()).await;
        assert_eq!(second.revision, first.revision + 1);

        let late = Write { next: draft("k"), ..write };
        for expect in [first.revision, second.revision + 1, -1] {
            let late = Write { expect: Expect::Revision(expect), ..late.clone() };
            assert_eq!(mismatch(store.swap(late).await), Some(second.clone()));
        }
        assert_eq!(row(&store, &id("k")).await, Some(second));

        let gone = Write { id: id("gone"), ..late };
        assert_eq!(mismatch(store.swap(gone).await), None);
    })
    .await;
}

#[tokio::test]
async fn an_event_is_written_with_its_claim_or_not_at_all() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let with_event = || Write { event: Some(event("k")), ..fresh("k") };
        let winner = with_event();
        let now = applied(store.swap(winner.clone()).await);
        mismatch(store.swap(with_event()).await);
        let wrong = Write { expect: Expect::Revision(7), ..with_event() };
        mismatch(store.swap(wrong).await);

        let told = told(&store, "k").await;
        assert_eq!(told.len(), 1);
        assert_eq!(told.first().map(|row| &row.event), winner.event.as_ref());
        assert_eq!(told.first().map(|row| row.at), Some(now));
    })
    .await;
}

#[tokio::test]
async fn of_a_hundred_claims_of_one_name_one_is_applied() {
    on_every_store(async |site| {
        let (store, place) = store_on(site).await;
        // On Postgres two pods race; a file has one.
        let other = if place.url.starts_with("postgres") { place.serve().await } else { Arc::clone(&store) };
        let racing: Vec<_> = (0..100)
            .map(|n| {
                let store = if n % 2 == 0 { Arc::clone(&store) } else { Arc::clone(&other) };
                tokio::spawn(async move {
                    let write = Write { event: Some(event("k")), ..fresh("k") };
                    (write.next.attempt_id, store.swap(write).await.expect("the store answers"))
                })
            })
            .collect();
        let (mut winners, mut seen) = (Vec::new(), BTreeSet::new());
        for racer in racing {
            match in_time("a racer", racer).await.expect("it does not panic") {
                (attempt, Swap::Applied { .. }) => winners.push(attempt),
                (_, Swap::Mismatch { row, .. }) => {
                    seen.insert(row.expect("a loser sees who won").attempt_id);
                }
            }
        }
        assert_eq!(winners.len(), 1);
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), winners);
        assert_eq!(told(&store, "k").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_burst_of_writes_to_one_claim_loses_none() {
    on_every_store(async |site| {
        let (store, place) = store_on(site).await;
        let other = if place.url.starts_with("postgres") { place.serve().await } else { Arc::clone(&store) };
        let first = put(&store, fresh("k")).await;
        let writers: Vec<_> = (0..40)
            .map(|n| {
                let store = if n % 2 == 0 { Arc::clone(&store) } else { Arc::clone(&other) };
                let mut seen = first.clone();
                tokio::spawn(async move {
                    loop {
                        let next = Draft { attempt_id: uuid::Uuid::new_v4(), ..seen.redraft() };
                        let expect = Expect::Revision(seen.revision);
                        match store.swap(Write { id: id("k"), expect, next, event: None }).await {
                            Ok(Swap::Applied { .. }) => break,
                            Ok(Swap::Mismatch { row, .. }) => seen = *row.expect("it is still there"),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            in_time("a writer", writer).await.expect("it does not panic");
        }
        let last = row(&store, &id("k")).await.expect("it is still there");
        assert_eq!(last.revision, first.revision + 40);
    })
    .await;
}

#[tokio::test]
async fn a_burst_of_claims_shares_commits() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let burst: Vec<_> = (0..200)
            .map(|n| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { applied(store.swap(fresh(&format!("k{n}"))).await) })
            })
            .collect();
        // The database's now is one per transaction.
        let mut commits = BTreeSet::new();
        for write in burst {
            commits.insert(in_time("a write", write).await.expect("it does not panic"));
        }
        assert!(commits.len() <= 100, "{} commits for 200 claims", commits.len());
        assert_eq!(keys(&store, ClaimFilter::default()).await.len(), 200);
    })
    .await;
}

#[tokio::test]
async fn a_writer_knows_its_own_write_again() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let insert = Write { event: Some(event("k")), ..fresh("k") };
        let inserted = applied(store.swap(insert.clone()).await);
        assert_eq!(applied(store.swap(insert.clone()).await), inserted);

        let first = row(&store, &id("k")).await.expect("it was written");
        let next = completed(&first.redraft(), When::In(Duration::from_hours(1)));
        let settle =
            Write { id: id("k"), expect: Expect::Revision(first.revision), next, event: Some(event("k")) };
        let settled = applied(store.swap(settle.clone()).await);
        assert_eq!(applied(store.swap(settle.clone()).await), settled);
        let stored = row(&store, &id("k")).await.expect("it was written");
        assert_eq!(stored, settle.next.at(settled, settle.expect));

        // The first write is history now, and its event was not told twice either.
        mismatch(store.swap(insert).await);
        assert_eq!(told(&store, "k").await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn times_are_the_databases() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let here = jiff::Timestamp::now().as_microsecond();
        let first = applied(store.swap(fresh("k")).await);
        let read = store.read(&id("k")).await.expect("the store answers");
        assert!(first <= read.now, "{first:?} {:?}", read.now);
        // Both run on this machine.
        assert!((first.as_micros() - here).abs() < 10_000_000, "{first:?} {here}");
        let stored = read.row.expect("it was written");
        assert_eq!(stored.created_at, first);
        assert_eq!(stored.lease_until, Some(first.plus(Duration::from_mins(1))));
    })
    .await;
}

#[tokio::test]
async fn a_write_whose_asker_went_away_is_still_done() {
    on_every_store(async |site| {
        let (store, place) = store_on(site).await;
        let asking = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                let gone = store.swap(fresh("gone"));
                // Polled once, which queues it, then dropped.
                drop(futures_util::future::select(gone, std::future::ready(())).await);
            }
        });
        asking.await.expect("it does not panic");
        store.close().await;
        assert!(store.swap(fresh("late")).await.is_err());
        let again = place.serve().await;
        assert_eq!(keys(&again, ClaimFilter::default()).await, ["gone"]);
    })
    .await;
}

#[tokio::test]
async fn a_store_that_closes_finishes_what_waits() {
    on_every_store(async |site| {
        let (store, place) = store_on(site).await;
        let waiting: Vec<_> = (0..150)
            .map(|n| {
                let store = Arc::clone(&store);
                let ahead =
                    tokio::task::unconstrained(async move { store.swap(fresh(&format!("k{n}"))).await });
                tokio::spawn(ahead)
            })
            .collect();
        tokio::task::yield_now().await;
        store.close().await;
        store.close().await;
        let mut done = 0;
        for write in waiting {
            done += usize::from(write.await.expect("it does not panic").is_ok());
        }
        assert!(done > 0);
        let again = place.serve().await;
        assert_eq!(keys(&again, ClaimFilter::default()).await.len(), done);
    })
    .await;
}
