//! A client that goes while it does something to a task. Over HTTP/2, where the gate hears of it at once.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{made, sent, started};
use crate::harness::client::Era;
use crate::harness::eventually;
use crate::harness::setup::token;

#[tokio::test]
async fn whoever_hangs_up_stops_neither_an_act_nor_its_row() {
    let (upstream, gate) = started().await;
    let id = made(&upstream, &gate.client(Era::Legacy), Era::Legacy).await;
    let (hold, _held) = (upstream.hold("tasks/cancel"), upstream.hold("get_invoice"));
    let socket = TcpStream::connect(gate.address()).await.expect("the gate listens");
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut sender, connection) = handshake.await.expect("HTTP/2");
    let carried = tokio::spawn(connection);
    let mut send = |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let request = Request::post(format!("http://{}/mcp", gate.address()))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", token()))
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        sender.send_request(request)
    };
    let act = send("tasks/cancel", json!({ "taskId": id }));
    let read = send("tools/call", json!({ "name": "get_invoice", "arguments": {} }));
    eventually("both upstream", async || {
        let here = !sent(&upstream, "tasks/cancel").is_empty() && !upstream.calls("get_invoice").is_empty();
        here.then_some(())
    })
    .await;
    drop((act, read));
    // A read ends with its caller: once its row is there the gate has heard of both.
    assert_eq!(gate.audit(2).await[1]["reason"], "client_gone");
    hold.release();
    let rows = gate.audit(3).await;
    let act = rows.iter().find(|row| row["tool"] == "tasks/cancel").expect("its row");
    assert_eq!((&act["reason"], &act["executed"]), (&Value::Null, &json!("yes")), "{rows:?}");
    drop(sender);
    carried.await.expect("the connection's task").expect("it ends well");
}
