//! A small MCP client that shows exactly what came back, and can hang up in the middle.
//!
//! Promises: every request has a connection of its own; nothing is sent again, no header is added that the test did
//! not ask for beyond what its era demands.

use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::answer::{MODERN, VERSION_META};
use super::http::{Message, Reader};
use super::in_time;
use super::stream::Stream;

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28: no sessions, mirrored headers, `_meta` on every request.
    Modern,
    /// 2025-11-25 and before.
    Legacy,
}

impl Era {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Modern, Self::Legacy];

    /// The version that it names.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Modern => MODERN,
            Self::Legacy => "2025-11-25",
        }
    }
}

/// A client: an address, a token, an era.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    token: Option<String>,
    era: Era,
}

impl Client {
    /// A client without a token.
    pub(crate) fn new(address: SocketAddr, era: Era) -> Self {
        Self { address, token: None, era }
    }

    /// The same client with this bearer token.
    pub(crate) fn bearing(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// A call of a tool, with id 1 and no key.
    pub(crate) fn tool(&self, name: &str, arguments: &Value) -> Ask {
        self.rpc("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    /// A JSON-RPC request, with id 1.
    pub(crate) fn rpc(&self, method: &str, params: &Value) -> Ask {
        let mut params = params.clone();
        let mut headers = vec![
            ("Host".to_owned(), self.address.to_string()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version".to_owned(), self.era.version().to_owned()),
        ];
        if let Some(token) = &self.token {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        if self.era == Era::Modern {
            params["_meta"][VERSION_META] = json!(MODERN);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({ "name": "tests", "version": "1" });
            headers.push(("Mcp-Method".to_owned(), method.to_owned()));
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                headers.push(("Mcp-Name".to_owned(), name.to_owned()));
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Ask { address: self.address, line: "POST /mcp".to_owned(), headers, body: Body::Json(body) }
    }

    /// A plain HTTP request with this method and target, and nothing in it.
    pub(crate) fn plain(&self, line: &str) -> Ask {
        let mut headers = vec![("Host".to_owned(), self.address.to_string())];
        headers
            .extend(self.token.iter().map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        Ask { address: self.address, line: line.to_owned(), headers, body: Body::Bytes(Bytes::new()) }
    }
}

#[derive(Clone, Debug)]
enum Body {
    Json(Value),
    Bytes(Bytes),
}

/// A request that was not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    address: SocketAddr,
    line: String,
    headers: Vec<(String, String)>,
    body: Body,
}

impl Ask {
    /// With the idempotency key as an argument, as a model sends it.
    pub(crate) fn key(self, key: &str) -> Self {
        self.with(|body| body["params"]["arguments"]["idempotency_key"] = json!(key))
    }

    /// With another JSON-RPC id.
    pub(crate) fn id(self, id: impl Into<Value>) -> Self {
        let id = id.into();
        self.with(|body| body["id"] = id)
    }

    /// With whatever this does to the message.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        match &mut self.body {
            Body::Json(body) => change(body),
            Body::Bytes(_) => panic!("the body is bytes already"),
        }
        self
    }

    /// With one more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    /// With these bytes as its body, whatever they are.
    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Body::Bytes(body.into());
        self
    }

    /// With this JSON as its body, and the header that says so.
    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string())
    }

    /// With another method and target: `GET /mcp`.
    pub(crate) fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    /// The text of the message, for tests that break it.
    pub(crate) fn text(&self) -> String {
        match &self.body {
            Body::Json(body) => body.to_string(),
            Body::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// Sends it and reads the answer.
    pub(crate) async fn send(self) -> Reply {
        self.open().await.reply().await
    }

    /// Sends it and reads the answer, where somebody listens.
    pub(crate) async fn try_send(self) -> Option<Reply> {
        let socket = TcpStream::connect(self.address).await.ok()?;
        let open = self.write_to(socket).await?;
        in_time("an answer of the gate", open.try_reply()).await
    }

    /// Sends it on a connection that may have carried others, and returns that where the answer does not end it.
    pub(crate) async fn send_on(self, socket: TcpStream) -> (Reply, Option<TcpStream>) {
        self.try_send_on(socket).await.expect("the gate answers every request")
    }

    /// The same, where the connection may have ended meanwhile.
    pub(crate) async fn try_send_on(self, socket: TcpStream) -> Option<(Reply, Option<TcpStream>)> {
        let mut open = self.write_to(socket).await?;
        let http = in_time("an answer of the gate", Reader::new().next(&mut open.socket)).await?;
        assert!(http.whole, "the gate's answer was cut: {http:?}");
        let ends = http.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        Some((Reply { http }, (!ends).then_some(open.socket)))
    }

    /// Sends it whole and leaves the answer for later.
    pub(crate) async fn open(self) -> Open {
        let socket = TcpStream::connect(self.address).await.expect("the gate listens");
        self.write_to(socket).await.expect("the gate reads a head")
    }

    async fn write_to(self, mut socket: TcpStream) -> Option<Open> {
        let body = self.text_bytes();
        let mut head = format!("{} HTTP/1.1\r\n", self.line);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").expect("a String takes all");
        }
        write!(head, "Content-Length: {}\r\n\r\n", body.len()).expect("a String takes all");
        socket.write_all(head.as_bytes()).await.ok()?;
        // A gate that refuses a body unread may close while it is still being sent; its answer is there all the same.
        let _refused_early = socket.write_all(&body).await.is_err();
        Some(Open { socket })
    }

    fn text_bytes(&self) -> Bytes {
        match &self.body {
            Body::Json(body) => body.to_string().into(),
            Body::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// A request that was sent and not answered yet. Dropped, the client is gone.
pub(crate) struct Open {
    socket: TcpStream,
}

impl Open {
    /// The answer.
    pub(crate) async fn reply(self) -> Reply {
        let reply = in_time("an answer of the gate", self.try_reply()).await;
        reply.expect("the gate answers every request")
    }

    /// The answer, where one comes.
    pub(crate) async fn try_reply(mut self) -> Option<Reply> {
        let message = Reader::new().next(&mut self.socket).await?;
        assert!(message.whole, "the gate's answer was cut: {message:?}");
        Some(Reply { http: message })
    }

    /// The answer, to be read as it comes.
    pub(crate) fn stream(self) -> Stream {
        Stream::of(self.socket)
    }

    /// Returns once an answer begins.
    pub(crate) async fn peek(&self) {
        self.socket.readable().await.expect("the connection stands");
    }

    /// The connection, to read from it bit by bit.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// The client goes, with a reset rather than a farewell.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().expect("a TCP socket");
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// As it came.
    pub(crate) http: Message,
}

impl Reply {
    /// The HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.http.word(1).parse().expect("a status")
    }

    /// The JSON-RPC message, the last one where the answer is a stream; null where there is none.
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.http.body);
        let streamed =
            self.http.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let message =
            if streamed { text.lines().rev().find_map(|line| line.strip_prefix("data:")) } else { None };
        serde_json::from_str(message.unwrap_or(&text)).unwrap_or(Value::Null)
    }

    /// The `result` member.
    pub(crate) fn result(&self) -> Value {
        self.json()["result"].clone()
    }

    /// What a refusal says to machines; null where the call was not refused as a tool error.
    pub(crate) fn refusal(&self) -> Value {
        self.result()["_meta"]["oncegate/refusal"].clone()
    }

    /// A refusal's code, or the JSON-RPC error's code, or `ok`.
    pub(crate) fn word(&self) -> String {
        let json = self.json();
        match (self.refusal()["code"].as_str(), json["error"]["code"].as_i64()) {
            (Some(code), _) => code.to_owned(),
            (None, Some(code)) => code.to_string(),
            (None, None) if !json["result"].is_null() => "ok".to_owned(),
            (None, None) => format!("HTTP {} {:?}", self.status(), self.http.body),
        }
    }

    /// What the caller met: `first` for the upstream's own answer, `replay`, or the word of a refusal.
    pub(crate) fn met(&self) -> String {
        let word = self.word();
        if self.is_replay() {
            "replay".to_owned()
        } else if word == "ok" {
            "first".to_owned()
        } else {
            word
        }
    }

    /// Whether both marks of a replay are there; one without the other fails the test.
    pub(crate) fn is_replay(&self) -> bool {
        let header = self.http.header("idempotent-replayed");
        let meta = &self.result()["_meta"]["oncegate/replayed"];
        assert!(
            (header == Some("true")) == (*meta == true) || self.json()["error"].is_object(),
            "one mark of a replay without the other: {header:?}, {meta}"
        );
        header == Some("true")
    }
}
