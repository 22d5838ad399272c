//! What a client hears in place of an answer, whatever it is and on both stores: problems, each told in the audit.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::asker::{Met, Order, order};
use super::{Scene, with_every_client};
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::upstream::Upstream;
use crate::problems::check_schema;

fn refund(gate: &Gate) -> Order {
    order(gate, "POST", "/api/orders/o1/refunds").bytes("application/json", b"{\"amount\":5}")
}

/// Looks at a problem, and notes it.
#[track_caller]
fn note(problems: &mut Vec<Value>, met: &Met, status: u16, code: &str, told: [&str; 2]) {
    let problem = met.problem();
    assert_eq!((met.status, met.met().as_str()), (status, code), "{met:?}");
    assert_eq!([&problem["executed"], &problem["retry"]], told, "{problem}");
    assert_eq!(met.header("retry-after").is_empty(), problem["retry_after_ms"].is_null(), "{met:?}");
    assert!(met.header("idempotent-replayed").is_empty(), "{met:?}");
    problems.push(problem);
}

/// They are as the schema says, and each has its row.
async fn check(scene: &Scene, problems: &[Value]) {
    check_schema(problems).await;
    let rows = scene.gate.audit(problems.len()).await;
    let ids: BTreeSet<_> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    for problem in problems {
        let instance = problem["instance"].as_str().unwrap_or_default().trim_start_matches("urn:uuid:");
        assert!(ids.contains(instance), "no row tells of {problem}: {rows:?}");
    }
}

#[tokio::test]
async fn what_was_never_run_is_refused_as_a_problem() {
    with_every_client(async |scene| {
        let gate = &scene.gate;
        let get = |target: &str| order(gate, "GET", target);
        let large = vec![b' '; 70 * 1024];
        let orders = [
            (refund(gate), 400, "idempotency_key_required", "new_key"),
            (refund(gate).key(&"k".repeat(129)), 400, "idempotency_key_invalid", "new_key"),
            (refund(gate).key("k").header("X-HTTP-Method-Override", "DELETE"), 400, "method_override", "no"),
            (get("/api//orders/o1"), 400, "path_not_normal", "no"),
            (get("/api/nothing"), 403, "operation_not_allowed", "no"),
            (order(gate, "PUT", "/api/orders/o1").key("k"), 405, "method_not_allowed", "no"),
            (
                order(gate, "POST", "/api/orders/o1/audit").key("k").json(&json!({ "a": 1 })),
                403,
                "forbidden",
                "same_key",
            ),
            (
                order(gate, "POST", "/api/orders/o1/refunds")
                    .key("k")
                    .json(&json!({ "tenant_id": "globex" })),
                403,
                "foreign_tenant",
                "no",
            ),
            (
                order(gate, "POST", "/api/orders/o1/refunds").key("k").bytes("application/json", b"{\"a\":"),
                400,
                "body_unreadable",
                "no",
            ),
            (
                order(gate, "POST", "/api/orders/o1/refunds").key("k").bytes("application/json", &large),
                413,
                "body_too_large",
                "no",
            ),
        ];
        let mut problems = Vec::new();
        for (order, status, code, retry) in orders {
            let met = scene.client.ask(order).await;
            note(&mut problems, &met, status, code, ["no", retry]);
            assert_eq!(met.header("allow").is_empty(), status != 405, "{met:?}");
            assert_eq!(met.header("www-authenticate").is_empty(), code != "forbidden", "{met:?}");
        }
        check(scene, &problems).await;
        assert!(scene.upstream.received().is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_may_have_run_is_never_run_again() {
    with_every_client(async |scene| {
        let mut problems = Vec::new();
        let ask = async |client: &mut super::Asker, key: &str| client.ask(refund(&scene.gate).key(key)).await;
        // No answer came.
        scene.upstream.script("reset", [Answer::reset()]);
        // One came that is none.
        let unavailable = "HTTP/1.1 503 Scripted\r\ncontent-length: 0\r\n\r\n";
        scene.upstream.script("unavailable", [Answer::raw(vec![Step::Send(unavailable.into())])]);
        for key in ["reset", "unavailable"] {
            for _ in 0..2 {
                let met = ask(&mut scene.client, key).await;
                note(&mut problems, &met, 409, "outcome_unknown", ["maybe", "no"]);
            }
        }
        // One came that is too large to keep.
        scene.upstream.script("large", [Answer::http(200, "text/plain", &"x".repeat(5000))]);
        let first = ask(&mut scene.client, "large").await;
        assert_eq!((first.met().as_str(), first.body.len()), ("first", 5000));
        let met = ask(&mut scene.client, "large").await;
        note(&mut problems, &met, 409, "answer_not_kept", ["yes", "no"]);
        check(scene, &problems).await;
        for key in ["reset", "unavailable", "large"] {
            assert_eq!(scene.heard(key), 1, "{key}");
        }
    })
    .await;
}

#[tokio::test]
async fn while_the_first_request_runs_a_retry_is_told_when_to_come_back() {
    with_every_client(async |scene| {
        let hold = Hold::new();
        scene.upstream.script("held", [Answer::http(200, "text/plain", "done").behind(&hold)]);
        let again = refund(&scene.gate).key("held");
        let mut first = super::Asker::start(scene.client.who).await;
        let (upstream, client) = (&scene.upstream, &mut scene.client);
        let (first, met) = tokio::join!(first.ask(again.clone()), async {
            let heard = async || (upstream.with_key("held").len() == 1).then_some(());
            eventually("the app to hear of it", heard).await;
            let met = client.ask(again.clone()).await;
            hold.release();
            met
        });
        let mut problems = Vec::new();
        note(&mut problems, &met, 409, "request_in_flight", ["maybe", "same_key"]);
        assert_eq!(problems[0]["retryable"], true);
        assert!(!met.header("retry-after").is_empty());
        assert_eq!((first.met().as_str(), first.body.as_slice()), ("first", b"done".as_slice()));
        assert_eq!(scene.client.ask(again).await.met(), "replay");
        check(scene, &problems).await;
        assert_eq!(scene.heard("held"), 1);
    })
    .await;
}

#[tokio::test]
async fn what_the_app_turned_away_is_told_in_its_words_and_runs_when_it_is_sent_again() {
    with_every_client(async |scene| {
        let busy = Answer::http(429, "text/plain", "later").with_header("retry-after", "3");
        scene.upstream.script("busy", [busy, Answer::http(200, "text/plain", "done")]);
        let met = scene.client.ask(refund(&scene.gate).key("busy")).await;
        assert_eq!((met.status, met.body.as_slice()), (429, b"later".as_slice()));
        assert_eq!(met.header("retry-after"), ["3"], "it is no replay: this is this request's own answer");
        for word in ["first", "replay"] {
            let met = scene.client.ask(refund(&scene.gate).key("busy")).await;
            assert_eq!((met.met().as_str(), met.body.as_slice()), (word, b"done".as_slice()));
        }
        assert_eq!(scene.heard("busy"), 2);
    })
    .await;
}

#[tokio::test]
async fn what_did_not_reach_the_app_runs_when_it_is_sent_again() {
    with_every_client(async |scene| {
        let address = scene.upstream.address();
        // Down, and up again later.
        let gone = std::mem::replace(&mut scene.upstream, Upstream::start().await);
        drop(gone);
        let mut problems = Vec::new();
        let met = eventually("the app to be down", async || {
            let met = scene.client.ask(refund(&scene.gate).key("down")).await;
            (met.status == 502).then_some(met)
        })
        .await;
        note(&mut problems, &met, 502, "upstream_unreachable", ["no", "same_key"]);
        check(scene, &problems).await;
        scene.upstream = Upstream::start_at(address).await;
        assert_eq!(scene.client.ask(refund(&scene.gate).key("down")).await.met(), "first");
    })
    .await;
}
