//! The sweeper: takes away what has been kept long enough, for all gates that share a store.
//!
//! Promises: one gate at a time does it, found by a row with a time in it that any other takes over once it is not renewed;
//! two that both believe to lead do no harm, since each batch takes only what nobody else holds. Batches are small, and
//! between two of them it rests nine times as long as the first took (two seconds at most): whatever there is to delete, the
//! store has nine tenths of its time for calls. It never deletes a claim in flight or unknown, nor an audit row that is younger than
//! `audit.keep` and than the owner of the schema allows.
//!
//! Absent on purpose: a wish to be exact. What is due goes within a round or two, partitions within a week.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::config::{RetentionConfig, period_text};
use crate::domain::chain::Chain;
use crate::domain::units::duration_text;
use crate::meter::Meter;
use crate::store::{AuditAge, Floor, PruneOf, Store, StoreError};

/// What is led in.
const WHAT: &str = "retention";

/// How long a leader that fell silent is waited for: three times `every`, within these bounds.
const LEASES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(30));

/// How much longer than a batch took nothing is deleted after it.
const REST: u32 = 9;

/// Between two batches, however quick or slow the first was: a lease must not end meanwhile.
const RESTS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// How long a gate that stops may take to hand the lead over.
const HANDOVER: Duration = Duration::from_millis(500);

/// Takes away what has been kept long enough.
pub struct Sweeper {
    store: Arc<dyn Store>,
    meter: Arc<Meter>,
    retention: RetentionConfig,
    lead: Arc<Lead>,
}

/// Who one gate is among those that share a store, and whether it leads them.
#[derive(Debug)]
pub struct Lead {
    holder: Uuid,
    is_leader: AtomicBool,
}

impl Lead {
    /// Hands it over, if this gate has it, so that nobody waits for its lease to end.
    pub async fn give_up(&self, store: &dyn Store) {
        if self.is_leader.swap(false, Ordering::Relaxed) {
            let given_up = timeout(HANDOVER, store.lead(WHAT, self.holder, Duration::ZERO)).await;
            debug!(in_time = given_up.is_ok(), "The lead in retention was handed over.");
        }
    }
}

impl Sweeper {
    /// One of a gate that does not lead yet.
    pub fn new(store: &Arc<dyn Store>, meter: &Arc<Meter>, retention: RetentionConfig) -> Self {
        let lead = Arc::new(Lead { holder: Uuid::new_v4(), is_leader: AtomicBool::new(false) });
        Self { store: Arc::clone(store), meter: Arc::clone(meter), retention, lead }
    }

    /// Whether it leads, for whoever stops the gate.
    pub fn lead(&self) -> Arc<Lead> {
        Arc::clone(&self.lead)
    }

    /// Sweeps for as long as it is polled.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a batch under way that is applied whole, or not at all.
    pub async fn keep(self) -> Infallible {
        info!(
            audit_keep = period_text(self.retention.audit),
            every = duration_text(self.retention.every),
            batch = self.retention.batch,
            "What has been kept long enough is deleted by one of the gates that share the store."
        );
        self.tell_floor().await;
        let mut due = Instant::now();
        let mut is_failing = false;
        loop {
            match self.look(&mut due).await {
                Ok(()) => is_failing = false,
                Err(fault) => {
                    if !is_failing {
                        warn!(error = %Chain(&fault), "What is too old is not deleted for now.");
                    }
                    is_failing = true;
                }
            }
            sleep(self.lease() / 4).await;
        }
    }

    /// Says where the owner of the schema keeps the audit for longer than this gate would.
    async fn tell_floor(&self) {
        let Some(keep) = self.retention.audit else { return };
        let floor = match self.store.audit_floor().await {
            Ok(Floor::None) => return,
            Ok(Floor::At(floor)) if floor <= keep => return,
            Ok(Floor::At(floor)) => duration_text(floor),
            Ok(Floor::Forever) => "forever".to_owned(),
            Err(fault) => {
                return warn!(error = %Chain(&fault), "It cannot be seen how long the audit is kept at least.");
            }
        };
        warn!(
            keep = duration_text(keep),
            floor,
            "The audit is kept for longer than audit.keep says: the owner of the schema allows no less. \
             `oncegate migrate --audit-floor`, run as the owner, changes that."
        );
    }

    async fn look(&self, due: &mut Instant) -> Result<(), StoreError> {
        if self.leads().await? && Instant::now() >= *due {
            *due = Instant::now() + self.retention.every;
            self.round().await?;
            self.meter.retention().ran();
        }
        Ok(())
    }

    /// Takes the lead, or keeps it.
    async fn leads(&self) -> Result<bool, StoreError> {
        let told = self.store.lead(WHAT, self.lead.holder, self.lease()).await;
        self.set_leader(matches!(told, Ok(true)));
        told
    }

    /// A quarter of it is how often a leader says that it lives, and another looks whether it does.
    fn lease(&self) -> Duration {
        self.retention.every.saturating_mul(3).clamp(LEASES.0, LEASES.1)
    }

    fn set_leader(&self, leads: bool) {
        if self.lead.is_leader.swap(leads, Ordering::Relaxed) != leads {
            self.meter.retention().leads(leads);
            if leads {
                info!("This gate deletes what is too old, for all that share the store.");
            }
        }
    }

    /// All that may go now.
    async fn round(&self) -> Result<(), StoreError> {
        let mut of = PruneOf { batch: self.retention.batch, from: None };
        let mut pace = Pace::new();
        let mut claims = 0;
        loop {
            let pruned = self.store.prune_claims(&of).await?;
            self.meter.retention().claims(pruned.claims);
            claims += pruned.claims;
            of.from = of.from.max(pruned.through);
            if pruned.claims < u64::from(self.retention.batch) || !self.goes_on(&mut pace).await? {
                break;
            }
        }
        if claims > 0 {
            debug!(claims, "Expired claims were deleted.");
        }
        let of = AuditAge { keep: self.retention.audit, batch: self.retention.batch };
        loop {
            let kept = self.store.keep_audit(&of).await?;
            self.meter.retention().audit(kept.deleted, kept.dropped.is_some());
            if let Some(partition) = &kept.dropped {
                info!(partition, rows = kept.deleted, "A week of the audit was old enough, and was dropped.");
            }
            if !kept.more || !self.goes_on(&mut pace).await? {
                return Ok(());
            }
        }
    }

    /// Rests, and says whether this gate still leads.
    async fn goes_on(&self, pace: &mut Pace) -> Result<bool, StoreError> {
        pace.rest().await;
        if pace.renewed.elapsed() < self.lease() / 4 {
            return Ok(true);
        }
        pace.renewed = Instant::now();
        self.leads().await
    }
}

/// When the batch began, and when the lead was last renewed.
struct Pace {
    begun: Instant,
    renewed: Instant,
}

impl Pace {
    fn new() -> Self {
        Self { begun: Instant::now(), renewed: Instant::now() }
    }

    async fn rest(&mut self) {
        sleep(rest_after(self.begun.elapsed())).await;
        self.begun = Instant::now();
    }
}

/// How long nothing is deleted after a batch that took so long.
fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(RESTS.0, RESTS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_of_the_time_nothing_is_deleted() {
        let millis = Duration::from_millis;
        for (took, rests) in [(0, 20), (1, 20), (10, 90), (200, 1800), (60_000, 2000)] {
            assert_eq!(rest_after(millis(took)), millis(rests));
        }
    }
}
