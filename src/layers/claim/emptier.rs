//! Whoever empties the spool into the store.
//!
//! Promises: what waits is stored in its order, once, as soon as the store is there, whether or not anybody calls; what
//! the store will not take is said, left where it is, and tried again, and nothing behind it waits for it.

use std::convert::Infallible;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;
use tracing::{error, info};

use super::pause::Pause;
use super::storing;
use crate::domain::audit::AuditEvent;
use crate::domain::chain::Chain;
use crate::meter::Meter;
use crate::spool::{Record, Settlement, Spool, SpoolFault, Waiting};
use crate::store::Store;

/// How many records are taken in hand at once.
const AT_ONCE: usize = 64;

/// The first pause before what was not taken is tried again; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Empties the spool whenever something waits in it and the store is there.
pub struct Emptier {
    /// What waits.
    pub spool: Spool,
    /// Where it goes.
    pub store: Arc<dyn Store>,
    /// Counts the rows of settlements; other rows were counted when they were decided.
    pub meter: Arc<Meter>,
}

/// Records of one kind that stand next to each other.
enum Run {
    Rows(Vec<(u64, AuditEvent)>),
    Settlements(Vec<(u64, Settlement)>),
}

impl Emptier {
    /// Does so for as long as it is polled.
    ///
    /// # Cancel safety
    /// Dropping the future may leave what it had in hand in the spool, stored or not; it is stored once all the same.
    pub async fn keep_empty(self) -> Infallible {
        let mut waiting = self.spool.waiting();
        let standing = self.store.standing();
        let mut pause = Pause::between(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            // Its other end is in the spool, which this holds.
            let _open = waiting.wait_for(|records| *records > 0).await.is_ok();
            standing.there().await;
            match self.pass().await {
                Ok(0) => {
                    info!("The spool is empty.");
                    pause = Pause::between(FIRST_PAUSE, LONGEST_PAUSE);
                }
                Ok(_) => {
                    pause.over().await;
                }
                Err(fault) => {
                    error!(error = %Chain(&fault), "What waits in the spool cannot be had.");
                    sleep(LONGEST_PAUSE).await;
                }
            }
        }
    }

    /// Once through all that waits. Says how much was left.
    async fn pass(&self) -> Result<usize, SpoolFault> {
        let (mut after, mut left) = (0, 0);
        loop {
            let found = self.spool.read(after, AT_ONCE).await?;
            let Some(last) = found.last() else { return Ok(left) };
            after = last.number;
            let all = found.len();
            let mut stored = Vec::with_capacity(all);
            for run in runs(found) {
                match run {
                    Run::Rows(rows) => self.rows(rows, &mut stored).await,
                    Run::Settlements(settlements) => self.settlements(settlements, &mut stored).await,
                }
            }
            left += all - stored.len();
            self.spool.done(stored);
            if self.store.standing().is_away() {
                return Ok(left.max(1));
            }
        }
    }

    /// All at once; where that fails, one by one.
    async fn rows(&self, rows: Vec<(u64, AuditEvent)>, stored: &mut Vec<u64>) {
        let (numbers, events): (Vec<u64>, Vec<AuditEvent>) = rows.into_iter().unzip();
        if self.store.append_all(events.clone()).await.is_ok() {
            return stored.extend(numbers);
        }
        for (number, event) in numbers.into_iter().zip(events) {
            let id = event.id;
            match self.store.append(event).await {
                Ok(()) => stored.push(number),
                Err(fault) => {
                    error!(row = %id, error = %Chain(&fault), "A row goes on waiting in the spool.");
                    if self.store.standing().is_away() {
                        return;
                    }
                }
            }
        }
    }

    async fn settlements(&self, settlements: Vec<(u64, Settlement)>, stored: &mut Vec<u64>) {
        let tries = settlements.iter().map(|(number, settlement)| async move {
            match storing::store(&*self.store, &self.meter, settlement).await {
                Ok(_) => {
                    info!(attempt = %settlement.attempt.id, "A settlement that waited in the spool is stored.");
                    Some(*number)
                }
                Err(fault) => {
                    let attempt = settlement.attempt.id;
                    error!(%attempt, error = %Chain(&fault), "A settlement goes on waiting in the spool.");
                    None
                }
            }
        });
        stored.extend(join_all(tries).await.into_iter().flatten());
    }
}

fn runs(found: Vec<Waiting>) -> Vec<Run> {
    let mut runs = Vec::new();
    let (mut rows, mut settlements) = (Vec::new(), Vec::new());
    for Waiting { number, record } in found {
        match record {
            Record::Row(event) => {
                if !settlements.is_empty() {
                    runs.push(Run::Settlements(take(&mut settlements)));
                }
                rows.push((number, *event));
            }
            Record::Settlement(settlement) => {
                if !rows.is_empty() {
                    runs.push(Run::Rows(take(&mut rows)));
                }
                settlements.push((number, *settlement));
            }
        }
    }
    // At most one of them holds something.
    if !rows.is_empty() {
        runs.push(Run::Rows(rows));
    }
    if !settlements.is_empty() {
        runs.push(Run::Settlements(settlements));
    }
    runs
}
