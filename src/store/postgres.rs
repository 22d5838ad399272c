//! The store on Postgres: many pods, one ledger.
//!
//! Promises: what [`Store`] promises, through a pooler in transaction mode too; a server that died is noticed within
//! seconds, and a write whose answer got lost is asked after; a short interruption is bridged, and in a longer one
//! everybody is refused at once until the server is back; few connections, and many writes to a commit.
//!
//! Absent on purpose: session state (advisory session locks, LISTEN, temporary tables, named statements), sequences,
//! triggers. Failover to a standby that is not synchronous can lose the last commits; no client can see that.

mod columns;
mod connections;
mod fault;
mod listing;
mod preparing;
mod schema;
mod statements;
mod tls;
mod upkeep;
mod url;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tracing::error;
use uuid::Uuid;

use self::connections::Connections;
use super::grouping::Line;
use super::op::{Answer, AppendOp, Op, ReadOp, SwapOp, ask};
use super::{
    AuditAge, AuditFilter, AuditKept, ClaimFilter, Counted, Due, Floor, Found, LapsedOf, ListedClaim,
    MigrationNews, OpenClaims, PruneOf, Pruned, RecordedEvent, Schema, Seen, Standing, Store, StoreError,
    StoreOptions, Swap, TallyOf, Twin, TwinOf, UnknownOf, Write,
};
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::ClaimId;

/// The store on Postgres.
pub(super) struct PostgresStore {
    line: Arc<Line<Op>>,
    connections: Arc<Connections>,
    /// Who may take a connection from the workers for long: all but one of them, or one.
    guests: Semaphore,
    workers: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Makes the pool and its workers; asks Postgres nothing yet.
    pub(super) fn open(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let connections = Arc::new(Connections::new(url, options)?);
        let line = Line::new();
        let workers = (0..options.connections.max(1))
            .map(|_| tokio::spawn(keep_serving(Arc::clone(&line), Arc::clone(&connections))))
            .collect();
        let guests = Semaphore::new(options.connections.saturating_sub(1).max(1));
        Ok(Self { line, connections, guests, workers: tokio::sync::Mutex::new(workers) })
    }

    /// Has a worker do something, unless it is known that the server is away: they may all be busy with finding out.
    async fn at_workers<T>(&self, op: impl FnOnce(Answer<T>) -> Op) -> Result<T, StoreError> {
        match self.connections.long_away() {
            Some(why) => Err(why.error()),
            None => ask(&self.line, op).await,
        }
    }
}

/// A worker that panics takes its group's answers with it, and nobody else's.
async fn keep_serving(line: Arc<Line<Op>>, connections: Arc<Connections>) {
    while tokio::spawn(worker::serve(Arc::clone(&line), Arc::clone(&connections)))
        .await
        .is_err_and(|ended| ended.is_panic())
    {
        error!("A store worker panicked; another takes its place.");
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn swap(&self, write: Write) -> Result<Swap, StoreError> {
        self.at_workers(|answer| Op::Swap(SwapOp { write: Box::new(write), answer })).await
    }

    async fn read(&self, id: &ClaimId) -> Result<Seen, StoreError> {
        self.at_workers(|answer| Op::Read(ReadOp { id: id.clone(), answer })).await
    }

    async fn append(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.append_all(vec![event]).await
    }

    async fn append_all(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.at_workers(|answer| Op::Append(AppendOp { events, answer })).await
    }

    fn standing(&self) -> Standing {
        self.connections.standing()
    }

    async fn twin(&self, of: &TwinOf) -> Result<Option<Twin>, StoreError> {
        listing::twin(self, of).await.map_err(|fault| fault.error())
    }

    async fn claims(&self, filter: &ClaimFilter) -> Result<Vec<ListedClaim>, StoreError> {
        listing::claims(self, filter).await.map_err(|fault| fault.error())
    }

    async fn lapsed(&self, of: &LapsedOf) -> Result<Found, StoreError> {
        listing::lapsed(self, of).await.map_err(|fault| fault.error())
    }

    async fn unknown(&self, of: &UnknownOf) -> Result<Found, StoreError> {
        listing::unknown(self, of).await.map_err(|fault| fault.error())
    }

    async fn open_counts(&self, service: &str) -> Result<Vec<OpenClaims>, StoreError> {
        listing::open_counts(self, service).await.map_err(|fault| fault.error())
    }

    async fn events(&self, filter: &AuditFilter) -> Result<Vec<RecordedEvent>, StoreError> {
        listing::events(self, filter).await.map_err(|fault| fault.error())
    }

    async fn tally(&self, of: &TallyOf) -> Result<Counted, StoreError> {
        listing::tally(self, of).await.map_err(|fault| fault.error())
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        schema::schema(self).await.map_err(|fault| fault.error())
    }

    async fn migrate_telling(&self, tell: &(dyn Fn(MigrationNews) + Send + Sync)) -> Result<i64, StoreError> {
        schema::migrate(self, tell).await.map_err(|fault| fault.error())
    }

    async fn lead(&self, what: &str, holder: Uuid, lease: Duration) -> Result<bool, StoreError> {
        upkeep::lead(self, what, holder, lease).await.map_err(|fault| fault.error())
    }

    async fn prune_claims(&self, of: &PruneOf) -> Result<Pruned, StoreError> {
        upkeep::prune_claims(self, of).await.map_err(|fault| fault.error())
    }

    async fn keep_audit(&self, of: &AuditAge) -> Result<AuditKept, StoreError> {
        upkeep::keep_audit(self, of).await.map_err(|fault| fault.error())
    }

    async fn due(&self, keep: Option<Duration>) -> Result<Due, StoreError> {
        upkeep::due(self, keep).await.map_err(|fault| fault.error())
    }

    async fn audit_floor(&self) -> Result<Floor, StoreError> {
        upkeep::audit_floor(self).await.map_err(|fault| fault.error())
    }

    async fn set_audit_floor(&self, floor: Option<Duration>, anew: bool) -> Result<Floor, StoreError> {
        upkeep::set_audit_floor(self, floor, anew).await.map_err(|fault| fault.error())
    }

    async fn close(&self) {
        self.line.close();
        for worker in self.workers.lock().await.drain(..) {
            if let Err(ended) = worker.await {
                error!(error = %ended, "A store worker did not end well.");
            }
        }
        self.connections.close();
    }
}

impl Drop for PostgresStore {
    /// The workers finish what waits, then end.
    fn drop(&mut self) {
        self.line.close();
    }
}
