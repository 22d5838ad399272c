//! What the clients meet: a shop that is real on both sides of the gate, and a scene in which everything can go wrong.

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::billing::Billing;
use crate::harness::cable::Cable;
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::postgres;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// Calls that the scene's gate takes at a time.
pub(super) const PLACES: usize = 2;

/// The sample billing server behind a gate on SQLite.
pub(super) struct Shop {
    pub(super) billing: Billing,
    pub(super) gate: Gate,
}

impl Shop {
    pub(super) async fn open() -> Self {
        let billing = Billing::start("0s").await;
        let slow = r#"
[tools.close_month]
effect = "mutation"
scopes = ["billing:refund"]

[tools.close_account]
effect = "mutation"
scopes = ["billing:refund"]

[tools.run_sql]"#;
        let setup = Setup::new(Home::Sqlite, billing.url()).policy("[tools.run_sql]", slow.trim_start());
        Self { gate: Gate::start(setup).await, billing }
    }

    /// What this tool really did.
    pub(super) fn effects(&self, tool: &str) -> Vec<Value> {
        self.billing.effects().into_iter().filter(|effect| effect["tool"] == tool).collect()
    }
}

/// The scripted upstream behind a gate on Postgres, either of which can be taken away from it.
pub(super) struct Scene {
    pub(super) upstream: Upstream,
    pub(super) gate: Gate,
    pub(super) to_upstream: Cable,
    pub(super) to_store: Cable,
}

impl Scene {
    pub(super) async fn start(era: Era) -> Self {
        let upstream = Upstream::start().await;
        upstream.script("tools/list", [Answer::result(tools(era))]);
        let to_upstream = Cable::to(upstream.address()).await;
        let url = postgres::database().await;
        let server = postgres::address();
        let to_store = Cable::to(server).await;
        let url = url.replace(&server.to_string(), &to_store.address().to_string());
        let setup = Setup::new(Home::Postgres, &format!("http://{}", to_upstream.address()))
            .set("limits.concurrent_calls", i64::try_from(PLACES).expect("a few"))
            // Longer than any test waits: a call that is given up ends by that, and not by its time.
            .set("upstream.timeout", "300s")
            // A connection that is kept would tell of a cut cable only when it is written to.
            .set("upstream.max_idle", "1ms")
            .set("upstream.forward_authorization", true);
        let gate = Gate::start_on(setup, Some(url)).await;
        Self { upstream, gate, to_upstream, to_store }
    }
}

/// Every tool of the tests' policy, and one that it does not name.
fn tools(era: Era) -> Value {
    let names =
        ["get_invoice", "refund_order", "charge_card", "send_mail", "send_once", "run_sql", "unnamed_tool"];
    let tool = |name| json!({ "name": name, "inputSchema": { "type": "object", "properties": {} } });
    let mut list = json!({ "tools": names.map(tool) });
    if era == Era::Modern {
        list["ttlMs"] = json!(0);
        list["cacheScope"] = json!("private");
    }
    list
}
