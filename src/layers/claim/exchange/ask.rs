//! The ledger is asked, by one call for all that bring its key.
//!
//! Promises: a claim is committed before this returns its owner; one whose commit stays uncertain owns nothing; what
//! stands there is told to the others, however this call fares.
//!
//! Absent on purpose: choices, as in [`meet`](super::meet).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;
use tracing::{error, warn};

use super::meet::{Course, Patience};
use super::{COME_BACK, Exchange, first_seen, unavailable};
use crate::domain::audit::AuditEvent;
use crate::domain::chain::Chain;
use crate::domain::ledger::{Attempt, AttemptKind, Draft, Expect, Held, Status, Terms};
use crate::domain::policy::Mutation as MutationRule;
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::claim::Claimed;
use crate::layers::claim::flights::Pen;
use crate::layers::claim::reconcile::{Asked, Occasion};
use crate::layers::forward::Forwarded;
use crate::spool::Known;
use crate::store::{Seen, StoreError, Swap, event_id};

/// How often a claim is decided anew because its row changed in between, before the caller is asked to come back.
const MAX_TURNS: u32 = 16;

/// What came of asking.
pub(super) enum Learned {
    /// The claim is this call's, as of this time.
    Owner { held: Box<Held>, deadline: Instant, twin: Option<String>, now: Timestamp },
    /// The first answer stands there.
    Answered(Arc<Seen>),
    /// Nobody knows.
    Unsure(Unsure),
}

/// A claim whose commit was not confirmed.
pub(super) struct Unsure {
    attempt: Attempt,
    expect: Expect,
    draft: Box<Draft>,
}

impl Unsure {
    /// The attempt, and what it knows of its claim.
    pub(super) fn into_known(self) -> (Attempt, Known) {
        let Self { attempt, expect, draft } = self;
        (attempt, Known::Unsure { expect, draft })
    }
}

/// What came of the try to commit a claim.
enum Claiming {
    /// It is committed, at this time.
    Done { held: Box<Held>, now: Timestamp },
    /// Somebody else was first: the row as it stands.
    Other(Arc<Seen>),
    /// Nobody knows.
    Unsure(Unsure),
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    /// Asks the ledger until it says what this call is, and tells the others what it says.
    pub(super) async fn ask(
        &self,
        pen: &Pen,
        known: Option<Arc<Seen>>,
        rule: &MutationRule,
        terms: &Terms,
        patience: &mut Patience,
    ) -> Result<Learned, Refusal> {
        let mut twin = None;
        // Whether the others do not know this row yet.
        let mut fresh = known.is_none();
        // Most calls are new: the first write tries its luck without reading. A look-out for twins must know first, and
        // whoever hears that another gate is at it does better to.
        let mut seen = match known {
            Some(seen) => seen,
            None if rule.twin().is_some() || self.is_led().await => Arc::new(self.read().await?),
            None => Arc::new(Seen { row: None, now: Timestamp::from_micros(0) }),
        };
        let mut turns = 0;
        while turns < MAX_TURNS {
            turns += 1;
            let course = self.course(&seen, terms);
            patience.note(&course, &seen);
            seen = match course {
                Course::Run { expect, draft, attempt } => {
                    if patience.waits() {
                        // It gave its place up, needs one again, and may have waited for that as well.
                        self.head.asked.find_room().await?;
                        self.clerk.court.still_allows(&self.head, &self.mutation.operation)?;
                    }
                    if attempt.kind == AttemptKind::First && twin.is_none() {
                        twin = self.clerk.look_out(&self.id, &self.ask, rule).await?;
                    }
                    let deadline = Instant::now() + terms.upstream_timeout;
                    match self.claim(expect, draft, attempt).await? {
                        Claiming::Done { held, now } => {
                            return Ok(Learned::Owner { held, deadline, twin, now });
                        }
                        Claiming::Unsure(unsure) => return Ok(Learned::Unsure(unsure)),
                        Claiming::Other(other) => other,
                    }
                }
                Course::Abandon { expect, draft } => Arc::new(self.abandon(&seen, expect, &draft).await?),
                Course::Wait(refusal) => {
                    if fresh {
                        pen.tell(&seen);
                    }
                    turns = 0;
                    self.begin_to_wait(patience, refusal)?;
                    self.pause(pen, patience).await?;
                    Arc::new(self.read().await?)
                }
                Course::Replay => {
                    pen.tell(&seen);
                    return Ok(Learned::Answered(seen));
                }
                Course::Refuse(refusal) => {
                    if let Some(other) = self.reconcile(&seen, &refusal).await? {
                        seen = other;
                        fresh = true;
                        continue;
                    }
                    pen.tell(&seen);
                    return Err(refusal);
                }
            };
            fresh = true;
        }
        // Others keep changing the row: they are running it.
        Err(Refusal::InFlight { first_seen: first_seen(&seen), retry_after: COME_BACK })
    }

    async fn is_led(&self) -> bool {
        self.clerk.herd.is_led(|| self.clerk.court.fingerprinter.herd_name(&self.id)).await
    }

    /// Asks the app what became of an unknown claim's call. The row as it stands then; none where nobody was asked.
    async fn reconcile(&self, seen: &Seen, refusal: &Refusal) -> Result<Option<Arc<Seen>>, Refusal> {
        let (Some(reconciler), Some(row)) = (&self.clerk.reconciler, &seen.row) else { return Ok(None) };
        if !matches!(refusal, Refusal::OutcomeUnknown { .. }) || row.status != Status::Unknown {
            return Ok(None);
        }
        let asked = Box::pin(reconciler.ask(&self.id, row, seen.now, Occasion::Retry)).await;
        Ok(match asked.map_err(|fault| unavailable(&fault))? {
            Asked::Row(seen) => {
                // That may have taken a while.
                self.clerk.court.still_allows(&self.head, &self.mutation.operation)?;
                Some(Arc::new(*seen))
            }
            Asked::NotNow | Asked::Busy => None,
        })
    }

    /// Tries to commit the claim.
    async fn claim(&self, expect: Expect, draft: Box<Draft>, attempt: Attempt) -> Result<Claiming, Refusal> {
        match self.swap(expect, &draft, None).await {
            Ok(Swap::Applied { now }) => {
                let held = Box::new(Held { attempt, claim: draft.at(now, expect) });
                Ok(Claiming::Done { held, now })
            }
            // It was committed, and moved on by others before this process heard of it (it was paused, say). It was not
            // sent, and is not sent under a name by which others have told its story.
            Ok(Swap::Mismatch { row: Some(row), .. }) if row.attempt_id == attempt.id => {
                warn!("A claim was moved on before its own call knew of it; the call is not sent.");
                Ok(Claiming::Unsure(Unsure { attempt, expect, draft }))
            }
            Ok(Swap::Mismatch { row, now }) => {
                Ok(Claiming::Other(Arc::new(Seen { row: row.map(|row| *row), now })))
            }
            Err(fault @ StoreError::Uncertain(_)) => {
                error!(error = %Chain(&fault), "A claim was not confirmed.");
                Ok(Claiming::Unsure(Unsure { attempt, expect, draft }))
            }
            Err(fault) => Err(unavailable(&fault)),
        }
    }

    /// Declares a dead owner's claim unknown, with the row that the owner could not write.
    async fn abandon(&self, seen: &Seen, expect: Expect, draft: &Draft) -> Result<Seen, Refusal> {
        let event = AuditEvent::abandoned(event_id(), draft.facts.clone());
        let swap = self.swap(expect, draft, Some(event)).await.map_err(|fault| unavailable(&fault))?;
        Ok(match swap {
            Swap::Applied { now } => {
                let id = &self.id;
                let lease_until = seen.row.as_ref().and_then(|row| row.lease_until);
                warn!(
                    tenant = id.tenant,
                    tool = id.tool,
                    key = id.key,
                    attempt = %draft.attempt_id,
                    silent_for = ?lease_until.map_or(Duration::ZERO, |until| now.since(until)),
                    age = ?now.since(first_seen(seen)),
                    "The owner of a claim is gone: its lease lapsed. Its outcome is unknown."
                );
                Seen { row: Some(draft.at(now, expect)), now }
            }
            Swap::Mismatch { row, now } => Seen { row: row.map(|row| *row), now },
        })
    }
}
