//! A gate with ways out, and the providers that they lead to.

use std::fs::{self, File};
use std::net::SocketAddr;

use serde_json::Value;
use tempfile::TempDir;
use toml::Table;

use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::{Gate, free_port};
use crate::harness::setup::{Home, Setup};
use crate::harness::tls::Authority;
use crate::harness::upstream::Upstream;

/// What callers of the tests show.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef-shop";

/// What they send for the provider.
pub(crate) const SECRET: &str = "Bearer the-account-s-own-access";

/// A policy of a provider that honours keys, and of one route of which nobody says so.
pub(crate) const POLICY: &str = r#"
[defaults]
tenant_arguments = []

[routes.create_refund]
method = "POST"
path = "/v1/refunds"
effect = "mutation"
scopes = ["stripe:refund"]
provider = "stripe"
forward_key = "{digest}"
redact = ["owner.email"]

[routes.pay_out]
method = "POST"
path = "/v1/payouts"
effect = "mutation"
scopes = ["stripe:refund"]

[routes.show_refund]
method = "GET"
path = "/v1/refunds/{refund}"
effect = "read"
scopes = ["stripe:read"]
"#;

/// The tests' files, the app, the provider, and what is configured so far.
pub(crate) struct Plan {
    pub(crate) app: Upstream,
    pub(crate) provider: Upstream,
    pub(crate) folder: TempDir,
    pub(crate) setup: Setup,
    listeners: Vec<Table>,
    ports: Vec<File>,
    addresses: Vec<SocketAddr>,
}

/// A gate that leads out.
pub(crate) struct Scene {
    pub(crate) app: Upstream,
    pub(crate) provider: Upstream,
    pub(crate) gate: Gate,
    /// Where its listeners are, in their order.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) folder: TempDir,
    _ports: Vec<File>,
}

impl Plan {
    /// A gate with one way out, to a provider whose authority it trusts, for a service with a token.
    pub(crate) async fn new(home: Home) -> Self {
        let authority = Authority::new();
        let provider = Upstream::start_tls(authority.acceptor.clone()).await;
        let app = Upstream::start().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("ca.pem"), &authority.pem).expect("the authority");
        fs::write(folder.path().join("token"), TOKEN).expect("the token");
        fs::create_dir(folder.path().join("out")).expect("the policies' folder");
        fs::write(folder.path().join("out/provider.toml"), POLICY).expect("the policy");
        let setup = Setup::new(home, &app.url())
            .set("service_tokens.shop.token_file", path(&folder, "token"))
            .set("service_tokens.shop.scopes", vec!["stripe:refund", "stripe:read"])
            .set("service_tokens.shop.tenants", vec!["acme", "globex"]);
        let plan = Self {
            app,
            provider,
            folder,
            setup,
            listeners: Vec::new(),
            ports: Vec::new(),
            addresses: Vec::new(),
        };
        plan.listener("stripe")
    }

    /// With another listener to the same provider.
    pub(crate) fn listener(mut self, name: &str) -> Self {
        let (address, lock) = free_port();
        self.ports.push(lock);
        self.addresses.push(address);
        let text = format!(
            "name = \"{name}\"\nlisten = \"{address}\"\n[upstream]\nurl = \"{}\"\nca_file = \"{}\"\n\
             timeout = \"3s\"\n[policy]\ndir = \"{}\"\n",
            self.provider.url(),
            path(&self.folder, "ca.pem"),
            path(&self.folder, "out"),
        );
        self.listeners.push(text.parse().expect("a table"));
        self
    }

    /// With these lines more in the last listener: `[identity]` and what follows it, say.
    pub(crate) fn with(mut self, lines: &str) -> Self {
        let more: Table = lines.parse().expect("lines of TOML");
        let last = self.listeners.last_mut().expect("there is one");
        for (key, value) in more {
            match (last.get_mut(&key).and_then(toml::Value::as_table_mut), value) {
                (Some(table), toml::Value::Table(more)) => table.extend(more),
                (_, value) => drop(last.insert(key, value)),
            }
        }
        self
    }

    /// With a setting of the gate's own.
    pub(crate) fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        self.setup = self.setup.set(key, value);
        self
    }

    /// The gate, ready.
    pub(crate) async fn start(self) -> Scene {
        let listeners: Vec<toml::Value> = self.listeners.into_iter().map(Into::into).collect();
        let gate = Gate::start(self.setup.set("listener", listeners)).await;
        let Self { app, provider, folder, ports, addresses, .. } = self;
        Scene { app, provider, gate, addresses, folder, _ports: ports }
    }
}

/// The scene that most tests need.
pub(crate) async fn scene(home: Home) -> Scene {
    Plan::new(home).await.start().await
}

pub(crate) fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a plain name").to_owned()
}

impl Scene {
    /// A request to the first listener that says nothing of its caller.
    pub(crate) fn bare(&self, line: &str) -> Ask {
        self.bare_at(0, line)
    }

    /// The same to another one.
    pub(crate) fn bare_at(&self, listener: usize, line: &str) -> Ask {
        Client::new(self.addresses[listener], Era::Modern).plain(line)
    }

    /// A form to the first listener, of the shop's, for `acme`, with a key.
    pub(crate) fn form(&self, line: &str, key: &str, body: &str) -> Ask {
        self.form_at(0, line, key, body)
    }

    /// The same to another one.
    pub(crate) fn form_at(&self, listener: usize, line: &str, key: &str, body: &str) -> Ask {
        by_shop(self.bare_at(listener, line))
            .header("Authorization", SECRET)
            .header("Idempotency-Key", key)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(body.to_owned())
    }
}

/// With the shop's token, for `acme`.
pub(crate) fn by_shop(ask: Ask) -> Ask {
    ask.header("X-Oncegate-Token", TOKEN).header("X-Oncegate-Tenant", "acme")
}

/// Status, code, executed and retry of a problem.
#[track_caller]
pub(crate) fn is(reply: &Reply, status: u16, code: &str, executed: &str, retry: &str) {
    let json = reply.json();
    let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (reply.status(), word("code"), word("executed"), word("retry")),
        (status, code.to_owned(), executed.to_owned(), retry.to_owned()),
        "{reply:?}"
    );
    assert_eq!(reply.http.header("content-type"), Some("application/problem+json"));
}

/// What the rows say: service, operation, decision, reason.
pub(crate) fn told(rows: &[Value]) -> Vec<[&str; 4]> {
    rows.iter()
        .map(|row| {
            ["service", "tool", "decision", "reason"].map(|name| row[name].as_str().unwrap_or_default())
        })
        .collect()
}
