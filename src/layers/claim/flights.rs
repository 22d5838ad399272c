//! Calls with one key that are in this process at the same time: one of them asks the ledger, the others hear what it
//! learns.
//!
//! Promises: of the calls with one key at most one has the pen, and only whoever has it asks the store about the claim; a
//! call decides by a row that was read while it was here, or by that of an attempt that this process runs right now; the
//! pen goes on however its holder ends. A thousand duplicates cost the store what one costs, and their own rows.
//!
//! Absent on purpose: decisions, and anything that lasts. Where every call asked by itself, each would hear the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, watch};

use super::exchange::FIRST_PAUSE;
use crate::domain::audit::Facts;
use crate::domain::ledger::{Claim, ClaimId};
use crate::domain::time::Timestamp;
use crate::store::Seen;

/// The longest pause of whoever asks again and again.
const LONGEST_PACE: Duration = Duration::from_secs(1);

/// All keys that calls of this process bring right now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Sky>);

#[derive(Debug, Default)]
struct Sky(Mutex<HashMap<Arc<ClaimId>, Weak<Flight>>>);

/// The calls with one key.
#[derive(Debug)]
struct Flight {
    id: Arc<ClaimId>,
    sky: Arc<Sky>,
    /// Whoever holds it asks; it knows how long to pause before asking again.
    pen: Arc<tokio::sync::Mutex<Duration>>,
    news: watch::Sender<News>,
}

/// What whoever has the pen has learned.
#[derive(Clone, Debug)]
enum News {
    /// Nothing yet.
    Nothing,
    /// This.
    Row(Arc<Seen>),
    /// That it owns the claim: a sketch of the row as it wrote it last. True for as long as it has the pen.
    Running(Arc<Seen>),
    /// The store did not say.
    Fault,
}

/// One call's place in its flight.
#[derive(Debug)]
pub(super) struct Seat {
    flight: Arc<Flight>,
    news: watch::Receiver<News>,
}

/// What comes next for a call.
#[derive(Debug)]
pub(super) enum Turn {
    /// Another learned this.
    Told(Arc<Seen>),
    /// Another asked in vain.
    Failed,
    /// It may ask the ledger itself.
    Asks(Pen),
}

/// The right to ask the ledger about one key, alone in this process.
#[derive(Debug)]
pub(super) struct Pen {
    flight: Arc<Flight>,
    held: Mutex<Option<OwnedMutexGuard<Duration>>>,
}

impl Flights {
    /// A seat among the calls with this key.
    pub(super) fn join(&self, id: &ClaimId) -> Seat {
        let mut open = self.0.open();
        let flight = open.get(id).and_then(Weak::upgrade).unwrap_or_else(|| {
            let id = Arc::new(id.clone());
            let flight = Flight::new(Arc::clone(&id), Arc::clone(&self.0));
            open.insert(id, Arc::downgrade(&flight));
            flight
        });
        drop(open);
        let mut news = flight.news.subscribe();
        // What was learned before this call came may be out of date, but not what runs.
        if matches!(*news.borrow(), News::Running(_)) {
            news.mark_changed();
        }
        Seat { flight, news }
    }
}

impl Sky {
    fn open(&self) -> MutexGuard<'_, HashMap<Arc<ClaimId>, Weak<Flight>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    fn new(id: Arc<ClaimId>, sky: Arc<Sky>) -> Arc<Self> {
        let pen = Arc::new(tokio::sync::Mutex::new(FIRST_PAUSE));
        Arc::new(Self { id, sky, pen, news: watch::Sender::new(News::Nothing) })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut open = self.sky.open();
        // Another may have begun under the same key since the last seat of this one was given up.
        if open.get(&self.id).is_some_and(|flight| flight.strong_count() == 0) {
            open.remove(&self.id);
        }
    }
}

impl Seat {
    /// Waits for news, or for the pen where nobody has it.
    ///
    /// # Cancel safety
    /// Nothing is lost: news that were not taken are still there.
    pub(super) async fn turn(&mut self) -> Turn {
        loop {
            tokio::select! {
                biased;
                // The flight has the sender, and this seat the flight.
                _alive = self.news.changed() => match &*self.news.borrow_and_update() {
                    News::Row(seen) | News::Running(seen) => return Turn::Told(Arc::clone(seen)),
                    News::Fault => return Turn::Failed,
                    News::Nothing => {}
                },
                held = Arc::clone(&self.flight.pen).lock_owned() => {
                    let held = Mutex::new(Some(held));
                    return Turn::Asks(Pen { flight: Arc::clone(&self.flight), held });
                }
            }
        }
    }
}

impl Pen {
    /// Tells the others what stands there.
    pub(super) fn tell(&self, seen: &Seen) {
        if self.has_others() {
            self.flight.news.send_replace(News::Row(Arc::new(seen.clone())));
        }
    }

    /// Tells the others that the claim is this call's, as of `now`: whoever comes until the pen is given up
    /// hears it too. Nothing is told once it was.
    pub(super) fn running(&self, claim: &Claim, now: Timestamp) {
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return;
        }
        self.flight.news.send_replace(News::Running(Arc::new(Seen { row: Some(sketch(claim)), now })));
    }

    /// Tells the others that the store does not say.
    pub(super) fn failed(&self) {
        if self.has_others() {
            self.flight.news.send_replace(News::Fault);
        }
    }

    /// How long to wait before asking again: each time longer.
    pub(super) fn pace(&self) -> Duration {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pace) = held.as_deref_mut() else { return LONGEST_PACE };
        std::mem::replace(pace, (*pace * 2).min(LONGEST_PACE))
    }

    /// Gives it up: the others ask for themselves.
    pub(super) fn put_down(&self) {
        self.flight.news.send_if_modified(|news| {
            if matches!(news, News::Running(_)) {
                *news = News::Nothing;
            }
            false
        });
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether somebody else would hear. Whoever has the pen has given its own seat up.
    fn has_others(&self) -> bool {
        self.flight.news.receiver_count() > 0
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.put_down();
    }
}

/// What others decide by while the call runs: without what can be large.
fn sketch(claim: &Claim) -> Claim {
    Claim {
        user: claim.user.clone(),
        args_hash: claim.args_hash.clone(),
        status: claim.status,
        revision: claim.revision,
        attempt_id: claim.attempt_id,
        facts: Facts::default(),
        round: claim.round.clone(),
        lease_until: claim.lease_until,
        attempt_until: claim.attempt_until,
        first_sent_at: claim.first_sent_at,
        response: None,
        created_at: claim.created_at,
        settled_at: claim.settled_at,
        expires_at: claim.expires_at,
    }
}
