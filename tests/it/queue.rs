//! What calls meet that find no place: a fair queue, an end to waiting, an answer in the right shape.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::drain::standing;
use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era, Open};
use crate::harness::gate::Gate;
use crate::harness::h2::H2;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time, postgres};

/// How many calls come at once.
const CALLS: usize = 2000;

/// A gate with so many places, and time enough to wait for one.
fn setup(upstream: &Upstream, places: i64) -> Setup {
    Setup::new(Home::Sqlite, &upstream.url())
        .set("admin_token_file", "admin")
        .set("limits.concurrent_calls", places)
        .set("limits.queue_time", "20s")
}

fn refund(gate: &Gate, tenant: &str, key: &str) -> Ask {
    let client = gate.client_with(Era::Modern, &json!({ "tenant_id": tenant }));
    client.tool("refund_order", &json!({ "order_id": key })).key(key).id(key)
}

async fn waiting(gate: &Gate, count: usize) {
    eventually(&format!("{count} calls to wait"), async || {
        (standing(gate, "GET /drain").await["calls_waiting"] == count).then_some(())
    })
    .await;
}

/// A call that has the only place, until the barrier opens.
async fn occupied(gate: &Gate, upstream: &Upstream) -> (Open, crate::harness::answer::Hold) {
    let hold = upstream.hold("refund_order");
    let running = refund(gate, "acme", "first").open().await;
    upstream.called("refund_order", 1).await;
    (running, hold)
}

#[tokio::test]
async fn a_call_without_a_place_waits_and_runs_when_its_turn_comes() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 1)).await;
    let (running, hold) = occupied(&gate, &upstream).await;
    let queued = refund(&gate, "acme", "second").open().await;
    waiting(&gate, 1).await;
    assert_eq!(upstream.calls("refund_order").len(), 1);
    assert_eq!(standing(&gate, "GET /drain").await["calls_running"], 1);
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(queued.reply().await.met(), "first");
}

#[tokio::test]
async fn whoever_waits_too_long_is_refused_with_its_own_id_in_a_shape_that_clients_survive() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 1).set("limits.queue_time", "200ms")).await;
    let (running, hold) = occupied(&gate, &upstream).await;
    for era in Era::ALL {
        // The id stands behind everything else, and more than is read ahead.
        let padding = "x".repeat(200_000);
        let ask = gate.client(era).tool("refund_order", &json!({ "note": padding })).key("k").id("mine");
        let reply = ask.send().await;
        assert_eq!((reply.status(), reply.json()["id"].as_str()), (200, Some("mine")));
        let refusal = reply.refusal();
        let told = (refusal["code"].as_str(), refusal["executed"].as_str(), refusal["retry"].as_str());
        assert_eq!(told, (Some("overloaded"), Some("no"), Some("same_key")));
        assert!(refusal["retry_after_ms"].is_number());
        let read = gate.client(era).rpc("resources/read", &json!({ "uri": "x:y" })).id(7).send().await;
        assert_eq!((read.status(), &read.json()["id"]), (200, &json!(7)));
        assert_eq!(read.json()["error"]["code"], 50_302);
    }
    let rows = gate.audit(4).await;
    let refused: Vec<_> = rows.iter().filter(|row| row["reason"] == "overloaded").collect();
    assert_eq!(refused.len(), 4, "{rows:?}");
    for row in refused {
        assert_eq!((&row["decision"], &row["executed"]), (&json!("denied"), &json!("no")));
        assert!(row["tool"] == "refund_order" || row["tool"] == "resources/read", "{row}");
    }
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    let later = gate.client(Era::Modern).tool("refund_order", &json!({ "note": "y" })).key("k").send().await;
    assert_eq!(later.met(), "first", "a call that was sent away left no claim");
}

#[tokio::test]
async fn whoever_hangs_up_while_it_waits_leaves_at_once_and_is_never_run() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 1)).await;
    let (running, hold) = occupied(&gate, &upstream).await;
    let small = refund(&gate, "acme", "small").open().await;
    let reset = refund(&gate, "acme", "reset").open().await;
    let mut h2 = H2::to(gate.address()).await;
    let arguments = json!({ "order_id": "o", "idempotency_key": "h2" });
    let over_h2 =
        tokio::spawn(h2.send(1, "tools/call", &json!({ "name": "refund_order", "arguments": arguments })));
    waiting(&gate, 3).await;
    drop(small);
    reset.reset();
    over_h2.abort();
    waiting(&gate, 0).await;
    // Of this one so much is unread that its going is noticed when its turn comes.
    let padding = "x".repeat(150_000);
    let large = gate.client(Era::Modern).tool("refund_order", &json!({ "note": padding })).key("large");
    let large = large.open().await;
    waiting(&gate, 1).await;
    drop(large);
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    waiting(&gate, 0).await;
    assert_eq!(refund(&gate, "acme", "last").send().await.met(), "first");
    let ran: Vec<_> = gate.claims().await.iter().map(|claim| claim["idempotency_key"].clone()).collect();
    assert_eq!(upstream.calls("refund_order").len(), 2, "{ran:?}");
    assert_eq!(ran.len(), 2, "{ran:?}");
}

#[tokio::test]
async fn a_quiet_tenant_s_call_goes_before_the_rest_of_a_noisy_one_s() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 1).set("limits.queued_calls", 10)).await;
    let (running, hold) = occupied(&gate, &upstream).await;
    let mut noisy = Vec::new();
    for number in 0..10 {
        noisy.push(refund(&gate, "acme", &format!("n{number}")).open().await);
        waiting(&gate, number + 1).await;
    }
    let full = refund(&gate, "acme", "one-too-many").send().await;
    assert_eq!(full.met(), "overloaded");
    let quiet = refund(&gate, "globex", "q").open().await;
    let newest = noisy.pop().expect("ten").reply().await;
    assert_eq!(newest.met(), "overloaded", "the noisy tenant's newest makes room");
    waiting(&gate, 10).await;
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(quiet.reply().await.met(), "first");
    for call in noisy {
        assert_eq!(call.reply().await.met(), "first");
    }
    let order: Vec<_> = upstream.calls("refund_order").iter().map(order_of).collect();
    let place = order.iter().position(|one| one == "q").expect("it ran");
    assert!(place <= 2, "it waited for one call at most: {order:?}");
}

fn order_of(call: &crate::harness::upstream::Received) -> String {
    call.json["params"]["arguments"]["order_id"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn however_many_calls_of_one_tenant_hang_another_tenant_s_call_runs_at_once() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 18).set("limits.queue_time", "500ms")).await;
    upstream.script("refund_order", [Answer::hang()]);
    let mut hanging = Vec::new();
    for number in 0..40 {
        hanging.push(refund(&gate, "acme", &format!("n{number}")).open().await);
    }
    upstream.called("refund_order", 16).await;
    let read = gate.client_with(Era::Modern, &json!({ "tenant_id": "globex" }));
    assert_eq!(read.tool("get_invoice", &json!({})).send().await.met(), "first");
    assert_eq!(upstream.calls("refund_order").len(), 16, "eight ninths of the places");
}

/// A head that announces more of a body than comes with it.
async fn dawdling(gate: &Gate, sent: &str) -> TcpStream {
    let mut socket = TcpStream::connect(gate.address()).await.expect("the gate listens");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 1000\r\n\r\n{sent}",
        gate.address(),
        token()
    );
    socket.write_all(head.as_bytes()).await.expect("the gate reads");
    socket
}

#[tokio::test]
async fn clients_that_send_byte_by_byte_hold_their_places_for_a_bounded_time() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 2).set("limits.body_time", "1s")).await;
    let (mut one, mut two) = (dawdling(&gate, "{").await, dawdling(&gate, "{\"jsonrpc\"").await);
    eventually("both to hold a place", async || {
        (standing(&gate, "GET /drain").await["calls_running"] == 2).then_some(())
    })
    .await;
    let call = tokio::spawn(refund(&gate, "acme", "k1").send());
    for _ in 0..20 {
        for socket in [&mut one, &mut two] {
            // Refused meanwhile, and then not read any more.
            let _sent = socket.write_all(b" ").await.is_ok();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(in_time("the call behind them", call).await.expect("it is sent").met(), "first");
    let mut told = [0; 12];
    in_time("their answer", one.read_exact(&mut told)).await.expect("an answer");
    assert_eq!(&told, b"HTTP/1.1 400");
}

#[tokio::test]
async fn more_connections_than_there_may_be_wait_until_one_ends() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream, 8).set("limits.connections", 2)).await;
    let (one, two) = (dawdling(&gate, "{").await, dawdling(&gate, "{").await);
    eventually("both to be inside", async || {
        (standing(&gate, "GET /drain").await["calls_running"] == 2).then_some(())
    })
    .await;
    let third = refund(&gate, "acme", "k1").open().await;
    eventually("the gate to say that it is full", async || {
        gate.logged().contains("limits.connections").then_some(())
    })
    .await;
    assert!(upstream.calls("refund_order").is_empty());
    assert_eq!(gate.healthy("GET /readyz").await, 200, "the orchestrator comes in by a door of its own");
    drop((one, two));
    assert_eq!(third.reply().await.met(), "first");
}

#[tokio::test]
async fn thousands_behind_a_hanging_upstream_are_answered_and_cost_a_bounded_memory() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, 90).set("limits.queued_calls", 500).set("limits.queue_time", "1s");
    let setup = setup.set("upstream.timeout", "60s");
    let gate = Gate::start(setup).await;
    upstream.script("refund_order", [Answer::hang()]);
    let idle = gate.memory();
    let padding = "x".repeat(50_000);
    let send = |number: usize| {
        let ask = gate.client(Era::Modern).tool("refund_order", &json!({ "note": padding }));
        ask.key(&format!("k{number}")).id(number).open()
    };
    let open = futures_util::future::join_all((0..CALLS).map(send)).await;
    let mut answers: FuturesUnordered<_> = open
        .into_iter()
        .enumerate()
        .map(|(number, open)| async move {
            let reply = open.try_reply().await.expect("an answer");
            assert_eq!((reply.status(), &reply.json()["id"]), (200, &json!(number)));
            reply.met()
        })
        .collect();
    // Eight ninths of the places are one tenant's: those calls hang. All others are answered.
    for _ in 80..CALLS {
        assert_eq!(in_time("an answer", answers.next()).await.as_deref(), Some("overloaded"));
    }
    assert_eq!(upstream.calls("refund_order").len(), 80);
    let cost = gate.peak_memory().saturating_sub(idle);
    // A connection's buffer may hold 64 KiB of what is unread; whatever is held beside that is of the calls that run, and
    // of those few that are read to be refused.
    assert!(cost < (CALLS as u64) * (64 << 10) + (32 << 20), "it cost {} MiB", cost >> 20);
}

#[tokio::test]
async fn a_store_that_hangs_holds_the_places_and_no_more_than_those() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let mut setup = setup(&upstream, 8).set("limits.queued_calls", 16).set("limits.queue_time", "1s");
    setup.home = Home::Postgres;
    let gate = Gate::start_on(setup, Some(url.clone())).await;
    assert_eq!(refund(&gate, "acme", "k0").send().await.met(), "first");
    let idle = gate.memory();
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the database");
    tokio::spawn(connection);
    client.batch_execute("begin; lock table oncegate.idempotency_claims").await.expect("a lock");
    let mut open = Vec::new();
    for number in 0..400 {
        open.push(refund(&gate, "acme", &format!("k{number}")).open().await);
    }
    let answers = futures_util::future::join_all(open.into_iter().map(Open::reply));
    let answered = async {
        let refused = "oncegate_calls_total{tool=\"refund_order\",decision=\"denied\",reason=\"overloaded\"}";
        eventually("all others to be refused", async || (gate.count(refused).await > 300).then_some(()))
            .await;
        client.batch_execute("commit").await.expect("the lock is given back");
    };
    let (answers, ()) = tokio::join!(answers, answered);
    let words = ["first", "replay", "overloaded", "store_unavailable", "request_in_flight"];
    for answer in &answers {
        assert!(words.contains(&answer.met().as_str()), "{answer:?}");
    }
    assert!(answers.iter().filter(|answer| answer.met() == "overloaded").count() > 300);
    let cost = gate.peak_memory().saturating_sub(idle);
    assert!(cost < 64 << 20, "it cost {} MiB", cost >> 20);
}
