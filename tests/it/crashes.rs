//! Postgres is killed (SIGQUIT: nothing finished, nothing flushed) under gates in the middle of traffic, and recovers from
//! its log. It confirms a commit once it is on disk: what was answered is there.

use tokio_postgres::NoTls;

use crate::harness::callers::{Callers, check_once};
use crate::harness::cluster::Cluster;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// The cluster is as durable as a real one.
async fn check_durable(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the cluster is up");
    let connection = tokio::spawn(connection);
    let question = "SELECT current_setting('fsync') || current_setting('synchronous_commit')";
    let settings: String = client.query_one(question, &[]).await.expect("its settings").get(0);
    assert_eq!(settings, "onon");
    connection.abort();
}

/// Whoever waits meanwhile goes on.
pub(crate) async fn crash_and_recover(cluster: Cluster) -> Cluster {
    let crashing = tokio::task::spawn_blocking(move || {
        cluster.crash();
        cluster.recover();
        cluster
    });
    crashing.await.expect("it is up again")
}

/// With the name of a spool file for each gate, or without.
async fn check_two_crashes(spools: Option<[&str; 2]>) {
    let upstream = Upstream::start().await;
    let mut cluster = Cluster::start(None);
    let url = cluster.url("127.0.0.1");
    check_durable(&url).await;
    let setup = Setup::new(Home::Postgres, &upstream.url()).policy("lease = \"60s\"", "lease = \"3s\"");
    let mut one = Gate::start_on(setup, Some(url)).await;
    let mut two = one.another().await;
    for (gate, spool) in [&mut one, &mut two].into_iter().zip(spools.into_iter().flatten()) {
        gate.kill();
        gate.set("audit.spool_file", spool);
        gate.restart().await;
    }
    let mut callers = Callers::start(&[&one, &two], &upstream);
    for _ in 0..2 {
        callers.answered(50).await;
        cluster = crash_and_recover(cluster).await;
    }
    callers.answered(50).await;
    let answers = callers.end().await;
    check_once(&[&one, &two], &upstream, &answers).await;
}

#[tokio::test]
async fn a_database_that_crashes_in_traffic_keeps_every_answer_and_runs_nothing_twice() {
    check_two_crashes(None).await;
}

#[tokio::test]
async fn the_same_holds_with_a_spool() {
    check_two_crashes(Some(["spool-of-one", "spool-of-two"])).await;
}
