//! A gate that observes: it refuses nothing, changes nothing, and writes down what it would have done.
//!
//! Promises: what a client and an app see through it is compared with what they see without it.

mod operations;
mod records;
mod routes;
mod rows;
mod streams;
mod unchanged;

use serde_json::{Value, json};

use crate::harness::client::{Ask, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

async fn observing(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(home, &upstream.url()).set("mode", "observe")).await;
    (upstream, gate)
}

fn refund(gate: &Gate, era: Era) -> Ask {
    gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2" }))
}

/// Decision, reason, and whether it ran, of a row.
fn told(row: &Value) -> (&str, &str, &str) {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    (text("decision"), text("reason"), text("executed"))
}
