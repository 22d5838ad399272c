//! One client's process: orders go in, what it met comes out.
//!
//! Promises: what was told before the end of a step is known when the step has ended, in the order of the client's own
//! telling; a client that ends by itself or keeps silent fails its test.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::kinds::Kind;
use crate::harness::gate::Gate;

/// How long a step may take, or the installing of the clients where nobody did it before.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(150);

/// A running client.
pub(super) struct Agent {
    /// Which one.
    pub(super) kind: Kind,
    // Killed with the agent.
    _process: Child,
    orders: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
    /// Told, and not asked for yet.
    heard: Vec<Value>,
    steps: usize,
}

/// A call as a client's program makes it.
#[derive(Clone)]
pub(super) struct Call(Value);

/// What came of one.
#[derive(Debug)]
pub(super) struct Told {
    /// Its end.
    pub(super) end: Value,
    /// What it heard of progress before that.
    pub(super) progress: Vec<Value>,
    /// What it was asked before that.
    pub(super) asked: Vec<Value>,
}

/// The repository's root.
pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The call of a tool, without a key.
pub(super) fn call(tool: &str, arguments: &Value) -> Call {
    Call(json!({ "do": "call", "tool": tool, "arguments": arguments }))
}

impl Call {
    /// With its key as an argument, as a model sends it.
    pub(super) fn key(mut self, key: &str) -> Self {
        self.0["arguments"]["idempotency_key"] = json!(key);
        self
    }

    /// With something in `_meta`.
    pub(super) fn meta(mut self, name: &str, value: &str) -> Self {
        self.0["meta"][name] = json!(value);
        self
    }

    /// With what the user says when he is asked.
    pub(super) fn answers(mut self, answers: &Value) -> Self {
        self.0["answers"] = answers.clone();
        self
    }
}

/// Installs the clients where nobody did it before.
pub(crate) async fn install() {
    let installing = Command::new(root().join("tests/clients/install")).kill_on_drop(true).status();
    let installed = tokio::time::timeout(PATIENCE, installing).await.expect("the clients are installed");
    assert!(installed.expect("tests/clients/install").success(), "tests/clients/install failed");
}

impl Agent {
    /// Starts the client, installed if need be.
    pub(super) async fn start(kind: Kind) -> Self {
        install().await;
        let mut command = Command::from((kind.command)());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the client can be started");
        let orders = process.stdin.take().expect("its input is piped");
        let told = BufReader::new(process.stdout.take().expect("its output is piped")).lines();
        Self { kind, _process: process, orders, told, heard: Vec::new(), steps: 0 }
    }

    /// Opens a session of this name on a connection of its own, and says what came of it.
    pub(super) async fn try_connect(&mut self, name: &str, gate: &Gate, token: &str) -> Told {
        let url = format!("http://{}/mcp", gate.address());
        let step = self.order(json!({ "do": "connect", "as": name, "url": url, "token": token })).await;
        self.end(&step).await
    }

    /// Opens a session that must come about.
    pub(super) async fn connect(&mut self, name: &str, gate: &Gate, token: &str) {
        let end = self.try_connect(name, gate, token).await.end;
        assert_eq!(end["outcome"], "connected", "{}: {end}", self.kind.name);
        let version = &end["version"];
        assert!(version.is_null() || *version == self.kind.era.version(), "{}: {end}", self.kind.name);
    }

    /// The tools that a session is shown: their input schemas by their names.
    pub(super) async fn list(&mut self, name: &str) -> Told {
        let step = self.order(json!({ "do": "list", "as": name })).await;
        self.end(&step).await
    }

    /// Begins a call and returns its step.
    pub(super) async fn begin(&mut self, name: &str, call: &Call) -> String {
        let mut order = call.0.clone();
        order["as"] = json!(name);
        self.order(order).await
    }

    /// Makes a call.
    pub(super) async fn call(&mut self, name: &str, call: &Call) -> Told {
        let step = self.begin(name, call).await;
        self.end(&step).await
    }

    /// Gives a call up.
    pub(super) async fn cancel(&mut self, step: &str) {
        self.order(json!({ "do": "cancel", "of": step })).await;
    }

    /// Leaves a session.
    pub(super) async fn close(&mut self, name: &str) {
        let step = self.order(json!({ "do": "close", "as": name })).await;
        assert_eq!(self.end(&step).await.end["outcome"], "closed", "{}", self.kind.name);
    }

    /// Waits until the step has told of this, and returns it.
    pub(super) async fn hear(&mut self, step: &str, member: &str) -> Value {
        loop {
            let told = |told: &&Value| told["step"] == step && told.get(member).is_some();
            if let Some(told) = self.heard.iter().find(told) {
                return told.clone();
            }
            let line = tokio::time::timeout(PATIENCE, self.told.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("{}: waited for {member} of {step}", self.kind.name));
            let line = line.expect("it prints UTF-8").unwrap_or_else(|| panic!("{} ended", self.kind.name));
            self.heard.push(serde_json::from_str(&line).expect("an object a line"));
        }
    }

    /// Waits until the step has ended.
    pub(super) async fn end(&mut self, step: &str) -> Told {
        let end = self.hear(step, "outcome").await;
        let (mine, others) =
            std::mem::take(&mut self.heard).into_iter().partition(|told| told["step"] == step);
        self.heard = others;
        let (mut progress, mut asked) = (Vec::new(), Vec::new());
        let mine: Vec<Value> = mine;
        for told in mine {
            progress.extend(told.get("progress").cloned());
            asked.extend(told.get("asked").cloned());
        }
        Told { end, progress, asked }
    }

    async fn order(&mut self, mut order: Value) -> String {
        self.steps += 1;
        let step = format!("s{}", self.steps);
        order["step"] = json!(step);
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await.expect("the client reads its orders");
        step
    }
}

impl Told {
    /// A plain result of the upstream's, for the first time.
    pub(super) fn is_first(&self) -> &Value {
        self.is_result();
        assert_eq!(self.end["meta"]["oncegate/replayed"], Value::Null, "{self:?}");
        &self.end["structured"]
    }

    /// A plain result, given again.
    pub(super) fn is_replay(&self) -> &Value {
        self.is_result();
        assert_eq!(self.end["meta"]["oncegate/replayed"], true, "{self:?}");
        &self.end["structured"]
    }

    fn is_result(&self) {
        assert_eq!(
            (&self.end["outcome"], &self.end["is_error"]),
            (&json!("result"), &json!(false)),
            "{self:?}"
        );
    }

    /// A refusal in the one form that every client hands to its caller: what it says to machines.
    pub(super) fn is_refusal(&self, code: &str, executed: &str) -> &Value {
        let end = &self.end;
        assert_eq!(
            (&end["outcome"], &end["is_error"]),
            (&json!("result"), &json!(true)),
            "not {code}: {self:?}"
        );
        let refusal = &end["meta"]["oncegate/refusal"];
        assert_eq!((&refusal["code"], &refusal["executed"]), (&json!(code), &json!(executed)), "{self:?}");
        assert!(
            end["text"].as_str().is_some_and(|text| text.len() > 20),
            "a sentence for the model: {self:?}"
        );
        assert_eq!(end["structured"], Value::Null, "{self:?}");
        refusal
    }

    /// What the client's own way of telling it has in common with what is expected of it.
    pub(super) fn is_like(&self, expected: &Value) {
        let own: Value = expected
            .as_object()
            .expect("an object")
            .keys()
            .map(|name| (name.clone(), self.end[name].clone()))
            .collect();
        assert_eq!(own, *expected, "{self:?}");
    }
}
