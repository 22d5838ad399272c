//! The port to the database, and what every home behind it promises.
//!
//! Promises: a [`Write`] is applied whole, with its audit event, in one transaction, or not at all; the row that
//! lost is returned as it stands; times are the database's; a write whose answer got lost is known again by its
//! attempt, and never reported as another's.
//!
//! Absent on purpose: decisions. A store inserts if absent, reads, and compares-and-swaps.

mod grouping;
mod left;
mod lists;
mod migrations;
mod op;
mod postgres;
mod sqlite;
mod standing;
mod text;
mod timed;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

pub use self::left::{Found, LapsedOf, OpenClaims, UnknownOf};
pub use self::lists::{
    AuditFilter, ClaimFilter, Counted, Cursor, ListedClaim, RecordedEvent, Tally, TallyOf,
};
pub use self::standing::Standing;
pub use self::timed::{MEASURED, timed};
pub use self::upkeep::{AuditAge, AuditKept, Due, Floor, MigrationNews, PruneOf, Pruned, Schema};
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::{Claim, ClaimId, Draft, Expect};
use crate::domain::time::Timestamp;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To serve calls. A home that cannot keep the promise is refused; SQLite is locked against a second serving
    /// process, made where it is missing, and migrated.
    Serve,
    /// To look at it, or to settle something by hand, beside a serving process.
    Inspect,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// What for.
    pub role: Role,
    /// How many connections to Postgres; at least one is used. SQLite has one for writing and one for reading.
    pub connections: usize,
}

impl StoreOptions {
    /// The usual options for `role`: two connections.
    pub const fn new(role: Role) -> Self {
        Self { role, connections: 2 }
    }
}

/// Opens the store that `url` names: `sqlite:FILE`, or `postgres://…`.
///
/// Postgres is not asked anything yet: it may come up later, and [`Store::schema`] says how it stands.
///
/// # Errors
/// [`StoreError::Unfit`] where the URL is not usable, a certificate file cannot be read, or the SQLite file is
/// missing, locked, or not a database.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn open(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    if let Some(rest) = url.strip_prefix("sqlite:") {
        let path = rest.strip_prefix("//").unwrap_or(rest);
        return Ok(Arc::new(sqlite::SqliteStore::open(path, options.role).await?));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Arc::new(postgres::PostgresStore::open(url, options)?));
    }
    Err(StoreError::Unfit("its URL begins neither with sqlite: nor with postgres://".into()))
}

/// One compare-and-swap on one claim.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which claim.
    pub id: ClaimId,
    /// What must stand there.
    pub expect: Expect,
    /// What shall stand there.
    pub next: Draft,
    /// The audit event to write with it, in the same transaction.
    pub event: Option<AuditEvent>,
}

/// What came of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It is committed.
    Applied {
        /// The store's time of the write; the row is `next.at(now, expect)`.
        now: Timestamp,
    },
    /// Something else stands there. Nothing was written, the event neither.
    Mismatch {
        /// The row as it stands; none where the write expected one and it is gone.
        row: Option<Box<Claim>>,
        /// The store's time.
        now: Timestamp,
    },
}

/// A claim as it stands, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The row, if there is one.
    pub row: Option<Claim>,
    /// The store's time.
    pub now: Timestamp,
}

/// Which recent claim would be a twin of a new one: same actor, same operation, same arguments, another key.
#[derive(Clone, Debug)]
pub struct TwinOf {
    /// The new claim.
    pub id: ClaimId,
    /// Its user.
    pub user: String,
    /// Its fingerprints, under every accepted secret.
    pub args_hashes: Vec<String>,
    /// How far back to look, by the store's clock.
    pub window: Duration,
}

/// An earlier claim with the same arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Its key.
    pub key: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database could not be reached, or refused, and certainly nothing was written.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The commit was sent and its answer got lost, and asking again did not help: it may have been written.
    #[error("the store did not confirm the write")]
    Uncertain(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database holds something that this program cannot read.
    #[error("the store holds a row that cannot be read: {0}")]
    Corrupt(String),
    /// The store is set up so that it cannot keep the promise (`synchronous_commit = off`, a locked file).
    #[error("the store cannot be used: {0}")]
    Unfit(String),
}

/// Where claims and audit rows live. One contract suite (`tests/it/store.rs`) runs over every home.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies `write` if what it expects stands there. One round trip.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a write that was queued; it only loses the answer.
    async fn swap(&self, write: Write) -> Result<Swap, StoreError>;

    /// The claim as it stands.
    async fn read(&self, id: &ClaimId) -> Result<Seen, StoreError>;

    /// Writes one audit row that goes with no claim.
    async fn append(&self, event: AuditEvent) -> Result<(), StoreError>;

    /// Writes such rows in their order, all of them or none. One that is there already is left as it is.
    async fn append_all(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        for event in events {
            self.append(event).await?;
        }
        Ok(())
    }

    /// Whether it is known to be away. A store that cannot know counts as there.
    fn standing(&self) -> Standing {
        Standing::there_always()
    }

    /// The newest claim, not failed, that is a twin of a new one. Only ever used to warn: nothing is answered from it.
    async fn twin(&self, of: &TwinOf) -> Result<Option<Twin>, StoreError>;

    /// Claims, the newest first, or the oldest.
    async fn claims(&self, filter: &ClaimFilter) -> Result<Vec<ListedClaim>, StoreError>;

    /// Claims in flight whose lease has lapsed, the oldest first. What it costs does not grow with the table, nor with
    /// the calls that were made a moment ago.
    async fn lapsed(&self, of: &LapsedOf) -> Result<Found, StoreError>;

    /// Unknown claims whose `lease_until`, if they have one, has passed, those first that waited longest for that. What
    /// it costs does not grow with the table, nor with the claims whose time has not come.
    async fn unknown(&self, of: &UnknownOf) -> Result<Found, StoreError>;

    /// How many claims of exactly this service are in flight and unknown; a state that no claim is in is left out. What it
    /// costs does not grow with the table.
    async fn open_counts(&self, service: &str) -> Result<Vec<OpenClaims>, StoreError>;

    /// Audit rows, oldest first.
    async fn events(&self, filter: &AuditFilter) -> Result<Vec<RecordedEvent>, StoreError>;

    /// Counts audit rows, by piece of time and by what came of them. One statement, over the rows of that time only.
    async fn tally(&self, of: &TallyOf) -> Result<Counted, StoreError>;

    /// Whether the schema serves this program.
    async fn schema(&self) -> Result<Schema, StoreError>;

    /// Brings the schema up; returns the version. Safe when many start at once, and when it was interrupted.
    async fn migrate(&self) -> Result<i64, StoreError> {
        self.migrate_telling(&|_| {}).await
    }

    /// The same, and says how it gets on.
    async fn migrate_telling(&self, tell: &(dyn Fn(MigrationNews) + Send + Sync)) -> Result<i64, StoreError>;

    /// Whether `holder` leads in `what`: nobody else's lease of it is alive, and this one's lasts so long from now on. A
    /// lease of no time gives it up. Times are the store's.
    async fn lead(&self, what: &str, holder: Uuid, lease: Duration) -> Result<bool, StoreError>;

    /// Deletes a batch of expired claims, those first that expired first. Never in-flight or unknown ones, and none that
    /// somebody works on: nobody waits for it for longer than the batch takes.
    async fn prune_claims(&self, of: &PruneOf) -> Result<Pruned, StoreError>;

    /// Takes one step towards an audit that holds nothing older than `of` says; makes ready what the next rows need. No
    /// row goes that is younger than the [`Floor`].
    async fn keep_audit(&self, of: &AuditAge) -> Result<AuditKept, StoreError>;

    /// What the two would take away now.
    async fn due(&self, keep: Option<Duration>) -> Result<Due, StoreError>;

    /// How long audit rows are kept at least, whatever a gate asks for.
    async fn audit_floor(&self) -> Result<Floor, StoreError>;

    /// Sets that, as the owner of the schema; unless `anew`, only where nobody has set it yet. Says what holds then.
    async fn set_audit_floor(&self, floor: Option<Duration>, anew: bool) -> Result<Floor, StoreError>;

    /// Lets no further writes in, finishes those that wait, and closes the connections. Idempotent. A store that is
    /// dropped instead finishes what waits too, as long as the process lives.
    async fn close(&self);
}

/// A new time-ordered id for an audit row.
pub fn event_id() -> Uuid {
    Uuid::now_v7()
}
