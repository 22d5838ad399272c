//! The jobs' gate, asked over real sockets: who may ask, what a worker meets, what its reports come to.
//!
//! Promises tested: `oncegate::admin::jobs`, `oncegate::layers::claim::jobs`. Every answer that a test here gets is held
//! against the gate's own description.

mod away;
mod deaths;
mod described;
mod drain;
mod ledger;
mod many;
mod outcomes;
mod reports;
mod times;
mod who;

use std::sync::Mutex;

use serde_json::{Value, json};

use self::described::Description;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::{Gate, WORKER_TOKEN};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const JOBS: &str = r#"
[jobs.settle_refund]
effect = "mutation"
scopes = ["jobs:refund"]
redact = ["card.holder"]
summary = ["refund.id"]

[jobs.charge]
effect = "mutation"
scopes = ["jobs:refund"]
timeout = "1s"
downstream = "idempotent"
downstream_retention = "12h"
forward_key = "{tenant}/{tool}/{key}"

[jobs.notify]
effect = "mutation"
scopes = ["jobs:refund"]
duplicate_window = "5m"

[jobs.notify_once]
effect = "mutation"
scopes = ["jobs:refund"]
duplicate_window = "5m"
duplicate = "refuse"

[jobs.payout]
effect = "mutation"
scopes = ["jobs:refund", "jobs:payout"]

[jobs.closed]
effect = "deny"
"#;

/// A gate before an app, with two services whose workers claim jobs.
struct Scene {
    gate: Gate,
    upstream: Upstream,
    description: Mutex<Description>,
}

/// An answer of the jobs' gate.
#[derive(Debug)]
struct Told {
    status: u16,
    body: Value,
    reply: Reply,
}

fn setup(home: Home, upstream: &Upstream) -> Setup {
    let setup = Setup::new(home, &upstream.url()).set("admin_token_file", "admin");
    let setup = [("worker", vec!["acme", "globex"]), ("other", vec!["*"])].into_iter().fold(
        setup,
        |setup, (name, tenants)| {
            let of = |key: &str| format!("service_tokens.{name}.{key}");
            setup
                .set(&of("token_file"), name)
                .set(&of("scopes"), vec!["jobs:refund"])
                .set(&of("tenants"), tenants)
        },
    );
    setup.policy("[tools.run_sql]", &format!("{JOBS}\n[tools.run_sql]"))
}

/// A job of the tenant `acme`, as its claim names it.
fn job(name: &str, key: &str) -> Value {
    json!({ "tenant": "acme", "job": name, "key": key, "arguments": { "order": "ord_9f2", "amount": 12.5 } })
}

/// An attempt at it, with what is told of it.
fn attempt(job: &Value, id: &Value, told: &Value) -> Value {
    let mut attempt =
        json!({ "tenant": job["tenant"], "job": job["job"], "key": job["key"], "attempt_id": id });
    for (name, value) in told.as_object().expect("an object") {
        attempt[name] = value.clone();
    }
    attempt
}

impl Scene {
    async fn on(home: Home) -> Self {
        Self::with(home, |setup| setup).await
    }

    async fn with(home: Home, change: impl FnOnce(Setup) -> Setup) -> Self {
        let upstream = Upstream::start().await;
        let gate = Gate::start(change(setup(home, &upstream))).await;
        Self::of(gate, upstream).await
    }

    async fn of(gate: Gate, upstream: Upstream) -> Self {
        Self { gate, upstream, description: Mutex::new(Description::read().await) }
    }

    /// Asks with this token, at the gate of this listener, and holds the answer against the description.
    async fn ask_at(&self, gate: &Gate, token: &str, line: &str, body: &Value) -> Told {
        let ask = question(gate, token, line).body(body.to_string());
        self.told(line, &body.to_string(), ask.send().await)
    }

    fn told(&self, line: &str, sent: &str, reply: Reply) -> Told {
        let told = Told { status: reply.status(), body: reply.json(), reply };
        self.description.lock().expect("no test panicked with it").check(line, sent, &told.reply);
        told
    }

    async fn post(&self, path: &str, body: &Value) -> Told {
        self.ask_at(&self.gate, WORKER_TOKEN, &format!("POST /gate/claims{path}"), body).await
    }

    async fn claim(&self, job: &Value) -> Told {
        self.post("", job).await
    }

    /// The id of the attempt that a claim must get.
    async fn begin(&self, job: &Value) -> Value {
        let told = self.claim(job).await;
        assert_eq!((told.status, &told.body["outcome"]), (200, &json!("fresh")), "{told:?}");
        told.body["attempt_id"].clone()
    }

    async fn renew(&self, job: &Value, id: &Value) -> Told {
        self.post("/renew", &attempt(job, id, &json!({}))).await
    }

    async fn complete(&self, job: &Value, id: &Value, result: Value) -> Told {
        self.post("/complete", &attempt(job, id, &json!({ "result": result }))).await
    }

    async fn fail(&self, job: &Value, id: &Value, executed: &str) -> Told {
        let told = json!({ "executed": executed, "reason": "the provider said 4111 1111 1111 1111 no" });
        self.post("/fail", &attempt(job, id, &told)).await
    }

    /// What the audit has of a key: decision, reason and whether it ran, oldest first.
    async fn rows(&self, key: &str, count: usize) -> Vec<String> {
        let rows = self.gate.audit(0).await;
        let of_key: Vec<_> = rows.iter().filter(|row| row["idempotency_key"] == key).collect();
        let word = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let rows = of_key.iter().map(|row| {
            format!("{} {} {}", word(row, "decision"), word(row, "reason"), word(row, "executed"))
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.len(), count, "{rows:?}");
        rows
    }
}

fn question(gate: &Gate, token: &str, line: &str) -> Ask {
    let client = Client::new(gate.admin_address(), Era::Legacy).bearing(token);
    client.plain(line).header("Content-Type", "application/json")
}

impl Told {
    /// What a refusal says: its status, its code, whether it ran, whether to come again.
    fn refusal(&self) -> (u16, &str, &str, &str) {
        let word = |name: &str| self.body[name].as_str().unwrap_or_default();
        (self.status, word("code"), word("executed"), word("retry"))
    }

    /// What an answer says that is none.
    fn outcome(&self) -> &str {
        assert_eq!(self.status, 200, "{self:?}");
        self.body["outcome"].as_str().unwrap_or_default()
    }
}
