//! What is measured once in a while, since nobody who calls could count it: the claims of the whole store that are open.
//!
//! Promises: one statement for each gate every [`EVERY`], which a store answers from an index of open claims only, or
//! more seldom where it takes long; numbers that could not be had again for [`STALE`] are taken back, rather than told on
//! as if they were true.
//!
//! Absent on purpose: adding up. Every gate of a service counts the same claims.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::domain::chain::Chain;
use crate::domain::ledger::Status;
use crate::meter::Meter;
use crate::store::Store;

/// How often open claims are counted.
const EVERY: Duration = Duration::from_secs(15);

/// How old a count may be.
const STALE: Duration = Duration::from_mins(1);

/// A statement may take this part of the time: where there are very many open claims, they are counted more seldom.
const SHARE: u32 = 100;

/// The states that claims are counted in.
const OPEN: [Status; 2] = [Status::InFlight, Status::Unknown];

/// Counts the open claims of these services for as long as it is polled.
///
/// # Cancel safety
/// Dropping the future loses nothing.
pub(super) async fn measure(store: Arc<dyn Store>, meter: Arc<Meter>, services: Vec<String>) {
    let counting = services.iter().map(|service| count(&*store, &meter, service));
    join_all(counting).await;
}

async fn count(store: &dyn Store, meter: &Meter, service: &str) -> Infallible {
    let mut known_at = Instant::now();
    loop {
        let began = Instant::now();
        match store.open_counts(service).await {
            Ok(counts) => {
                known_at = Instant::now();
                for status in OPEN {
                    let found = counts.iter().find(|open| open.status == status);
                    let (count, oldest) = found.map_or((0, Duration::ZERO), |open| (open.count, open.oldest));
                    meter.claims(service, status, count, oldest);
                }
            }
            Err(fault) => {
                debug!(error = %Chain(&fault), "Open claims are not counted.");
                if known_at.elapsed() >= STALE {
                    for status in OPEN {
                        meter.forget_claims(service, status);
                    }
                }
            }
        }
        sleep(EVERY.max(began.elapsed() * SHARE)).await;
    }
}
