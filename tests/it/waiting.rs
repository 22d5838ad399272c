//! Duplicates of a running call: what they hear, what they hold meanwhile, and what they cost the store.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_postgres::NoTls;

use crate::harness::answer::{Answer, Hold};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::h2::{H2, json_of};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store, postgres};

/// The gauge of calls that wait.
const WAITING: &str = "oncegate_calls_waiting";

/// Calls side by side on one connection.
const STREAMS: u32 = 100;

fn setup(home: Home, upstream: &Upstream, words: &str) -> Setup {
    let operation = format!("[tools.ours]\neffect = \"mutation\"\nscopes = [\"billing:refund\"]\n{words}\n");
    let setup = Setup::new(home, &upstream.url()).set("upstream.timeout", "60s");
    setup.policy("[tools.run_sql]", &format!("{operation}\n[tools.run_sql]"))
}

fn ours(client: &Client, key: &str) -> Ask {
    client.tool("ours", &json!({ "order_id": "o" })).key(key)
}

async fn waiting(gate: &Gate, calls: u64) {
    eventually(&format!("{calls} waiting calls"), async || {
        (gate.count(WAITING).await == calls).then_some(())
    })
    .await;
}

/// Sends the same call on so many connections, [`STREAMS`] times on each; what each is answered.
async fn herd(gate: &Gate, connections: usize) -> Vec<Value> {
    let params = json!({ "name": "ours", "arguments": { "order_id": "o", "idempotency_key": "k1" } });
    let calls = (0..connections).map(async |_| {
        let mut client = H2::to(gate.address()).await;
        let calls = (0..STREAMS).map(|id| client.send(id, "tools/call", &params)).collect::<Vec<_>>();
        let replies =
            join_all(calls.into_iter().map(async |call| json_of(call.await.expect("an answer")).await));
        replies.await
    });
    join_all(calls).await.into_iter().flatten().collect()
}

/// How many transactions a database has seen, once that number rests.
async fn transactions(url: &str) -> i64 {
    let (client, connection) =
        tokio_postgres::connect(&postgres::cluster(), NoTls).await.expect("the cluster");
    let carried = tokio::spawn(connection);
    let name = url.rsplit('/').next().expect("a database");
    let mut before = -1;
    let count = eventually("the count of transactions to rest", async || {
        let sql = "select xact_commit from pg_stat_database where datname = $1";
        let now: i64 = client.query_one(sql, &[&name]).await.expect("a count").get(0);
        // The server's processes report at most once a second.
        tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
        (std::mem::replace(&mut before, now) == now).then_some(now)
    })
    .await;
    drop(client);
    carried.await.expect("the connection's task").expect("it ends well");
    count
}

#[tokio::test]
async fn a_herd_of_duplicates_runs_once_and_costs_the_store_a_few_queries() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let setup = setup(Home::Postgres, &upstream, "in_flight = \"wait\"\nwait_up_to = \"60s\"");
    let setup = setup.set("limits.concurrent_calls", 4096);
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    let before = transactions(&url).await;
    let hold = upstream.hold("ours");
    let herding = herd(&gate, 20);
    let releasing = async {
        waiting(&gate, u64::from(20 * STREAMS) - 1).await;
        hold.release();
    };
    let (replies, ()) = tokio::join!(herding, releasing);
    let calls = upstream.calls("ours");
    assert_eq!(calls.len(), 1);
    let answers: HashSet<_> = replies.iter().map(|reply| reply["result"]["content"].to_string()).collect();
    let replayed =
        replies.iter().filter(|reply| reply["result"]["_meta"]["oncegate/replayed"] == true).count();
    assert_eq!((replies.len(), answers.len(), replayed), (2000, 1, 1999), "{answers:?}");
    let cost = transactions(&url).await - before;
    assert!(cost < 200, "2000 duplicates took {cost} transactions, their 2000 rows among them");
}

#[tokio::test]
async fn a_herd_that_is_refused_costs_the_store_no_more_than_its_rows() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let setup = setup(Home::Postgres, &upstream, "").set("limits.concurrent_calls", 4096);
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    let hold = upstream.hold("ours");
    let first = ours(&gate.client(Era::Modern), "k1").open().await;
    upstream.called("ours", 1).await;
    let before = transactions(&url).await;
    let replies = herd(&gate, 20).await;
    let refused = replies
        .iter()
        .filter(|reply| reply["result"]["_meta"]["oncegate/refusal"]["code"] == "request_in_flight");
    assert_eq!(refused.count(), 2000);
    let cost = transactions(&url).await - before;
    assert!(cost < 200, "2000 refusals took {cost} transactions, their 2000 rows among them");
    hold.release();
    assert_eq!(first.reply().await.met(), "first");
}

#[tokio::test]
async fn whoever_waits_holds_no_place_and_is_answered_by_another_gate_s_call_too() {
    let upstream = Upstream::start().await;
    let setup = setup(Home::Postgres, &upstream, "in_flight = \"wait\"\nwait_up_to = \"60s\"");
    let one = Gate::start(setup.set("limits.concurrent_calls", 2)).await;
    let two = one.another().await;
    let hold = upstream.hold("ours");
    let first = ours(&one.client(Era::Modern), "k1").open().await;
    upstream.called("ours", 1).await;
    let mut waiters = Vec::new();
    for _ in 0..8 {
        for gate in [&one, &two] {
            waiters.push(ours(&gate.client(Era::Modern), "k1").open().await);
        }
        waiting(&one, waiters.len() as u64 / 2).await;
        waiting(&two, waiters.len() as u64 / 2).await;
    }
    for gate in [&one, &two] {
        let read = gate.client(Era::Modern).tool("get_invoice", &json!({})).send().await;
        assert_eq!(read.met(), "first", "eight calls wait, and hold none of the two places");
    }
    hold.release();
    assert_eq!(first.reply().await.met(), "first");
    for waiter in waiters {
        // One that waited for long hears its answer on a stream, where there is no header to mark it.
        let reply = waiter.reply().await;
        assert_eq!(reply.result()["_meta"]["oncegate/replayed"], true, "{reply:?}");
    }
    assert_eq!(upstream.calls("ours").len(), 1);
    waiting(&one, 0).await;
}

#[tokio::test]
async fn of_those_who_waited_for_a_call_that_did_not_run_one_runs() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream, "in_flight = \"wait\"\nwait_up_to = \"60s\"")).await;
        // That certainly did not run.
        let hold = Hold::new();
        upstream.script(
            "ours",
            [
                Answer::http(404, "text/plain", "no such thing").behind(&hold),
                Answer::tool("done", &json!({})),
            ],
        );
        let first = ours(&gate.client(Era::Modern), "k1").open().await;
        upstream.called("ours", 1).await;
        let mut waiters = Vec::new();
        for _ in 0..5 {
            waiters.push(ours(&gate.client(Era::Modern), "k1").open().await);
        }
        waiting(&gate, 5).await;
        hold.release();
        assert_eq!(first.reply().await.word(), "execution_failed");
        let mut met = Vec::new();
        for waiter in waiters {
            met.push(waiter.reply().await.met());
        }
        met.sort();
        assert_eq!(met, ["first", "replay", "replay", "replay", "replay"]);
        assert_eq!(upstream.calls("ours").len(), 2);
    })
    .await;
}

#[tokio::test]
async fn another_s_arguments_are_refused_while_the_call_runs_and_do_not_disturb_it() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream, "in_flight = \"wait\"\nwait_up_to = \"60s\"")).await;
        let hold = upstream.hold("ours");
        let first = ours(&gate.client(Era::Modern), "k1").open().await;
        upstream.called("ours", 1).await;
        let client = gate.client(Era::Modern);
        let other = client.tool("ours", &json!({ "order_id": "p" })).key("k1").send().await;
        assert_eq!(other.met(), "idempotency_key_reuse_with_different_args");
        let stranger = gate.client_with(Era::Modern, &json!({ "sub": "u2" }));
        assert_eq!(ours(&stranger, "k1").send().await.met(), "idempotency_key_reuse_with_different_args");
        hold.release();
        assert_eq!(first.reply().await.met(), "first");
    })
    .await;
}

#[tokio::test]
async fn calls_that_run_renew_their_leases_together() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let setup = setup(Home::Postgres, &upstream, "lease = \"3s\"");
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    let hold = Hold::new();
    upstream.script("ours", (0..60).map(|_| Answer::tool("done", &json!({})).behind(&hold)));
    let before = transactions(&url).await;
    let mut running = Vec::new();
    for n in 0..60 {
        running.push(ours(&gate.client(Era::Modern), &format!("k{n}")).open().await);
    }
    upstream.called("ours", 60).await;
    let begun = std::time::Instant::now();
    eventually("two leases' time", async || (begun.elapsed().as_secs() >= 6).then_some(())).await;
    hold.release();
    for call in running {
        assert_eq!(call.reply().await.met(), "first");
    }
    let cost = transactions(&url).await - before;
    // Each was claimed, settled, and renewed once a second or oftener.
    assert!(cost < 220, "sixty calls of six seconds and more took {cost} transactions");
}
