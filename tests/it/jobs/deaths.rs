//! Workers in processes of their own that are killed (SIGKILL) in the middle of a job, and the job dispatched again.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::reports::until;
use super::{Scene, job};
use crate::harness::gate::WORKER_TOKEN;
use crate::harness::{eventually, in_time, on_every_store};

/// A worker, and what it says.
struct Worker {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

/// A provider: a file with a line for each call.
struct Provider(TempDir);

impl Provider {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("calls")
    }

    fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.file()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Worker {
    fn start(scene: &Scene, job: &Value, provider: &Provider, finishes: bool) -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients/openapi/worker.py");
        let mut command = Command::new("python3");
        command
            .arg(script)
            .arg(scene.gate.admin_address().to_string())
            .arg(WORKER_TOKEN)
            .arg(job.to_string());
        command.arg(provider.file()).args(finishes.then_some("finish"));
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("python3");
        let says = BufReader::new(process.stdout.take().expect("it was piped")).lines();
        Self { process, says }
    }

    /// What it was told last.
    async fn told(&mut self) -> Value {
        let line = in_time("the worker to be told", self.says.next_line()).await.expect("its output");
        serde_json::from_str(&line.expect("a line")).expect("JSON")
    }

    /// As a machine does that runs out of memory.
    async fn kill(mut self) {
        self.process.kill().await.expect("it was running");
    }
}

#[tokio::test]
async fn a_killed_workers_job_that_is_dispatched_again_makes_no_second_call() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
        let (job, provider) = (job("settle_refund", "k1"), Provider::new());
        let mut worker = Worker::start(&scene, &job, &provider, false);
        assert_eq!(worker.told().await["outcome"], "fresh");
        worker.kill().await;
        for _ in 0..3 {
            let mut next = Worker::start(&scene, &job, &provider, true);
            let told = next.told().await;
            assert!(
                ["request_in_flight", "outcome_unknown"].contains(&told["code"].as_str().expect("a code")),
                "{told}"
            );
            next.kill().await;
        }
        until(&scene.gate, "k1", "unknown").await;
        let mut last = Worker::start(&scene, &job, &provider, true);
        let told = last.told().await;
        assert_eq!((&told["code"], &told["retry"]), (&json!("outcome_unknown"), &json!("no")));
        assert_eq!(provider.calls(), ["k1"]);
        let rows = scene.gate.audit(4).await;
        assert_eq!(rows.iter().filter(|row| row["reason"] == "abandoned").count(), 1, "{rows:?}");
    })
    .await;
}

#[tokio::test]
async fn a_killed_workers_job_is_finished_by_the_next_one_under_the_key_that_its_provider_knows() {
    on_every_store(async |home| {
        let scene = Scene::with(home, |setup| setup.policy("lease = \"60s\"", "lease = \"1s\"")).await;
        let (job, provider) = (job("charge", "k1"), Provider::new());
        let mut worker = Worker::start(&scene, &job, &provider, false);
        assert_eq!(worker.told().await["outcome"], "fresh");
        worker.kill().await;
        let told = eventually("the job to be finished", async || {
            let mut next = Worker::start(&scene, &job, &provider, true);
            let told = next.told().await;
            next.kill().await;
            told["outcome"].is_string().then_some(told)
        })
        .await;
        assert_eq!(told["outcome"], "completed");
        let key = "acme/charge/k1";
        assert_eq!(provider.calls(), [key, key], "a provider that honours keys acts on the first alone");
        let mut again = Worker::start(&scene, &job, &provider, true);
        assert_eq!(again.told().await, json!({ "outcome": "replay", "result": "done" }));
        assert_eq!(provider.calls().len(), 2);
    })
    .await;
}
