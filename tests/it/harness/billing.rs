//! The sample billing server from `examples/`, as a real upstream that keeps count.
//!
//! Promises: it listens when a test gets it; what it journaled is what really happened.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::in_time;

/// A running billing server; gone with its value.
pub(crate) struct Billing {
    url: String,
    folder: TempDir,
    refund_takes: String,
    process: Child,
}

impl Billing {
    /// One whose refunds and charges take this long to answer, such as `2s`.
    pub(crate) async fn start(refund_takes: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (process, url) = Self::run(&folder, "127.0.0.1:0", refund_takes).await;
        Self { url, folder, refund_takes: refund_takes.to_owned(), process }
    }

    /// Ends it and starts it where it was: its sessions are lost, its journal goes on.
    pub(crate) async fn restart(&mut self) {
        self.process.kill().expect("it is running");
        self.process.wait().expect("it has ended");
        let address = self.url.trim_start_matches("http://");
        (self.process, _) = Self::run(&self.folder, address, &self.refund_takes).await;
    }

    async fn run(folder: &TempDir, address: &str, refund_takes: &str) -> (Child, String) {
        let mut process = Command::new(example("billing"))
            .args(["--listen", address, "--refund-takes", refund_takes, "--journal"])
            .arg(folder.path().join("journal"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the billing server's binary");
        let output = process.stdout.take().expect("its output is piped");
        let output = tokio::process::ChildStdout::from_std(output).expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        let line = in_time("the billing server to listen", lines.next_line()).await.expect("its output");
        let line = line.expect("it says where it listens");
        let url = line.strip_prefix("billing listening on ").expect("it says where it listens");
        (process, url.strip_suffix("/mcp").expect("at /mcp").to_owned())
    }

    /// Where it is, without a path: `http://127.0.0.1:41234`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What really happened, in order.
    pub(crate) fn effects(&self) -> Vec<Value> {
        let journal = fs::read_to_string(self.folder.path().join("journal")).expect("the journal");
        journal.lines().map(|line| serde_json::from_str(line).expect("an effect a line")).collect()
    }
}

impl Drop for Billing {
    fn drop(&mut self) {
        let _gone_already = self.process.kill().is_err() || self.process.wait().is_err();
    }
}

/// An example's binary. Cargo puts them beside the folder of the test binaries.
pub(crate) fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the test binary's own path");
    let profile = own.parent().and_then(|deps| deps.parent()).expect("it stands in a target folder");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing; build it with: cargo build --examples", path.display());
    path
}
