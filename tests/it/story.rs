//! One key's life, as it is told: from the rows that a gate writes, on both stores.
//!
//! Promises tested: `oncegate::story`.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{Draft, Status};
use oncegate::domain::time::When;
use oncegate::store::{AuditFilter, Cursor, Store};
use oncegate::story::{Of, Story, stories};

use crate::harness::setup::Home;
use crate::store::samples::{completed, draft, event, facts, fresh, on_every_store, put, store_on};

fn of(key: &str) -> Of {
    Of { key: key.to_owned(), ..Of::default() }
}

async fn told(store: &Arc<dyn Store>, of: &Of) -> Vec<Story> {
    stories(&**store, of).await.expect("the store answers")
}

/// The sentences of the one story that these rows make.
async fn sentences(store: &Arc<dyn Store>, key: &str, rows: Vec<AuditEvent>) -> Vec<String> {
    store.append_all(rows).await.expect("they are written");
    let mut stories = told(store, &of(key)).await;
    assert_eq!(stories.len(), 1, "{stories:#?}");
    stories.remove(0).moments.into_iter().map(|moment| moment.sentence).collect()
}

fn denied(key: &str, reason: &str, change: impl FnOnce(&mut Facts)) -> AuditEvent {
    let mut event = AuditEvent {
        decision: Decision::Denied,
        reason: Some(reason.to_owned()),
        executed: Executed::No,
        duration_ms: Some(1),
        upstream_status: None,
        result_summary: None,
        ..event(key)
    };
    event.facts.attempt_id = None;
    change(&mut event.facts);
    event
}

fn allowed(key: &str, reason: Option<&str>, executed: Executed) -> AuditEvent {
    let status = (executed == Executed::Yes).then_some(200);
    AuditEvent { reason: reason.map(str::to_owned), executed, upstream_status: status, ..event(key) }
}

#[tokio::test]
async fn a_life_is_told_oldest_first_with_who_differed_and_in_what() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let mut replayed = denied("k", "", |_| {});
        (replayed.decision, replayed.reason) = (Decision::Replayed, None);
        let rows = vec![
            denied("k", "idempotency_in_flight", |facts| facts.session_id = Some("s2".into())),
            allowed("k", None, Executed::Yes),
            replayed.clone(),
            AuditEvent {
                facts: Facts { session_id: Some("s2".into()), ..replayed.facts.clone() },
                ..replayed.clone()
            },
            denied("k", "idempotency_payload_mismatch", |facts| {
                facts.args = Some(r#"{"order_id":"ord_9f2","amount":99,"note":"x"}"#.into());
            }),
            denied("k", "idempotency_payload_mismatch", |_| {}),
            denied("k", "idempotency_key_of_another_user", |facts| facts.user_id = "u2".into()),
        ];
        let rows = rows.into_iter().map(|row| AuditEvent { id: oncegate::store::event_id(), ..row }).collect();
        assert_eq!(
            sentences(&store, "k", rows).await,
            [
                "Refused: the first call under this key was still running. It was not started again.",
                "It ran: the app answered HTTP 200 after 412 ms.",
                "A retry got the first answer again. Nothing ran.",
                "A retry got the first answer again, and came from another session. Nothing ran.",
                "Refused: the key was already used with other arguments. Nothing ran. amount was 12.50, here it is 99; \
                 note was missing, here it is \"x\".",
                "Refused: the key was already used with other arguments. Nothing ran. What differs is not in the audit \
                 (masked, or cut).",
                "Refused: the key is another user's of the same tenant. Nothing ran. It is u1's; this was u2.",
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn what_became_of_a_lost_answer_is_told_by_whom_and_why() {
    let (store, _place) = store_on(Home::Sqlite).await;
    let looked = |reason: &str, executed, args: &str| {
        let mut row = allowed("k", Some(reason), executed);
        (row.duration_ms, row.upstream_status) = (None, None);
        row.facts.args = Some(args.to_owned());
        row
    };
    let rows = vec![
        allowed("k", Some("abandoned"), Executed::Maybe),
        denied("k", "outcome_unknown", |_| {}),
        looked(
            "resolved_released",
            Executed::No,
            r#"{"operator":"ann","because":"no trace of it","forced":true}"#,
        ),
        allowed("k", None, Executed::Yes),
        looked("reconciled_completed", Executed::Yes, r#"{"asked":"GET /refunds/{key}"}"#),
        looked("resolved_completed", Executed::Yes, r#"{"operator":"bob","because":"seen."}"#),
    ];
    let told = sentences(&store, "k", rows).await;
    assert!(told[0].starts_with("The gate that ran it was gone"), "{told:?}");
    assert_eq!(
        told[2..],
        [
            "ann said that it did not run, because: no trace of it. This was forced while it might still have been \
             running. The key was free to try again.",
            "The same key tried again. It ran: the app answered HTTP 200 after 412 ms.",
            "The app was asked (GET /refunds/{key}), and said that it ran.",
            "bob said that it ran, because: seen.",
        ]
    );
}

#[tokio::test]
async fn attempts_are_told_apart_by_what_the_one_before_came_to() {
    let (store, _place) = store_on(Home::Sqlite).await;
    let ran = "It ran: the app answered HTTP 200 after 412 ms.";
    for (key, reason, executed, says) in [
        ("input", Some("input_required"), Executed::Maybe, "The caller answered, and the call went on. "),
        ("back", Some("upstream_unreachable"), Executed::No, "The same key tried again. "),
        (
            "lost",
            Some("outcome_unknown"),
            Executed::Maybe,
            "The app honours the key, so that a retry ran it again. ",
        ),
        ("anew", None, Executed::Yes, "What was remembered had expired, and the key was claimed anew. "),
    ] {
        let told =
            sentences(&store, key, vec![allowed(key, reason, executed), allowed(key, None, Executed::Yes)])
                .await;
        assert_eq!(told[1], format!("{says}{ran}"), "{key}");
    }
    let told = sentences(&store, "late", vec![allowed("late", Some("late_answer"), Executed::Yes)]).await;
    assert!(told[0].ends_with(&format!("The claim stayed as it was. {ran}")), "{told:?}");
    let own = allowed("own", Some("not_found_or_foreign"), Executed::Yes);
    let told = sentences(&store, "own", vec![own]).await;
    assert_eq!(told[0], format!("{ran} The policy's word for its answer is not_found_or_foreign."));
}

#[tokio::test]
async fn what_was_only_observed_is_told_as_what_would_have_been() {
    let (store, _place) = store_on(Home::Sqlite).await;
    let mut scope = denied("k", "would_missing_scope", |_| {});
    (scope.executed, scope.upstream_status) = (Executed::Yes, Some(200));
    let mut replay = AuditEvent { id: oncegate::store::event_id(), ..scope.clone() };
    (replay.decision, replay.reason) = (Decision::Replayed, Some("would_replay".to_owned()));
    let goes_on =
        "The gate only observes, so it went on as it came: It ran: the app answered HTTP 200 after 1 ms.";
    assert_eq!(
        sentences(&store, "k", vec![scope, replay]).await,
        [
            format!("It would have been refused: the token lacks a scope that this needs. {goes_on}"),
            format!("A retry, which would have got the first answer again. {goes_on}"),
        ]
    );
}

/// Every word in backticks of the cells of a table with this head, with what else its row says.
fn reasons(head: &str, at: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let page = include_str!("../../docs/answers.md");
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let words: Vec<_> = cells[at].split('`').skip(1).step_by(2).collect();
        words.into_iter().map(move |word| (word, cells.clone()))
    })
    .collect()
}

#[tokio::test]
async fn every_reason_has_a_sentence_with_every_decision_that_it_comes_with() {
    let (store, _place) = store_on(Home::Sqlite).await;
    let refusals = reasons("| code | form | executed | retry | audit reason | when |", 4);
    let others = reasons("| reason | decision | executed | what it means |", 0);
    assert!(refusals.len() > 50 && others.len() > 20, "{} and {}", refusals.len(), others.len());
    let rows: Vec<_> = refusals
        .iter()
        .map(|(reason, _)| denied("k", reason, |_| {}))
        .chain(others.iter().filter(|(_, cells)| cells[1] == "allowed").map(|(reason, cells)| {
            let executed = if cells[2].starts_with("no") { Executed::No } else { Executed::Maybe };
            allowed("k", Some(reason), executed)
        }))
        .collect();
    let names: Vec<_> = rows.iter().map(|row| row.reason.clone().unwrap_or_default()).collect();
    for (sentence, reason) in sentences(&store, "k", rows).await.iter().zip(&names) {
        assert!(!sentence.contains(reason.as_str()) || !reason.contains('_'), "{reason}: {sentence}");
        assert!(!sentence.contains("policy's word") && sentence.ends_with('.'), "{reason}: {sentence}");
    }
}

#[tokio::test]
async fn a_key_may_have_several_stories_and_a_filter_leaves_some_out() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        put(&store, fresh("k")).await;
        let elsewhere = Facts { tenant_id: "globex".into(), tool: "send_mail".into(), ..facts("k") };
        store.append(AuditEvent { facts: elsewhere, ..event("k") }).await.expect("it is written");
        let names = async |of: Of| {
            let stories = told(&store, &of).await;
            stories.into_iter().map(|story| (story.id.tenant, story.claim.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(names(of("k")).await, [("acme".to_owned(), true), ("globex".to_owned(), false)]);
        let only = Of { tenant: Some("globex".into()), ..of("k") };
        assert_eq!(names(only).await, [("globex".to_owned(), false)]);
        assert_eq!(names(Of { tool: Some("send_mail".into()), ..of("k") }).await.len(), 1);
        assert_eq!(names(Of { service: Some("support".into()), ..of("k") }).await, []);
        assert_eq!(names(of("other")).await, []);
    })
    .await;
}

#[tokio::test]
async fn how_a_key_stands_is_said_first() {
    let (store, _place) = store_on(Home::Sqlite).await;
    let hour = When::In(Duration::from_hours(1));
    let lasting = |key: &str| completed(&draft(key), hour);
    let unknown = |key: &str| Draft {
        status: Status::Unknown,
        lease_until: When::Never,
        settled_at: When::NOW,
        ..draft(key)
    };
    for (key, next, says) in [
        ("runs", draft("runs"), "It is running, since 0s. Nobody else can start it."),
        (
            "dead",
            Draft { lease_until: When::NOW, ..draft("dead") },
            "It began 0s ago, and its gate is gone, or paused",
        ),
        (
            "asks",
            Draft { status: Status::AwaitingInput, ..lasting("asks") },
            "The app waits for an answer of the",
        ),
        ("done", lasting("done"), "It ran. For another 59m59s a retry gets the same answer"),
        ("bare", Draft { response: None, ..lasting("bare") }, "It ran. Its answer was not kept"),
        ("back", Draft { status: Status::Failed, ..lasting("back") }, "It did not run. The same key may try"),
        ("lost", unknown("lost"), "Nobody knows whether it ran, since 0s. Nothing runs under this key until"),
        (
            "gone",
            completed(&draft("gone"), When::NOW),
            "The key is free: what was remembered of it expired 0s ago.",
        ),
    ] {
        put(&store, oncegate::store::Write { next, ..fresh(key) }).await;
        let whole = told(&store, &of(key)).await.remove(0);
        assert!(whole.stands(None).starts_with(says), "{key}: {}", whole.stands(None));
    }
    store.append(allowed("pruned", None, Executed::Yes)).await.expect("it is written");
    let whole = told(&store, &of("pruned")).await.remove(0);
    assert!(whole.stands(None).starts_with("It ran 0s ago, and is not remembered any more"), "{whole:?}");
    store.append(denied("never", "missing_scope", |_| {})).await.expect("it is written");
    let whole = told(&store, &of("never")).await.remove(0);
    assert!(whole.stands(None).starts_with("No call under this key ran"), "{whole:?}");
}

#[tokio::test]
async fn of_a_storm_the_beginning_and_the_end_are_told_and_that_others_are_left_out() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let mut refusals: Vec<_> = vec![allowed("k", None, Executed::Yes)];
        refusals.extend((0..1100).map(|_| denied("k", "idempotency_in_flight", |_| {})));
        let all = refusals.len();
        for part in refusals.chunks(100) {
            store.append_all(part.to_vec()).await.expect("they are written");
        }
        let whole = told(&store, &of("k")).await.remove(0);
        assert_eq!((whole.moments.len(), whole.left_out_after), (1000, Some(500)));
        let filter = AuditFilter { key: Some("k".into()), limit: 2000, ..AuditFilter::default() };
        let rows = store.events(&filter).await.expect("the store answers");
        let places = |rows: &[Cursor]| (rows.first().copied(), rows.last().copied());
        let shown: Vec<_> = whole.moments.iter().map(|moment| moment.row.cursor()).collect();
        let there: Vec<_> = rows.iter().map(oncegate::store::RecordedEvent::cursor).collect();
        assert_eq!((there.len(), places(&shown)), (all, places(&there)));
    })
    .await;
}
