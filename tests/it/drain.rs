//! The way out of service, with real processes: `oncegate drain`, SIGTERM, and a second one.

use std::process::Output;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::harness::answer::{Answer, Step};
use crate::harness::client::{Client, Era};
use crate::harness::gate::{ADMIN_TOKEN, Gate};
use crate::harness::h2::{H2, json_of};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time};

async fn gate(upstream: &Upstream) -> Gate {
    Gate::start(setup(upstream)).await
}

fn setup(upstream: &Upstream) -> Setup {
    Setup::new(Home::Sqlite, &upstream.url()).set("admin_token_file", "admin")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// How far the gate has come, by the operators' listener.
pub(crate) async fn standing(gate: &Gate, line: &str) -> Value {
    let reply = gate.admin().rpc("", &json!({})).line(line).send().await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    reply.json()
}

async fn until_closed(gate: &Gate) {
    eventually("no new calls", async || {
        (standing(gate, "GET /drain").await["state"] == "closed").then_some(())
    })
    .await;
}

fn refund(gate: &Gate, key: &str) -> crate::harness::client::Ask {
    gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": key })).key(key)
}

#[tokio::test]
async fn nobody_does_or_learns_anything_without_the_operators_token() {
    let upstream = Upstream::start().await;
    let gate = gate(&upstream).await;
    let stranger = Client::new(gate.admin_address(), Era::Legacy);
    for token in [None, Some("the-token-of-the-operatorz"), Some("x"), Some("")] {
        let client = token.map_or_else(|| stranger.clone(), |token| stranger.bearing(token));
        for line in ["POST /drain", "GET /drain", "GET /", "GET /metrics"] {
            let reply = client.rpc("", &json!({})).line(line).send().await;
            assert_eq!(reply.status(), 401, "{token:?} {line}");
            assert_eq!(reply.http.header("www-authenticate"), Some("Bearer"));
        }
    }
    let admin = |line: &str| gate.admin().rpc("", &json!({})).line(line);
    for (line, status) in [
        ("GET /nothing", 404),
        ("PUT /drain", 405),
        ("POST /drain?settle=soon", 400),
        ("POST /drain?settle=2h", 400),
    ] {
        assert_eq!(admin(line).send().await.status(), status, "{line}");
    }
    let standing = standing(&gate, "GET /drain").await;
    assert_eq!(standing, json!({ "state": "serving", "calls_running": 0, "calls_waiting": 0, "spooled": 0 }));
    assert_eq!(gate.healthy("GET /readyz").await, 200);
    assert!(!gate.logged().contains(ADMIN_TOKEN));
}

#[tokio::test]
async fn a_drained_gate_lets_its_calls_end_and_takes_no_new_ones() {
    let upstream = Upstream::start().await;
    let gate = gate(&upstream).await;
    let hold = upstream.hold("refund_order");
    let running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    let draining = gate.run(&["drain", "--settle", "100ms", "--wait", "20s"]);
    let refused = async {
        until_closed(&gate).await;
        assert_eq!(gate.healthy("GET /readyz").await, 503);
        assert_eq!(gate.healthy("GET /livez").await, 200);
        let reply = refund(&gate, "k2").id("mine").send().await;
        let read = gate.client(Era::Legacy).rpc("resources/read", &json!({ "uri": "x:y" })).send().await;
        let standing = standing(&gate, "POST /drain?settle=5m").await;
        assert_eq!(standing["state"], "closed", "there is no way back: {standing}");
        assert_eq!(standing["calls_running"], 1);
        hold.release();
        (reply, read)
    };
    let (drained, (reply, read)) = tokio::join!(draining, refused);
    assert!(drained.status.success(), "{}", said(&drained));
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!((reply.status(), reply.json()["id"].as_str()), (200, Some("mine")));
    let refusal = reply.refusal();
    assert_eq!(
        (refusal["code"].as_str(), refusal["executed"].as_str(), refusal["retry"].as_str()),
        (Some("overloaded"), Some("no"), Some("same_key"))
    );
    assert_eq!((read.status(), read.json()["error"]["code"].as_i64()), (200, Some(50_302)));
    assert_eq!(upstream.calls("refund_order").len(), 1);
    let rows = gate.audit(3).await;
    let draining: Vec<_> = rows.iter().filter(|row| row["reason"] == "draining").collect();
    assert_eq!(draining.len(), 2, "{rows:?}");
    assert!(draining.iter().all(|row| row["decision"] == "denied" && row["executed"] == "no"));
    assert!(draining.iter().any(|row| row["tool"] == "refund_order"), "{draining:?}");
}

#[tokio::test]
async fn draining_loses_and_cuts_no_call_of_clients_that_keep_their_connections() {
    let upstream = Upstream::start().await;
    let gate = gate(&upstream).await;
    let calling = (0..8).map(|client| keeps_calling(&gate, client));
    let calling_h2 = (0..3).map(|client| keeps_calling_h2(&gate, client));
    let draining = async {
        upstream.called("refund_order", 40).await;
        gate.run(&["drain", "--settle", "500ms", "--wait", "20s"]).await
    };
    let (drained, ended, ended_h2) = tokio::join!(
        draining,
        futures_util::future::join_all(calling),
        futures_util::future::join_all(calling_h2)
    );
    assert!(drained.status.success(), "{}", said(&drained));
    let ran: usize = ended.iter().chain(&ended_h2).sum();
    assert_eq!(upstream.calls("refund_order").len(), ran, "every call that ran was answered");
    for claim in gate.claims().await {
        assert_eq!(claim["status"], "completed", "{claim}");
    }
}

/// Calls on and on over kept connections, until it is refused; a new connection where the gate says that the old one
/// ends. Returns how many ran.
async fn keeps_calling(gate: &Gate, client: usize) -> usize {
    let mut connection: Option<TcpStream> = None;
    for number in 0.. {
        let socket = match connection.take() {
            Some(socket) => socket,
            None => TcpStream::connect(gate.address()).await.expect("the gate listens"),
        };
        let (reply, kept) = refund(gate, &format!("c{client}-{number}")).send_on(socket).await;
        connection = kept;
        match reply.met().as_str() {
            "first" => {}
            "overloaded" => {
                assert!(connection.is_none(), "a gate that takes no calls keeps no connections");
                return number;
            }
            other => panic!("{other}: {reply:?}"),
        }
    }
    unreachable!("it is refused in the end")
}

async fn keeps_calling_h2(gate: &Gate, client: usize) -> usize {
    let mut connection = H2::to(gate.address()).await;
    for number in 0.. {
        let arguments = json!({ "order_id": "o", "idempotency_key": format!("h{client}-{number}") });
        let params = json!({ "name": "refund_order", "arguments": arguments });
        let id = u32::try_from(number).expect("not that many");
        let answer = loop {
            // A connection that was told to end takes no new request; one that was on its way is answered, or was
            // certainly not looked at, and may be sent again.
            match connection.send(id, "tools/call", &params).await {
                Ok(response) => break json_of(response).await,
                Err(fault) => {
                    assert!(H2::was_not_taken(&fault), "a call was cut: {fault:?}");
                    connection = H2::to(gate.address()).await;
                }
            }
        };
        let refusal = &answer["result"]["_meta"]["oncegate/refusal"];
        match refusal["code"].as_str() {
            None => assert!(answer["result"]["structuredContent"]["run"].is_number(), "{answer}"),
            Some("overloaded") => return number,
            Some(_) => panic!("{answer}"),
        }
    }
    unreachable!("it is refused in the end")
}

#[tokio::test]
async fn a_drain_that_waits_too_long_says_who_is_still_there() {
    let upstream = Upstream::start().await;
    let gate = gate(&upstream).await;
    let hold = upstream.hold("refund_order");
    let running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    let drained = gate.run(&["drain", "--settle", "0s", "--wait", "300ms"]).await;
    assert_eq!(drained.status.code(), Some(1));
    assert!(said(&drained).contains("1 calls run, 0 wait"), "{}", said(&drained));
    hold.release();
    assert_eq!(running.reply().await.met(), "first", "waiting less stops nothing");
    let again = gate.run(&["drain", "--settle", "0s", "--wait", "10s"]).await;
    assert!(again.status.success(), "{}", said(&again));
}

#[tokio::test]
async fn a_drain_says_what_is_missing_where_it_finds_no_gate() {
    let upstream = Upstream::start().await;
    let mut silent = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let drained = silent.run(&["drain"]).await;
    assert_eq!(drained.status.code(), Some(78), "{}", said(&drained));
    assert!(said(&drained).contains("admin_token_file is missing"), "{}", said(&drained));
    // Configured since, and not started since.
    silent.set("admin_token_file", "admin");
    let drained = silent.run(&["drain"]).await;
    assert_eq!(drained.status.code(), Some(1), "{}", said(&drained));
    assert!(said(&drained).contains("with admin_token_file set?"), "{}", said(&drained));
    let wrong = silent.run(&["drain", "--settle", "10s", "--wait", "5s"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
    silent.kill();
    silent.restart().await;
    silent.set("admin_token_file", "jwt");
    let drained = silent.run(&["drain"]).await;
    assert_eq!(drained.status.code(), Some(1), "{}", said(&drained));
    assert!(said(&drained).contains("does not know this token"), "{}", said(&drained));
}

#[tokio::test]
async fn sigterm_lets_running_calls_end_and_sends_listeners_away() {
    let upstream = Upstream::start().await;
    let mut gate = gate(&upstream).await;
    let hold = upstream.hold("refund_order");
    let beat = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "beat" } });
    upstream.script("GET", [Answer::events().event("id: g1\n", &beat).then(Step::Hang)]);
    let client = gate.client(Era::Legacy);
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type");
    let mut listening = ask.open().await.stream();
    listening.until("beat").await;
    let running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    gate.signal("-TERM");
    in_time("the listener's stream to end", listening.end()).await;
    assert_eq!(gate.healthy("GET /readyz").await, 503);
    hold.release();
    assert_eq!(running.reply().await.met(), "first");
    assert_eq!(gate.ended().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_hurries_and_what_it_cuts_is_found_unknown() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream).policy("lease = \"60s\"", "lease = \"1s\"")).await;
    upstream.script("refund_order", [Answer::hang()]);
    let _running = refund(&gate, "k1").open().await;
    upstream.called("refund_order", 1).await;
    let begun = std::time::Instant::now();
    gate.signal("-TERM");
    eventually("the gate to begin to stop", async || {
        gate.logged().contains("Stopping: no new connections").then_some(())
    })
    .await;
    gate.signal("-TERM");
    assert_eq!(gate.ended().await, Some(0));
    assert!(begun.elapsed().as_secs() < 8, "it did not wait for the call, which has 10 s");
    gate.restart().await;
    let retried = eventually("the lease to lapse", async || {
        let met = refund(&gate, "k1").send().await.met();
        (met != "request_in_flight").then_some(met)
    })
    .await;
    assert_eq!(retried, "outcome_unknown");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}
