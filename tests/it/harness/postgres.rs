//! Databases of a test's own in the run's PostgreSQL cluster.
//!
//! Promises: no test sees another's rows. A run without a cluster fails and says how to get one.
//!
//! Absent on purpose: cleaning up. The cluster goes with the run (`tests/with-postgres`).

use std::net::SocketAddr;

use tokio_postgres::{Config, NoTls, config::Host};

/// The variable in which the run finds its cluster.
const CLUSTER: &str = "ONCEGATE_TEST_POSTGRES";

/// The URL of the cluster's own database.
pub(crate) fn cluster() -> String {
    std::env::var(CLUSTER).unwrap_or_else(|_| {
        panic!("{CLUSTER} is not set. `make test` starts a PostgreSQL for the run; so does `tests/with-postgres COMMAND`.")
    })
}

/// Where the cluster listens.
pub(crate) fn address() -> SocketAddr {
    let config: Config = cluster().parse().expect("the cluster's URL");
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        panic!("{CLUSTER} must name an address, not a socket");
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    SocketAddr::new(host.parse().expect("an address rather than a name"), port)
}

/// The URL of a new, empty database.
pub(crate) async fn database() -> String {
    let (client, connection) =
        tokio_postgres::connect(&cluster(), NoTls).await.expect("the cluster takes connections");
    let carried = tokio::spawn(connection);
    let name = format!("test_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("create database {name}")).await.expect("a new database");
    drop(client);
    carried.await.expect("the connection's task").expect("it ends well");
    let cluster = cluster();
    let (server, _own) = cluster.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}
