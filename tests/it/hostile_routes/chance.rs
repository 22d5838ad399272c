//! Requests that are broken by chance, byte by byte, on the socket.
//!
//! Promises: whatever comes, the gate goes on, and what it lets through is a request that the policy names, in its plain
//! form, at most once for a key.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use oncegate::http::content::Content;
use oncegate::http::overrides::refuse_override;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::{REFUND, Scene, answers, head, scene, statuses, written};
use crate::harness::in_time;
use crate::harness::upstream::Received;

const ROUNDS: usize = 600;

/// How long a request that may lack something waits for an answer.
const A_WHILE: Duration = Duration::from_millis(100);

/// What is put into a request.
const BREAKS: [&str; 36] = [
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    "\r\n ",
    " ",
    "\t",
    "\0",
    ":",
    ";",
    ",",
    "/",
    "//",
    "/../",
    "%2e",
    "%2F",
    "\\",
    "?",
    "#",
    "&_method=DELETE&",
    "?_method=DELETE",
    "\"_method\":\"DELETE\",",
    "&tenant_id=globex&",
    "\"tenant_id\":\"globex\",",
    "\r\nX-HTTP-Method-Override: DELETE",
    "\r\nTransfer-Encoding: chunked",
    "\r\nContent-Length: 0",
    "\r\nContent-Type: text/plain",
    "\r\nIdempotency-Key: other",
    "\r\nX-Oncegate-Tenant: globex",
    "\r\n--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE",
    "\n--b\r\n",
    "--b",
    "0\r\n\r\n",
    "DELETE /api/orders/o1 HTTP/1.1\r\n",
    "GET /api/admin/export HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// A good request.
fn good(random: &mut Rng, key: usize) -> Vec<u8> {
    let (line, media, body) = *random
        .choice(&[
            ("GET /api/things?a=1&b=2", "text/plain", ""),
            (REFUND, "application/json", "{\"a\":1,\"tenant_id\":\"acme\"}"),
            (REFUND, "application/x-www-form-urlencoded", "a=1&b=2&tenant_id=acme"),
            ("POST /api/notes?x=y", "application/octet-stream", "whatever it is"),
            (
                "POST /api/notes",
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n",
            ),
        ])
        .expect("there are some");
    let key = format!("Idempotency-Key: k{key}");
    let media = format!("Content-Type: {media}");
    let chunked = random.bool();
    let length = if chunked {
        "Transfer-Encoding: chunked".to_owned()
    } else {
        format!("Content-Length: {}", body.len())
    };
    let mut lines = vec![media.as_str(), length.as_str(), "Connection: close"];
    if line == REFUND || random.bool() {
        lines.push(&key);
    }
    let body = match (chunked, body) {
        (false, body) => body.to_owned(),
        (true, "") => "0\r\n\r\n".to_owned(),
        (true, body) => format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    };
    (head(line, &lines) + &body).into_bytes()
}

/// Breaks it in so many places.
fn broken(random: &mut Rng, mut request: Vec<u8>, places: usize) -> Vec<u8> {
    for _ in 0..places {
        let at = random.usize(..=request.len());
        let until = (at + *random.choice(&[0, 0, 0, 1, 2, 8]).expect("a length")).min(request.len());
        if random.u8(..) < 32 {
            request.splice(at..until, [random.u8(..)]);
        } else {
            request.splice(at..until, random.choice(BREAKS).expect("a break").bytes());
        }
    }
    request
}

/// Sends it, waits for whatever comes, and sends nothing more where the gate waits for that.
async fn send(gate: SocketAddr, request: &[u8]) {
    let mut socket = written(gate, request).await;
    let mut answer = Vec::new();
    while let Ok(read) = timeout(A_WHILE, socket.read_buf(&mut answer)).await {
        if read.is_err() || read.is_ok_and(|read| read == 0) {
            return;
        }
    }
    let _gone_already = socket.shutdown().await.is_err();
    let _reset = in_time("the gate's end", socket.read_to_end(&mut answer)).await.is_err();
}

/// Whether the policy names it, and it asks for nothing else besides.
#[track_caller]
fn check(received: &Received) {
    let http = &received.http;
    let (method, target) = (http.word(0), http.word(1));
    let path = received.path();
    let of_order = path.strip_prefix("/api/orders/").and_then(|rest| rest.strip_suffix("/refunds"));
    let known = match method {
        "GET" | "HEAD" => path.starts_with("/api/") && !path.to_ascii_lowercase().contains("export"),
        "POST" | "PUT" if path == "/api/notes" => true,
        "POST" => of_order.is_some_and(|order| !order.is_empty() && !order.contains('/')),
        _ => false,
    };
    assert!(known, "{}", http.start);
    assert!(
        !path.contains("//") && !path.contains("/.") && !path.contains([';', '\\', '#']),
        "{}",
        http.start
    );
    assert_eq!(http.header("x-oncegate-tenant"), Some("acme"), "{http:?}");
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        assert!(plain, "{name}");
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    }
    let target = target.parse().unwrap_or_else(|fault| panic!("{target}: {fault}"));
    assert_eq!(refuse_override(&target, &headers), Ok(()), "{}", http.start);
    let content = Content::read(&headers, Bytes::copy_from_slice(&http.body));
    let content = content.unwrap_or_else(|refusal| panic!("{refusal:?}: {http:?}"));
    assert!(content.values("tenant_id").iter().all(|tenant| tenant.as_deref() == Some("acme")), "{http:?}");
}

#[tokio::test]
async fn whatever_is_written_on_the_socket_only_plain_requests_come_through() {
    let Scene { upstream, gate, client } = scene().await;
    let mut random = Rng::with_seed(5);
    let mut whole = 0;
    for round in 0..ROUNDS {
        let (request, places) = (good(&mut random, round), random.usize(0..4));
        if places == 0 {
            whole += 1;
            assert_eq!(statuses(&answers(gate.address(), &request).await), ["200"]);
        } else {
            send(gate.address(), &broken(&mut random, request, places)).await;
        }
    }
    let all = upstream.received();
    assert!(all.len() >= whole, "{whole} were as they should be, and {} came through", all.len());
    let mut runs: HashMap<String, usize> = HashMap::new();
    for received in &all {
        check(received);
        if let Some(key) = received.http.header("idempotency-key") {
            *runs.entry(format!("{} {key}", received.plain())).or_default() += 1;
        }
    }
    // The key that a break brings along may come with two requests, and then it is one to the ledger.
    let twice: Vec<_> = runs.iter().filter(|(_, runs)| **runs > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(client.plain("GET /api/things").send().await.status(), 200, "the gate goes on");
    assert_eq!(gate.healthy("GET /livez").await, 200);
    assert!(!gate.logged().contains("panicked"), "{}", gate.logged());
}
