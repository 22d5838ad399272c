//! Bodies stream both ways, with bounded memory.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::observing;
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::in_time;
use crate::harness::setup::{Home, Setup};

/// Reads until `end` has come; what was read.
async fn read_to(socket: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let read = in_time(&format!("{end:?}"), socket.read_buf(&mut text)).await.expect("it can be read");
        assert!(read > 0, "the connection ended before {end:?}: {}", String::from_utf8_lossy(&text));
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A gate before whatever this test answers itself.
async fn before_a_socket() -> (TcpListener, Gate) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let gate = Gate::start(Setup::new(Home::Sqlite, &url).set("mode", "observe")).await;
    (listener, gate)
}

async fn connect(address: SocketAddr, head: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(head.as_bytes()).await.expect("it reads");
    socket
}

#[tokio::test]
async fn each_event_comes_before_the_next_one_is_sent() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    for (name, line) in
        [("refund_order", "POST /mcp"), ("get_invoice", "POST /mcp"), ("", "GET /mcp"), ("", "GET /sse")]
    {
        let holds = [Hold::new(), Hold::new()];
        let event = |number: u32| Step::Send(format!(": {number}\r\n\r\ndata: {number}\n\n").into());
        let steps = vec![
            Step::Send(head.into()),
            event(1),
            Step::Hold(holds[0].clone()),
            event(2),
            Step::Hold(holds[1].clone()),
            event(3),
            Step::Close,
        ];
        upstream.script(name, [Answer::raw(steps)]);
        let ask = gate.client(Era::Legacy).tool(name, &json!({})).key(&format!("k-{name}")).line(line);
        let ask = if name.is_empty() { ask.body("") } else { ask };
        let mut socket = ask.open().await.into_socket();
        for number in 1..=3 {
            read_to(&mut socket, &format!("data: {number}\n\n")).await;
            if let Some(hold) = holds.get(number - 1) {
                hold.release();
            }
        }
    }
}

#[tokio::test]
async fn each_piece_of_a_body_reaches_the_app_before_the_next_one_is_sent() {
    let (listener, gate) = before_a_socket().await;
    let head = "PUT /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = connect(gate.address(), head).await;
    client.write_all(b"5\r\nfirst\r\n").await.expect("a chunk");
    let (mut app, _) = in_time("a connection", listener.accept()).await.expect("a connection");
    read_to(&mut app, "first").await;
    client.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.expect("a chunk");
    read_to(&mut app, "second").await;
    // An answer may begin while the body is still on its way.
    app.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await.expect("an answer");
    read_to(&mut client, "done").await;
}

#[tokio::test]
async fn whoever_hangs_up_ends_the_apps_answer_too() {
    let (listener, gate) = before_a_socket().await;
    let client = connect(gate.address(), "GET /sse HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let (mut app, _) = in_time("a connection", listener.accept()).await.expect("a connection");
    read_to(&mut app, "\r\n\r\n").await;
    app.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await.expect("a head");
    drop(client);
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ended = in_time("the connection's end", app.read_to_end(&mut rest)).await.is_ok();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_streamed_body_goes_out_on_a_connection_that_stands() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    // Nothing in the answer says that the connection will end.
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    upstream.script("", [Answer::raw(vec![Step::Send(answer.into()), Step::Close])]);
    let ask = gate.client(Era::Legacy).rpc("", &json!({})).line("PUT /upload").body(vec![b'x'; 1 << 16]);
    for count in 1..=20 {
        assert_eq!(ask.clone().send().await.status(), 200, "upload {count}");
        assert_eq!(upstream.received().len(), count);
        assert_eq!(upstream.received()[count - 1].http.body.len(), 1 << 16);
    }
}

const LARGE: usize = 96 << 20;

/// Reads so many bytes and keeps none.
async fn swallow(socket: &mut (impl AsyncRead + Unpin), mut length: usize) {
    let mut buffer = vec![0; 1 << 16];
    while length > 0 {
        let read = in_time("more bytes", socket.read(&mut buffer)).await.expect("bytes");
        assert!(read > 0, "{length} bytes are missing");
        length -= read.min(length);
    }
}

#[tokio::test]
async fn large_bodies_need_little_memory() {
    let (listener, gate) = before_a_socket().await;
    let before = gate.peak_memory();
    let piece = vec![b'x'; 1 << 20];
    for line in ["PUT /upload", "POST /mcp"] {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {LARGE}\r\n\r\n"
        );
        let mut client = connect(gate.address(), &head).await;
        let (mut from_client, mut to_gate) = client.split();
        let upload = async {
            for _ in 0..LARGE / piece.len() {
                to_gate.write_all(&piece).await.expect("the gate reads");
            }
        };
        let app = async {
            let (mut app, _) = in_time("a connection", listener.accept()).await.expect("a connection");
            let head = read_to(&mut app, "\r\n\r\n").await;
            assert!(head.contains(&format!("content-length: {LARGE}")), "{}", &head[..200]);
            let early = head.len() - head.find("\r\n\r\n").expect("its end") - 4;
            swallow(&mut app, LARGE - early).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {LARGE}\r\n\r\n"
            );
            app.write_all(head.as_bytes()).await.expect("a head");
            for _ in 0..LARGE / piece.len() {
                app.write_all(&piece).await.expect("the gate reads");
            }
            app
        };
        let download = async {
            let head = read_to(&mut from_client, "\r\n\r\n").await;
            let early = head.len() - head.find("\r\n\r\n").expect("its end") - 4;
            swallow(&mut from_client, LARGE - early).await;
        };
        let ((), _app, ()) = tokio::join!(upload, app, download);
    }
    let grown = gate.peak_memory() - before;
    assert!(grown < 24 << 20, "{grown} bytes more for bodies of {LARGE}");
}

#[tokio::test]
async fn a_body_that_stops_halfway_is_never_a_whole_one_for_the_app() {
    let (listener, gate) = before_a_socket().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let client = connect(gate.address(), &format!("{head}7\r\n{{\"half\"\r\n")).await;
    client.set_zero_linger().expect("a TCP socket");
    drop(client);
    // Whatever the app was told of it by now, what comes next finds out.
    let probe = Client::new(gate.address(), Era::Legacy).rpc("ping", &json!({})).header("X-Probe", "yes");
    let _open = probe.open().await;
    loop {
        let (mut app, _) = in_time("a connection", listener.accept()).await.expect("a connection");
        let mut text = Vec::new();
        while in_time("an end", app.read_buf(&mut text)).await.is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&text);
            if text.contains("x-probe") {
                return;
            }
            assert!(!text.contains("0\r\n\r\n"), "{text}");
        }
    }
}
