//! The storm's own Postgres: durable, and made to be broken.
//!
//! Promises: `fsync` and `synchronous_commit` are on, and looked up to be so; a crash is an immediate stop, in which
//! nothing is finished and nothing is flushed.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::task::spawn_blocking;
use tokio_postgres::NoTls;

use crate::Fallible;
use crate::cluster::Cluster;

/// A cluster, and where its files are.
pub(crate) struct Postgres {
    cluster: Cluster,
    folder: PathBuf,
    address: SocketAddr,
}

impl Postgres {
    /// A new one, running.
    pub(crate) async fn start() -> Fallible<Self> {
        let cluster = spawn_blocking(|| Cluster::start(None)).await?;
        let url = cluster.url("127.0.0.1");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let ask = "SELECT current_setting('data_directory'), current_setting('fsync') \
                   || current_setting('synchronous_commit')";
        let row = client.query_one(ask, &[]).await?;
        connection.abort();
        let (folder, durable): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if durable != "onon" {
            return Err(format!("the cluster is not durable: {durable}").into());
        }
        let address = url.trim_start_matches("postgres://postgres@").trim_end_matches("/postgres").parse()?;
        Ok(Self { cluster, folder: PathBuf::from(folder), address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its database.
    pub(crate) fn url(&self) -> String {
        self.cluster.url("127.0.0.1")
    }

    /// Takes it down. Blocks.
    pub(crate) fn crash(&self) {
        self.cluster.crash();
    }

    /// Starts it again. Blocks.
    pub(crate) fn recover(&self) {
        self.cluster.recover();
    }

    /// Its first process.
    pub(crate) fn postmaster(&self) -> Fallible<u32> {
        let file = fs::read_to_string(self.folder.join("postmaster.pid"))?;
        Ok(file.lines().next().unwrap_or_default().parse()?)
    }
}
