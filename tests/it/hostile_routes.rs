//! What somebody tries by plain HTTP who wants a guarded request to run unseen, twice, or for another tenant.
//!
//! Promises: each attempt goes through the running gate; what the upstream received is the truth.

mod bodies;
mod chance;
mod heads;
mod uploads;

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::http::{Message, Reader};
use crate::harness::in_time;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

/// An API that is open for reads, with a few guarded places in it. The client may not export, and may not erase.
const POLICY: &str = r#"
[routes.anything]
method = "GET"
path = "/api/*"
effect = "read"
scopes = ["billing:read"]

[routes.export]
method = "GET"
path = "/api/admin/export"
effect = "read"
scopes = ["admin:export"]

[routes.erase]
method = "DELETE"
path = "/api/orders/{order}"
effect = "mutation"
scopes = ["admin:erase"]

[routes.show]
method = "GET"
path = "/api/orders/{order}"
effect = "read"
scopes = ["billing:read"]

[routes.refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["billing:refund"]

[routes.of_tenant]
method = "POST"
path = "/api/tenants/{tenant_id}/notes"
effect = "mutation"
scopes = ["billing:refund"]
key = "optional"

[routes.note]
method = ["POST", "PUT"]
path = "/api/notes"
effect = "mutation"
scopes = ["billing:refund"]
key = "optional"

[defaults]
tenant_arguments = ["tenant_id"]
"#;

const REFUND: &str = "POST /api/orders/o1/refunds";

struct Scene {
    upstream: Upstream,
    gate: Gate,
    client: Client,
}

async fn scene() -> Scene {
    scene_with(|setup| setup).await
}

async fn scene_with(change: impl FnOnce(Setup) -> Setup) -> Scene {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(Home::Sqlite, &upstream.url());
    POLICY.clone_into(&mut setup.policy);
    let gate = Gate::start(change(setup)).await;
    let client = gate.client(Era::Modern);
    Scene { upstream, gate, client }
}

/// The status and the code of a refusal; the code is empty where the gate did not get as far as to a problem.
fn word(reply: &Reply) -> (u16, String) {
    (reply.status(), reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

/// Sends it, and sees that it is refused so.
async fn refused(ask: Ask, status: u16, code: &str, what: &str) {
    let reply = ask.send().await;
    assert_eq!(word(&reply), (status, code.to_owned()), "{what}");
}

/// A request's head, as a client with a token would write it, lines as they are given.
fn head(line: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().flat_map(|line| [*line, "\r\n"]).collect();
    format!("{line} HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer {}\r\n{lines}\r\n", token())
}

/// Writes these bytes on a connection of their own, and returns every answer until the gate closes it.
async fn answers(gate: SocketAddr, bytes: &[u8]) -> Vec<Message> {
    listen(written(gate, bytes).await).await
}

/// The same of a client that goes on to send nothing more.
async fn answers_to_cut(gate: SocketAddr, bytes: &[u8]) -> Vec<Message> {
    let mut socket = written(gate, bytes).await;
    let _gone_already = socket.shutdown().await.is_err();
    listen(socket).await
}

async fn written(gate: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(gate).await.expect("the gate listens");
    // A gate that refuses a head need not read on.
    let _refused_early = socket.write_all(bytes).await.is_err();
    socket
}

async fn listen(mut socket: TcpStream) -> Vec<Message> {
    let mut reader = Reader::new();
    let mut all = Vec::new();
    while let Some(message) = in_time("an answer of the gate, or its end", reader.next(&mut socket)).await {
        all.push(message);
    }
    all
}

/// The statuses of these answers.
fn statuses(answers: &[Message]) -> Vec<&str> {
    answers.iter().map(|answer| answer.word(1)).collect()
}
