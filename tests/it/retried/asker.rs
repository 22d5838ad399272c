//! Clients of plain HTTP as apps have them: `curl`, Python's `requests`, PHP's Guzzle.
//!
//! Promises: each sends what it makes of an order by itself (its own boundary, its own escapes, its own headers), once;
//! what came back is told as it came.

use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::clients::install;
use crate::harness::gate::Gate;
use crate::harness::in_time;
use crate::harness::setup::token;

/// Which client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Curl,
    Python,
    Php,
}

/// A client that takes orders.
pub(super) struct Asker {
    pub(super) who: Who,
    running: Option<Running>,
}

struct Running {
    // Killed with it.
    _process: Child,
    orders: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Order(Value);

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// A request to a gate, with a good token and nothing in it.
pub(super) fn order(gate: &Gate, method: &str, target: &str) -> Order {
    Order(json!({
        "method": method,
        "url": format!("http://{}{target}", gate.address()),
        "headers": [["Authorization", format!("Bearer {}", token())]],
        "unpack": false,
    }))
}

impl Order {
    pub(super) fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.0["headers"].as_array_mut().expect("a list").push(json!([name, value]));
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.with("json", body.clone())
    }

    /// A form with these fields.
    pub(super) fn form(self, fields: &[(&str, &str)]) -> Self {
        self.with("form", json!(fields))
    }

    /// A multipart form: a field, and a file of this text.
    pub(super) fn upload(self, field: &str, file: &str) -> Self {
        let field = json!({ "name": "note", "text": field });
        let file = json!({ "name": "file", "filename": "a b.txt", "type": "text/plain", "text": file });
        self.with("parts", json!([field, file]))
    }

    /// These bytes.
    pub(super) fn bytes(self, kind: &str, bytes: &[u8]) -> Self {
        self.header("Content-Type", kind).with("bytes", json!(STANDARD.encode(bytes)))
    }

    /// The answer is wanted as the library hands it to its app: unpacked.
    pub(super) fn unpacked(self) -> Self {
        self.with("unpack", json!(true))
    }

    /// The same request, sent to another address.
    pub(super) fn through(mut self, gate: &Gate, address: std::net::SocketAddr) -> Self {
        let url = self.0["url"].as_str().expect("a URL").to_owned();
        self.0["url"] = json!(url.replace(&gate.address().to_string(), &address.to_string()));
        self
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.0[name] = value;
        self
    }
}

impl Met {
    /// The values of a header.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The names of its headers, sorted, without those that every server adds by itself.
    pub(super) fn names(&self) -> Vec<String> {
        let own = ["date", "content-length"];
        let names = self.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
        let mut names: Vec<_> = names.filter(|name| !own.contains(&name.as_str())).collect();
        names.sort();
        names
    }

    /// What it is as a problem; null where it is none.
    pub(super) fn problem(&self) -> Value {
        let is_problem = self.header("content-type") == ["application/problem+json"];
        let problem = serde_json::from_slice(&self.body).ok().filter(|_| is_problem);
        problem.unwrap_or(Value::Null)
    }

    /// `first` for the app's own answer, `replay`, or the code of a problem of the gate's.
    pub(super) fn met(&self) -> String {
        let problem = self.problem();
        let ours = problem["type"].as_str().is_some_and(|kind| kind.starts_with("urn:oncegate:"));
        match (ours, self.header("idempotent-replayed").is_empty()) {
            (true, _) => problem["code"].as_str().unwrap_or_default().to_owned(),
            (false, true) => "first".to_owned(),
            (false, false) => "replay".to_owned(),
        }
    }
}

impl Asker {
    pub(super) async fn start(who: Who) -> Self {
        install().await;
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut command = match who {
            Who::Curl => return Self { who, running: None },
            Who::Python => Command::new(root.join(".parts/clients/plain/bin/python")),
            Who::Php => Command::new("php"),
        };
        let script = if who == Who::Php { "ask.php" } else { "ask.py" };
        command.arg(root.join("tests/clients/plain").join(script));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the client (`tests/parts` installs it)");
        let orders = process.stdin.take().expect("it was piped");
        let told = BufReader::new(process.stdout.take().expect("it was piped")).lines();
        Self { who, running: Some(Running { _process: process, orders, told }) }
    }

    /// Sends it. None where the connection was lost.
    pub(super) async fn try_ask(&mut self, order: Order) -> Option<Met> {
        let Some(running) = &mut self.running else { return in_time("curl", curl(&order.0)).await };
        let line = format!("{}\n", order.0);
        running.orders.write_all(line.as_bytes()).await.expect("the client takes orders");
        let told = in_time("what the client met", running.told.next_line()).await.expect("it can be read");
        let told = told.unwrap_or_else(|| panic!("{:?} ended on {line}", self.who));
        let told: Value =
            serde_json::from_str(&told).unwrap_or_else(|_| panic!("{:?} told {told}", self.who));
        if told["lost"] == true {
            return None;
        }
        let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
        Some(Met {
            status: told["status"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status"),
            headers: told["headers"].as_array().expect("headers").iter().filter_map(pair).collect(),
            body: STANDARD.decode(told["body"].as_str().expect("a body")).expect("base64"),
        })
    }

    /// Sends it. It must be answered.
    pub(super) async fn ask(&mut self, order: Order) -> Met {
        let met = self.try_ask(order.clone()).await;
        met.unwrap_or_else(|| panic!("{:?} got no answer to {}", self.who, order.0))
    }
}

async fn curl(order: &Value) -> Option<Met> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut command = Command::new("curl");
    command.args(["-s", "-i", "--max-time", "60", "-X", &text(&order["method"])]);
    for header in order["headers"].as_array().into_iter().flatten() {
        command.arg("-H").arg(format!("{}: {}", text(&header[0]), text(&header[1])));
    }
    if order["unpack"] == true {
        command.arg("--compressed");
    }
    let mut input = Vec::new();
    if !order["json"].is_null() {
        command.args(["--json", &order["json"].to_string()]);
    }
    for pair in order["form"].as_array().into_iter().flatten() {
        command.arg("--data-urlencode").arg(format!("{}={}", text(&pair[0]), text(&pair[1])));
    }
    for part in order["parts"].as_array().into_iter().flatten() {
        let (name, value) = (text(&part["name"]), text(&part["text"]));
        if part["filename"].is_null() {
            command.arg("-F").arg(format!("{name}={value}"));
        } else {
            input = value.into_bytes();
            let (file, kind) = (text(&part["filename"]), text(&part["type"]));
            command.arg("-F").arg(format!("{name}=@-;filename=\"{file}\";type={kind}"));
        }
    }
    if let Some(bytes) = order["bytes"].as_str() {
        input = STANDARD.decode(bytes).expect("base64");
        command.args(["--data-binary", "@-"]);
    }
    command.arg(text(&order["url"])).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().expect("curl");
    let mut stdin = process.stdin.take().expect("it was piped");
    // It may be gone already, or read nothing.
    let _not_taken = stdin.write_all(&input).await.is_err();
    drop(stdin);
    let output = process.wait_with_output().await.expect("curl ends");
    output.status.success().then(|| parse(&output.stdout))
}

/// What `curl -i` shows: the heads that led to the answer, and the answer.
fn parse(mut shown: &[u8]) -> Met {
    loop {
        let end = shown.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&shown[..end]).into_owned();
        shown = &shown[end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        if status >= 200 {
            let pairs = lines.filter_map(|line| line.split_once(':'));
            let headers = pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
            return Met { status, headers, body: shown.to_vec() };
        }
    }
}
