//! Many at once: workers that race for one job, a job that is dispatched again and again, more than can be dealt with.

use std::collections::HashMap;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{Scene, Told, job};
use crate::harness::gate::WORKER_TOKEN;
use crate::harness::setup::Home;
use crate::harness::{eventually, on_every_store};

const LINE: &str = "POST /gate/claims";

fn fresh(told: &[Told]) -> Vec<&Told> {
    told.iter().filter(|told| told.status == 200).collect()
}

#[tokio::test]
async fn of_two_workers_that_race_for_one_job_one_has_it_every_time() {
    on_every_store(async |home| {
        let scene = Scene::on(home).await;
        // One process has an SQLite file for itself.
        let second = if home == Home::Postgres { Some(scene.gate.another().await) } else { None };
        let other = second.as_ref().unwrap_or(&scene.gate);
        for turn in 0..50 {
            let job = job("settle_refund", &format!("race-{turn}"));
            let (one, two) = tokio::join!(
                scene.ask_at(&scene.gate, WORKER_TOKEN, LINE, &job),
                scene.ask_at(other, WORKER_TOKEN, LINE, &job)
            );
            let told = [one, two];
            let [won] = fresh(&told)[..] else { panic!("one has it: {told:?}") };
            assert!(told.iter().any(|told| told.refusal().1 == "request_in_flight"), "{told:?}");
            let id = &won.body["attempt_id"];
            assert_eq!(scene.complete(&job, id, json!(turn)).await.outcome(), "completed");
        }
    })
    .await;
}

#[tokio::test]
async fn of_workers_that_race_to_take_over_a_dead_ones_job_one_has_it() {
    let scene = Scene::with(Home::Postgres, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
    let second = scene.gate.another().await;
    for turn in 0..5 {
        let job = job("charge", &format!("k{turn}"));
        let dead = scene.begin(&job).await;
        let taken = eventually("the job to be taken over", async || {
            let asking = (0..6).map(|place| {
                let gate = if place % 2 == 0 { &scene.gate } else { &second };
                scene.ask_at(gate, WORKER_TOKEN, LINE, &job)
            });
            let told = join_all(asking).await;
            assert!(fresh(&told).len() <= 1, "{told:?}");
            fresh(&told).first().map(|told| told.body["attempt_id"].clone())
        })
        .await;
        assert_ne!(taken, dead);
        assert_eq!(scene.complete(&job, &taken, json!(1)).await.outcome(), "completed");
    }
}

#[tokio::test]
async fn a_flood_of_dispatches_of_one_job_begins_it_once_and_holds_up_no_report() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.set("limits.queue_time", "20s")).await;
        let (flooded, other) = (job("settle_refund", "flooded"), job("settle_refund", "other"));
        let other_id = scene.begin(&other).await;
        let flood = join_all((0..200).map(|_| scene.claim(&flooded)));
        let reports = async {
            for _ in 0..5 {
                assert_eq!(scene.renew(&other, &other_id).await.outcome(), "renewed");
            }
            scene.complete(&other, &other_id, json!("done")).await
        };
        let (told, reported) = tokio::join!(flood, reports);
        assert_eq!(reported.outcome(), "completed");
        assert_eq!(fresh(&told).len(), 1);
        let mut words = HashMap::new();
        for told in &told {
            *words.entry(told.refusal().1).or_insert(0) += 1;
        }
        assert_eq!(words, HashMap::from([("", 1), ("request_in_flight", 199)]));
        let id = &fresh(&told)[0].body["attempt_id"];
        assert_eq!(scene.complete(&flooded, id, json!("done")).await.outcome(), "completed");
        let told = join_all((0..100).map(|_| scene.claim(&flooded))).await;
        assert!(told.iter().all(|told| told.outcome() == "replay"));
        assert_eq!(scene.gate.claims().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn more_claims_than_can_wait_are_told_to_come_again_and_reports_are_taken() {
    let scene = Scene::with(Home::Sqlite, |setup| setup.set("limits.queue_time", "100ms")).await;
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    // Who sends no body has a turn all the same, until its time is up.
    let mut slow = Vec::new();
    for _ in 0..64 {
        let mut socket = TcpStream::connect(scene.gate.admin_address()).await.expect("the gate listens");
        let head = format!(
            "{LINE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {WORKER_TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.expect("the gate reads a head");
        slow.push(socket);
    }
    let told = eventually("no turn to be left", async || {
        let told = scene.claim(&job).await;
        (told.refusal().1 == "overloaded").then_some(told)
    })
    .await;
    assert_eq!(told.refusal(), (503, "overloaded", "no", "same_key"));
    assert!(told.reply.http.header("retry-after").is_some());
    assert_eq!(scene.renew(&job, &id).await.outcome(), "renewed");
    drop(slow);
    let told = eventually("a turn", async || {
        let told = scene.claim(&job).await;
        (told.refusal().1 != "overloaded").then_some(told)
    })
    .await;
    assert_eq!(told.refusal().1, "request_in_flight");
}
