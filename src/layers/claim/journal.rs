//! Where the rows go that need no claim: into the store, or the spool, or the queue before them.
//!
//! Promises: a row that got its place in the queue is written, however long the store is away; a full queue slows
//! callers and loses nothing. A crash loses what is still queued, and only that. While the store is known to be away, a
//! read is refused before it runs, or, where the operator wants it served, its row is on the spool's disk before it is
//! answered.
//!
//! Absent on purpose: rows of mutations and replays. Those are committed before anybody is answered, and so are
//! denials' while the store is there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc::{self, OwnedPermit};
use tracing::{error, warn};

use super::pause::Pause;
use crate::domain::audit::AuditEvent;
use crate::domain::chain::Chain;
use crate::domain::mode::WhenStoreDown;
use crate::domain::refusal::Refusal;
use crate::meter::{Meter, Reading};
use crate::spool::{Room, Settlement, Spool};
use crate::store::{Standing, Store, StoreError};

/// How many rows may wait.
const PLACES: usize = 1024;

/// How many are handed to the store at once; it groups them.
const AT_ONCE: usize = 64;

/// How long a row waits before the store is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The same, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The queue's inlet. Cheap to clone; the queue ends when the last one is dropped.
#[derive(Clone)]
pub struct Journal {
    inlet: mpsc::Sender<Queued>,
    books: Arc<Books>,
}

/// What rows are written into.
struct Books {
    store: Arc<dyn Store>,
    standing: Standing,
    spool: Option<Spool>,
    when_down: WhenStoreDown,
    meter: Arc<Meter>,
}

/// A row in the queue.
struct Queued {
    event: AuditEvent,
    room: Option<Room>,
}

/// A row with a place in the queue. It takes that place when this is dropped.
pub struct Entry {
    event: AuditEvent,
    place: Option<OwnedPermit<Queued>>,
    /// Its place in the spool, where the store is away.
    room: Option<Room>,
    books: Arc<Books>,
    /// Whether it is written already.
    written: bool,
    /// Whether it is not to be written at all.
    withdrawn: bool,
}

impl Journal {
    /// A queue, and the work of emptying it.
    pub fn open(
        store: Arc<dyn Store>,
        spool: Option<Spool>,
        when_down: WhenStoreDown,
        meter: Arc<Meter>,
        service: &str,
    ) -> (Self, impl Future<Output = ()> + Send + use<> + 'static) {
        let (inlet, outlet) = mpsc::channel(PLACES);
        // Weak: the queue ends with the last who could write into it.
        let look = inlet.downgrade();
        meter.read(service, Reading::AuditQueued, move || {
            look.upgrade().map_or(0, |inlet: mpsc::Sender<Queued>| PLACES - inlet.capacity())
        });
        let standing = store.standing();
        let books = Arc::new(Books { store, standing, spool, when_down, meter });
        (Self { inlet, books: Arc::clone(&books) }, empty(books, outlet))
    }

    /// What counts rows. Those of this queue are counted here; whoever writes another counts it when it is decided.
    pub fn meter(&self) -> &Meter {
        &self.books.meter
    }

    /// A place for this row; waits while the queue is full. Refuses while the store is away, unless the row has a place
    /// in the spool.
    ///
    /// # Cancel safety
    /// Dropping the future gives the wait up; nothing was queued.
    pub async fn entry(&self, event: AuditEvent) -> Result<Entry, Refusal> {
        let mut room = self.books.room(&event)?;
        // The queue outlives every inlet, so a place is always to be had; without one the row is logged on drop.
        let place = tokio::select! {
            biased;
            place = self.inlet.clone().reserve_owned() => place.ok(),
            () = self.books.standing.away(), if room.is_none() => {
                room = self.books.room(&event)?;
                self.inlet.clone().reserve_owned().await.ok()
            }
        };
        let mut entry = self.placed(event, place);
        entry.room = room;
        Ok(entry)
    }

    /// A place for this row, if there is one at once. Without, the row is only logged when it is dropped: whoever uses
    /// this may not be kept waiting, and is not refused.
    pub fn entry_now(&self, event: AuditEvent) -> Entry {
        let place = self.inlet.clone().try_reserve_owned().ok();
        self.placed(event, place)
    }

    fn placed(&self, event: AuditEvent, place: Option<OwnedPermit<Queued>>) -> Entry {
        let books = Arc::clone(&self.books);
        Entry { event, place, room: None, books, written: false, withdrawn: false }
    }

    /// Counts a denial and writes its row. A refusal stands whether or not it can be written down, since letting the
    /// call through would be worse: the row is queued then, unless half of the places are gone. The others are for
    /// reads, and a refusal is never kept waiting.
    pub async fn denied(&self, event: AuditEvent) {
        self.books.meter.row(&event);
        if let Err(fault) = self.books.write(&event, None).await {
            let reason = event.reason.clone();
            let has_room = self.inlet.capacity() > PLACES / 2;
            let queued = has_room && self.inlet.try_send(Queued { event, room: None }).is_ok();
            error!(reason, queued, error = %Chain(&fault), "A denial was not written down at once.");
        }
    }

    /// Keeps a settlement that the store did not take, through a restart too. Says whether it is kept.
    pub async fn keep(&self, settlement: &Settlement) -> bool {
        let Some(spool) = &self.books.spool else { return false };
        let kept = spool.keep_settlement(settlement.clone()).await;
        if let Err(fault) = &kept {
            error!(error = %Chain(fault), "A settlement is kept in memory only.");
        }
        kept.is_ok()
    }
}

impl Books {
    /// A place for this row in the spool, where the store is away and calls are served all the same; else a refusal.
    fn room(&self, event: &AuditEvent) -> Result<Option<Room>, Refusal> {
        if !self.standing.is_away() {
            return Ok(None);
        }
        let spool = match self.when_down {
            WhenStoreDown::Refuse => None,
            WhenStoreDown::Spool => self.spool.as_ref(),
        };
        let spool = spool.ok_or(Refusal::StoreUnavailable)?;
        spool.room(event).map(Some).map_err(|fault| {
            error!(error = %Chain(&fault), "A call was refused: its row would find no place.");
            Refusal::StoreUnavailable
        })
    }

    /// Writes a row where it lasts: into the store, or else into the spool.
    async fn write(&self, event: &AuditEvent, room: Option<Room>) -> Result<(), StoreError> {
        let Err(fault) = self.store.append(event.clone()).await else { return Ok(()) };
        let Some(spool) = &self.spool else { return Err(fault) };
        spool.keep_row(event.clone(), room).await.map_err(|full| {
            error!(error = %Chain(&full), "A row that the store did not take found no place in the spool.");
            fault
        })
    }
}

impl Entry {
    /// The row, to complete.
    pub fn event_mut(&mut self) -> &mut AuditEvent {
        &mut self.event
    }

    /// Gives the place back: the call was refused after all, and has another row.
    pub fn withdraw(&mut self) {
        self.withdrawn = true;
    }

    /// Writes the row now; what cannot be written takes its place in the queue. Says whether it is written.
    pub async fn write(mut self) -> bool {
        match self.books.write(&self.event, self.room.take()).await {
            Ok(()) => self.written = true,
            Err(fault) => error!(error = %Chain(&fault), "A row was not written at once; it is queued."),
        }
        self.written
    }

    /// Writes it before its call is answered, if it has a place in the spool: that is one on a disk. A read whose row the
    /// disk does not take after all is not answered.
    pub async fn write_if_spooled(self) -> Result<(), Refusal> {
        if self.room.is_none() || self.write().await { Ok(()) } else { Err(Refusal::ReadFailed) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.withdrawn {
            return;
        }
        self.books.meter.row(&self.event);
        if self.written {
            return;
        }
        if let Some(place) = self.place.take() {
            drop(place.send(Queued { event: self.event.clone(), room: self.room.take() }));
        } else {
            error!(event = ?self.event, "A row found no place in the queue.");
        }
    }
}

async fn empty(books: Arc<Books>, mut outlet: mpsc::Receiver<Queued>) {
    let mut waiting = Vec::with_capacity(AT_ONCE);
    while outlet.recv_many(&mut waiting, AT_ONCE).await > 0 {
        join_all(waiting.drain(..).map(|queued| write(&books, queued))).await;
    }
}

async fn write(books: &Books, queued: Queued) {
    let Queued { event, mut room } = queued;
    let mut pause = Pause::between(FIRST_PAUSE, LONGEST_PAUSE);
    while let Err(fault) = books.write(&event, room.take()).await {
        warn!(error = %Chain(&fault), "A read's row waits for the store.");
        if books.standing.is_away() && books.spool.is_none() {
            books.standing.there().await;
        } else {
            pause.over().await;
        }
    }
}
