//! An agent that calls tools over MCP, and what it meets.
//!
//! Promises: every call has a connection and a request id of its own, as after a crash or a broken line; nothing is
//! sent again unless the gate said that the same key may be.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::Fallible;

const VERSION: &str = "2026-07-28";

/// The longest that an agent waits between two tries, and for the whole of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// One who calls, with a token.
pub(crate) struct Agent {
    gate: SocketAddr,
    token: String,
    sent: AtomicUsize,
}

/// What came back.
#[derive(Debug)]
pub(crate) enum Met {
    /// A result, of this very call.
    Ran(Value),
    /// The result of the first call with the same key.
    Replayed(Value),
    /// The tool's own error.
    AppError(Value),
    /// The gate's refusal.
    Refused { code: String, executed: String, retry_after: Option<Duration> },
    /// A demand for further scopes.
    Challenged { status: u16, scope: String },
    /// Nothing that the demo knows.
    Strange(String),
}

impl Agent {
    pub(crate) fn new(gate: SocketAddr, token: String) -> Self {
        Self { gate, token, sent: AtomicUsize::new(0) }
    }

    /// How many calls it has sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Calls a tool once. Dropped, it hangs up.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Fallible<Met> {
        let id = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let body = json!({
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": VERSION,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": { "name": "demo", "version": "1.0.0" },
                },
            },
        });
        let request = Request::post("/mcp")
            .header(HOST, self.gate.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .body(Full::from(body.to_string()))?;
        let (status, headers, body) = exchange(self.gate, request).await?;
        Ok(met(status, &headers, &body))
    }

    /// Calls a tool, and again with the same key for as long as the gate says that the first call still runs. How
    /// often it was told so comes with the answer.
    pub(crate) async fn insist(&self, tool: &str, arguments: &Value) -> Fallible<(usize, Met)> {
        let begun = Instant::now();
        let mut waits = 0;
        loop {
            let met = self.call(tool, arguments).await?;
            let Some(pause) = met.pause().filter(|_| begun.elapsed() < PATIENCE) else {
                return Ok((waits, met));
            };
            waits += 1;
            sleep(pause).await;
        }
    }
}

impl Met {
    /// A member of the structured result, as text.
    pub(crate) fn found(&self, pointer: &str) -> String {
        let (Self::Ran(result) | Self::Replayed(result) | Self::AppError(result)) = self else {
            return String::new();
        };
        text(at(result, &format!("/structuredContent{pointer}")))
    }

    /// How long to wait before the same call is sent again, where the gate said that the first one still runs.
    fn pause(&self) -> Option<Duration> {
        if let Self::Refused { code, retry_after, .. } = self
            && code == "request_in_flight"
        {
            return Some(retry_after.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE));
        }
        None
    }

    /// Whether the gate refused with this code, and says that nothing was run.
    pub(crate) fn is_refused(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, executed, .. } if code == wanted && executed == "no")
    }
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(_) => f.write_str("it ran"),
            Self::Replayed(_) => f.write_str("the first answer, replayed"),
            Self::AppError(_) => write!(f, "the tool's own error {}", self.found("/error/code")),
            Self::Refused { code, executed, .. } => write!(f, "{code} (executed: {executed})"),
            Self::Challenged { status, scope } => write!(f, "HTTP {status}, asked for the scope {scope}"),
            Self::Strange(text) => write!(f, "something strange: {text}"),
        }
    }
}

/// Reads an answer as an agent does.
fn met(status: u16, headers: &HeaderMap, body: &Bytes) -> Met {
    let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    if let Some(scope) = challenge.and_then(|text| text.split("scope=\"").nth(1)?.split('"').next()) {
        return Met::Challenged { status, scope: scope.to_owned() };
    }
    let body = String::from_utf8_lossy(body);
    // While a call runs the gate may answer with a stream; its last message is the answer.
    let message = body.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(&body);
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    let result = at(&message, "/result");
    // In a JSON pointer `~1` is a slash.
    let refusal = at(result, "/_meta/oncegate~1refusal");
    let is = |pointer| at(result, pointer) == true;
    if refusal.is_object() {
        let retry_after = at(refusal, "/retry_after_ms").as_u64().map(Duration::from_millis);
        let (code, executed) = (text(at(refusal, "/code")), text(at(refusal, "/executed")));
        Met::Refused { code, executed, retry_after }
    } else if !result.is_object() {
        Met::Strange(format!("HTTP {status} {body}"))
    } else if is("/isError") {
        Met::AppError(result.clone())
    } else if is("/_meta/oncegate~1replayed") {
        Met::Replayed(result.clone())
    } else {
        Met::Ran(result.clone())
    }
}

/// What stands at a JSON pointer; null where nothing does.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// A value for people: strings without their quotes, null as nothing.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// `GET path`.
pub(crate) async fn get(server: SocketAddr, path: &str) -> Fallible<(u16, HeaderMap, Bytes)> {
    let request = Request::get(path).header(HOST, server.to_string()).body(Full::default())?;
    exchange(server, request).await
}

/// One request on one connection, which ends with this future.
async fn exchange(server: SocketAddr, request: Request<Full<Bytes>>) -> Fallible<(u16, HeaderMap, Bytes)> {
    let stream = TcpStream::connect(server).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let answer = async move {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head.status.as_u16(), head.headers, body))
    };
    // A connection that fails, fails the answer too.
    let (answer, _connection) = tokio::join!(answer, connection);
    answer
}
