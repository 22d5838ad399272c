//! What the store could not take, kept in a file until it can.
//!
//! Promises: what was kept is on the disk, in the order in which it came, and leaves it only once it is said to be stored,
//! through restarts too; the file stays below its limit, and rows leave a part of it to settlements, which are few and
//! matter more; one process has it.
//!
//! Absent on purpose: the store. Whoever empties this writes each record so that a second time changes nothing.

mod disk;
mod file;
mod frame;
mod record;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use self::file::Book;
pub use self::record::{Known, Record, Settlement};
use self::writer::{Ask, Bound, Keep};
use crate::domain::audit::AuditEvent;
use crate::domain::units::size_text;
use crate::meter::Meter;

/// What is reserved for a row beyond what is known of it before its call: its reason, its summary.
const YET_TO_COME: u64 = 4096;

/// How long after its disk refused a write no call is begun whose row would go there.
const REST: Duration = Duration::from_secs(1);

/// The part of the file that rows leave to settlements: a fourth.
const FOR_SETTLEMENTS: u64 = 4;

/// Why the spool does not keep something, or is none.
#[derive(Debug, thiserror::Error)]
pub enum SpoolFault {
    /// It cannot be opened.
    #[error("{} cannot be used as the spool", file.display())]
    Unusable {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has it.
    #[error("another process has the spool {}; each gate needs a file of its own", file.display())]
    Taken {
        /// Which.
        file: PathBuf,
    },
    /// It has no room.
    #[error("the spool {} is full: audit.spool_limit is {}", file.display(), size_text(*limit))]
    Full {
        /// Which.
        file: PathBuf,
        /// How large it may become, in bytes.
        limit: u64,
    },
    /// Its disk did not take it.
    #[error("the spool {} could not be written", file.display())]
    NotWritten {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// It could not be read back.
    #[error("the spool {} could not be read", file.display())]
    NotRead {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread that serves it is gone.
    #[error("the spool's writer is gone")]
    Gone,
}

/// The spool. Cheap to clone; its file is given back with the last clone.
#[derive(Clone)]
pub struct Spool {
    asks: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
}

struct Shared {
    file: PathBuf,
    limit: u64,
    /// How many bytes wait.
    weight: AtomicU64,
    /// How many are promised to rows of calls that run.
    reserved: AtomicU64,
    /// How many records wait.
    waiting: watch::Sender<usize>,
    /// When and why its disk refused the last write, if it did.
    refused: Mutex<Option<(Instant, Arc<io::Error>)>>,
    meter: Arc<Meter>,
}

/// Room for one row, taken before its call runs.
pub struct Room {
    bytes: u64,
    shared: Arc<Shared>,
}

/// A record that waits, and its number.
#[derive(Debug)]
pub struct Waiting {
    /// Its number; those of later ones are larger.
    pub number: u64,
    /// What it is.
    pub record: Record,
}

impl Spool {
    /// Opens the file, or makes it; what an earlier process left in it waits again.
    pub async fn open(file: &Path, limit: u64, meter: Arc<Meter>) -> Result<Self, SpoolFault> {
        let path = file.to_owned();
        let opening = tokio::task::spawn_blocking(move || Book::open(&path));
        let book = opening.await.map_err(|_| SpoolFault::Gone)??;
        let shared = Arc::new(Shared {
            file: file.to_owned(),
            limit,
            weight: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            waiting: watch::Sender::new(0),
            refused: Mutex::default(),
            meter,
        });
        shared.publish(&book);
        let (asks, asked) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let started = thread::Builder::new().name("spool".to_owned()).spawn(move || {
            writer::serve(&asked, book, &of_thread);
        });
        started.map_err(|source| SpoolFault::Unusable { file: file.to_owned(), source })?;
        Ok(Self { asks, shared })
    }

    /// Room for a row of which this much is known. None for a while after the disk has refused a write.
    pub fn room(&self, event: &AuditEvent) -> Result<Room, SpoolFault> {
        self.shared.disk_takes_writes()?;
        let known = Record::Row(Box::new(event.clone())).encode().len();
        let bytes = known as u64 + YET_TO_COME;
        let Shared { weight, reserved, .. } = &*self.shared;
        let most = self.shared.limit_for(Bound::Row);
        let taken = reserved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |reserved| {
            let all = weight.load(Ordering::SeqCst).saturating_add(reserved).saturating_add(bytes);
            (all <= most).then_some(reserved + bytes)
        });
        taken.map_err(|_| self.shared.full())?;
        Ok(Room { bytes, shared: Arc::clone(&self.shared) })
    }

    /// Keeps a row; it is on the disk once this returns. Whoever took room for it has it.
    pub async fn keep_row(&self, event: AuditEvent, room: Option<Room>) -> Result<(), SpoolFault> {
        let bound = if room.is_some() { Bound::Whole } else { Bound::Row };
        let kept = self.keep(&Record::Row(Box::new(event)), bound).await;
        drop(room);
        kept
    }

    /// Keeps a settlement; it is on the disk once this returns.
    pub async fn keep_settlement(&self, settlement: Settlement) -> Result<(), SpoolFault> {
        self.keep(&Record::Settlement(Box::new(settlement)), Bound::Whole).await
    }

    async fn keep(&self, record: &Record, bound: Bound) -> Result<(), SpoolFault> {
        let (answer, told) = oneshot::channel();
        let keep = Keep { record: record.encode(), bound, answer };
        self.asks.send(Ask::Keep(keep)).map_err(|_| SpoolFault::Gone)?;
        told.await.unwrap_or(Err(SpoolFault::Gone))
    }

    /// How many records wait.
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.shared.waiting.subscribe()
    }

    /// The first records behind the one with number `after`, in their order: `most` of them, and not too large a part.
    pub async fn read(&self, after: u64, most: usize) -> Result<Vec<Waiting>, SpoolFault> {
        let (answer, told) = oneshot::channel();
        self.asks.send(Ask::Read { after, most, answer }).map_err(|_| SpoolFault::Gone)?;
        told.await.unwrap_or(Err(SpoolFault::Gone))
    }

    /// Forgets records that the store has.
    pub fn done(&self, numbers: Vec<u64>) {
        // Without its thread nothing waits for it; the next process stores them once more, which changes nothing.
        let _nobody_there = self.asks.send(Ask::Done(numbers)).is_err();
    }
}

impl Shared {
    /// Notes what came of a write.
    fn written(&self, told: &Result<(), Arc<io::Error>>) {
        let refused = told.as_ref().err().map(|why| (Instant::now(), Arc::clone(why)));
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    fn disk_takes_writes(&self) -> Result<(), SpoolFault> {
        match &*self.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, why)) if at.elapsed() < REST => Err(self.not_written(Arc::clone(why))),
            Some(_) | None => Ok(()),
        }
    }

    fn not_written(&self, source: Arc<io::Error>) -> SpoolFault {
        SpoolFault::NotWritten { file: self.file.clone(), source }
    }

    fn publish(&self, book: &Book) {
        self.weight.store(book.weight(), Ordering::SeqCst);
        self.waiting.send_replace(book.len());
        self.meter.spooled(book.len());
    }

    fn limit_for(&self, bound: Bound) -> u64 {
        match bound {
            Bound::Row => self.limit - self.limit / FOR_SETTLEMENTS,
            Bound::Whole => self.limit,
        }
    }

    fn full(&self) -> SpoolFault {
        SpoolFault::Full { file: self.file.clone(), limit: self.limit }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.reserved.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Room").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Spool").field("file", &self.shared.file).finish_non_exhaustive()
    }
}
