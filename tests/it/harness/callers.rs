//! Callers that do not give up: each makes one call after the other, and sends it again with the same key, to the next
//! gate, until it has its answer.
//!
//! Promises: whatever a caller got is told at the end. [`check_once`] holds it against what the upstream, the claims and
//! the audit say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::client::{Ask, Client, Era, Reply};
use super::gate::Gate;
use super::upstream::Upstream;
use super::{eventually, in_time};

/// How many they are.
const CALLERS: usize = 12;

/// How long they wait before they call again.
const PAUSE: Duration = Duration::from_millis(20);

/// What they call.
const TOOL: &str = "refund_order";

/// Callers at work.
pub(crate) struct Callers {
    working: Vec<JoinHandle<Vec<(String, Value)>>>,
    answered: watch::Receiver<usize>,
    ended: CancellationToken,
}

impl Callers {
    /// Sets them to work at these gates, whose upstream takes a moment for each call.
    pub(crate) fn start(gates: &[&Gate], upstream: &Upstream) -> Self {
        upstream.script(TOOL, [Answer::tool("refunded", &json!({})).after(Duration::from_millis(20))]);
        let clients: Vec<_> = gates.iter().map(|gate| gate.client(Era::Modern)).collect();
        let (count, answered) = watch::channel(0);
        let (count, ended) = (Arc::new(count), CancellationToken::new());
        let work = |caller| {
            let (clients, count, ended) = (clients.clone(), Arc::clone(&count), ended.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while !ended.is_cancelled() {
                    let key = format!("caller-{caller}-{}", answers.len());
                    let answer = answer(&clients, caller, &key).await;
                    answers.push((key, answer));
                    count.send_modify(|count| *count += 1);
                }
                answers
            })
        };
        Self { working: (0..CALLERS).map(work).collect(), answered, ended }
    }

    /// Waits until so many further calls were answered.
    pub(crate) async fn answered(&mut self, more: usize) {
        let enough = *self.answered.borrow_and_update() + more;
        let answered = self.answered.wait_for(|count| *count >= enough);
        in_time(&format!("{more} further answers"), answered).await.expect("the callers work on");
    }

    /// Has them end with the call that each is at, and returns what each key was answered.
    pub(crate) async fn end(self) -> BTreeMap<String, Value> {
        self.ended.cancel();
        let mut answers = BTreeMap::new();
        for caller in self.working {
            answers.extend(caller.await.expect("no caller gives up"));
        }
        answers
    }
}

fn call(client: &Client, key: &str) -> Ask {
    client.tool(TOOL, &json!({ "order_id": key })).key(key)
}

/// Sends a call until it is answered.
async fn answer(clients: &[Client], first: usize, key: &str) -> Value {
    let answered = async {
        let mut tries = first;
        loop {
            let reply = call(&clients[tries % clients.len()], key).send().await;
            match reply.met().as_str() {
                "first" | "replay" => return told(&reply),
                "store_unavailable" | "request_in_flight" | "outcome_unknown" => {}
                other => panic!("{key} met {other}: {}", reply.json()),
            }
            tries += 1;
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time(&format!("an answer to {key}"), answered).await
}

/// What the upstream said, without the marks of the gate.
fn told(reply: &Reply) -> Value {
    let mut result = reply.result();
    result.as_object_mut().expect("a result").remove("_meta");
    result
}

/// Every call that was answered ran once, is completed, stands in the audit, and is replayed; nothing else was run or
/// stays claimed.
pub(crate) async fn check_once(gates: &[&Gate], upstream: &Upstream, answers: &BTreeMap<String, Value>) {
    let gate = gates[0];
    let keys: BTreeSet<_> = answers.keys().map(String::as_str).collect();
    let ran: Vec<_> = upstream.calls(TOOL);
    let ran = ran.iter().map(|call| call.http.header("idempotency-key").expect("a key is forwarded"));
    check_each_once("ran upstream", ran, &keys);

    // An answer that could not be recorded at first is recorded once the store is back.
    let claims = eventually("every claim to be completed", async || {
        let claims = gate.claims().await;
        claims.iter().all(|claim| claim["status"] == "completed").then_some(claims)
    })
    .await;
    check_each_once("is claimed", claims.iter().map(|claim| text(claim, "idempotency_key")), &keys);

    let audit = gate.run(&["audit", "--json", "--decision", "allowed", "--limit", "100000"]).await;
    let rows = String::from_utf8(audit.stdout).expect("it prints UTF-8");
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let yes = rows.iter().filter(|row| row["executed"] == "yes").map(|row| text(row, "idempotency_key"));
    check_each_once("is told in the audit", yes, &keys);
    // An attempt whose claim was not confirmed was never sent. One whose gate was without the store for longer than its
    // lease may be told as abandoned before its answer is recorded.
    let known = |row: &Value| {
        row["reason"] == "store_unavailable" && row["executed"] == "no" || row["reason"] == "abandoned"
    };
    let others: Vec<_> = rows.iter().filter(|row| row["executed"] != "yes" && !known(row)).collect();
    assert!(others.is_empty(), "{others:?}");

    let replays = futures_util::stream::iter(answers.iter().enumerate()).map(async |(n, (key, answer))| {
        let reply = call(&gates[n % gates.len()].client(Era::Modern), key).send().await;
        assert_eq!((reply.met().as_str(), &told(&reply)), ("replay", answer), "{key}");
    });
    replays.buffer_unordered(CALLERS).collect::<()>().await;
    assert_eq!(upstream.calls(TOOL).len(), answers.len(), "a replay runs nothing");
}

fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().expect("a text")
}

fn check_each_once<'a>(what: &str, found: impl Iterator<Item = &'a str>, keys: &BTreeSet<&str>) {
    let mut counts = BTreeMap::new();
    found.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    let wrong: Vec<_> = counts.iter().filter(|(key, count)| **count != 1 || !keys.contains(*key)).collect();
    assert!(wrong.is_empty(), "{what}, and not once for one answer: {wrong:?}");
    let missing: Vec<_> = keys.iter().filter(|key| !counts.contains_key(*key)).collect();
    assert!(missing.is_empty(), "nothing {what} of {missing:?}");
}
