//! The janitor: looks after claims that nobody else does.
//!
//! Promises: a claim whose owner died becomes unknown soon after its lease has lapsed, whether or not anybody asks for
//! it, with the row that the owner could not write, once, however many janitors look at it; a claim that is owned,
//! settled or resolved stays as it is. Unknown claims of operations that the app can be asked about are asked about, as
//! [`crate::layers::claim::reconcile`] allows it. Looking costs a statement that a store answers from an index. A store
//! that is away makes it wait, and is told of once.
//!
//! Absent on purpose: knowing which attempts run in this process. One of them that was paused for longer than its lease
//! is declared unknown like any other; its answer, when it comes, settles its claim all the same.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::domain::audit::AuditEvent;
use crate::domain::chain::Chain;
use crate::domain::ledger::{self, Draft};
use crate::domain::policy::{Mutation, Operation};
use crate::domain::time::{Timestamp, When};
use crate::layers::authorize::Court;
use crate::layers::claim::reconcile::{Asked, Occasion, Reconciler, apart};
use crate::meter::Meter;
use crate::store::{Found, LapsedOf, ListedClaim, Store, StoreError, Swap, UnknownOf, Write, event_id};

/// How many claims are taken in hand per look. Where there are more, the next look follows at once.
const PER_LOOK: u32 = 100;

/// How many writes are on their way at once; a store groups them.
const AT_ONCE: usize = 16;

/// How many unknown claims are taken in hand per look.
const QUESTIONS: u32 = 20;

/// How many questions of a look are on their way at once: the others are for calls that wait.
const QUESTIONS_AT_ONCE: usize = 2;

/// How long leases are taken to be under a policy without mutations: an earlier one may have left claims in flight.
const UNTOLD: Duration = Duration::from_secs(5);

/// Between two looks, whatever the leases are.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Looks after claims.
pub struct Janitor {
    /// The ledger's home.
    pub store: Arc<dyn Store>,
    /// Knows how long leases are.
    pub court: Arc<Court>,
    /// Asks the app; none where nobody may.
    pub reconciler: Option<Arc<Reconciler>>,
    /// Counts the rows that are written.
    pub meter: Arc<Meter>,
    /// The gate's `service`: other services' claims have janitors of their own.
    pub service: String,
}

impl Janitor {
    /// Looks after claims for as long as it is polled.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a write under way that is applied whole, or not at all, and a question unheard.
    pub async fn keep(self) -> Infallible {
        // Apart: an app that answers slowly keeps nobody from being declared dead.
        tokio::join!(self.declare(), self.inquire()).0
    }

    /// Declares dead owners' claims unknown.
    async fn declare(&self) -> Infallible {
        let mut store_was_away = false;
        loop {
            let lease = self.shortest_lease();
            sleep(jittered(pause_for(lease))).await;
            // Whoever outlived the store's absence renews its lease first: nobody is declared dead for that.
            let declare = !store_was_away;
            match self.look(lease, declare).await {
                Ok(()) if store_was_away => {
                    info!("The store is back; claims are looked after again.");
                    store_was_away = false;
                }
                Ok(()) => {}
                Err(fault) => {
                    if !store_was_away {
                        warn!(error = %Chain(&fault), "Claims are not looked after while the store is away.");
                    }
                    store_was_away = true;
                }
            }
        }
    }

    /// Asks the app about unknown claims. Of a store that is away the other half tells.
    async fn inquire(&self) -> Infallible {
        let mut had_many = false;
        loop {
            let every = self.reconciler.as_ref().and_then(|reconciler| reconciler.operations().1);
            let pause = if had_many { PAUSES.0 } else { pause_for(every.unwrap_or(Duration::MAX)) };
            sleep(jittered(pause)).await;
            had_many = match self.ask_about_some().await {
                Ok(had_many) => had_many,
                Err(fault) => {
                    debug!(error = %Chain(&fault), "The app is not asked while the store is away.");
                    false
                }
            };
        }
    }

    /// One look for unknown claims. Says whether there are more.
    async fn ask_about_some(&self) -> Result<bool, StoreError> {
        let Some(reconciler) = &self.reconciler else { return Ok(false) };
        let (tools, _) = reconciler.operations();
        if tools.is_empty() {
            return Ok(false);
        }
        let of = UnknownOf { service: self.service.clone(), tools, limit: QUESTIONS };
        let Found { claims, now } = self.store.unknown(&of).await?;
        let had_many = claims.len() >= QUESTIONS as usize;
        let (is_busy, looked_at) = (AtomicBool::new(false), Instant::now());
        let ask = async |ListedClaim { id, claim }: ListedClaim| {
            if !is_busy.load(Ordering::Relaxed) {
                let now = now.plus(looked_at.elapsed());
                let asked = reconciler.ask(&id, &claim, now, Occasion::Round).await?;
                is_busy.store(matches!(asked, Asked::Busy), Ordering::Relaxed);
            }
            Ok(())
        };
        let mut asking = stream::iter(claims).map(ask).buffer_unordered(QUESTIONS_AT_ONCE);
        while let Some(asked) = asking.next().await {
            asked?;
        }
        Ok(had_many)
    }

    async fn look(&self, lease: Duration, declare: bool) -> Result<(), StoreError> {
        loop {
            let of = LapsedOf { service: self.service.clone(), lease, limit: PER_LOOK };
            let found = self.store.lapsed(&of).await?;
            if !declare {
                return Ok(());
            }
            let was_full = found.claims.len() >= PER_LOOK as usize;
            let mut declaring = stream::iter(found.claims)
                .map(|listed| self.abandon(listed, found.now))
                .buffer_unordered(AT_ONCE);
            while let Some(declared) = declaring.next().await {
                declared?;
            }
            if !was_full {
                return Ok(());
            }
        }
    }

    /// Declares the claim unknown, if nobody was faster.
    async fn abandon(&self, listed: ListedClaim, now: Timestamp) -> Result<(), StoreError> {
        let ListedClaim { id, claim } = listed;
        let Some((expect, next)) = ledger::abandon(&claim, now) else { return Ok(()) };
        // Of two janitors that do this at the same time, the one that was too late must not take it for its own.
        let next = Draft { settled_at: When::At(now.plus(apart())), ..next };
        let event = AuditEvent::abandoned(event_id(), claim.facts.clone());
        let write = Write { id: id.clone(), expect, next, event: Some(event.clone()) };
        if let Swap::Applied { now } = self.store.swap(write).await? {
            self.meter.row(&event);
            warn!(
                tenant = id.tenant,
                tool = id.tool,
                key = id.key,
                attempt = %claim.attempt_id,
                silent_for = ?claim.lease_until.map_or(Duration::ZERO, |until| now.since(until)),
                age = ?now.since(claim.created_at),
                "The owner of a claim is gone: its lease lapsed. Its outcome is unknown."
            );
        }
        Ok(())
    }

    fn shortest_lease(&self) -> Duration {
        let policy = self.court.policy.load();
        let leases = policy.operations().map(AsRef::as_ref).filter_map(Operation::mutation);
        leases.map(Mutation::lease).min().unwrap_or(UNTOLD)
    }
}

/// Half of a lease, in which the living renew, or of the time in which the app is asked once.
fn pause_for(time: Duration) -> Duration {
    (time / 2).clamp(PAUSES.0, PAUSES.1)
}

/// Up to a quarter more or less, so that hundreds of janitors do not come at once.
fn jittered(pause: Duration) -> Duration {
    let (random, _) = Uuid::new_v4().as_u64_pair();
    // The upper half of random bits: those of the id's version are in the lower one.
    let share = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    pause.mul_f64(0.75 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_janitor_looks_twice_a_lease_within_bounds() {
        let secs = Duration::from_secs;
        for (lease, pause) in
            [(secs(0), 1), (secs(1), 1), (secs(20), 10), (secs(60), 30), (Duration::MAX, 30)]
        {
            assert_eq!(pause_for(lease), secs(pause));
        }
    }

    #[test]
    fn janitors_do_not_come_all_at_once() {
        let pauses: Vec<_> = (0..100).map(|_| jittered(Duration::from_secs(4))).collect();
        let bounds = Duration::from_secs(3)..=Duration::from_secs(5);
        assert!(pauses.iter().all(|pause| bounds.contains(pause)), "{pauses:?}");
        let early = pauses.iter().filter(|pause| **pause < Duration::from_secs(4)).count();
        assert!((10..=90).contains(&early), "{early} of a hundred are early");
    }
}
