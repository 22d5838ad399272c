//! Plain requests that are sent again, by the clients that apps have.
//!
//! Promises: on both stores, with each client: the app hears a request once, whatever became of the connection; a retry
//! gets the first answer to the byte, or a problem that says what is known.

mod answers;
mod asker;
mod refused;
mod same;

use asker::{Asker, Who};

use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const ROUTES: &str = r#"
[routes.create_refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["billing:refund"]
releases = ["429"]

[routes.remove_order]
method = "DELETE"
path = "/api/orders/{order}"
effect = "mutation"
scopes = ["billing:refund"]

[routes.get_order]
method = "GET"
path = "/api/orders/{order}"
effect = "read"
scopes = ["billing:read"]

[routes.audit_order]
method = "POST"
path = "/api/orders/{order}/audit"
effect = "mutation"
scopes = ["billing:audit"]
"#;

/// What every test needs.
struct Scene {
    upstream: Upstream,
    gate: Gate,
    client: Asker,
}

impl Scene {
    /// How often the app heard a request with this key.
    fn heard(&self, key: &str) -> usize {
        self.upstream.with_key(key).len()
    }
}

async fn with_every_client(mut check: impl AsyncFnMut(&mut Scene)) {
    on_every_store(async |home| {
        for who in [Who::Curl, Who::Python, Who::Php] {
            eprintln!("--- with {who:?}");
            check(&mut scene(home, who).await).await;
        }
    })
    .await;
}

async fn scene(home: Home, who: Who) -> Scene {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(home, &upstream.url())
        .set("limits.request_body", "64KiB")
        .set("limits.stored_response", "4KiB");
    setup.policy.push_str(ROUTES);
    let gate = Gate::start(setup).await;
    Scene { upstream, gate, client: Asker::start(who).await }
}
