//! A folder with a configuration, and the binary run in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{ClaimId, Draft, Expect, Round, Status};
use oncegate::domain::time::When;
use oncegate::store::{self, Role, Store, StoreOptions, Swap, Write, event_id};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::gate::binary;
use crate::harness::postgres;
use crate::harness::setup::{Home, JWT_SECRET, POLICY, Setup};

pub(super) struct House {
    folder: TempDir,
    /// Where its store is, as a gate opens it.
    url: String,
}

impl House {
    /// With a configuration, and without a store.
    pub(super) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("oncegate.db").display());
        let house = Self { folder, url };
        fs::create_dir(house.path("policies")).unwrap();
        house.write("policies/tests.toml", POLICY);
        house.write("jwt", JWT_SECRET);
        let setup = Setup::new(Home::Sqlite, "http://127.0.0.1:1")
            .set("store.url", "sqlite:oncegate.db")
            .set("auth.hs256_secret_file", "jwt");
        house.write("oncegate.toml", &setup.to_toml());
        house
    }

    /// With an empty store.
    pub(super) async fn new() -> Self {
        let house = Self::empty();
        house.store().await.close().await;
        house
    }

    /// With an empty store in this home.
    pub(super) async fn on(home: Home) -> Self {
        let mut house = Self::empty();
        if home == Home::Postgres {
            house.keep_in(&postgres::database().await);
        }
        house.store().await.close().await;
        house
    }

    /// Says where the store is from now on.
    pub(super) fn keep_in(&mut self, url: &str) {
        let configuration = fs::read_to_string(self.path("oncegate.toml")).unwrap();
        let old = if self.url.starts_with("sqlite:") { "sqlite:oncegate.db" } else { &self.url };
        assert!(configuration.contains(old), "{configuration}");
        self.write("oncegate.toml", &configuration.replace(old, url));
        url.clone_into(&mut self.url);
    }

    /// Where the store is.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The store, as a gate has it.
    pub(super) async fn store(&self) -> Arc<dyn Store> {
        let store = store::open(&self.url, StoreOptions::new(Role::Serve)).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).env("USER", "ann");
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that must succeed.
    pub(super) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The JSON objects that a command prints, one a line.
    pub(super) fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        self.succeeds(arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What a gate knows of a refund.
pub(super) fn facts(tool: &str, key: &str) -> Facts {
    Facts {
        tenant_id: "acme".to_owned(),
        service: "billing".to_owned(),
        user_id: "u1".to_owned(),
        session_id: Some("s1".to_owned()),
        tool: tool.to_owned(),
        args_hash: Some("0a1b2c3d:00ff".to_owned()),
        args: Some(r#"{"order_id":"ord_9f2","amount_cents":1200.50}"#.to_owned()),
        idempotency_key: Some(key.to_owned()),
        protocol: Some("mcp/2026-07-28".to_owned()),
        ..Facts::default()
    }
}

pub(super) fn event(facts: Facts, decision: Decision, reason: Option<&str>) -> AuditEvent {
    AuditEvent {
        id: event_id(),
        facts,
        decision,
        reason: reason.map(str::to_owned),
        result_summary: Some(r#"{"refund.id":"re_1"}"#.to_owned()),
        duration_ms: Some(12),
        executed: Executed::Yes,
        upstream_status: Some(200),
    }
}

/// Puts a claim there as a gate would have left it; `change` says how it stands.
pub(super) async fn put(store: &dyn Store, facts: Facts, change: impl FnOnce(&mut Draft)) {
    let id = ClaimId {
        tenant: facts.tenant_id.clone(),
        service: facts.service.clone(),
        tool: facts.tool.clone(),
        key: facts.idempotency_key.clone().unwrap(),
    };
    let attempt_id = Uuid::new_v4();
    let mut next = Draft {
        user: facts.user_id.clone(),
        args_hash: facts.args_hash.clone().unwrap(),
        status: Status::Unknown,
        attempt_id,
        facts: Facts { attempt_id: Some(attempt_id), ..facts },
        round: Round::default(),
        lease_until: When::Never,
        attempt_until: When::NOW,
        first_sent_at: When::NOW,
        response: None,
        created_at: None,
        settled_at: When::NOW,
        expires_at: When::Never,
    };
    change(&mut next);
    let swap = store.swap(Write { id: id.clone(), expect: Expect::Absent, next, event: None }).await.unwrap();
    let Swap::Applied { now } = swap else { panic!("{swap:?}") };
    // A store's clock may count milliseconds, and two claims of one have no order: the next one is newer.
    while store.read(&id).await.unwrap().now <= now {}
}

/// A claim that was settled and is remembered.
pub(super) fn settled(status: Status) -> impl FnOnce(&mut Draft) {
    move |draft| {
        draft.status = status;
        draft.expires_at = When::In(Duration::from_hours(1));
    }
}
