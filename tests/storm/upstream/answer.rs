//! Requests and responses of the upstream, as bytes.
//!
//! Promises: what it reads of a request is what was forwarded; what it writes is what the whim says, cut where it says so.

use serde_json::{Value, json};

use super::text;
use super::whim::Says;
use crate::http::Message;

/// A forwarded `tools/call`.
pub(super) struct Asked {
    pub(super) id: Value,
    pub(super) tool: String,
    pub(super) order: String,
    pub(super) tenant: String,
    pub(super) user: String,
    pub(super) trace: String,
    pub(super) forwarded: Option<String>,
    /// What a question is about.
    pub(super) key: String,
}

impl Asked {
    /// What is asked; none where it is no call.
    pub(super) fn read(request: &Message) -> Option<Self> {
        let body: Value = serde_json::from_slice(&request.body).ok()?;
        let header = |name| request.header(name).map(str::to_owned);
        let trace = header("traceparent")?.split('-').nth(1)?.to_owned();
        Some(Self {
            id: body.get("id")?.clone(),
            tool: text(&body, "/params/name").to_owned(),
            order: text(&body, "/params/arguments/order").to_owned(),
            tenant: header("x-oncegate-tenant")?,
            user: header("x-oncegate-user")?,
            trace,
            forwarded: header("idempotency-key"),
            key: text(&body, "/params/arguments/key").to_owned(),
        })
    }
}

/// What a client of the legacy protocol hears before it may call: a gate that asks in its own name is one.
pub(super) fn greeting(request: &Message) -> Option<Bytes> {
    let body: Value = serde_json::from_slice(&request.body).ok()?;
    match (text(&body, "/method"), body.get("id")) {
        ("initialize", Some(id)) => {
            let version = body.pointer("/params/protocolVersion")?;
            let server = json!({ "name": "storm", "version": "1" });
            let result =
                json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": server });
            let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            Some(response(200, JSON, &message.to_string()))
        }
        (_, None) => Some(response(202, "text/plain", "")),
        _ => None,
    }
}

/// The answer to a question: the run, as the call's own result has it, or that there is none. In between stands whatever
/// the whim does to an answer.
pub(super) fn found(asked: &Asked, run: Option<&str>, says: Says) -> Option<Bytes> {
    let found = run.is_some();
    let told = run.map_or(
        json!({ "code": "not_shipped" }),
        |run| json!({ "shipment": { "content": [{ "type": "text", "text": run }], "isError": false } }),
    );
    let text = told.to_string();
    let content = json!([{ "type": "text", "text": text }]);
    let result = json!({ "content": content, "structuredContent": told, "isError": !found });
    match says {
        Says::Result | Says::ToolError | Says::Event => {
            Some(response(200, JSON, &rpc(asked, "result", &result)))
        }
        Says::RpcError
        | Says::NoSuchTool
        | Says::Status(_)
        | Says::Page
        | Says::Half
        | Says::EmptyStream
        | Says::Nothing
        | Says::Hang => bytes(asked, "no-run", says),
    }
}

/// What is written, and how the connection ends if it does.
pub(super) struct Bytes {
    pub(super) text: Vec<u8>,
    pub(super) ends: bool,
    pub(super) resets: bool,
}

/// The response; none where the connection is to be reset.
pub(super) fn bytes(asked: &Asked, run: &str, says: Says) -> Option<Bytes> {
    let result = |failed: bool| {
        let content = json!([{ "type": "text", "text": run }]);
        rpc(asked, "result", &json!({ "content": content, "isError": failed }))
    };
    let error = |code: i64| rpc(asked, "error", &json!({ "code": code, "message": run }));
    Some(match says {
        Says::Result => response(200, JSON, &result(false)),
        Says::ToolError => response(200, JSON, &result(true)),
        Says::RpcError => response(200, JSON, &error(-32603)),
        Says::NoSuchTool => response(200, JSON, &error(-32601)),
        Says::Status(status) => response(status, "text/plain", "no"),
        Says::Page => response(200, "text/html", "<p>Everything is fine.</p>"),
        Says::Event => stream(&format!("data: {}\n\n", result(false))),
        Says::EmptyStream => stream(": not yet\n\n"),
        Says::Half => {
            let mut half = response(200, JSON, &result(false));
            half.text.truncate(half.text.len() - 20);
            Bytes { ends: true, resets: run.ends_with(['0', '2', '4', '6', '8']), ..half }
        }
        Says::Nothing | Says::Hang => return None,
    })
}

const JSON: &str = "application/json";

fn rpc(asked: &Asked, member: &str, value: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": asked.id, member: value }).to_string()
}

fn response(status: u16, kind: &str, body: &str) -> Bytes {
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
    Bytes { text: text.into_bytes(), ends: false, resets: false }
}

/// A stream's end is its connection's.
fn stream(events: &str) -> Bytes {
    let text =
        format!("HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}");
    Bytes { text: text.into_bytes(), ends: true, resets: false }
}
