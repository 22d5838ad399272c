//! One try at storing what came of an attempt: by its own exchange, or later by whoever empties the spool.
//!
//! Promises: what may be written is decided anew at each try, by the row that stands there; a try that comes after one
//! whose answer got lost finds its own write, and changes nothing; a row is counted once.

use tracing::warn;

use crate::domain::audit::{AuditEvent, Executed};
use crate::domain::ledger::{self, Expect, Held, Settling, Status};
use crate::layers::claim::keep::OUTCOME_UNKNOWN;
use crate::meter::Meter;
use crate::spool::{Known, Settlement};
use crate::store::{Seen, Store, StoreError, Swap, Write};

/// How far it came.
pub(super) enum Stored {
    /// It is committed: the row as it now stands.
    Done(Box<Seen>),
    /// The claim had moved on; only the attempt's own row is committed.
    TooLate,
}

/// One try.
pub(super) async fn store(
    store: &dyn Store,
    meter: &Meter,
    settlement: &Settlement,
) -> Result<Stored, StoreError> {
    let Settlement { id, attempt, known, came, terms, event, unsent } = settlement;
    let (claim, mut row) = match known {
        Known::Claimed(claim) => ((**claim).clone(), Some((**claim).clone())),
        // It may stand there, or not. Where no row stands none is written over, by a revision that could only be guessed.
        Known::Unsure { expect, draft } => {
            let seen = store.read(id).await?;
            if let Some(row) = seen.row.as_ref().filter(|row| *expect == Expect::Revision(row.revision)) {
                // It is not there, and may come yet: once the row that it would write over is another's revision, it cannot.
                let write = Write {
                    id: id.clone(),
                    expect: *expect,
                    next: row.redraft(),
                    event: Some(event.clone()),
                };
                if let Swap::Applied { .. } = store.swap(write).await? {
                    meter.row(event);
                    return Ok(Stored::TooLate);
                }
                return Box::pin(self::store(store, meter, settlement)).await;
            }
            (seen.row.clone().unwrap_or_else(|| draft.at(seen.now, *expect)), seen.row)
        }
    };
    let held = Held { attempt: attempt.clone(), claim };
    loop {
        match ledger::settle(row.as_ref(), &held, came, terms) {
            Settling::Write { expect, draft } => {
                // A claim that is put back to unknown may have run, whatever its attempt's own end says.
                let mut event = event.clone();
                if draft.status == Status::Unknown {
                    event.executed = Executed::Maybe;
                    event.reason = Some(OUTCOME_UNKNOWN.to_owned());
                }
                let write =
                    Write { id: id.clone(), expect, next: (*draft).clone(), event: Some(event.clone()) };
                match store.swap(write).await? {
                    Swap::Applied { now } => {
                        meter.row(&event);
                        return Ok(Stored::Done(Box::new(Seen { row: Some(draft.at(now, expect)), now })));
                    }
                    Swap::Mismatch { row: other, .. } => row = other.map(|other| *other),
                }
            }
            Settling::TooLate => {
                warn!("The claim had moved on when its attempt ended; that is only written down.");
                // An attempt that was never sent has no answer that could be late.
                let reason = if *unsent { event.reason.clone() } else { Some("late_answer".to_owned()) };
                let event = AuditEvent { reason, ..event.clone() };
                store.append(event.clone()).await?;
                meter.row(&event);
                return Ok(Stored::TooLate);
            }
        }
    }
}
