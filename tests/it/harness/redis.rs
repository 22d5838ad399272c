//! A Redis of a test's own, to be taken away.
//!
//! Promises: it listens on 127.0.0.1, writes nothing to disk, and is gone with its value.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use redis::{Client, Connection};

use super::eventually;
use super::gate::free_port;

/// A running Redis.
pub(crate) struct Redis {
    port: u16,
    /// Other tests leave the port alone.
    _lock: File,
    process: Child,
}

impl Redis {
    /// A new one, empty.
    pub(crate) async fn start() -> Self {
        let (address, lock) = free_port();
        let port = address.port();
        let mut command = Command::new("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--port",
            &port.to_string(),
        ]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let process =
            process.expect("redis-server (`tests/parts` installs it, or `apt-get install redis-server`)");
        let redis = Self { port, _lock: lock, process };
        eventually("Redis to answer", async || redis.connect()).await;
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection.
    fn connect(&self) -> Option<Connection> {
        Client::open(self.url()).expect("a URL").get_connection().ok()
    }

    /// What it knows: the name of every key.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut connection = self.connect().expect("Redis runs");
        redis::cmd("KEYS").arg("*").query(&mut connection).expect("its keys")
    }

    /// Takes all of them away.
    pub(crate) fn forget(&self) {
        let mut connection = self.connect().expect("Redis runs");
        redis::cmd("FLUSHALL").exec(&mut connection).expect("it forgets");
    }

    /// Takes every answer away that it could give: whatever is sent to it waits.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _gone_already = self.process.kill().is_err() || self.process.wait().is_err();
    }
}
