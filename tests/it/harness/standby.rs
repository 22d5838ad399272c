//! A standby of a test's cluster, and its promotion.
//!
//! Promises: every commit of the primary is on its disk before it is confirmed, from when this is made.

use std::process::Command;

use tokio_postgres::NoTls;

use super::cluster::{Cluster, as_postgres, free_port, give, run, watch};
use super::eventually;

impl Cluster {
    /// A synchronous standby of this cluster.
    pub(crate) async fn standby(&self) -> Self {
        let folder = tempfile::Builder::new().prefix("oncegate-standby").tempdir().expect("a folder");
        give(folder.path());
        let data = folder.path().join("data");
        let mut copy = as_postgres("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-p"]);
        run(copy.arg(self.port.to_string()).arg("-D").arg(&data));
        let watch = watch(folder.path(), &data);
        let mut standby = Self { folder, port: 0, watch: Some(watch) };
        standby.set(&format!("unix_socket_directories = '{}'", standby.folder.path().display()));
        let started = (0..5).any(|_| {
            standby.port = free_port();
            standby.control(&["start", "-w", "-s"])
        });
        assert!(started, "no start: {}", std::fs::read_to_string(standby.log()).unwrap_or_default());
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        self.ask("SELECT pg_reload_conf()").await;
        eventually("the standby", async || {
            let synchronous = self.ask("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").await;
            (synchronous == 1).then_some(())
        })
        .await;
        standby
    }

    /// Makes a primary of a standby.
    pub(crate) fn promote(&self) {
        assert!(self.control(&["promote", "-w", "-s"]), "it was a standby");
    }

    /// With one more setting, from its next start on.
    pub(crate) fn set(&self, setting: &str) {
        let file = self.folder.path().join("data/postgresql.conf");
        let script = format!("echo \"{setting}\" >> {}", file.display());
        run(Command::new("sh").arg("-c").arg(script));
    }

    /// The URL of these clusters' databases: whichever takes writes.
    pub(crate) fn url_of_any(clusters: &[&Self]) -> String {
        let hosts: Vec<_> = clusters.iter().map(|cluster| format!("127.0.0.1:{}", cluster.port)).collect();
        format!("postgres://postgres@{}/postgres?target_session_attrs=read-write", hosts.join(","))
    }

    /// How many rows an answer to this has.
    pub(crate) async fn ask(&self, sql: &str) -> usize {
        let (client, connection) =
            tokio_postgres::connect(&self.url("127.0.0.1"), NoTls).await.expect("it takes connections");
        let connection = tokio::spawn(connection);
        let rows = client.simple_query(sql).await.expect("it answers");
        connection.abort();
        rows.iter().filter(|message| matches!(message, tokio_postgres::SimpleQueryMessage::Row(_))).count()
    }
}
