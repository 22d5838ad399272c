//! What is asked of a store's workers, and how many are told of one fault.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::grouping::{Entry, Line};
use super::{Seen, StoreError, Swap, Write};
use crate::domain::audit::{AuditEvent, Facts};
use crate::domain::ledger::{Claim, ClaimId, Expect};
use crate::domain::time::Timestamp;

/// Where the answer goes. Nobody may be there any more to hear it.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A write that waits for its answer.
#[derive(Debug)]
pub(super) struct SwapOp {
    pub(super) write: Box<Write>,
    pub(super) answer: Answer<Swap>,
}

/// Audit rows that wait for their answer.
#[derive(Debug)]
pub(super) struct AppendOp {
    pub(super) events: Vec<AuditEvent>,
    pub(super) answer: Answer<()>,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct ReadOp {
    pub(super) id: ClaimId,
    pub(super) answer: Answer<Seen>,
}

/// What may stand in the line.
#[derive(Debug)]
pub(super) enum Op {
    Swap(SwapOp),
    Append(AppendOp),
    Read(ReadOp),
}

impl Entry for Op {
    type Key = ClaimId;

    fn key(&self) -> Option<&ClaimId> {
        match self {
            Self::Swap(op) => Some(&op.write.id),
            Self::Append(_) | Self::Read(_) => None,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Swap(op) => {
                let draft = &op.write.next;
                let event = op.write.event.as_ref().map_or(0, weight_of_event);
                event + weight_of(&draft.facts) + draft.response.as_ref().map_or(0, bytes::Bytes::len)
            }
            Self::Append(op) => op.events.iter().map(weight_of_event).sum(),
            Self::Read(op) => op.id.key.len(),
        }
    }
}

fn weight_of_event(event: &AuditEvent) -> usize {
    weight_of(&event.facts) + event.result_summary.as_ref().map_or(0, String::len)
}

/// The parts that can be large.
fn weight_of(facts: &Facts) -> usize {
    facts.args.as_ref().map_or(0, String::len) + facts.tool.len()
}

/// Tells somebody. Whoever went away meanwhile has no use for it.
pub(super) fn tell<T>(answer: Answer<T>, told: Result<T, StoreError>) {
    let _nobody_there = answer.send(told);
}

/// Puts what `op` makes in the line and waits for the answer.
pub(super) async fn ask<T>(line: &Line<Op>, op: impl FnOnce(Answer<T>) -> Op) -> Result<T, StoreError> {
    let (answer, told) = oneshot::channel();
    line.push(op(answer)).map_err(|_| StoreError::Unavailable(Box::new(Closed)))?;
    told.await.unwrap_or_else(|_| Err(StoreError::Uncertain(Box::new(WorkerGone))))
}

/// What a write that was not applied means, by the row that stands there.
pub(super) enum Judged {
    /// This.
    Swap(Swap),
    /// The row seen is older than the fault, or went away since: ask again.
    Stale,
}

/// Judges a write that was not applied. Whoever's own write stands there is told that it was applied: its first
/// answer got lost, and its audit event was committed with it.
pub(super) fn judge(write: &Write, row: Option<Claim>, now: Timestamp) -> Judged {
    match (write.expect, &row) {
        (expect, Some(row)) if write.next.is_own(expect, row) => {
            Judged::Swap(Swap::Applied { now: write.next.written_at(expect, row) })
        }
        (Expect::Absent, None) => Judged::Stale,
        (Expect::Revision(expected), Some(row)) if row.revision == expected => Judged::Stale,
        (Expect::Absent | Expect::Revision(_), _) => {
            Judged::Swap(Swap::Mismatch { row: row.map(Box::new), now })
        }
    }
}

/// One fault that many are told of.
#[derive(Clone, Debug)]
pub(super) struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// `error`, to be told to many.
    pub(super) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// Told to somebody for whom certainly nothing was written.
    pub(super) fn unavailable(&self) -> StoreError {
        StoreError::Unavailable(Box::new(self.clone()))
    }

    /// Told to somebody whose write may have been committed.
    pub(super) fn uncertain(&self) -> StoreError {
        StoreError::Uncertain(Box::new(self.clone()))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// The store is shutting down.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store is closed")]
pub(super) struct Closed;

/// A worker died with the answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store's worker is gone")]
pub(super) struct WorkerGone;
