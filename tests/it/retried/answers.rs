//! First answers of every kind, to clients that did not get them.

use super::asker::{Met, Order, order};
use super::{Scene, with_every_client};
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::cable::Cable;
use crate::harness::eventually;

/// The JSON text `{"refund":"r1"}`, packed.
const PACKED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x4a\x4d\x2b\xcd\x4b\x51\xb2\x52\x2a\x32\x54\xaa\x05\x00\xcc\x2b\x72\x0a\x0f\x00\x00\x00";

/// An answer as the app sends it.
struct App {
    name: &'static str,
    status: u16,
    headers: &'static str,
    body: &'static [u8],
    /// The names of those headers that a replay has.
    kept: &'static [&'static str],
}

const ANSWERS: [App; 8] = [
    App {
        name: "json",
        status: 201,
        headers: "content-type: application/json\r\nlocation: /api/refunds/r1\r\netag: \"1\"\r\ncontent-length: 18\r\n",
        body: b"{\"refund\" : \"r1\"}\n",
        kept: &["content-type", "etag", "location"],
    },
    App { name: "no-content", status: 204, headers: "", body: b"", kept: &[] },
    App { name: "empty", status: 200, headers: "content-length: 0\r\n", body: b"", kept: &[] },
    App {
        name: "binary",
        status: 200,
        headers: "content-type: application/octet-stream\r\ncontent-disposition: attachment; filename=\"a.bin\"\r\ntransfer-encoding: chunked\r\n",
        body: b"5\r\n\x00\x01\xff\n\r\r\n2\r\n\n\x80\r\n0\r\n\r\n",
        kept: &["content-disposition", "content-type"],
    },
    App {
        name: "packed",
        status: 200,
        headers: "content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 35\r\n",
        body: PACKED,
        kept: &["content-encoding", "content-type"],
    },
    App {
        name: "untyped",
        status: 200,
        headers: "content-length: 3\r\nlink: </a>; rel=\"next\"\r\nlink: </b>; rel=\"prev\"\r\n",
        body: b"ok\n",
        kept: &["link", "link"],
    },
    App {
        name: "elsewhere",
        status: 303,
        headers: "location: /api/refunds/r1\r\ncontent-length: 0\r\n",
        body: b"",
        kept: &["location"],
    },
    App {
        name: "apps-own-problem",
        status: 422,
        headers: "content-type: application/problem+json\r\ncontent-length: 27\r\n",
        body: b"{\"type\":\"urn:app:too-much\"}",
        kept: &["content-type"],
    },
];

impl App {
    fn answer(&self) -> Answer {
        let mut bytes = format!("HTTP/1.1 {} Scripted\r\n{}\r\n", self.status, self.headers).into_bytes();
        bytes.extend_from_slice(self.body);
        Answer::raw(vec![Step::Send(bytes.into())])
    }

    /// The body without its chunks.
    fn bytes(&self) -> &'static [u8] {
        if self.name == "binary" { b"\x00\x01\xff\n\r\n\x80" } else { self.body }
    }
}

/// Sends a request whose connection is lost while the app works on it.
async fn lose(scene: &mut Scene, key: &str, app: &App, order: Order) {
    let hold = Hold::new();
    scene.upstream.script(key, [app.answer().behind(&hold)]);
    let mut cable = Cable::to(scene.gate.address()).await;
    let lost = order.through(&scene.gate, cable.address());
    let (upstream, client) = (&scene.upstream, &mut scene.client);
    let (met, ()) = tokio::join!(client.try_ask(lost), async {
        let heard = async || (upstream.with_key(key).len() == 1).then_some(());
        eventually("the app to hear of it", heard).await;
        cable.cut().await;
        hold.release();
    });
    assert_eq!(met, None, "{key}");
}

/// Asks until the first answer is there.
async fn replay(scene: &mut Scene, order: &Order) -> Met {
    let client = &mut scene.client;
    eventually("the first answer", async || {
        let met = client.ask(order.clone()).await;
        match met.met().as_str() {
            "replay" => Some(met),
            "request_in_flight" => None,
            other => panic!("a retry met {other}: {met:?}"),
        }
    })
    .await
}

#[tokio::test]
async fn a_retry_after_a_lost_connection_gets_the_first_answer_to_the_byte() {
    with_every_client(async |scene| {
        for app in &ANSWERS {
            let key = app.name;
            let order = order(&scene.gate, "POST", "/api/orders/o1/refunds").key(key);
            let order = order.bytes("application/json", b"{\"amount\":5}");
            lose(scene, key, app, order.clone()).await;
            for _ in 0..2 {
                let met = replay(scene, &order).await;
                assert_eq!((met.status, met.body.as_slice()), (app.status, app.bytes()), "{key}: {met:?}");
                let mut kept = app.kept.to_vec();
                kept.push("idempotent-replayed");
                kept.sort_unstable();
                assert_eq!(met.names(), kept, "{key}: {met:?}");
                let length = if app.status == 204 { None } else { Some(app.bytes().len().to_string()) };
                let length: Vec<_> = length.iter().map(String::as_str).collect();
                assert_eq!(met.header("content-length"), length, "{key}: {met:?}");
            }
            assert_eq!(scene.heard(key), 1, "{key}");
            if key == "packed" {
                let met = scene.client.ask(order.unpacked()).await;
                assert_eq!(met.body, b"{\"refund\":\"r1\"}", "as an app reads it");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_retry_of_a_deletion_is_no_second_one() {
    with_every_client(async |scene| {
        let app = &ANSWERS[1];
        let order = order(&scene.gate, "DELETE", "/api/orders/o1").key("delete");
        lose(scene, "delete", app, order.clone()).await;
        assert_eq!(replay(scene, &order).await.status, 204);
        assert_eq!(scene.heard("delete"), 1);
    })
    .await;
}

#[tokio::test]
async fn nothing_of_the_first_response_leaks_into_a_replay() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nset-cookie: session=s1; Secure\r\nset-cookie: b=c\r\n\
                connection: keep-alive, x-of-the-connection\r\nx-of-the-connection: 1\r\nkeep-alive: timeout=5\r\n\
                transfer-encoding: chunked\r\ntrailer: x-trailer\r\nproxy-authenticate: Basic\r\n\
                www-authenticate: Bearer realm=\"app\"\r\ndate: Tue, 01 Jan 2030 00:00:00 GMT\r\n\
                idempotent-replayed: true\r\noncegate-not-recorded: true\r\noncegate-possible-duplicate: k9\r\n\
                x-oncegate-tenant: globex\r\nx-request-id: of-the-first\r\ncache-control: private\r\n\r\n";
    let body = "2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n";
    with_every_client(async |scene| {
        scene.upstream.script("leaks", [Answer::raw(vec![Step::Send(format!("{head}{body}").into())])]);
        let order = order(&scene.gate, "POST", "/api/orders/o1/refunds").key("leaks");
        let order = order.bytes("application/json", b"{}");
        let first = scene.client.ask(order.clone()).await;
        assert_eq!((first.met().as_str(), first.body.as_slice()), ("first", b"ok".as_slice()));
        assert_eq!(first.names(), ["cache-control", "content-type", "x-request-id"], "{first:?}");
        let replay = scene.client.ask(order).await;
        assert_eq!((replay.met().as_str(), replay.body.as_slice()), ("replay", b"ok".as_slice()));
        assert_eq!(replay.names(), ["content-type", "idempotent-replayed"], "{replay:?}");
        assert_ne!(replay.header("date"), ["Tue, 01 Jan 2030 00:00:00 GMT"]);
        assert_eq!(scene.heard("leaks"), 1);
    })
    .await;
}
