//! Whose turn it is: which of the calls that wait runs next, and which is sent away.
//!
//! Promises: no more calls run than there are places, and no more newcomers wait than the queue takes. The next to run
//! is a call of the waiting tenant that runs the fewest; of those that run alike each has its turn, one call at a time,
//! and whoever comes new is last in that round. Within a tenant, first come, first served. A tenant runs at most [`SHARE`] times as many calls as places are still free: so however many
//! calls of one tenant hang, another one's first call finds a place, unless there are only a few in all. Where the queue
//! is full, a newcomer takes the place of the newest call of the tenant that has most waiting, if its own has fewer.
//!
//! Absent on purpose: clocks, and anything that waits. A ticket says who came before whom.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How many times as many calls as there are free places one tenant may run. Alone, it gets eight ninths of them.
pub const SHARE: usize = 8;

/// A waiting call. Lower ones came earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What a call that wants to run met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It runs.
    Runs,
    /// It waits.
    Waits {
        /// Its own.
        ticket: Ticket,
        /// Who was sent away in its stead.
        instead_of: Option<Ticket>,
    },
    /// There is no place in the queue either.
    Full,
}

/// A tenant's call whose turn has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whose call it is.
    pub tenant: Arc<str>,
    /// Which one.
    pub ticket: Ticket,
}

/// All calls, running and waiting.
#[derive(Debug)]
pub struct Turns {
    places: usize,
    queue: usize,
    tenants: HashMap<Arc<str>, Tenant>,
    /// Of each tenant that waits: how many it runs, and its turn. The first one is next.
    next: BTreeSet<(usize, Ticket, Arc<str>)>,
    /// Of each tenant with newcomers that wait: how many, and the newest. The last one is sent away first.
    crowds: BTreeSet<(usize, Ticket, Arc<str>)>,
    running: usize,
    newcomers: usize,
    last: u64,
}

#[derive(Debug, Default)]
struct Tenant {
    running: usize,
    /// Its place in the round: taken when it begins to wait, and at the end again with each call that got its turn.
    turn: Ticket,
    waiting: BTreeSet<Ticket>,
    /// Those of `waiting` that are new: they count for the queue's bound.
    newcomers: BTreeSet<Ticket>,
}

impl Tenant {
    fn wait(&mut self, ticket: Ticket) {
        if self.waiting.is_empty() {
            self.turn = ticket;
        }
        self.waiting.insert(ticket);
    }
}

impl Turns {
    /// Nobody yet, with so many places, and room for so many that wait.
    pub fn new(places: usize, queue: usize) -> Self {
        Self {
            places,
            queue,
            tenants: HashMap::new(),
            next: BTreeSet::new(),
            crowds: BTreeSet::new(),
            running: 0,
            newcomers: 0,
            last: 0,
        }
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// A new call.
    pub fn enter(&mut self, tenant: &str) -> Entry {
        if self.run_at_once(tenant) {
            return Entry::Runs;
        }
        let mut instead_of = None;
        if self.newcomers >= self.queue {
            let own = self.tenants.get(tenant).map_or(0, |own| own.newcomers.len());
            match self.crowds.last().cloned() {
                Some((most, newest, crowded)) if own < most => {
                    self.withdraw(&crowded, newest);
                    instead_of = Some(newest);
                }
                _ => return Entry::Full,
            }
        }
        self.newcomers += 1;
        let ticket = self.ticket();
        self.change(tenant, |own| {
            own.wait(ticket);
            own.newcomers.insert(ticket);
        });
        Entry::Waits { ticket, instead_of }
    }

    /// A call that ran, stepped aside, and wants to go on. It is inside already: it always finds a place in the queue,
    /// and nobody takes that from it.
    pub fn come_back(&mut self, tenant: &str) -> Entry {
        if self.run_at_once(tenant) {
            return Entry::Runs;
        }
        let ticket = self.ticket();
        self.change(tenant, |own| own.wait(ticket));
        Entry::Waits { ticket, instead_of: None }
    }

    /// A call that runs without waiting, if it may.
    pub fn run_at_once(&mut self, tenant: &str) -> bool {
        let (running, waits) =
            self.tenants.get(tenant).map_or((0, false), |own| (own.running, !own.waiting.is_empty()));
        if waits || !self.may_run(running) {
            return false;
        }
        self.running += 1;
        self.change(tenant, |own| own.running += 1);
        true
    }

    /// A call that waits does so no longer. Says whether it did.
    pub fn withdraw(&mut self, tenant: &str, ticket: Ticket) -> bool {
        let (waited, was_new) =
            self.change(tenant, |own| (own.waiting.remove(&ticket), own.newcomers.remove(&ticket)));
        self.newcomers -= usize::from(was_new);
        waited
    }

    /// A call that ran has ended. Whose turn it is now says [`Turns::next`], to be asked until it names nobody.
    pub fn leave(&mut self, tenant: &str) {
        let ran = self.change(tenant, |own| {
            let ran = own.running > 0;
            own.running = own.running.saturating_sub(1);
            ran
        });
        self.running -= usize::from(ran);
    }

    /// The call whose turn it is: it runs from now on.
    #[expect(clippy::should_implement_trait, reason = "turns do not end where this says none")]
    pub fn next(&mut self) -> Option<Turn> {
        let (running, _, tenant) = self.next.first().cloned()?;
        if !self.may_run(running) {
            return None;
        }
        let ticket = self.tenants.get(&tenant)?.waiting.first().copied()?;
        self.withdraw(&tenant, ticket);
        self.running += 1;
        let turn = self.ticket();
        self.change(&tenant, |own| {
            own.running += 1;
            own.turn = turn;
        });
        Some(Turn { tenant, ticket })
    }

    /// Whether a tenant that runs so many may run one more.
    fn may_run(&self, running: usize) -> bool {
        running < self.places.saturating_sub(self.running).saturating_mul(SHARE)
    }

    fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    /// Changes a tenant and where it stands in the orders; one without calls is forgotten.
    fn change<T>(&mut self, name: &str, change: impl FnOnce(&mut Tenant) -> T) -> T {
        let (name, mut tenant) =
            self.tenants.remove_entry(name).unwrap_or_else(|| (Arc::from(name), Tenant::default()));
        if !tenant.waiting.is_empty() {
            self.next.remove(&(tenant.running, tenant.turn, Arc::clone(&name)));
        }
        if let Some(newest) = tenant.newcomers.last() {
            self.crowds.remove(&(tenant.newcomers.len(), *newest, Arc::clone(&name)));
        }
        let changed = change(&mut tenant);
        if !tenant.waiting.is_empty() {
            self.next.insert((tenant.running, tenant.turn, Arc::clone(&name)));
        }
        if let Some(newest) = tenant.newcomers.last() {
            self.crowds.insert((tenant.newcomers.len(), *newest, Arc::clone(&name)));
        }
        if tenant.running > 0 || !tenant.waiting.is_empty() {
            self.tenants.insert(name, tenant);
        }
        changed
    }
}
