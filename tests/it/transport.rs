//! Connections, inwards and outwards: HTTP/2, keep-alive, and what the upstream closes.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::answer::{Answer, Step};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::h2::{H2, json_of};
use crate::harness::http::Reader;
use crate::harness::in_time;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

#[tokio::test]
async fn http_2_with_prior_knowledge_carries_calls_side_by_side() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let mut client = H2::to(gate.address()).await;
    let barrier = upstream.hold("refund_order");
    let mut send = |id: u32, tool: &str| {
        let arguments = json!({ "order_id": "o", "idempotency_key": "k1" });
        client.send(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
    };
    let (held, quick) = (send(1, "refund_order"), send(2, "get_invoice"));
    let quick = in_time("the read beside the held call", quick).await.expect("an answer");
    assert_eq!(json_of(quick).await["id"], 2);
    barrier.release();
    let held = in_time("the held call", held).await.expect("an answer");
    assert_eq!(json_of(held).await["result"]["structuredContent"], json!({ "held": true }));
    let host = gate.address().to_string();
    for call in upstream.received() {
        assert_eq!(
            call.http.header("host"),
            Some(host.as_str()),
            "the host that was asked for, as over HTTP/1.1"
        );
    }
    client.close().await;
}

#[tokio::test]
async fn a_connection_that_the_upstream_closed_is_not_used_again() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // Nothing in the answer says that the connection will end.
    let steps = vec![Step::Send((head + body).into()), Step::Close];
    upstream.script("refund_order", [Answer::raw(steps)]);
    for n in 0..20 {
        let reply =
            gate.client(Era::Legacy).tool("refund_order", &json!({})).key(&format!("k{n}")).send().await;
        assert_eq!(reply.met(), "first", "call {n}");
    }
    assert_eq!(upstream.calls("refund_order").len(), 20);
}

#[tokio::test]
async fn a_mutation_goes_out_on_a_connection_that_was_idle_for_a_moment_only() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("upstream.max_idle", "100ms");
    let gate = Gate::start(setup).await;
    let call = async |key: &str| {
        let reply = gate.client(Era::Legacy).tool("refund_order", &json!({})).key(key).send().await;
        assert_eq!(reply.met(), "first");
    };
    call("k1").await;
    // Longer than max_idle: what is tested is that this time counts.
    tokio::time::sleep(Duration::from_millis(300)).await;
    call("k2").await;
    assert_eq!(upstream.connections(), 2, "the idle connection was not used");
}

#[tokio::test]
async fn a_connection_on_which_a_request_was_refused_for_its_head_takes_the_next_one() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let own = gate.address().to_string();
    for (line, host, kind, status) in [
        ("POST /mcp", "evil.example.com", "application/json", "403"),
        ("POST /elsewhere", &own, "application/json", "404"),
        ("PUT /mcp", &own, "application/json", "405"),
        ("POST /mcp", &own, "text/plain", "415"),
    ] {
        let mut socket = TcpStream::connect(gate.address()).await.expect("the gate listens");
        let mut reader = Reader::new();
        let head = |line: &str, host: &str, kind: &str, length: usize| {
            let bearer = token();
            format!(
                "{line} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nAuthorization: Bearer {bearer}\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
        };
        socket.write_all(head(line, host, kind, 2).as_bytes()).await.expect("a head");
        // As clients do it: the gate has seen the head before the body comes.
        tokio::time::sleep(Duration::from_millis(100)).await;
        socket.write_all(b"{}").await.expect("a body");
        let refused = in_time("the refusal", reader.next(&mut socket)).await.expect("a refusal");
        assert_eq!(refused.word(1), status, "{line}");
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let next = head("POST /mcp", &own, "application/json", body.len()) + body;
        socket.write_all(next.as_bytes()).await.expect("the next request");
        let answer = in_time("the next answer", reader.next(&mut socket)).await;
        assert_eq!(answer.as_ref().map(|answer| answer.word(1)), Some("200"), "after {line}: {answer:?}");
    }
}
