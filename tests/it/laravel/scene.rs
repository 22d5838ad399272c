//! The app, its gate with the policies that are shipped for it, and a provider, each on its own sockets.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::app::App;
use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era};
use crate::harness::gate::{Gate, free_port};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::{Received, Upstream};

const POLICY: &str = include_str!("../../../deploy/laravel/gate/policies/billing.toml");
const EGRESS: &str = include_str!("../../../deploy/laravel/gate/egress/stripe.toml");

/// What the provider is asked, as its script names it.
pub(super) const REFUND: &str = "POST /v1/refunds";

/// What workers show the gate.
const TOKEN: &str = "the-token-of-the-workers-that-is-long-enough";

/// Everything that takes part.
pub(super) struct Scene {
    pub(super) app: App,
    pub(super) gate: Gate,
    pub(super) provider: Upstream,
    _files: TempDir,
    _port: fs::File,
}

/// How the app's policy differs from what is shipped: texts, and what stands in their place.
pub(super) type Changes<'a> = &'a [(&'a str, &'a str)];

impl Scene {
    /// Everybody is up, but for workers.
    pub(super) async fn start(home: Home, changes: Changes<'_>) -> Self {
        let provider = Upstream::start().await;
        let paid = r#"{"id":"re_1","object":"refund","status":"succeeded"}"#;
        provider.script(REFUND, [Answer::http(200, "application/json", paid)]);
        let mut app = App::start().await;
        let files = tempfile::tempdir().expect("a temporary folder");
        let (token, policies) = (files.path().join("worker"), files.path().join("egress"));
        fs::write(&token, TOKEN).expect("the workers' token");
        fs::create_dir(&policies).expect("the listener's policies");
        fs::write(policies.join("stripe.toml"), EGRESS).expect("the listener's policy");
        let (out, port) = free_port();
        let mut setup = Setup::new(home, &app.url())
            .set("admin_token_file", "admin")
            .set("service_tokens.worker.token_file", token.to_str().expect("a plain name"))
            .set("service_tokens.worker.scopes", vec!["jobs:refund", "stripe:refund"])
            .set("service_tokens.worker.tenants", vec!["*"])
            .set(
                "listener",
                vec![listener(&out.to_string(), &provider.url(), policies.to_str().expect("a plain name"))],
            );
        setup.policy = changed(POLICY, changes);
        let gate = Gate::start(setup).await;
        app.knows(gate.admin_address(), out, &token);
        Self { app, gate, provider, _files: files, _port: port }
    }

    /// A refund by the tool.
    pub(super) fn refund(&self, key: &str) -> Ask {
        let order = json!({ "order_id": "ord_1", "amount_cents": 500 });
        self.gate.client(Era::Modern).tool("refund_order", &order).key(key)
    }

    /// What the provider was asked to pay.
    pub(super) fn payments(&self) -> Vec<Received> {
        self.provider.received().into_iter().filter(|request| request.http.word(1) == "/v1/refunds").collect()
    }
}

fn listener(listen: &str, provider: &str, policies: &str) -> toml::Value {
    let table = json!({
        "name": "stripe",
        "listen": listen,
        "upstream": { "url": provider, "timeout": "2s" },
        "policy": { "dir": policies },
    });
    toml::Value::try_from(table).expect("a table")
}

/// With times that can be waited for, and these changes.
fn changed(text: &str, changes: Changes<'_>) -> String {
    let times = [("lease = \"60s\"\ntimeout = \"60s\"", "lease = \"2s\"\ntimeout = \"4s\"")];
    times.iter().chain(changes).fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "the policy has no {old:?}");
        text.replace(old, new)
    })
}
