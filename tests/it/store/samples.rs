//! Stores under test, and rows to put in them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{Claim, ClaimId, Draft, Expect, Round, RoundId, Status};
use oncegate::domain::time::{Timestamp, When};
use oncegate::store::{
    AuditFilter, ClaimFilter, PruneOf, RecordedEvent, Role, Store, StoreError, StoreOptions, Swap, Write,
    event_id, open,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::pgbouncer::PgBouncer;
use crate::harness::postgres;
use crate::harness::setup::Home;

/// Where a store can be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    /// In a home of its own.
    In(Home),
    /// In a database of its own, behind a PgBouncer that has fewer connections than come to it.
    BehindPgBouncer,
}

impl Site {
    /// Each: the contract is the same.
    const ALL: [Self; 3] = [Self::In(Home::Sqlite), Self::In(Home::Postgres), Self::BehindPgBouncer];
}

impl From<Home> for Site {
    fn from(home: Home) -> Self {
        Self::In(home)
    }
}

/// Runs a check of the contract wherever a store can be, one after the other.
pub(crate) async fn on_every_store(mut check: impl AsyncFnMut(Site)) {
    for site in Site::ALL {
        eprintln!("--- {site:?}");
        check(site).await;
    }
}

/// Where a test's store is.
pub(crate) struct Place {
    pub(crate) url: String,
    _folder: Option<TempDir>,
    _pooler: Option<PgBouncer>,
}

impl Place {
    /// A new, empty place.
    pub(crate) async fn on(site: impl Into<Site>) -> Self {
        match site.into() {
            Site::In(Home::Sqlite) => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let url = format!("sqlite:{}", folder.path().join("oncegate.db").display());
                Self { url, _folder: Some(folder), _pooler: None }
            }
            Site::In(Home::Postgres) => {
                Self { url: postgres::database().await, _folder: None, _pooler: None }
            }
            Site::BehindPgBouncer => {
                let pooler = PgBouncer::start().await;
                let url = pooler.url(&postgres::database().await);
                Self { url, _folder: None, _pooler: Some(pooler) }
            }
        }
    }

    /// The same database, past a pooler.
    pub(crate) fn direct(&self) -> String {
        let (credentials, rest) = self.url.split_once('@').expect("a Postgres");
        let (_, name) = rest.split_once('/').expect("a database");
        format!("{credentials}@{}/{name}", postgres::address())
    }

    /// Its store, migrated, as a gate opens it.
    pub(crate) async fn serve(&self) -> Arc<dyn Store> {
        let store = open(&self.url, StoreOptions::new(Role::Serve)).await.expect("a store");
        store.migrate().await.expect("a schema");
        store
    }
}

/// A new store, migrated.
pub(crate) async fn store_on(site: impl Into<Site>) -> (Arc<dyn Store>, Place) {
    let place = Place::on(site).await;
    (place.serve().await, place)
}

pub(crate) fn id(key: &str) -> ClaimId {
    ClaimId { tenant: "acme".into(), service: "billing".into(), tool: "refund_order".into(), key: key.into() }
}

pub(crate) fn facts(key: &str) -> Facts {
    Facts {
        tenant_id: "acme".into(),
        service: "billing".into(),
        user_id: "u1".into(),
        session_id: Some("s1".into()),
        tool: "refund_order".into(),
        args_hash: Some("k1:aa".into()),
        args: Some(r#"{"order_id":"ord_9f2","amount":12.50}"#.into()),
        idempotency_key: Some(key.into()),
        attempt_id: Some(Uuid::new_v4()),
        forwarded_key: None,
        handed_out: None,
        span_id: None,
        policy_version: Some("p1".into()),
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        protocol: Some("mcp/2026-07-28".into()),
        client: Some("agent/1.0 \u{fc}".into()),
    }
}

/// A call that begins.
pub(crate) fn draft(key: &str) -> Draft {
    let attempt_id = Uuid::new_v4();
    Draft {
        user: "u1".into(),
        args_hash: "k1:aa".into(),
        status: Status::InFlight,
        attempt_id,
        facts: Facts { attempt_id: Some(attempt_id), ..facts(key) },
        round: Round::default(),
        lease_until: When::In(Duration::from_mins(1)),
        attempt_until: When::In(Duration::from_mins(5)),
        first_sent_at: When::NOW,
        response: None,
        created_at: None,
        settled_at: When::Never,
        expires_at: When::Never,
    }
}

/// The same call, answered; it expires at this time.
pub(crate) fn completed(of: &Draft, expires_at: When) -> Draft {
    Draft {
        status: Status::Completed,
        lease_until: When::Never,
        response: Some(Bytes::from_static(b"{\"status\":200}\n{\"ok\":\0true}")),
        settled_at: When::NOW,
        expires_at,
        ..of.clone()
    }
}

/// Deletes a batch of expired claims; how many there were.
pub(crate) async fn pruned(store: &Arc<dyn Store>, batch: u32) -> u64 {
    let told = store.prune_claims(&PruneOf { batch, from: None }).await;
    told.expect("the store answers").claims
}

/// A claim that does not exist yet.
pub(crate) fn fresh(key: &str) -> Write {
    Write { id: id(key), expect: Expect::Absent, next: draft(key), event: None }
}

/// The event of one attempt.
pub(crate) fn event(key: &str) -> AuditEvent {
    AuditEvent {
        id: event_id(),
        facts: facts(key),
        decision: Decision::Allowed,
        reason: None,
        result_summary: Some(r#"{"refund.id":"re_1"}"#.into()),
        duration_ms: Some(412),
        executed: Executed::Yes,
        upstream_status: Some(200),
    }
}

/// The time of a write that must have been applied.
pub(crate) fn applied(swap: Result<Swap, StoreError>) -> Timestamp {
    match swap.expect("the store answers") {
        Swap::Applied { now } => now,
        Swap::Mismatch { row, .. } => panic!("not applied over {row:?}"),
    }
}

/// The row that stood in the way of a write that must not have been applied.
pub(crate) fn mismatch(swap: Result<Swap, StoreError>) -> Option<Claim> {
    match swap.expect("the store answers") {
        Swap::Applied { now } => panic!("applied at {now:?}"),
        Swap::Mismatch { row, .. } => row.map(|row| *row),
    }
}

/// Writes and reads back.
pub(crate) async fn put(store: &Arc<dyn Store>, write: Write) -> Claim {
    let id = write.id.clone();
    applied(store.swap(write).await);
    row(store, &id).await.expect("it was written")
}

pub(crate) async fn row(store: &Arc<dyn Store>, id: &ClaimId) -> Option<Claim> {
    store.read(id).await.expect("the store answers").row
}

/// Every audit row with this key, oldest first.
pub(crate) async fn told(store: &Arc<dyn Store>, key: &str) -> Vec<RecordedEvent> {
    let filter = AuditFilter { key: Some(key.into()), limit: 1000, ..AuditFilter::default() };
    store.events(&filter).await.expect("the store answers")
}

/// Every claim.
pub(crate) async fn keys(store: &Arc<dyn Store>, filter: ClaimFilter) -> Vec<String> {
    let listed = store.claims(&ClaimFilter { limit: 10_000, ..filter }).await.expect("the store answers");
    listed.into_iter().map(|claim| claim.id.key).collect()
}

/// A round that the upstream asked something in.
pub(crate) fn asked_round() -> Round {
    Round {
        id: RoundId::from_hex("ab12"),
        expects: Some(oncegate::domain::ledger::Expects { state: "cd34".into(), inputs: true }),
    }
}
