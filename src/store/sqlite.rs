//! The store in one SQLite file: no server to start, one process that serves it.
//!
//! Promises: what [`Store`] promises; nothing here blocks the runtime: writes have a thread, lists that people wait for
//! another, and everything else a third, each with its own connection (write-ahead log: none waits for another to read). A
//! disk that is full, or
//! a lock that somebody keeps, is found out once, and tried again now and then; nobody else waits for it.
//!
//! Absent on purpose: several serving processes on one file. They share a Postgres.

mod desk;
mod file;
mod listing;
mod rows;
mod schema;
mod upkeep;
mod writer;

use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::OptionalExtension as _;
use tokio::sync::watch;
use uuid::Uuid;

use self::desk::Desk;
use super::grouping::Line;
use super::op::{Answer, AppendOp, Op, SwapOp, ask};
use super::standing::Notice;
use super::{
    AuditAge, AuditFilter, AuditKept, ClaimFilter, Counted, Due, Floor, Found, LapsedOf, ListedClaim,
    MigrationNews, OpenClaims, PruneOf, Pruned, RecordedEvent, Role, Schema, Seen, Standing, Store,
    StoreError, Swap, TallyOf, Twin, TwinOf, UnknownOf, Write,
};
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::ClaimId;

/// How long a list may take, where nobody says.
const LIST: Duration = Duration::from_secs(30);

/// The store in one SQLite file.
pub(super) struct SqliteStore {
    line: Arc<Line<Op>>,
    notice: Notice,
    /// Whatever does not go through the line, and never takes long: calls wait for it.
    desk: Desk,
    /// Lists, which people wait for.
    guests: Desk,
    /// Closed by the last of the threads, when it ends.
    ended: watch::Receiver<()>,
}

impl SqliteStore {
    /// Opens `path`.
    pub(super) async fn open(path: &str, role: Role) -> Result<Self, StoreError> {
        let path = path.to_owned();
        let opening = tokio::task::spawn_blocking(move || {
            let mut opened = file::open(&path, role)?;
            if role == Role::Serve {
                schema::migrate(&mut opened.desk).map_err(rows::error)?;
            }
            Self::start(opened)
        });
        opening.await.map_err(|ended| StoreError::Unavailable(Box::new(ended)))?
    }

    fn start(opened: file::Opened) -> Result<Self, StoreError> {
        let line = Line::new();
        let (alive, ended) = watch::channel(());
        let alive = Arc::new(alive);
        // Given back when all threads have ended: a file is handed over with nothing left to write.
        let lock: Arc<Option<File>> = Arc::new(opened.lock);
        let held = || (Arc::clone(&lock), Arc::clone(&alive));
        let notice = Notice::new();
        let (writes, tells, own) = (Arc::clone(&line), notice.clone(), held());
        named("store-writer", move || {
            writer::serve(&writes, opened.writer, &tells);
            drop(own);
        })?;
        let desk = Desk::start("store-desk", opened.desk, held())?;
        let guests = Desk::start("store-guests", opened.guests, held())?;
        Ok(Self { line, notice, desk, guests, ended })
    }

    /// Has the writer do something, unless it is known that nothing can be written.
    async fn at_writer<T>(&self, op: impl FnOnce(Answer<T>) -> Op) -> Result<T, StoreError> {
        match self.notice.long_away() {
            Some(why) => Err(why.error()),
            None => ask(&self.line, op).await,
        }
    }
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| StoreError::Unavailable(Box::new(error)))
}

#[async_trait]
impl Store for SqliteStore {
    async fn swap(&self, write: Write) -> Result<Swap, StoreError> {
        self.at_writer(|answer| Op::Swap(SwapOp { write: Box::new(write), answer })).await
    }

    async fn read(&self, id: &ClaimId) -> Result<Seen, StoreError> {
        let id = id.clone();
        self.desk
            .ask(move |connection| {
                Ok(Seen { now: rows::now(connection)?, row: rows::read(connection, &id).optional()? })
            })
            .await
    }

    async fn append(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.append_all(vec![event]).await
    }

    async fn append_all(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.at_writer(|answer| Op::Append(AppendOp { events, answer })).await
    }

    fn standing(&self) -> Standing {
        self.notice.standing()
    }

    async fn twin(&self, of: &TwinOf) -> Result<Option<Twin>, StoreError> {
        let of = of.clone();
        self.desk.ask(move |connection| listing::twin(connection, &of)).await
    }

    async fn claims(&self, filter: &ClaimFilter) -> Result<Vec<ListedClaim>, StoreError> {
        let filter = filter.clone();
        self.guests
            .ask_within(filter.within.unwrap_or(LIST), move |connection| listing::claims(connection, &filter))
            .await
    }

    async fn lapsed(&self, of: &LapsedOf) -> Result<Found, StoreError> {
        let of = of.clone();
        self.desk.ask(move |connection| listing::lapsed(connection, &of)).await
    }

    async fn unknown(&self, of: &UnknownOf) -> Result<Found, StoreError> {
        let of = of.clone();
        self.desk.ask(move |connection| listing::unknown(connection, &of)).await
    }

    async fn open_counts(&self, service: &str) -> Result<Vec<OpenClaims>, StoreError> {
        let service = service.to_owned();
        self.desk.ask(move |connection| listing::open_counts(connection, &service)).await
    }

    async fn events(&self, filter: &AuditFilter) -> Result<Vec<RecordedEvent>, StoreError> {
        let filter = filter.clone();
        self.guests
            .ask_within(filter.within.unwrap_or(LIST), move |connection| listing::events(connection, &filter))
            .await
    }

    async fn tally(&self, of: &TallyOf) -> Result<Counted, StoreError> {
        let of = of.clone();
        self.guests.ask_within(of.within, move |connection| listing::tally(connection, &of)).await
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        self.desk.ask(|connection| schema::schema(connection)).await
    }

    async fn migrate_telling(&self, tell: &(dyn Fn(MigrationNews) + Send + Sync)) -> Result<i64, StoreError> {
        let version = self.desk.ask(schema::migrate).await?;
        tell(MigrationNews::Step(version));
        Ok(version)
    }

    async fn lead(&self, what: &str, holder: Uuid, lease: Duration) -> Result<bool, StoreError> {
        let what = what.to_owned();
        self.desk.ask(move |connection| upkeep::lead(connection, &what, holder, lease)).await
    }

    async fn prune_claims(&self, of: &PruneOf) -> Result<Pruned, StoreError> {
        let of = *of;
        self.desk.ask(move |connection| upkeep::prune_claims(connection, of)).await
    }

    async fn keep_audit(&self, of: &AuditAge) -> Result<AuditKept, StoreError> {
        let of = *of;
        self.desk.ask(move |connection| upkeep::keep_audit(connection, of)).await
    }

    async fn due(&self, keep: Option<Duration>) -> Result<Due, StoreError> {
        self.desk.ask(move |connection| upkeep::due(connection, keep)).await
    }

    async fn audit_floor(&self) -> Result<Floor, StoreError> {
        Ok(Floor::None)
    }

    async fn set_audit_floor(&self, _floor: Option<Duration>, _anew: bool) -> Result<Floor, StoreError> {
        Ok(Floor::None)
    }

    async fn close(&self) {
        self.line.close();
        self.desk.close();
        self.guests.close();
        let mut ended = self.ended.clone();
        // Ends when both threads have dropped their sender; nothing is ever sent.
        while ended.changed().await.is_ok() {}
    }
}

impl Drop for SqliteStore {
    /// The writer finishes what waits, then ends; so does the desk.
    fn drop(&mut self) {
        self.line.close();
    }
}
