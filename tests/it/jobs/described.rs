//! The description of the jobs' gate: served, sound, and true of every answer that these tests get.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::Scene;
use crate::clients::install;
use crate::harness::client::Reply;
use crate::harness::setup::Home;

/// Somebody who has read the description, and holds answers against it.
pub(super) struct Description {
    process: Child,
    asked: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Description {
    pub(super) async fn read() -> Self {
        install().await;
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut python = Command::new(root.join(".parts/clients/openapi/bin/python"));
        python
            .arg(root.join("tests/clients/openapi/answers.py"))
            .arg(root.join("src/admin/jobs/openapi.json"));
        let mut process =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the description's reader");
        let asked = process.stdin.take().expect("it was piped");
        let said = BufReader::new(process.stdout.take().expect("it was piped"));
        let mut description = Self { process, asked, said };
        assert_eq!(description.heard(), "read", "it is sound");
        description
    }

    fn heard(&mut self) -> String {
        let mut said = String::new();
        self.said.read_line(&mut said).expect("it says something");
        said.trim().to_owned()
    }

    /// Fails where the answer to a request line is none that is described.
    pub(super) fn check(&mut self, line: &str, sent: &str, reply: &Reply) {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let kind = reply.http.header("content-type").unwrap_or_default();
        let body = String::from_utf8_lossy(&reply.http.body);
        let exchange = json!({
            "path": path, "method": method, "sent": sent,
            "status": reply.status(), "type": kind, "body": body,
        });
        writeln!(self.asked, "{exchange}").expect("the description's reader reads");
        assert_eq!(self.heard(), "ok", "{line} {sent}\n{} {body}", reply.status());
        assert_eq!(reply.http.header("cache-control"), Some("no-store"), "{line}");
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        let _ended = self.process.kill().is_ok() && self.process.wait().is_ok();
    }
}

#[tokio::test]
async fn the_gate_describes_itself_to_services() {
    let scene = Scene::on(Home::Sqlite).await;
    let told = scene
        .ask_at(&scene.gate, crate::harness::gate::WORKER_TOKEN, "GET /gate/openapi.json", &json!({}))
        .await;
    let described: Value =
        serde_json::from_str(include_str!("../../../src/admin/jobs/openapi.json")).expect("JSON");
    assert_eq!((told.status, &told.body), (200, &described));
    assert_eq!(described["openapi"], "3.1.0");
    let page = include_str!("../../../docs/jobs.md");
    for path in described["paths"].as_object().expect("paths").keys() {
        assert!(page.contains(path.as_str()), "docs/jobs.md does not know {path}");
    }
    for code in
        described["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().expect("codes")
    {
        let answers = include_str!("../../../docs/answers.md");
        assert!(answers.contains(&format!("| `{}` |", code.as_str().expect("a word"))), "{code}");
    }
}
