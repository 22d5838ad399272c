//! Tricks with a body's length, its end, its trailers and its type.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{REFUND, Scene, answers, answers_to_cut, head, scene, scene_with, statuses};
use crate::harness::in_time;

const JSON: &str = "Content-Type: application/json";
const KEY: &str = "Idempotency-Key: k1";

#[tokio::test]
async fn no_length_hides_a_second_request() {
    let Scene { upstream, gate, .. } = scene().await;
    let hidden = head("GET /api/hidden", &["Connection: close"]);
    for (lines, body) in [
        (&["Content-Length: 2", "Content-Length: 40"][..], "{}".to_owned()),
        (&["Content-Length: 2, 40"], "{}".to_owned()),
        (&["Content-Length: +2"], "{}".to_owned()),
        (&["Content-Length: 0x2"], "{}".to_owned()),
        (&["Content-Length: -2"], "{}".to_owned()),
        (&["Content-Length: 2", "Transfer-Encoding: chunked"], format!("2\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        (&["Transfer-Encoding: chunked", "Content-Length: 2"], format!("2\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        (&["Transfer-Encoding: xchunked"], "2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding: chunked, identity"], "2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding: gzip, chunked"], "2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding : chunked"], "2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding:\u{b}chunked"], "2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding: chunked"], "2\n{}\n0\n\n".to_owned()),
        (&["Transfer-Encoding: chunked"], "0x2\r\n{}\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding: chunked"], "2\r\n{}X\r\n0\r\n\r\n".to_owned()),
        (&["Transfer-Encoding: chunked"], "fffffffffffffffff\r\n{}\r\n0\r\n\r\n".to_owned()),
    ] {
        for line in [REFUND, "POST /api/notes"] {
            let lines = [&[JSON, KEY], lines].concat();
            answers(gate.address(), (head(line, &lines) + &body + &hidden).as_bytes()).await;
        }
    }
    for received in upstream.received() {
        // A second request behind a first one is two requests to both, or none to either.
        let known = [
            format!("{REFUND} HTTP/1.1"),
            "POST /api/notes HTTP/1.1".to_owned(),
            "GET /api/hidden HTTP/1.1".to_owned(),
        ];
        assert!(known.contains(&received.http.start), "{}", received.http.start);
        assert!(
            received.http.header("transfer-encoding").is_none()
                || received.http.header("content-length").is_none()
        );
        if received.http.word(0) == "POST" {
            assert_eq!(&received.http.body[..], b"{}", "{:?}", received.http);
        }
    }
    let runs = upstream.received().iter().filter(|received| received.http.start.starts_with(REFUND)).count();
    assert!(runs <= 1, "one key, one run: {runs}");
}

#[tokio::test]
async fn a_body_that_is_cut_runs_nothing() {
    let Scene { upstream, gate, .. } = scene().await;
    let octets = "Content-Type: application/octet-stream";
    let parts = "Content-Type: multipart/form-data; boundary=b";
    let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
    for (line, lines, body) in [
        (REFUND, &[JSON, KEY, "Content-Length: 20"][..], "{\"a\":1}"),
        (REFUND, &[JSON, KEY, "Transfer-Encoding: chunked"], "7\r\n{\"a\":1}\r\n"),
        (REFUND, &[octets, KEY, "Content-Length: 20"], "half"),
        ("POST /api/notes", &[JSON, "Content-Length: 20"], "{\"a\":1}"),
        ("POST /api/notes", &[octets, "Content-Length: 20"], "half"),
        ("POST /api/notes", &[octets, "Transfer-Encoding: chunked"], "4\r\nhalf\r\n"),
        ("POST /api/notes", &[parts, "Content-Length: 500"], part),
        ("POST /api/notes", &[parts, "Transfer-Encoding: chunked"], "3\r\n--b\r\n"),
    ] {
        let all = answers_to_cut(gate.address(), (head(line, lines) + body).as_bytes()).await;
        for status in statuses(&all) {
            assert!(!status.starts_with('2'), "{line} {lines:?}: {status}");
        }
    }
    assert!(upstream.received().is_empty(), "{:?}", upstream.received());
    assert_eq!(gate.claims().await.len(), 0);
}

#[tokio::test]
async fn a_multipart_body_that_does_not_end_is_refused_and_never_comes_whole() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
    for body in [
        part.to_owned(),
        format!("{part}--b--\r\nmore"),
        format!("more{part}--b--"),
        format!("{part}--b\r\n--b--"),
    ] {
        for key in [None, Some("k1")] {
            let ask =
                client.plain("POST /api/notes").header("Content-Type", "multipart/form-data; boundary=b");
            let ask = key.iter().fold(ask, |ask, key| ask.header("Idempotency-Key", key));
            let reply = ask.body(body.clone()).send().await;
            assert_eq!((reply.status(), &reply.json()["code"]), (400, &"body_unreadable".into()), "{body}");
        }
    }
    assert!(upstream.received().is_empty());
}

/// An upstream that answers one request once these bytes have come, and returns all that it got.
async fn recorded(listener: TcpListener, end: &[u8]) -> Vec<u8> {
    let (mut socket, _) = in_time("the gate", listener.accept()).await.expect("a connection");
    let mut all = Vec::new();
    while !all.windows(end.len()).any(|window| window == end) {
        let read = in_time("more of the request", socket.read_buf(&mut all)).await.expect("the gate sends");
        assert!(read > 0, "it ended early: {}", String::from_utf8_lossy(&all));
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    socket.write_all(answer).await.expect("the gate reads");
    // Whatever else is on its way.
    let _closed = in_time("the end", socket.read_to_end(&mut all)).await.is_ok();
    all
}

#[tokio::test]
async fn trailers_stay_behind() {
    let trailers = "X-HTTP-Method-Override: DELETE\r\nIdempotency-Key: k2\r\nContent-Type: text/html\r\nX-Trail: 1\r\n\r\n";
    for (media, data, end) in [
        ("application/octet-stream", "one", "one\r\n0\r\n"),
        ("multipart/form-data; boundary=b", "--b--\r\n", "--b--\r\n\r\n0\r\n"),
        ("application/json", "{\"a\":1}", "{\"a\":1}"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let Scene { gate, .. } = scene_with(|setup| setup.set("upstream.url", url)).await;
        let request = head(
            "POST /api/notes",
            &[
                &format!("Content-Type: {media}"),
                "Trailer: X-Trail",
                "TE: trailers",
                "Connection: close",
                "Transfer-Encoding: chunked",
            ],
        ) + &format!("{:x}\r\n{data}\r\n0\r\n{trailers}", data.len());
        let asking = answers(gate.address(), request.as_bytes());
        let (all, seen) = tokio::join!(asking, recorded(listener, end.as_bytes()));
        assert_eq!(statuses(&all), ["200"], "{media}");
        let seen = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        for word in ["override", "k2", "x-trail", "text/html", "trailer"] {
            assert!(!seen.contains(word), "{media}: {word} in {seen}");
        }
    }
}

#[tokio::test]
async fn a_second_request_on_a_connection_is_looked_at_by_itself() {
    let Scene { upstream, gate, .. } = scene().await;
    let first = head("GET /api/things", &[]);
    let second = head("GET /api/admin/export", &["Connection: close"]);
    let all = answers(gate.address(), (first + &second).as_bytes()).await;
    assert_eq!(statuses(&all), ["200", "403"]);
    assert_eq!(upstream.received().len(), 1);
    let mut upgraded = TcpStream::connect(gate.address()).await.expect("the gate listens");
    let lines = [
        "Connection: Upgrade, HTTP2-Settings, close",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    ];
    upgraded.write_all(head("GET /api/things", &lines).as_bytes()).await.expect("the gate reads");
    let mut answer = Vec::new();
    in_time("an answer", upgraded.read_to_end(&mut answer)).await.expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let last = upstream.received().pop().expect("it passed");
    assert_eq!((last.http.header("upgrade"), last.http.header("http2-settings")), (None, None));
}
