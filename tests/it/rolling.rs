//! Two rolling deployments under load, as Kubernetes carries them out: a new gate comes before an old one goes, old and
//! new serve together on one Postgres, and whoever goes is drained first, as the pod's preStop hook does it.
//!
//! Promises: whatever a client meets meanwhile, the same key sent again gets its answer; each key ran once; every answer
//! that a client got has its audit row.
//!
//! With `ONCEGATE_TEST_FORMER=FILE`, a build of an earlier release, the first pods are of that release: its tables are brought
//! up beside them, and they go on.
//!
//! Absent on purpose: gates that die. Those are the storm's.

mod clients;
mod service;
mod told;

use std::path::PathBuf;
use std::sync::Arc;

use clients::Clients;
use service::Service;

use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time};

/// How many gates serve.
const PODS: usize = 3;

const ROUTES: &str = r#"
[routes.create_refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["billing:refund"]
"#;

/// A gate of the release with this number: each has a policy of its own, as it comes with its pods.
async fn pod(first: &Gate, release: usize, number: usize) -> Gate {
    let policies = first.policy_folder(&format!("policies-{release}"), "ttl = \"24h\"", &ttl(release));
    first.another_with(&format!("pod-{release}-{number}"), |setup| setup.set("policy.dir", policies)).await
}

fn ttl(release: usize) -> String {
    format!("ttl = \"{}h\"", 24 + release)
}

/// When those who send calls hear that a pod is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// While it still takes calls, as `--settle` means it.
    InTime,
    /// Once it takes none any more: whoever calls it meanwhile is refused.
    Late,
}

/// Takes a pod away as its kubelet does: it drains, and gets SIGTERM after that.
async fn retire(service: &Service, mut old: Gate, heard: Heard) {
    let draining = old.run(&["drain", "--settle", "500ms", "--wait", "20s"]);
    let leaving = async {
        let not_ready = async || (old.healthy("GET /readyz").await == 503).then_some(());
        eventually("the old gate not to be ready", not_ready).await;
        if heard == Heard::InTime {
            service.remove(old.address());
        }
    };
    let (drained, ()) = tokio::join!(draining, leaving);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    if heard == Heard::Late {
        service.refused().await;
        service.remove(old.address());
    }
    assert_eq!(old.stop().await, Some(0));
}

#[tokio::test]
async fn two_rolling_deployments_under_load_run_each_key_once_and_cost_nobody_an_answer() {
    let upstream = Arc::new(Upstream::start().await);
    let mut setup = Setup::new(Home::Postgres, &upstream.url()).set("admin_token_file", "admin");
    setup.policy.push_str(ROUTES);
    setup.program = std::env::var_os("ONCEGATE_TEST_FORMER").map(PathBuf::from);
    let mut first = Gate::start(setup).await;
    let service = Service::default();
    let mut pods = Vec::new();
    for number in 0..PODS {
        let pod = pod(&first, 0, number).await;
        service.add(pod.address());
        pods.push(pod);
    }
    let mut clients = Clients::start(&service, &upstream);
    clients.answered(50).await;
    first.upgrade();
    for (release, heard) in [(1, Heard::InTime), (2, Heard::Late)] {
        // The migration comes before the new pods, beside the old ones. It is safe to run where nothing is to be done.
        let migrated = first.run(&["migrate"]).await;
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        for (number, old) in std::mem::take(&mut pods).into_iter().enumerate() {
            let new = pod(&first, release, number).await;
            service.add(new.address());
            pods.push(new);
            clients.answered(20).await;
            retire(&service, old, heard).await;
        }
        clients.answered(50).await;
    }
    let stories = in_time("the clients to end", clients.end()).await;
    told::check(&pods[0], &upstream, &stories, 3).await;
}
