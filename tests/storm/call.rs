//! One call of a client: a request on a connection of its own, and what is heard.
//!
//! Promises: every call has a trace of its own, by which it is found again in the upstream's record and in the audit;
//! nothing is sent twice; a response is believed only where it is whole.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Fallible;
use crate::gates::{AUDIENCE, ISSUER, JWT_SECRET};
use crate::history::{Came, Time};
use crate::http::{Message, Reader};

/// How long a client waits for the end of its call.
const PATIENCE: Duration = Duration::from_secs(9);

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) trace: &'a str,
    pub(crate) token: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) order: &'a str,
    pub(crate) key: Option<&'a str>,
    /// When the client hangs up, whatever it has heard by then.
    pub(crate) hangs_up: Option<Duration>,
}

impl Request<'_> {
    /// Sends it, and says what came.
    pub(crate) async fn send(&self, gate: SocketAddr) -> Came {
        match timeout(self.hangs_up.unwrap_or(PATIENCE), self.exchange(gate)).await {
            Ok(Some(response)) => read(&response),
            Ok(None) => Came::Nothing("broken"),
            Err(_) if self.hangs_up.is_some() => Came::Nothing("hung up"),
            Err(_) => Came::Nothing("too late"),
        }
    }

    async fn exchange(&self, gate: SocketAddr) -> Option<Message> {
        let mut socket = TcpStream::connect(gate).await.ok()?;
        socket.write_all(self.text(gate).as_bytes()).await.ok()?;
        let mut reader = Reader::new();
        let response = reader.next(&mut socket).await?;
        response.whole.then_some(response)
    }

    /// The key stands among the arguments or in the header, as the trace has it.
    fn text(&self, gate: SocketAddr) -> String {
        let mut arguments = json!({ "order": self.order });
        let mut head = format!("POST /mcp HTTP/1.1\r\nHost: {gate}\r\n");
        let in_header = self.trace.ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e']);
        match self.key {
            Some(key) if in_header => write!(head, "Idempotency-Key: {key}\r\n").expect("a text"),
            Some(key) => arguments["idempotency_key"] = json!(key),
            None => {}
        }
        let params = json!({ "name": self.tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let (token, trace, length) = (self.token, self.trace, body.len());
        write!(
            head,
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-11-25\r\nAuthorization: Bearer {token}\r\n\
             traceparent: 00-{trace}-00000000000000aa-01\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .expect("a text");
        head
    }
}

/// What a whole response says.
fn read(response: &Message) -> Came {
    let body = String::from_utf8_lossy(&response.body);
    let is_stream = response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    let last = body.lines().rev().find_map(|line| line.strip_prefix("data:"));
    let message = if is_stream { last.unwrap_or_default() } else { &body };
    let Ok(message) = serde_json::from_str::<Value>(message) else {
        // A stream may end before its result only with its connection, and that a client takes for a break.
        return if is_stream { Came::Nothing("broken") } else { Came::Garbled(body.into_owned()) };
    };
    let marked = |name| response.header(name) == Some("true");
    let came = match said(message) {
        // Errors have no room for marks; where they come on a stream there is no header for them either.
        Some(Came::Answer { run, body, replayed, recorded }) => {
            let unmarked = is_stream && body.starts_with(r#"{"code""#);
            let replayed = replayed || unmarked || marked("idempotent-replayed");
            let recorded = recorded && !unmarked && !marked("oncegate-not-recorded");
            Some(Came::Answer { run, body, replayed, recorded })
        }
        other => other,
    };
    came.unwrap_or_else(|| Came::Garbled(body.into_owned()))
}

fn said(mut message: Value) -> Option<Came> {
    let places = ["/result/_meta/oncegate~1refusal", "/error/data/oncegate~1refusal"];
    if let Some(refusal) = places.iter().find_map(|place| message.pointer(place)) {
        let text = |name: &str| refusal.get(name)?.as_str().map(str::to_owned);
        let retry_after = refusal.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis);
        return Some(Came::Refusal { code: text("code")?, executed: text("executed")?, retry_after });
    }
    if message.get("id") != Some(&json!(1)) {
        return None;
    }
    let mut mark = |name: &str| {
        let meta = message.pointer_mut("/result/_meta").and_then(Value::as_object_mut);
        meta.is_some_and(|meta| meta.remove(name) == Some(json!(true)))
    };
    let (replayed, recorded) = (mark("oncegate/replayed"), !mark("oncegate/not_recorded"));
    if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut)
        && result.get("_meta") == Some(&json!({}))
    {
        result.remove("_meta");
    }
    let run =
        message.pointer("/result/content/0/text").or(message.pointer("/error/message"))?.as_str()?.to_owned();
    let body = message.get("result").or(message.get("error"))?.to_string();
    Some(Came::Answer { run, body, replayed, recorded })
}

/// A trace that says when its call was sent.
pub(crate) fn trace(sent: Time, rng: &mut Rng) -> String {
    format!("{:012x}{:020x}", sent.as_millis(), rng.u128(1..1 << 80))
}

/// When the call of this trace was sent.
pub(crate) fn sent_at(trace: &str) -> Time {
    let millis = trace.get(..12).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    Time::from_millis(millis.unwrap_or_default())
}

/// A token for a user of a tenant.
pub(crate) fn token(tenant: &str, user: &str, scoped: bool) -> Fallible<String> {
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 86_400,
        "tenant_id": tenant, "sub": user, "sid": "s1",
        "scope": if scoped { "storm:read storm:write" } else { "storm:nothing" },
    });
    let key = jsonwebtoken::EncodingKey::from_secret(JWT_SECRET.as_bytes())?;
    Ok(jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key)?)
}
