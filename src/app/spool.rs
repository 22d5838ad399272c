//! The writing of rows, its beginning and its end: the spool is opened as configured, and emptied; the journal is, too.
//!
//! Promises: when the gate stops, whatever the store can take is stored, and what it cannot is told.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{error, warn};

use crate::config::AuditConfig;
use crate::layers::claim::emptier::Emptier;
use crate::layers::claim::journal::Journal;
use crate::meter::Meter;
use crate::spool::{Spool, SpoolFault};
use crate::store::Store;

/// What writes rows while the gate runs.
pub(super) struct Writing {
    journal: JoinHandle<()>,
    spool: Option<(Spool, JoinHandle<Infallible>)>,
}

/// Begins to write, with what an earlier process left.
pub(super) async fn begin(
    audit: &AuditConfig,
    store: &Arc<dyn Store>,
    meter: &Arc<Meter>,
    service: &str,
) -> Result<(Journal, Writing), SpoolFault> {
    let spool = opened(audit, meter).await?;
    let (journal, emptying) =
        Journal::open(Arc::clone(store), spool.clone(), audit.when_store_down, Arc::clone(meter), service);
    let spool = spool.map(|spool| {
        let (store, meter) = (Arc::clone(store), Arc::clone(meter));
        let emptier = Emptier { spool: spool.clone(), store, meter };
        (spool, tokio::spawn(emptier.keep_empty()))
    });
    Ok((journal, Writing { journal: tokio::spawn(emptying), spool }))
}

/// The file for what the store cannot take, where one is named.
async fn opened(audit: &AuditConfig, meter: &Arc<Meter>) -> Result<Option<Spool>, SpoolFault> {
    let Some(named) = &audit.spool else {
        warn!(
            "audit.spool_file is not set: an answer that the store cannot take is kept in memory only, and is lost with \
             the process."
        );
        return Ok(None);
    };
    Spool::open(&named.file, named.limit, Arc::clone(meter)).await.map(Some)
}

impl Writing {
    /// Waits a little until all is stored. A store that is away is not waited for.
    pub(super) async fn end(self, store: &dyn Store, patience: Duration) {
        // Every inlet is gone with the stack, so the journal ends when it is empty.
        if timeout(patience, self.journal).await.is_err() {
            error!("Some rows of reads were not written.");
        }
        let Some((spool, emptying)) = self.spool else { return };
        let (mut waiting, standing) = (spool.waiting(), store.standing());
        tokio::select! {
            _empty = timeout(patience, waiting.wait_for(|records| *records == 0)) => {}
            () = standing.away() => {}
        }
        emptying.abort();
        let left = *waiting.borrow();
        if left > 0 {
            warn!(left, "Rows and settlements wait in the spool for the next start.");
        }
    }
}
