//! Questions to a store that are dropped before they are answered.
//!
//! Promises: wherever that happens, what was asked is done whole or not at all, nothing stays locked, the workers and
//! their connections serve whoever comes next, and whoever asks again gets to an end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use oncegate::domain::ledger::Expect;
use oncegate::domain::time::When;
use oncegate::store::{AuditFilter, ClaimFilter, PruneOf, Store, Swap, Write};

use super::samples::{applied, completed, event, fresh, id, keys, on_every_store, row, store_on, told};
use crate::harness::{eventually, in_time};

/// Polls `future` at most so often, then drops it. None where it had not ended by then.
async fn cut<T>(future: impl Future<Output = T>, after: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(move |context| {
        if polls == after {
            return Poll::Ready(None);
        }
        polls += 1;
        let polled = future.as_mut().poll(context).map(Some);
        if polled.is_pending() && polls == after {
            return Poll::Ready(None);
        }
        polled
    })
    .await
}

/// A claim is made, and settled, by somebody who is cut off at each.
async fn check(store: &Arc<dyn Store>, key: &str, after: usize) -> bool {
    let claim = Write { event: Some(event(key)), ..fresh(key) };
    let ended = cut(store.swap(claim.clone()), after).await.is_some();
    // The retry: by the same attempt, as a gate does that did not hear.
    let now = applied(in_time("a retry", store.swap(claim.clone())).await);
    let made = row(store, &id(key)).await.expect("it was written");
    assert_eq!(made, claim.next.at(now, Expect::Absent));

    let next = completed(&made.redraft(), When::In(std::time::Duration::from_hours(1)));
    let expect = Expect::Revision(made.revision);
    let settle = Write { id: id(key), expect, next, event: Some(event(key)) };
    cut(store.swap(settle.clone()), after).await;
    let now = applied(in_time("a retry", store.swap(settle.clone())).await);
    assert_eq!(row(store, &id(key)).await, Some(settle.next.at(now, expect)));
    assert_eq!(told(store, key).await.len(), 2, "each write has its row, and only one");

    cut(store.read(&id(key)), after).await;
    let kept = event(key);
    cut(store.append(kept.clone()), after).await;
    in_time("another row", store.append(event(key))).await.expect("the store answers");
    // Both, or only the one that was waited for: the first was queued before it, if it was polled at all.
    let rows = if after == 0 { 3 } else { 4 };
    eventually("the rows", async || (told(store, key).await.len() == rows).then_some(())).await;
    ended
}

#[tokio::test]
async fn a_question_that_is_dropped_after_any_poll_leaves_nothing_behind() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let mut after = 0;
        while !check(&store, &format!("k{after}"), after).await {
            after += 1;
            assert!(after < 64, "a write that is polled {after} times must end");
        }
        println!("{site:?}: a write ends by itself within {after} polls");
    })
    .await;
}

#[tokio::test]
async fn a_crowd_that_goes_away_leaves_the_store_to_others() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        // Many more than there are connections, at the same few keys, all gone after one poll.
        for n in 0..500 {
            let key = format!("k{}", n % 7);
            cut(store.swap(fresh(&key)), 1).await;
            cut(store.read(&id(&key)), 1).await;
            cut(store.append(event(&key)), 1).await;
        }
        for n in 0..7 {
            let key = format!("k{n}");
            let met = in_time("whoever comes next", store.swap(fresh(&key))).await;
            assert!(matches!(met, Ok(Swap::Mismatch { row: Some(_), .. })), "{met:?}");
        }
        let swap = in_time("another key", store.swap(fresh("other"))).await;
        applied(swap);
    })
    .await;
}

#[tokio::test]
async fn a_list_that_is_dropped_after_any_poll_leaves_its_connection_to_others() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let (claims, events) = (
            ClaimFilter { limit: 10, ..ClaimFilter::default() },
            AuditFilter { limit: 10, ..AuditFilter::default() },
        );
        for n in 0..60 {
            let (key, after) = (format!("k{n}"), 1 + n % 6);
            cut(store.claims(&claims), after).await;
            cut(store.events(&events), after).await;
            cut(store.prune_claims(&PruneOf { batch: 10, from: None }), after).await;
            cut(store.schema(), after).await;
            // Whatever is still on its way on their connections is not taken for the answer to this.
            let write = fresh(&key);
            let now = applied(in_time("a write", store.swap(write.clone())).await);
            assert_eq!(row(&store, &id(&key)).await, Some(write.next.at(now, Expect::Absent)));
        }
        assert_eq!(keys(&store, ClaimFilter::default()).await.len(), 60);
    })
    .await;
}
