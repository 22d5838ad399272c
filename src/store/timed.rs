//! A store whose time is taken.
//!
//! Promises: whatever calls and the janitor ask of it is measured from the question to its answer, waiting in its line
//! included, whether it went well or not. Nothing else changes.
//!
//! Absent on purpose: what people ask for, and what is done once in a while. It would hide among the rest.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    AuditAge, AuditFilter, AuditKept, ClaimFilter, Counted, Due, Floor, Found, LapsedOf, ListedClaim,
    MigrationNews, OpenClaims, PruneOf, Pruned, RecordedEvent, Schema, Seen, Standing, Store, StoreError,
    Swap, TallyOf, Twin, TwinOf, UnknownOf, Write,
};
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::{ClaimId, Status};
use crate::meter::{Meter, Reading};

/// A claim is made, taken over, or its lease renewed.
const CLAIM: &str = "claim";
/// What became of an attempt is written.
const SETTLE: &str = "settle";
/// A claim is read.
const READ: &str = "read";
/// Audit rows are written that go with no claim.
const APPEND: &str = "append";
/// Claims are looked for: twins, and those that nobody looks after.
const LOOK: &str = "look";

/// Every operation that is measured.
pub const MEASURED: [&str; 5] = [CLAIM, SETTLE, READ, APPEND, LOOK];

/// The store.
struct Timed {
    store: Arc<dyn Store>,
    meter: Arc<Meter>,
}

/// This store, whose time is taken by the meter.
pub fn timed(service: &str, store: Arc<dyn Store>, meter: Arc<Meter>) -> Arc<dyn Store> {
    let standing = store.standing();
    meter.read(service, Reading::StoreAway, move || usize::from(standing.is_away()));
    Arc::new(Timed { store, meter })
}

/// What is done by writing this.
fn operation(write: &Write) -> &'static str {
    match write.next.status {
        Status::InFlight => CLAIM,
        Status::AwaitingInput | Status::Completed | Status::Failed | Status::Unknown => SETTLE,
    }
}

impl Timed {
    async fn time<T>(&self, operation: &'static str, asking: impl Future<Output = T> + Send) -> T {
        let began = Instant::now();
        let told = asking.await;
        self.meter.store_took(operation, began.elapsed());
        told
    }
}

#[async_trait]
impl Store for Timed {
    async fn swap(&self, write: Write) -> Result<Swap, StoreError> {
        self.time(operation(&write), self.store.swap(write)).await
    }

    async fn read(&self, id: &ClaimId) -> Result<Seen, StoreError> {
        self.time(READ, self.store.read(id)).await
    }

    async fn append(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.time(APPEND, self.store.append(event)).await
    }

    async fn append_all(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.time(APPEND, self.store.append_all(events)).await
    }

    fn standing(&self) -> Standing {
        self.store.standing()
    }

    async fn twin(&self, of: &TwinOf) -> Result<Option<Twin>, StoreError> {
        self.time(LOOK, self.store.twin(of)).await
    }

    async fn claims(&self, filter: &ClaimFilter) -> Result<Vec<ListedClaim>, StoreError> {
        self.store.claims(filter).await
    }

    async fn lapsed(&self, of: &LapsedOf) -> Result<Found, StoreError> {
        self.time(LOOK, self.store.lapsed(of)).await
    }

    async fn unknown(&self, of: &UnknownOf) -> Result<Found, StoreError> {
        self.time(LOOK, self.store.unknown(of)).await
    }

    async fn open_counts(&self, service: &str) -> Result<Vec<OpenClaims>, StoreError> {
        self.time(LOOK, self.store.open_counts(service)).await
    }

    async fn events(&self, filter: &AuditFilter) -> Result<Vec<RecordedEvent>, StoreError> {
        self.store.events(filter).await
    }

    async fn tally(&self, of: &TallyOf) -> Result<Counted, StoreError> {
        self.store.tally(of).await
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        self.store.schema().await
    }

    async fn migrate_telling(&self, tell: &(dyn Fn(MigrationNews) + Send + Sync)) -> Result<i64, StoreError> {
        self.store.migrate_telling(tell).await
    }

    async fn lead(&self, what: &str, holder: Uuid, lease: Duration) -> Result<bool, StoreError> {
        self.store.lead(what, holder, lease).await
    }

    async fn prune_claims(&self, of: &PruneOf) -> Result<Pruned, StoreError> {
        self.store.prune_claims(of).await
    }

    async fn keep_audit(&self, of: &AuditAge) -> Result<AuditKept, StoreError> {
        self.store.keep_audit(of).await
    }

    async fn due(&self, keep: Option<Duration>) -> Result<Due, StoreError> {
        self.store.due(keep).await
    }

    async fn audit_floor(&self) -> Result<Floor, StoreError> {
        self.store.audit_floor().await
    }

    async fn set_audit_floor(&self, floor: Option<Duration>, anew: bool) -> Result<Floor, StoreError> {
        self.store.set_audit_floor(floor, anew).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
