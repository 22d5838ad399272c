//! A scripted MCP server on a real socket. What it received is the truth about what was run.
//!
//! Promises: a request is in the record before the first byte of its answer; each tool's answers are given in their
//! order, the last one for ever after; a tool without a script answers with a result that counts its runs.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::answer::{Answer, Hold, MODERN, Step, is_modern};
use super::http::{Message, Reader};
use super::in_time;

/// Below these it serves plain requests.
const PLAIN: [&str; 2] = ["/api/", "/v1/"];

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// As it was sent.
    pub(crate) http: Message,
    /// Its body; null where it is not JSON.
    pub(crate) json: Value,
}

impl Received {
    /// The JSON-RPC method, empty where there is none.
    pub(crate) fn rpc(&self) -> &str {
        self.json["method"].as_str().unwrap_or_default()
    }

    /// The tool that it calls, empty where it calls none.
    pub(crate) fn tool(&self) -> &str {
        let name = if self.rpc() == "tools/call" { self.json["params"]["name"].as_str() } else { None };
        name.unwrap_or_default()
    }

    /// The path that it was sent to, without its query.
    pub(crate) fn path(&self) -> &str {
        self.http.word(1).split('?').next().unwrap_or_default()
    }

    /// A plain request's method and path: `POST /api/refunds`.
    pub(crate) fn plain(&self) -> String {
        format!("{} {}", self.http.word(0), self.path())
    }

    /// The calls that it wants run inside of its own; none where its tool runs no others.
    pub(crate) fn inner(&self) -> Vec<Value> {
        let calls = &self.json["params"]["arguments"]["calls"];
        let is_outer = self.tool() == "execute_tools";
        calls.as_array().filter(|_| is_outer).cloned().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    answers: HashMap<String, VecDeque<Answer>>,
    connections: usize,
}

struct Shared {
    state: Mutex<State>,
    count: watch::Sender<usize>,
}

/// A running upstream; it goes down when dropped.
pub(crate) struct Upstream {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Upstream {
    /// An upstream on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, None)
    }

    /// An upstream behind TLS, on a free port.
    pub(crate) async fn start_tls(tls: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, Some(tls))
    }

    /// An upstream where another one was: at its address.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("the port of the one before");
        Self::on(listener, None)
    }

    fn on(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), count: watch::Sender::new(0) });
        let address = listener.local_addr().expect("a bound socket has an address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let accepting = tokio::spawn(accept(listener, tls, shared.clone()));
        Self { address, scheme, shared, accepting }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL, by the name that its certificate carries.
    pub(crate) fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// Answers to the calls of a tool, to a JSON-RPC method, or to whatever carries this `Idempotency-Key`, in their
    /// order; the last one stays. A key's script goes before its tool's.
    pub(crate) fn script(&self, name: &str, answers: impl IntoIterator<Item = Answer>) {
        self.state(|state| state.answers.insert(name.to_owned(), answers.into_iter().collect()));
    }

    /// Every further call of a tool waits at the barrier before it is answered as usual.
    pub(crate) fn hold(&self, tool: &str) -> Hold {
        let hold = Hold::new();
        self.script(tool, [Answer::tool("held", &json!({ "held": true })).behind(&hold)]);
        hold
    }

    /// Everything that it received.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state(|state| state.received.clone())
    }

    /// The calls of one tool.
    pub(crate) fn calls(&self, tool: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.tool() == tool).collect()
    }

    /// The plain requests of one method and path.
    pub(crate) fn plain(&self, name: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.plain() == name).collect()
    }

    /// The requests of one HTTP method.
    pub(crate) fn of_method(&self, method: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.http.word(0) == method).collect()
    }

    /// The requests with this `Idempotency-Key`.
    pub(crate) fn with_key(&self, key: &str) -> Vec<Received> {
        let of_key = |request: &Received| request.http.header("idempotency-key") == Some(key);
        self.received().into_iter().filter(of_key).collect()
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.state(|state| state.connections)
    }

    /// Waits until a tool was called so many times.
    pub(crate) async fn called(&self, tool: &str, times: usize) -> Vec<Received> {
        let mut count = self.shared.count.subscribe();
        let enough = count.wait_for(|_| self.calls(tool).len() >= times);
        in_time(&format!("{times} calls of {tool} upstream"), enough).await.expect("the upstream is up");
        self.calls(tool)
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.shared.state.lock().expect("no test panics while it holds the record"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    // Connections end with the listener: an upstream that is down answers nobody.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let shared = shared.clone();
        shared.state.lock().expect("the record").connections += 1;
        let tls = tls.clone();
        connections.spawn(async move {
            socket.set_nodelay(true).expect("a TCP socket");
            match tls {
                None => serve(socket, &shared).await,
                // A client that does not trust the certificate leaves here: nothing was received.
                Some(tls) => {
                    if let Ok(socket) = tls.accept(socket).await {
                        serve(socket, &shared).await;
                    }
                }
            }
        });
    }
}

trait Socket: AsyncRead + AsyncWrite + Unpin {
    fn reset_on_close(&self);
}

impl Socket for TcpStream {
    fn reset_on_close(&self) {
        self.set_zero_linger().expect("a TCP socket");
    }
}

impl Socket for TlsStream<TcpStream> {
    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }
}

async fn serve(mut socket: impl Socket, shared: &Shared) {
    let mut reader = Reader::new();
    while let Some(http) = reader.next(&mut socket).await {
        if !http.whole {
            return;
        }
        let json = serde_json::from_slice(&http.body).unwrap_or(Value::Null);
        let request = Received { http, json };
        let steps = {
            let mut state = shared.state.lock().expect("the record");
            state.received.push(request.clone());
            answer_to(&mut state, &request).steps(&request.json)
        };
        shared.count.send_modify(|count| *count += 1);
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    if socket.write_all(&bytes).await.is_err() || socket.flush().await.is_err() {
                        return;
                    }
                }
                Step::Wait(delay) => tokio::time::sleep(delay).await,
                Step::Hold(hold) => hold.passed().await,
                Step::UntilGone(hold) => {
                    while reader.next(&mut socket).await.is_some() {}
                    return hold.release();
                }
                Step::Hang => std::future::pending().await,
                Step::Reset => return socket.reset_on_close(),
                Step::Close => {
                    // The peer may be gone already; then it is closed too.
                    let _gone = socket.shutdown().await.is_err();
                    return;
                }
            }
        }
    }
}

fn answer_to(state: &mut State, request: &Received) -> Answer {
    let is_plain = PLAIN.iter().any(|root| request.path().starts_with(root));
    // What brings no message is scripted by its HTTP method, a plain request by method and path.
    let names = [request.tool().to_owned(), request.rpc().to_owned(), request.http.word(0).to_owned()];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let name = if is_plain { request.plain() } else { name };
    let key = request.http.header("idempotency-key").unwrap_or_default();
    let script = if state.answers.contains_key(key) { key } else { &name };
    if let Some(answers) = state.answers.get_mut(script) {
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        return next.unwrap_or_else(|| panic!("the script of {name} is empty"));
    }
    if is_plain {
        // Without a script it says how often that was asked.
        let runs = state.received.iter().filter(|other| other.plain() == name).count();
        return Answer::http(200, "application/json", &json!({ "run": runs }).to_string());
    }
    let runs = state.received.iter().filter(|other| other.tool() == name).count();
    by_itself(request, runs)
}

/// What it answers where no script says otherwise.
fn by_itself(request: &Received, runs: usize) -> Answer {
    let server = json!({ "name": "scripted", "version": "1" });
    let capabilities = json!({ "tools": {} });
    match request.rpc() {
        "tools/call" if !request.inner().is_empty() => several(request, runs),
        "tools/call" => Answer::tool(&format!("run {runs}"), &json!({ "run": runs })),
        "tools/list" => Answer::result(tools(is_modern(&request.json))),
        "initialize" => Answer::result(
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server }),
        ),
        "server/discover" => Answer::result(
            json!({ "supportedVersions": [MODERN], "capabilities": capabilities, "serverInfo": server, "ttlMs": 0, "cacheScope": "private" }),
        ),
        method if method.starts_with("notifications/") => Answer::http(202, "text/plain", ""),
        "" if request.http.word(0) != "POST" => Answer::http(405, "text/plain", "no sessions here"),
        _ => Answer::result(json!({})),
    }
}

/// What a tool that runs others answers: a text that lists each call's result, as the one framework does it.
fn several(request: &Received, runs: usize) -> Answer {
    let result = |call: &Value| {
        let told = json!({ "run": runs, "tool": call["name"], "email": "a@example.com" }).to_string();
        json!({ "name": call["name"], "content": [{ "type": "text", "text": told }], "isError": false })
    };
    let results: Vec<_> = request.inner().iter().map(result).collect();
    Answer::inner(&json!({ "ok": true, "results": results }), false)
}

/// The tools that it lists: the shipped billing policy's words.
fn tools(modern: bool) -> Value {
    let order = json!({ "order_id": { "type": "string" }, "tenant_id": { "type": "string" } });
    let tool = |name: &str, properties: &Value, required: &Value| {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "name": name, "description": format!("{name}, as its app says."), "inputSchema": schema })
    };
    let mut refund = order.clone();
    refund["amount_cents"] = json!({ "type": "integer" });
    let list = json!([
        tool("get_invoice", &order, &json!(["order_id", "tenant_id"])),
        tool("refund_order", &refund, &json!(["order_id", "tenant_id"])),
        tool("run_sql", &json!({ "sql": { "type": "string" } }), &json!(["sql"])),
        tool("unnamed_tool", &json!({}), &json!([])),
    ]);
    let mut result = json!({ "tools": list });
    if modern {
        result["ttlMs"] = json!(60_000);
        result["cacheScope"] = json!("public");
    }
    result
}
