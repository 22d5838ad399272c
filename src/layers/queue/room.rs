//! The room for concurrent calls: a place for each that runs, a queue for those that wait.
//!
//! Promises: whose turn it is says [`Turns`], and nothing else; a place is given back by being dropped, and is never
//! lost, whoever hangs up at whatever moment; whoever stops waiting leaves the queue at once. Nobody waits longer than
//! the queue's time. Once the room is closed nobody new comes in, while whoever is inside may end what it began.
//!
//! Absent on purpose: who may have a place. That is known where it is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::domain::refusal::Refusal;
use crate::domain::turns::{Entry, Ticket, Turn, Turns};

/// How many calls may stand aside for each place that there is. They wait for others, with all that they have in memory;
/// any more keep their places while they wait.
const ASIDE_PER_PLACE: usize = 8;

/// How much room there is.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Calls that run at one time.
    pub places: usize,
    /// Calls that wait.
    pub queue: usize,
    /// How long one may wait.
    pub queue_time: Duration,
}

/// The room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    measures: Measures,
    closed: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    turns: Turns,
    waiting: HashMap<Ticket, oneshot::Sender<Place>>,
    aside: usize,
    inside: usize,
}

/// What goes on in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Calls that have a place.
    pub running: usize,
    /// Calls that wait: for a place, or for another call.
    pub waiting: usize,
    /// Those of them that wait for a place.
    pub queued: usize,
}

/// A call's place; it is given back when this is dropped.
#[derive(Debug)]
pub struct Place {
    room: Room,
    tenant: Arc<str>,
}

/// A call is inside, with a place or without, until this is dropped.
#[derive(Debug)]
pub struct Inside(Room);

/// A call stands aside until this is dropped.
#[derive(Debug)]
pub struct Aside(Room);

/// A call in the queue; it leaves the queue when this is dropped.
struct Waiting {
    room: Room,
    tenant: Arc<str>,
    ticket: Ticket,
    told: oneshot::Receiver<Place>,
}

enum Joined {
    Runs(Place),
    Waits(Waiting),
}

impl Room {
    /// An empty one.
    pub fn new(measures: Measures) -> Self {
        let turns = Turns::new(measures.places, measures.queue);
        let state = Mutex::new(State { turns, waiting: HashMap::new(), aside: 0, inside: 0 });
        Self(Arc::new(Shared { measures, closed: CancellationToken::new(), state }))
    }

    /// Nobody new comes in from now on.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    /// Cancelled when it is closed: whoever only listens is sent away then, and comes back to another gate.
    pub fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    /// Who is in it.
    pub fn census(&self) -> Census {
        let state = self.state();
        let running = state.turns.running();
        Census { running, waiting: state.inside.saturating_sub(running), queued: state.waiting.len() }
    }

    /// How much room there is.
    pub fn measures(&self) -> Measures {
        self.0.measures
    }

    /// Counts a call that comes in; refused where the room is closed.
    pub(in crate::layers) fn come_in(&self) -> Result<Inside, Refusal> {
        let mut state = self.state();
        // Asked with the count in hand: whoever closes the room and then counts misses nobody.
        if self.0.closed.is_cancelled() {
            return Err(Refusal::Draining);
        }
        state.inside += 1;
        Ok(Inside(self.clone()))
    }

    /// A place for a new call, now or when its turn comes.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue; a place that was found meanwhile goes to the next.
    pub(in crate::layers) async fn find_place(&self, tenant: &str) -> Result<Place, Refusal> {
        let joined = self.join(tenant, Turns::enter)?;
        self.wait(joined).await
    }

    /// The same for a call that had a place before.
    ///
    /// # Cancel safety
    /// As of [`Room::find_place`].
    pub(in crate::layers) async fn find_place_again(&self, tenant: &str) -> Result<Place, Refusal> {
        let joined = self.join(tenant, Turns::come_back)?;
        self.wait(joined).await
    }

    /// A place, if there is one at once.
    pub(in crate::layers) fn place_now(&self, tenant: &str) -> Option<Place> {
        self.state().turns.run_at_once(tenant).then(|| self.place(tenant.into()))
    }

    /// Lets a call stand aside, where not too many do.
    pub(in crate::layers) fn step_aside(&self) -> Option<Aside> {
        let mut state = self.state();
        let may = state.aside < self.0.measures.places.saturating_mul(ASIDE_PER_PLACE);
        state.aside += usize::from(may);
        may.then(|| Aside(self.clone()))
    }

    fn join(&self, tenant: &str, enter: fn(&mut Turns, &str) -> Entry) -> Result<Joined, Refusal> {
        let mut state = self.state();
        match enter(&mut state.turns, tenant) {
            Entry::Runs => Ok(Joined::Runs(self.place(tenant.into()))),
            Entry::Full => Err(Refusal::Overloaded),
            Entry::Waits { ticket, instead_of } => {
                let (tell, told) = oneshot::channel();
                state.waiting.insert(ticket, tell);
                // Whoever is sent away hears it by this end being gone.
                let _sent_away = instead_of.and_then(|other| state.waiting.remove(&other));
                let room = self.clone();
                Ok(Joined::Waits(Waiting { room, tenant: tenant.into(), ticket, told }))
            }
        }
    }

    async fn wait(&self, joined: Joined) -> Result<Place, Refusal> {
        let mut waiting = match joined {
            Joined::Runs(place) => return Ok(place),
            Joined::Waits(waiting) => waiting,
        };
        let told = timeout(self.0.measures.queue_time, &mut waiting.told).await;
        told.ok().and_then(Result::ok).ok_or(Refusal::Overloaded)
    }

    fn place(&self, tenant: Arc<str>) -> Place {
        Place { room: self.clone(), tenant }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut served = Vec::new();
        {
            let mut state = self.room.state();
            state.turns.leave(&self.tenant);
            while let Some(Turn { tenant, ticket }) = state.turns.next() {
                served.push((state.waiting.remove(&ticket), self.room.place(tenant)));
            }
        }
        for (tell, place) in served {
            // Outside of the lock: whoever has gone in this moment hands the place on by dropping it.
            drop(tell.map(|tell| tell.send(place)));
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.state().aside -= 1;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.waiting.remove(&self.ticket);
        state.turns.withdraw(&self.tenant, self.ticket);
    }
}
