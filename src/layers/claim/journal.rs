//! The queue in which the rows of reads wait for the store.
//!
//! Promises: a row that got its place in the queue is written, however long the store is away; a full queue slows
//! callers and loses nothing. A crash loses what is still queued, and only that.
//!
//! Absent on purpose: rows of mutations and replays. Those are committed before anybody is answered, and so are
//! denials' while the store is there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc::{self, OwnedPermit};
use tracing::{error, warn};

use crate::domain::audit::AuditEvent;
use crate::domain::chain::Chain;
use crate::meter::Meter;
use crate::store::Store;

/// How many rows may wait.
const PLACES: usize = 1024;

/// How many are handed to the store at once; it groups them.
const AT_ONCE: usize = 64;

/// How long a row waits before the store is tried again, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The queue's inlet. Cheap to clone; the queue ends when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Journal {
    inlet: mpsc::Sender<AuditEvent>,
    meter: Arc<Meter>,
}

/// A row with a place in the queue. It takes that place when this is dropped.
#[derive(Debug)]
pub struct Entry {
    event: AuditEvent,
    place: Option<OwnedPermit<AuditEvent>>,
    meter: Arc<Meter>,
    /// Whether the store has it already.
    written: bool,
    /// Whether it is not to be written at all.
    withdrawn: bool,
}

impl Journal {
    /// A queue, and the work of emptying it.
    pub fn open(
        store: Arc<dyn Store>,
        meter: Arc<Meter>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (inlet, outlet) = mpsc::channel(PLACES);
        (Self { inlet, meter }, empty(store, outlet))
    }

    /// What counts rows. Those of this queue are counted here; whoever writes another counts it when it is decided.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// A place for this row; waits while the queue is full.
    ///
    /// # Cancel safety
    /// Dropping the future gives the wait up; nothing was queued.
    pub async fn entry(&self, event: AuditEvent) -> Entry {
        // The queue outlives every inlet, so a place is always to be had; without one the row is logged on drop.
        let place = self.inlet.clone().reserve_owned().await.ok();
        self.placed(event, place)
    }

    /// A place for this row, if there is one at once. Without, the row is only logged when it is dropped: whoever uses
    /// this may not be kept waiting.
    pub fn entry_now(&self, event: AuditEvent) -> Entry {
        let place = self.inlet.clone().try_reserve_owned().ok();
        self.placed(event, place)
    }

    fn placed(&self, event: AuditEvent, place: Option<OwnedPermit<AuditEvent>>) -> Entry {
        Entry { event, place, meter: Arc::clone(&self.meter), written: false, withdrawn: false }
    }

    /// Queues a denial's row that the store did not take, unless half of the places are gone: the others are for reads,
    /// and a refusal is never kept waiting. Says whether it is queued.
    pub fn later(&self, event: AuditEvent) -> bool {
        self.inlet.capacity() > PLACES / 2 && self.inlet.try_send(event).is_ok()
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

    /// Commits the row now; where the store is away it takes its place in the queue.
    pub async fn write(mut self, store: &dyn Store) {
        match store.append(self.event.clone()).await {
            Ok(()) => self.written = true,
            Err(fault) => error!(error = %Chain(&fault), "A row was not written at once; it is queued."),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.withdrawn {
            return;
        }
        self.meter.row(&self.event);
        if self.written {
            return;
        }
        if let Some(place) = self.place.take() {
            drop(place.send(self.event.clone()));
        } else {
            error!(event = ?self.event, "A row found no place in the queue.");
        }
    }
}

async fn empty(store: Arc<dyn Store>, mut outlet: mpsc::Receiver<AuditEvent>) {
    let mut waiting = Vec::with_capacity(AT_ONCE);
    while outlet.recv_many(&mut waiting, AT_ONCE).await > 0 {
        join_all(waiting.drain(..).map(|event| write(&*store, event))).await;
    }
}

async fn write(store: &dyn Store, event: AuditEvent) {
    let mut pause = Duration::from_millis(100);
    while let Err(fault) = store.append(event.clone()).await {
        warn!(error = %Chain(&fault), "A read's row waits for the store.");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
