//! What people and metrics ask: claims, audit rows, twins.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{Draft, Status};
use oncegate::domain::time::{Timestamp, When};
use oncegate::store::{AuditFilter, ClaimFilter, Cursor, Store, TwinOf, Write};

use super::samples::{completed, draft, event, facts, fresh, id, keys, on_every_store, put, row, store_on};
use crate::harness::in_time;

async fn check_claims(store: &Arc<dyn Store>, filter: ClaimFilter, expected: &[&str]) {
    assert_eq!(keys(store, filter.clone()).await, expected, "{filter:?}");
}

#[tokio::test]
async fn claims_are_listed_newest_first_by_every_filter() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put(&store, fresh("one")).await;
        let mut two = fresh("two");
        two.id.tenant = "globex".into();
        two.id.service = "support".into();
        two.id.tool = "close_ticket".into();
        two.next = Draft { user: "u2".into(), status: Status::Unknown, ..two.next };
        // The later, whatever the clock's grain: its time is one that was told.
        let later =
            row(&store, &id("one")).await.expect("it was written").created_at.plus(Duration::from_millis(5));
        two.next.created_at = Some(later);
        put(&store, two).await;

        check_claims(&store, ClaimFilter::default(), &["two", "one"]).await;
        let text = |text: &str| Some(text.to_owned());
        let by = ClaimFilter::default;
        check_claims(&store, ClaimFilter { tenant: text("acme"), ..by() }, &["one"]).await;
        check_claims(&store, ClaimFilter { service: text("support"), ..by() }, &["two"]).await;
        check_claims(&store, ClaimFilter { tool: text("refund_order"), ..by() }, &["one"]).await;
        check_claims(&store, ClaimFilter { key: text("two"), ..by() }, &["two"]).await;
        check_claims(&store, ClaimFilter { user: text("u2"), ..by() }, &["two"]).await;
        check_claims(&store, ClaimFilter { status: Some(Status::InFlight), ..by() }, &["one"]).await;
        check_claims(&store, ClaimFilter { status: Some(Status::Failed), ..by() }, &[]).await;
        check_claims(&store, ClaimFilter { tenant: text("acme"), user: text("u2"), ..by() }, &[]).await;

        let newest = store.claims(&ClaimFilter { limit: 1, ..by() }).await.expect("the store answers");
        assert_eq!(newest.iter().map(|claim| claim.id.key.as_str()).collect::<Vec<_>>(), ["two"]);
    })
    .await;
}

async fn check_events(store: &Arc<dyn Store>, filter: AuditFilter, expected: &[&str]) {
    let found = store.events(&AuditFilter { limit: 10, ..filter.clone() }).await.expect("the store answers");
    let keys: Vec<_> = found.iter().filter_map(|row| row.event.facts.idempotency_key.as_deref()).collect();
    assert_eq!(keys, expected, "{filter:?}");
}

#[tokio::test]
async fn audit_rows_are_listed_oldest_first_by_every_filter() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let one = event("one");
        let two = AuditEvent {
            facts: Facts {
                tenant_id: "globex".into(),
                service: "support".into(),
                user_id: "u2".into(),
                session_id: None,
                tool: "close_ticket".into(),
                args: Some(r#"{"ticket":7,"order_id":"ord_1"}"#.into()),
                trace_id: Some("t2".into()),
                ..facts("two")
            },
            decision: Decision::Denied,
            reason: Some("missing_scope".into()),
            executed: Executed::No,
            result_summary: None,
            duration_ms: None,
            upstream_status: None,
            ..event("two")
        };
        store.append(one.clone()).await.expect("it is written");
        store.append(two.clone()).await.expect("it is written");
        // Told once more, as after an answer that got lost: written once.
        store.append(two.clone()).await.expect("it is written");

        let all = store.events(&AuditFilter { limit: 10, ..AuditFilter::default() }).await;
        let all = all.expect("the store answers");
        let events: Vec<_> = all.iter().map(|row| row.event.clone()).collect();
        assert_eq!(events, [one.clone(), two.clone()]);

        let text = |text: &str| Some(text.to_owned());
        let by = AuditFilter::default;
        check_events(&store, AuditFilter { id: Some(two.id), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { id: Some(two.id), tenant: text("acme"), ..by() }, &[]).await;
        check_events(&store, AuditFilter { tenant: text("acme"), ..by() }, &["one"]).await;
        check_events(&store, AuditFilter { service: text("support"), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { tool: text("refund_order"), ..by() }, &["one"]).await;
        check_events(&store, AuditFilter { key: text("two"), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { user: text("u2"), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { session: text("s1"), ..by() }, &["one"]).await;
        check_events(&store, AuditFilter { decision: Some(Decision::Denied), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { decision: Some(Decision::Replayed), ..by() }, &[]).await;
        check_events(&store, AuditFilter { reason: text("missing_scope"), ..by() }, &["two"]).await;
        let args = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        check_events(&store, AuditFilter { args: args("order_id", "ord_9f2"), ..by() }, &["one"]).await;
        check_events(&store, AuditFilter { args: args("amount", "12.50"), ..by() }, &["one"]).await;
        check_events(&store, AuditFilter { args: args("ticket", "7"), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { since: Some(Duration::from_hours(1)), ..by() }, &["one", "two"])
            .await;
        check_events(&store, AuditFilter { since: Some(Duration::ZERO), ..by() }, &[]).await;

        check_events(&store, AuditFilter { until: Some(Duration::from_hours(1)), ..by() }, &[]).await;
        check_events(&store, AuditFilter { trace: text("t2"), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { executed: Some(Executed::No), ..by() }, &["two"]).await;
        check_events(&store, AuditFilter { attempt: one.facts.attempt_id, ..by() }, &["one"]).await;
        let [first, second] = &all[..] else { panic!("two rows, not {all:?}") };
        check_events(&store, AuditFilter { from: Some(first.at), ..by() }, &["one", "two"]).await;
        check_events(&store, AuditFilter { to: Some(first.at), ..by() }, &[]).await;
        let later = second.at.plus(Duration::from_micros(1));
        check_events(&store, AuditFilter { from: Some(later), ..by() }, &[]).await;
        check_events(&store, AuditFilter { to: Some(later), ..by() }, &["one", "two"]).await;

        let newest = store.events(&AuditFilter { limit: 1, ..by() }).await.expect("the store answers");
        assert_eq!(newest.first().map(|row| row.event.facts.tenant_id.as_str()), Some("globex"));
    })
    .await;
}

#[tokio::test]
async fn whoever_goes_on_from_the_last_row_misses_none_and_gets_none_twice() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        for n in 0..25 {
            store.append(event(&format!("k{n}"))).await.expect("it is written");
        }
        let mut place = Cursor::before(Timestamp::from_micros(0));
        let mut keys = Vec::new();
        loop {
            let args = vec![("order_id".to_owned(), "ord_9f2".to_owned())];
            let filter = AuditFilter { after: Some(place), args, limit: 7, ..AuditFilter::default() };
            let page = store.events(&filter).await.expect("the store answers");
            assert!(page.len() <= 7, "{}", page.len());
            let Some(last) = page.last() else { break };
            place = last.cursor();
            keys.extend(page.into_iter().filter_map(|row| row.event.facts.idempotency_key));
        }
        let told: Vec<_> = (0..25).map(|n| format!("k{n}")).collect();
        assert_eq!(keys, told);
    })
    .await;
}

#[tokio::test]
async fn an_argument_is_found_behind_thousands_of_other_rows() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        store.append(event("needle")).await.expect("it is written");
        let hay: Vec<_> = (0..2100)
            .map(|n| {
                let store = Arc::clone(&store);
                let args = Some(format!(r#"{{"order_id":"ord_{n}"}}"#));
                let straw = AuditEvent { facts: Facts { args, ..facts("straw") }, ..event("straw") };
                tokio::spawn(async move { store.append(straw).await })
            })
            .collect();
        for straw in hay {
            in_time("an audit row", straw).await.expect("it does not panic").expect("it is written");
        }
        let args = vec![("order_id".to_owned(), "ord_9f2".to_owned())];
        check_events(&store, AuditFilter { args, ..AuditFilter::default() }, &["needle"]).await;
    })
    .await;
}

#[tokio::test]
async fn a_twin_is_the_newest_other_claim_of_the_same_user_and_arguments() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let of = |key: &str| TwinOf {
            id: id(key),
            user: "u1".into(),
            args_hashes: vec!["k1:aa".into(), "k0:bb".into()],
            window: Duration::from_mins(5),
        };
        let twin = async |of: TwinOf| {
            store.twin(&of).await.expect("the store answers").map(|twin| (twin.key, twin.created_at))
        };
        let first = put(&store, fresh("first")).await;
        assert_eq!(twin(of("first")).await, None, "its own");
        assert_eq!(twin(of("new")).await, Some(("first".into(), first.created_at)));
        assert_eq!(twin(TwinOf { user: "u2".into(), ..of("new") }).await, None);
        assert_eq!(twin(TwinOf { args_hashes: vec!["k1:cc".into()], ..of("new") }).await, None);
        assert_eq!(twin(TwinOf { window: Duration::ZERO, ..of("new") }).await, None);
        let mut elsewhere = of("new");
        elsewhere.id.tenant = "globex".into();
        assert_eq!(twin(elsewhere).await, None);

        let later = Some(first.created_at.plus(Duration::from_millis(3)));
        let old_secret = Draft { args_hash: "k0:bb".into(), created_at: later, ..draft("second") };
        put(&store, Write { next: old_secret, ..fresh("second") }).await;
        assert_eq!(twin(of("new")).await.map(|(key, _)| key), Some("second".into()));

        let latest = Some(first.created_at.plus(Duration::from_millis(6)));
        let settled = completed(&draft("third"), When::In(Duration::from_hours(1)));
        let failed = Draft { status: Status::Failed, created_at: latest, ..settled };
        put(&store, Write { next: failed, ..fresh("third") }).await;
        assert_eq!(twin(of("new")).await.map(|(key, _)| key), Some("second".into()), "a failed call is none");
    })
    .await;
}
