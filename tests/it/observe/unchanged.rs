//! Every request and every response crosses as it is: seen from both ends, with the gate and without it.

use std::net::SocketAddr;

use http_body_util::Full;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::observing;
use crate::harness::answer::{Answer, Step};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::h2::H2;
use crate::harness::http::Message;
use crate::harness::in_time;
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

/// What belongs to one connection, or to the moment.
const OF_ONE_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "transfer-encoding", "content-length", "date"];

/// A message without what belongs to one connection, and without the actor of whom the app hears; names in one case, in
/// one order.
fn essence(message: &Message) -> (String, Vec<(String, String)>, Vec<u8>) {
    let named = message.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
    let mut headers: Vec<_> = named.filter(|(name, _)| !OF_ONE_CONNECTION.contains(&name.as_str())).collect();
    headers.retain(|(name, _)| !name.starts_with("x-oncegate-"));
    // Of one name the order counts.
    headers.sort_by(|one, other| one.0.cmp(&other.0));
    (message.start.clone(), headers, message.body.to_vec())
}

/// Sends the same to the app and to the gate before it; what both ends saw must be the same.
async fn same_on_both_roads(upstream: &Upstream, gate: &Gate, ask: impl Fn(SocketAddr) -> Ask) {
    let mut seen = Vec::new();
    for address in [upstream.address(), gate.address()] {
        let ask = ask(address).without("Host").header("Host", "api.example.com");
        let what = ask.text();
        let reply = ask.send().await;
        let received = upstream.received().pop().expect("it was received");
        seen.push((what, essence(&received.http), essence(&reply.http)));
    }
    assert_eq!(seen[0], seen[1]);
}

fn bare(address: SocketAddr, line: &str) -> Ask {
    let ask = Client::new(address, Era::Legacy).rpc("ping", &json!({})).line(line);
    ["Content-Type", "Accept", "MCP-Protocol-Version"].into_iter().fold(ask, Ask::without)
}

#[tokio::test]
async fn every_request_reaches_the_app_as_it_was_sent() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    upstream.script("", [Answer::http(200, "text/plain", "an answer")]);
    let form = "application/x-www-form-urlencoded";
    let zipped: &[u8] = &[0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff];
    let asks: Vec<Box<dyn Fn(SocketAddr) -> Ask>> = vec![
        Box::new(|to| {
            bare(to, "GET /mcp").body("").header("Accept", "text/event-stream").header("Last-Event-ID", "7")
        }),
        Box::new(|to| bare(to, "DELETE /mcp").body("").header("Mcp-Session-Id", "s-1")),
        Box::new(|to| bare(to, "OPTIONS /mcp").body("").header("Origin", "https://evil.example.com")),
        Box::new(|to| bare(to, "GET /a//b/../c%2Fd/?x=1&y=%20&x=2").body("").header("Cookie", "a=1; b=2")),
        Box::new(move |to| bare(to, "POST /login").body("user=u&password=p").header("Content-Type", form)),
        Box::new(|to| bare(to, "PUT /files/1").body(vec![0, 159, 146, 150, 10, 13])),
        Box::new(|to| bare(to, "PATCH /mcp").body("{}")),
        Box::new(|to| bare(to, "PURGE /mcp?query=1").body("")),
        Box::new(|to| bare(to, "POST /mcp").body("no message").header("Content-Type", "text/plain")),
        Box::new(move |to| {
            let ask = bare(to, "POST /mcp").body(zipped).header("Content-Type", "application/json");
            ask.header("Content-Encoding", "gzip")
        }),
        Box::new(|to| bare(to, "POST /mcp").body("{ \"a\" : 1").header("Content-Type", "application/json")),
        Box::new(|to| bare(to, "POST /mcp").body("").header("Content-Type", "application/json")),
        Box::new(|to| {
            let batch = "[ {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} ]";
            bare(to, "POST /mcp").body(batch).header("Content-Type", "application/json")
        }),
        Box::new(|to| {
            let ask = bare(to, "POST /mcp").body("x".repeat(3 << 20));
            ask.header("Content-Type", "application/json")
        }),
        Box::new(|to| {
            let ask = bare(to, "GET /who").body("").header("Authorization", "Basic dXNlcjpwYXNz");
            ask.header("X-Forwarded-For", "203.0.113.7")
                .header("traceparent", "odd")
                .header("X_Odd.Name", "v")
        }),
    ];
    for ask in asks {
        same_on_both_roads(&upstream, &gate, ask).await;
    }
}

#[tokio::test]
async fn every_message_reaches_the_app_as_it_was_written() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let text = "{ \"id\":1.0e0,\n \"jsonrpc\":\"2.0\", \"method\":\"tools/call\", \"params\" : {\"name\":\"refund_order\",\
                \"arguments\":{\"tenant_id\":\"t\",\"idempotency_key\":\"k\",\"n\":1.50}}}";
    upstream.script("refund_order", [Answer::tool("refunded", &json!({ "card": { "last4": 4242 } }))]);
    let token = token();
    for (era, token) in
        [(Era::Modern, "none"), (Era::Legacy, "none"), (Era::Modern, &token), (Era::Legacy, &token)]
    {
        let message = |to| {
            let client = Client::new(to, era).bearing(token);
            let ask = client.tool("refund_order", &json!({ "tenant_id": "t", "n": 1 })).key("k1");
            ask.header("Idempotency-Key", "k1").header("Mcp-Param-Tenant-Id", "t")
        };
        same_on_both_roads(&upstream, &gate, message).await;
        same_on_both_roads(&upstream, &gate, |to| message(to).body(text)).await;
        for method in ["initialize", "tools/list", "no/such"] {
            let ask = |to| Client::new(to, era).bearing(token).rpc(method, &json!({}));
            same_on_both_roads(&upstream, &gate, ask).await;
        }
    }
    let list = gate.client(Era::Legacy).rpc("tools/list", &json!({})).send().await.result();
    assert_eq!(list["tools"][3]["name"], "unnamed_tool", "nothing is hidden: {list}");
}

#[tokio::test]
async fn every_response_comes_back_as_the_app_sent_it() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let raw = |text: &str| Answer::raw(vec![Step::Send(text.to_owned().into())]);
    let answers = [
        raw(
            "HTTP/1.1 200 Fine By Me\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\nContent-Length: 2\r\n\r\nok",
        ),
        raw(
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"app\"\r\nContent-Length: 0\r\n\r\n",
        ),
        raw("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\ngone"),
        raw("HTTP/1.1 204 No Content\r\nETag: \"7\"\r\n\r\n"),
        raw("HTTP/1.1 304 Not Modified\r\nETag: \"7\"\r\n\r\n"),
        raw("HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere?x\r\nContent-Length: 0\r\n\r\n"),
        raw(
            "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nIdempotent-Replayed: true\r\nContent-Length: 3\r\n\r\n{\"a",
        ),
        raw(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n\u{1f}\u{7f}\u{8}x",
        ),
        raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Odd: \u{e9}\r\n\r\n3\r\none\r\n4;x=y\r\ntwo!\r\n0\r\n\r\n",
        ),
        raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nMcp-Session-Id: s-1\r\n\r\n"),
    ];
    for answer in answers {
        for line in ["GET /page", "POST /mcp"] {
            upstream.script("", [answer.clone()]);
            same_on_both_roads(&upstream, &gate, |to| bare(to, line).body("")).await;
        }
        upstream.script("refund_order", [answer.clone()]);
        upstream.script("ping", [answer]);
        for token in ["none", &token()] {
            let call =
                |to| Client::new(to, Era::Modern).bearing(token).tool("refund_order", &json!({})).key("k1");
            same_on_both_roads(&upstream, &gate, call).await;
        }
        same_on_both_roads(&upstream, &gate, |to| Client::new(to, Era::Legacy).rpc("ping", &json!({}))).await;
    }
}

#[tokio::test]
async fn a_head_of_no_body_says_the_length_of_the_body_that_it_has_not() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 4711\r\nETag: \"7\"\r\n\r\n";
    upstream.script("", [Answer::raw(vec![Step::Send(head.into())])]);
    let mut socket = TcpStream::connect(gate.address()).await.expect("the gate");
    socket.write_all(b"HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it listens");
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        in_time("a head", socket.read_buf(&mut text)).await.expect("a head");
    }
    let text = String::from_utf8(text).expect("a head is text").to_lowercase();
    assert!(text.contains("content-length: 4711") && text.contains("etag: \"7\""), "{text}");
    assert_eq!(upstream.received()[0].http.start, "HEAD /file HTTP/1.1");
}

#[tokio::test]
async fn only_the_apps_own_address_is_not_told() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let (own, public) = (upstream.url(), "https://api.example.com");
    for (said, told) in [
        (format!("{own}/login?next={own}/x"), format!("{public}/login?next={public}/x")),
        (own.clone(), public.to_owned()),
        (format!("{own}0/x"), format!("{own}0/x")),
        ("https://other.example.com/".to_owned(), "https://other.example.com/".to_owned()),
    ] {
        upstream.script("", [Answer::redirect(302, &said)]);
        let reply = bare(gate.address(), "GET /page").body("").send().await;
        assert_eq!(reply.http.header("location"), Some(told.as_str()));
    }
    let challenge = format!("Bearer resource_metadata=\"{own}/.well-known/x\", scope=\"a b\"");
    upstream.script("", [Answer::http(401, "text/plain", "").with_header("WWW-Authenticate", &challenge)]);
    let reply = bare(gate.address(), "GET /page").body("").send().await;
    let told = format!("Bearer resource_metadata=\"{public}/.well-known/x\", scope=\"a b\"");
    assert_eq!(reply.http.header("www-authenticate"), Some(told.as_str()));
}

#[tokio::test]
async fn the_app_hears_of_a_verified_actor_and_of_nobody_else() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    let spoof = |ask: Ask| {
        let names = ["X-Oncegate-Tenant", "X_Oncegate_User", "X.Oncegate-Scopes", "x-oncegate-else"];
        names.into_iter().fold(ask, |ask, name| ask.header(name, "globex"))
    };
    let ours = |ask: &Message| {
        let headers = ask.headers.iter().filter(|(name, _)| name.to_lowercase().contains("oncegate"));
        headers.map(|(name, value)| format!("{}={value}", name.to_lowercase())).collect::<Vec<_>>()
    };
    for line in ["POST /mcp", "GET /other"] {
        let ask = gate.client(Era::Legacy).rpc("ping", &json!({})).line(line);
        assert_eq!(spoof(ask).send().await.status(), 200);
        let received = upstream.received().pop().expect("it was received").http;
        let mut told = ours(&received);
        told.sort();
        assert_eq!(
            told,
            [
                "x-oncegate-scopes=accounts:mail billing:read billing:refund",
                "x-oncegate-session=s1",
                "x-oncegate-tenant=acme",
                "x-oncegate-user=u1"
            ]
        );
        let token = received.header("authorization").unwrap_or_default();
        assert!(token.starts_with("Bearer ey"), "{token}");
        let nobody = Client::new(gate.address(), Era::Legacy).bearing("no-token").rpc("ping", &json!({}));
        assert_eq!(spoof(nobody.line(line)).send().await.status(), 200);
        let received = upstream.received().pop().expect("it was received").http;
        assert_eq!(ours(&received), Vec::<String>::new());
        assert_eq!(received.header("authorization"), Some("Bearer no-token"));
    }
}

#[tokio::test]
async fn the_apps_own_documents_are_served_not_the_gates() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    upstream.script("", [Answer::http(200, "application/json", "{\"resource\":\"the app's\"}")]);
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let reply = bare(gate.address(), &format!("GET {path}")).body("").send().await;
        assert_eq!(reply.json(), json!({ "resource": "the app's" }), "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_forwarded_is_said() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("mode", "observe");
    let gate = Gate::start(setup).await;
    drop(upstream);
    let call = gate.client(Era::Modern).tool("refund_order", &json!({})).key("k1").send().await;
    assert_eq!(call.word(), "upstream_unreachable");
    assert_eq!(bare(gate.address(), "GET /page").body("").send().await.status(), 502);
    assert_eq!(bare(gate.address(), "CONNECT other:443").body("").send().await.status(), 404);
}

#[tokio::test]
async fn over_http_2_the_host_and_the_cookies_come_as_one_knows_them() {
    let (upstream, gate) = observing(Home::Sqlite).await;
    upstream.script("", [Answer::http(200, "text/plain", "an answer").with_header("Set-Cookie", "c=3")]);
    let mut client = H2::to(gate.address()).await;
    let request = http::Request::get("http://app.example.com:8000/page?x=1");
    let request = request.header("cookie", "a=1").header("cookie", "b=2").header("te", "trailers");
    let answer = client.send_any(request.body(Full::default()).expect("a request")).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["set-cookie"]),
        (200, &"c=3".parse().expect("a value"))
    );
    let received = upstream.received().pop().expect("it was received").http;
    assert_eq!(received.start, "GET /page?x=1 HTTP/1.1");
    assert_eq!(received.header("host"), Some("app.example.com:8000"));
    assert_eq!(received.header("cookie"), Some("a=1; b=2"));
    assert_eq!(received.header("te"), None);
    client.close().await;
}
