//! The gate that a reference page speaks of: it runs on the page's own configuration and policies.
//!
//! Promises: whatever the page shows of them is really in it, with what it leaves out added; its app, and every provider,
//! is one that answers everybody. In the page's folder stands its `oncegate.toml`, so that commands find it. It is ready
//! when a page gets it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use axum::{Json, Router};
use serde_json::{Value as Body, json};
use toml::{Table, Value};

use super::page::{Kind, Page};
use super::ports::Ports;
use super::settings::{What, pieces, whole};
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::gate::binary;

/// What every page's gate has, so that operators' commands reach it.
const ADMIN: &str = "admin_token_file = \"/run/secrets/admin\"\n";

/// What development tokens are signed with, whatever issuer the page shows.
const SECRET: &str = "a-secret-of-the-pages-that-is-long-enough";

/// What a page that shows no configuration is about: the repository's own policies.
const POLICIES: &str = "policies";

pub(super) struct Ground {
    gate: Child,
}

impl Ground {
    pub(super) async fn open(page: &Page, folder: &Path, ports: &Ports) -> Result<Self, String> {
        let mut files = Vec::new();
        for block in page.of(&Kind::Toml) {
            files.extend(pieces(&block.text)?);
        }
        let of = |what| files.iter().filter(move |file| file.what == what).map(|file| file.text.as_str());
        let mut config = vec![ADMIN];
        config.extend(of(What::Configuration));
        let mut config = whole(&config, folder);
        let app = anybody().await;
        lay_out(&mut config, &app, ports);
        fs::write(folder.join("jwt"), SECRET).expect("a secret");
        copied(&super::root().join(POLICIES), &folder.join(POLICIES));
        let own: Vec<_> = of(What::Policy).collect();
        if !own.is_empty() {
            for file in fs::read_dir(folder.join(POLICIES)).expect("the policies").flatten() {
                if file.path().is_file() {
                    fs::remove_file(file.path()).expect("a policy");
                }
            }
        }
        for (number, policy) in own.iter().enumerate() {
            fs::write(folder.join(POLICIES).join(format!("page{number}.toml")), policy).expect("a policy");
        }
        fs::write(folder.join("oncegate.toml"), config.to_string()).expect("the configuration");
        let log = File::create(folder.join(".gate.log")).expect("the log");
        let mut command = binary();
        command
            .args(["serve"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log"))
            .stderr(log);
        let mut ground = Self { gate: command.spawn().expect("the gate's binary") };
        let health: SocketAddr = ports.real("127.0.0.1:8081").parse().expect("an address");
        let probe = Client::new(health, Era::Legacy).rpc("", &json!({})).line("GET /readyz");
        let logged = || fs::read_to_string(folder.join(".gate.log")).unwrap_or_default();
        eventually("the page's gate to be ready", async || {
            if ground.gate.try_wait().expect("its status").is_some() {
                return Some(Err(format!("the page's gate does not start:\n{}", logged())));
            }
            let reply = probe.clone().try_send().await?;
            (reply.status() == 200).then_some(Ok(()))
        })
        .await?;
        Ok(ground)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _gone_already = self.gate.kill().is_err() || self.gate.wait().is_err();
    }
}

/// Puts this run's addresses, app and folder into a configuration.
fn lay_out(config: &mut Table, app: &str, ports: &Ports) {
    for (key, port) in [
        ("listen", "127.0.0.1:8080"),
        ("health_listen", "127.0.0.1:8081"),
        ("admin_listen", "127.0.0.1:9090"),
    ] {
        config.insert(key.to_owned(), Value::String(ports.real(port)));
    }
    config.insert("store".to_owned(), "url = \"sqlite:oncegate.db\"".parse::<Table>().expect("TOML").into());
    config.insert("policy".to_owned(), "dir = \"policies\"".parse::<Table>().expect("TOML").into());
    if let Some(Value::Table(auth)) = config.get_mut("auth") {
        auth.remove("jwks_url");
        auth.insert("hs256_secret_file".to_owned(), "jwt".into());
    }
    let upstream = |table: &mut Table| {
        if let Some(Value::Table(upstream)) = table.get_mut("upstream") {
            upstream.insert("url".to_owned(), app.into());
        }
    };
    upstream(config);
    if let Some(Value::Array(listeners)) = config.get_mut("listener") {
        listeners.retain(|listener| {
            let dir = listener.get("policy").and_then(|policy| policy.get("dir")).and_then(Value::as_str);
            dir.is_some_and(|dir| super::root().join(dir).exists())
        });
        for listener in listeners.iter_mut().filter_map(Value::as_table_mut) {
            upstream(listener);
            if let Some(Value::String(listen)) = listener.get_mut("listen") {
                *listen = ports.real(listen);
            }
        }
    }
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder of the repository").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copied(&from, &to);
        } else {
            fs::copy(from, to).expect("a file of the repository");
        }
    }
}

/// An app that does whatever it is asked, and a provider too.
async fn anybody() -> String {
    let answer = async |body: axum::body::Bytes| {
        let call: Body = serde_json::from_slice(&body).unwrap_or_default();
        let done = json!({ "id": "re_1", "status": "succeeded" });
        let told = json!({ "content": [{ "type": "text", "text": done.to_string() }] });
        match call.get("id").filter(|_| call.get("jsonrpc").is_some()) {
            Some(id) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": told })),
            None => Json(done),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    format!("http://{address}")
}
