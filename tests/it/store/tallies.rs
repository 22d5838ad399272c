//! What the console asks: counts by time, and rows that have a text somewhere, page by page.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::Status;
use oncegate::store::{AuditFilter, ClaimFilter, Counted, Cursor, Store, TallyOf};

use super::samples::{draft, event, facts, fresh, id, keys, on_every_store, put, row, store_on};

const MINUTE: Duration = Duration::from_mins(1);

async fn counted(store: &Arc<dyn Store>, service: &str) -> Counted {
    let of =
        TallyOf { service: service.to_owned(), step: MINUTE, steps: 60, within: Duration::from_secs(10) };
    store.tally(&of).await.expect("the store counts")
}

fn of_service(service: &str, key: &str) -> AuditEvent {
    AuditEvent { facts: Facts { service: service.into(), ..facts(key) }, ..event(key) }
}

#[tokio::test]
async fn rows_are_counted_by_time_and_by_what_came_of_them() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let none = counted(&store, "billing").await;
        assert!(none.tallies.is_empty() && none.now.as_micros() > 0);
        let unknown = |key: &str, reason: &str| AuditEvent {
            reason: Some(reason.into()),
            executed: Executed::Maybe,
            ..event(key)
        };
        let denied = AuditEvent {
            decision: Decision::Denied,
            reason: Some("idempotency_in_flight".into()),
            executed: Executed::Maybe,
            ..event("denied")
        };
        for event in [
            event("one"),
            of_service("billing:stripe", "two"),
            of_service("billings", "foreign"),
            unknown("three", "outcome_unknown"),
            unknown("four", "input_required"),
            denied,
            AuditEvent { decision: Decision::Replayed, ..event("five") },
        ] {
            store.append(event).await.expect("it is written");
        }
        let Counted { tallies, now } = counted(&store, "billing").await;
        let told = |decision, is_unclear| -> u64 {
            let of = |tally: &&oncegate::store::Tally| {
                (tally.decision, tally.is_unclear) == (decision, is_unclear)
            };
            tallies.iter().filter(of).map(|tally| tally.rows).sum()
        };
        assert_eq!(told(Decision::Allowed, false), 3, "the listener's too, and the question: {tallies:?}");
        assert_eq!(told(Decision::Allowed, true), 1, "{tallies:?}");
        assert_eq!(told(Decision::Denied, false), 1, "a refusal is no outcome: {tallies:?}");
        assert_eq!(told(Decision::Replayed, false), 1, "{tallies:?}");
        let step = i64::try_from(MINUTE.as_micros()).expect("it fits");
        for tally in &tallies {
            assert_eq!(tally.from.as_micros() % step, 0, "{tally:?}");
            assert!(now.since(tally.from) < 2 * MINUTE && tally.from <= now, "{tally:?} at {now:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_text_is_found_wherever_it_stands_in_a_row() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let mut one = event("key-one");
        one.facts.args = Some(r#"{"order_id":"ord_\"9f2\"","note":"50%_off"}"#.into());
        one.facts.user_id = "alice".into();
        let two = AuditEvent { reason: Some("missing_scope".into()), ..event("key-two") };
        for event in [&one, &two] {
            store.append(event.clone()).await.expect("it is written");
        }
        for (text, expected) in [
            ("key-", vec!["key-one", "key-two"]),
            ("ord_\"9", vec!["key-one"]),
            ("50%_", vec!["key-one"]),
            ("lic", vec!["key-one"]),
            ("scope", vec!["key-two"]),
            ("re_1", vec!["key-one", "key-two"]),
            (&two.id.to_string(), vec!["key-two"]),
            ("ord_9f3", vec![]),
        ] {
            let filter = AuditFilter {
                text: Some(text.to_owned()),
                within: Some(Duration::from_secs(10)),
                limit: 10,
                ..AuditFilter::default()
            };
            let found = store.events(&filter).await.expect("the store answers");
            let found: Vec<_> =
                found.iter().filter_map(|row| row.event.facts.idempotency_key.as_deref()).collect();
            assert_eq!(found, expected, "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn rows_are_paged_through_without_losing_or_repeating_one() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let events: Vec<_> = (0..7).map(|number| event(&format!("k{number}"))).collect();
        // One statement: all of one time, so that only their ids tell them apart.
        store.append_all(events).await.expect("they are written");
        let mut filter = AuditFilter { limit: 3, ..AuditFilter::default() };
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = store.events(&filter).await.expect("the store answers");
            let Some(oldest) = page.first() else { break };
            filter.before = Some(oldest.cursor());
            seen.extend(page.iter().rev().filter_map(|row| row.event.facts.idempotency_key.clone()));
        }
        assert_eq!(seen, ["k6", "k5", "k4", "k3", "k2", "k1", "k0"]);
        let all = AuditFilter { limit: 10, ..AuditFilter::default() };
        let at = store.events(&all).await.expect("the store answers").last().expect("there are rows").at;
        let count = async |filter: AuditFilter| store.events(&filter).await.expect("it answers").len();
        assert_eq!(count(AuditFilter { before: Some(Cursor::before(at)), ..all.clone() }).await, 0);
        assert_eq!(count(AuditFilter { from: Some(at), ..all.clone() }).await, 7);
        assert_eq!(count(AuditFilter { from: Some(at.plus(MINUTE)), ..all }).await, 0);
    })
    .await;
}

#[tokio::test]
async fn claims_that_wait_longest_can_come_first() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put(&store, fresh("old")).await;
        let mut new = fresh("new");
        new.next = draft("new");
        let made = row(&store, &id("old")).await.expect("it was written").created_at;
        new.next.created_at = Some(made.plus(Duration::from_millis(5)));
        put(&store, new).await;
        let filter = ClaimFilter { status: Some(Status::InFlight), oldest_first: true, ..Default::default() };
        assert_eq!(keys(&store, filter.clone()).await, ["old", "new"]);
        assert_eq!(keys(&store, ClaimFilter { oldest_first: false, ..filter }).await, ["new", "old"]);
    })
    .await;
}
