//! What the scripted upstream says to one request, down to the bytes and to how the connection ends.
//!
//! Promises: an answer is a list of steps on the socket; nothing is added to them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The version by which a request is of the modern era.
pub(crate) const MODERN: &str = "2026-07-28";

/// The `_meta` member in which a modern request names its version.
pub(crate) const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";

/// What is done on the socket once the request was read whole.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes are sent.
    Send(Bytes),
    /// Nothing happens for so long.
    Wait(Duration),
    /// Nothing happens until the test says so.
    Hold(Hold),
    /// The connection is closed in order.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing happens until the peer has gone; then the test hears of it.
    UntilGone(Hold),
    /// Nothing happens any more; the connection stays.
    Hang,
}

/// A barrier between a test and its upstream: what waits behind it goes on once it is released.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Arc<watch::Sender<bool>>);

impl Hold {
    /// A closed barrier.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens it for good.
    pub(crate) fn release(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub(crate) async fn passed(&self) {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("the barrier outlives those who wait at it");
    }
}

/// One answer of the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    before: Vec<Step>,
    say: Say,
}

#[derive(Clone, Debug)]
enum Say {
    Result(Value),
    Error { status: u16, error: Value },
    Http { status: u16, headers: Vec<(String, String)>, body: String },
    Stream { result: Option<Value> },
    Framed { body: Value, id: Value },
    Pieces(Vec<Piece>),
    Raw(Vec<Step>),
}

/// A piece of an event stream.
#[derive(Clone, Debug)]
enum Piece {
    /// Lines before the data, and a message.
    Event(String, Value),
    /// Lines before the data, and the result of whatever was asked.
    Result(String, Value),
    /// How far the request is, under its own token.
    Progress(u32),
    /// Something that is done.
    Step(Step),
}

impl Answer {
    /// A JSON-RPC result with the request's id. In the modern era it says `resultType: "complete"` unless it says
    /// something else.
    pub(crate) fn result(result: Value) -> Self {
        Self::of(Say::Result(result))
    }

    /// A tool's result with this text and these structured contents.
    pub(crate) fn tool(text: &str, structured: &Value) -> Self {
        Self::result(
            json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured }),
        )
    }

    /// A tool error: `isError: true`.
    pub(crate) fn tool_error(text: &str) -> Self {
        Self::result(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
    }

    /// The answer of a tool that runs others: this as the JSON text of its content.
    pub(crate) fn inner(told: &Value, is_error: bool) -> Self {
        let text = json!({ "type": "text", "text": told.to_string() });
        Self::result(json!({ "content": [text], "isError": is_error }))
    }

    /// A JSON-RPC error under an HTTP status.
    pub(crate) fn error(status: u16, code: i64) -> Self {
        Self::of(Say::Error { status, error: json!({ "code": code, "message": "the upstream says no" }) })
    }

    /// An HTTP response without JSON-RPC in it.
    pub(crate) fn http(status: u16, content_type: &str, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self::of(Say::Http { status, headers, body: body.to_owned() })
    }

    /// An HTTP response that sends the client elsewhere.
    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self::of(Say::Http { status, headers, body: String::new() })
    }

    /// An event stream: a priming event, a notification, then the result, then its end.
    pub(crate) fn stream(result: Value) -> Self {
        Self::of(Say::Stream { result: Some(result) })
    }

    /// An event stream that ends without its result.
    pub(crate) fn stream_without_result() -> Self {
        Self::of(Say::Stream { result: None })
    }

    /// An event stream, piece by piece; it stays open after the last one.
    pub(crate) fn events() -> Self {
        Self::of(Say::Pieces(Vec::new()))
    }

    /// Then these lines (an `id:`, say) and a message.
    pub(crate) fn event(self, lines: &str, message: &Value) -> Self {
        self.piece(Piece::Event(lines.to_owned(), message.clone()))
    }

    /// Then how far the request is, told by the token that it came with.
    pub(crate) fn progress(self, done: u32) -> Self {
        self.piece(Piece::Progress(done))
    }

    /// Then these lines and the result.
    pub(crate) fn then_result(self, lines: &str, result: &Value) -> Self {
        self.piece(Piece::Result(lines.to_owned(), result.clone()))
    }

    /// Then this step.
    pub(crate) fn then(self, step: Step) -> Self {
        self.piece(Piece::Step(step))
    }

    fn piece(mut self, piece: Piece) -> Self {
        match &mut self.say {
            Say::Pieces(pieces) => pieces.push(piece),
            Say::Result(_)
            | Say::Error { .. }
            | Say::Http { .. }
            | Say::Stream { .. }
            | Say::Framed { .. }
            | Say::Raw(_) => panic!("only an event stream has pieces; see Answer::events"),
        }
        self
    }

    /// A result under another request's id.
    pub(crate) fn result_for(id: impl Into<Value>, result: &Value) -> Self {
        Self::of(Say::Framed { body: json!({ "result": result }), id: id.into() })
    }

    /// These steps and nothing else.
    pub(crate) fn raw(steps: Vec<Step>) -> Self {
        Self::of(Say::Raw(steps))
    }

    /// These bytes as the body of a 200, declared longer than they are; then the connection closes.
    pub(crate) fn cut(body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len() + 40
        );
        Self::raw(vec![Step::Send((head + body).into()), Step::Close])
    }

    /// Nothing, and the connection is reset.
    pub(crate) fn reset() -> Self {
        Self::raw(vec![Step::Reset])
    }

    /// Nothing, ever.
    pub(crate) fn hang() -> Self {
        Self::raw(vec![Step::Hang])
    }

    /// The same answer, so much later.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.before.push(Step::Wait(delay));
        self
    }

    /// The same answer, once the barrier opens.
    pub(crate) fn behind(mut self, hold: &Hold) -> Self {
        self.before.push(Step::Hold(hold.clone()));
        self
    }

    /// The same answer with another response header.
    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        let (status, mut headers, body) = match self.say {
            Say::Http { status, headers, body } => (status, headers, body),
            Say::Result(_)
            | Say::Error { .. }
            | Say::Stream { .. }
            | Say::Framed { .. }
            | Say::Pieces(_)
            | Say::Raw(_) => panic!("only a plain HTTP answer takes headers; see Answer::http"),
        };
        headers.push((name.to_owned(), value.to_owned()));
        Self { before: self.before, say: Say::Http { status, headers, body } }
    }

    fn of(say: Say) -> Self {
        Self { before: Vec::new(), say }
    }

    /// The steps for one request, whose body is `asked`.
    pub(crate) fn steps(&self, asked: &Value) -> Vec<Step> {
        let id = asked["id"].clone();
        let mut steps = self.before.clone();
        match &self.say {
            Say::Result(result) => {
                steps.push(json_response(200, &json!({ "result": in_era(asked, result) }), &id));
            }
            Say::Error { status, error } => {
                steps.push(json_response(*status, &json!({ "error": error }), &id));
            }
            Say::Framed { body, id } => steps.push(json_response(200, body, id)),
            Say::Http { status, headers, body } => steps.push(response(*status, headers, body)),
            Say::Stream { result } => steps.extend(stream(asked, result.as_ref())),
            Say::Pieces(pieces) => {
                steps.push(Step::Send(STREAM_HEAD.into()));
                steps.extend(pieces.iter().map(|piece| piece.step(asked)));
            }
            Say::Raw(raw) => steps.extend(raw.iter().cloned()),
        }
        steps
    }
}

impl Piece {
    fn step(&self, asked: &Value) -> Step {
        let (lines, message) = match self {
            Self::Step(step) => return step.clone(),
            Self::Event(lines, message) => (lines.as_str(), message.clone()),
            Self::Progress(done) => {
                let told =
                    json!({ "progressToken": asked["params"]["_meta"]["progressToken"], "progress": done });
                ("", json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": told }))
            }
            Self::Result(lines, result) => (
                lines.as_str(),
                json!({ "jsonrpc": "2.0", "id": asked["id"], "result": in_era(asked, result) }),
            ),
        };
        let data = if message.is_null() { String::new() } else { message.to_string() };
        Step::Send(format!("{lines}data: {data}\n\n").into())
    }
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n";

/// Whether a request is of the modern era.
pub(crate) fn is_modern(asked: &Value) -> bool {
    asked["params"]["_meta"][VERSION_META] == MODERN
}

fn in_era(asked: &Value, result: &Value) -> Value {
    let mut result = result.clone();
    if is_modern(asked) && result.is_object() && result["resultType"].is_null() {
        result["resultType"] = json!("complete");
    }
    result
}

fn json_response(status: u16, message: &Value, id: &Value) -> Step {
    let mut message = message.clone();
    message["jsonrpc"] = json!("2.0");
    message["id"] = id.clone();
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    response(status, &headers, &message.to_string())
}

fn response(status: u16, headers: &[(String, String)], body: &str) -> Step {
    let mut text = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").expect("a String takes all");
    }
    write!(text, "content-length: {}\r\n\r\n{body}", body.len()).expect("a String takes all");
    Step::Send(text.into())
}

fn stream(asked: &Value, result: Option<&Value>) -> Vec<Step> {
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "working" } });
    let mut events = format!(": keep-alive\n\nevent: message\ndata: {progress}\n\n");
    if let Some(result) = result {
        let last = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": in_era(asked, result) });
        write!(events, "event: message\ndata: {last}\n\n").expect("a String takes all");
    }
    vec![Step::Send(STREAM_HEAD.into()), Step::Send(events.into()), Step::Close]
}
