//! The way out: what came of the attempt is stored with its row, then the caller hears it.
//!
//! Promises: the caller hears what was stored; a store that is away delays the storing, not the caller, who then
//! hears that it is not recorded. What was not stored at once waits in the spool, for whoever empties that; without one,
//! or where it is full, the exchange itself goes on trying.

use tower::Service;
use tracing::{error, warn};

use super::ask::Unsure;
use super::{COME_BACK, Exchange};
use crate::domain::audit::{AuditEvent, Executed};
use crate::domain::chain::Chain;
use crate::domain::ledger::{self, Admission, Attempt, Came, Held, Status, Terms};
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::Answer;
use crate::layers::claim::Claimed;
use crate::layers::claim::keep::{End, Heard, OUTCOME_UNKNOWN};
use crate::layers::claim::pause::Pause;
use crate::layers::claim::storing::{self, Stored};
use crate::layers::forward::Forwarded;
use crate::spool::{Known, Settlement};
use crate::store::Seen;
use crate::wire::envelope::Marks;

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    pub(super) async fn settle(&mut self, held: &Held, end: End, terms: &Terms, twin: Option<String>) {
        let known = Known::Claimed(Box::new(held.claim.clone()));
        self.settle_known(held.attempt.clone(), known, end, terms, twin).await;
    }

    /// As [`Self::settle`], for a claim that was not confirmed. How it stands is asked when the store answers.
    pub(super) async fn settle_unsure(&mut self, unsure: Unsure, end: End, terms: &Terms) {
        let (attempt, known) = unsure.into_known();
        self.settle_known(attempt, known, end, terms, None).await;
    }

    async fn settle_known(
        &mut self,
        attempt: Attempt,
        known: Known,
        end: End,
        terms: &Terms,
        twin: Option<String>,
    ) {
        self.head.asked.mark_audited();
        let event = AuditEvent {
            reason: twin.as_ref().map(|_| "possible_duplicate".to_owned()).or_else(|| end.reason.clone()),
            executed: end.executed,
            result_summary: end.summary.clone(),
            upstream_status: end.status,
            ..self.event(None)
        };
        let settlement = Settlement {
            id: self.id.clone(),
            attempt,
            known,
            came: end.came.clone(),
            terms: *terms,
            event,
            unsent: matches!(&end.heard, Heard::NotRun(Refusal::StoreUnavailable)),
        };
        let marks = Marks { possible_duplicate: twin, ..Marks::default() };
        let (id, attempt) = (&settlement.id, settlement.attempt.id);
        let came_to = ledger::comes_to(&settlement.attempt.kind, &settlement.came);
        self.head.asked.came_to(&settlement.event);
        if came_to == Status::Unknown {
            self.head.asked.came_to(&unknown(&settlement.event));
            warn!(tenant = id.tenant, tool = id.tool, key = id.key, %attempt, "A mutation's outcome is unknown.");
        }
        let (store, journal) = (&self.clerk.store, &self.clerk.journal);
        // From here on the row may say more than this process knows: other gates may give the answer already.
        self.pen.as_ref().inspect(|pen| pen.put_down());
        let mut pause = Pause::of_storing();
        loop {
            let step = self.step.store("settle");
            let stored = storing::store(&**store, journal.meter(), &settlement).await;
            drop(step);
            let fault = match stored {
                Ok(Stored::Done(seen)) => {
                    self.pen.as_ref().inspect(|pen| pen.tell(&seen));
                    return self.tell_end(&end, Some(&seen), &settlement, marks);
                }
                Ok(Stored::TooLate) => return self.tell_late(&end, &settlement, marks),
                Err(fault) => fault,
            };
            error!(
                tenant = id.tenant,
                tool = id.tool,
                key = id.key,
                %attempt,
                came_to = came_to.as_str(),
                error = %Chain(&fault),
                "A settlement waits for the store."
            );
            // Kept first: a process that dies once the caller has its answer must not have forgotten it.
            let kept = journal.keep(&settlement).await;
            self.tell_end(&end, None, &settlement, marks.clone());
            if kept {
                return;
            }
            let standing = store.standing();
            if standing.is_away() {
                standing.there().await;
            } else {
                pause.over().await;
            }
        }
    }

    /// Tells the caller how the attempt ended. Without a stored row its answer is not recorded.
    fn tell_end(&self, end: &End, seen: Option<&Seen>, settlement: &Settlement, marks: Marks) {
        let row = seen.and_then(|seen| seen.row.as_ref());
        let unknown = *ledger::proven(&settlement.attempt.kind, &settlement.came) == Came::Unknown;
        let verdict = match &end.heard {
            Heard::Answer { kept, beside } if !unknown => {
                let marks = Marks { not_recorded: row.is_none(), ..marks };
                Ok(Answer::Claimed { kept: kept.clone(), marks, beside: beside.clone() })
            }
            Heard::TurnedAway { kept, beside } if !unknown => {
                Ok(Answer::Claimed { kept: kept.clone(), marks, beside: beside.clone() })
            }
            Heard::NotShown if !unknown => {
                let first_seen = row.map(|row| row.created_at).or_else(|| made_at(settlement));
                Err(first_seen.map_or(Refusal::Internal, |first_seen| Refusal::AnswerNotKept { first_seen }))
            }
            Heard::NotRun(refusal) if !unknown => Err(refusal.clone()),
            Heard::Answer { .. }
            | Heard::TurnedAway { .. }
            | Heard::NotShown
            | Heard::NotRun(_)
            | Heard::Unknown => {
                let met = seen.map(|seen| ledger::admit(row, &self.ask, seen.now, &settlement.terms));
                let take_over_in = match met {
                    Some(Admission::Unknown { take_over_in }) => take_over_in,
                    // An attempt that used up its time has nothing to wait for: the next retry takes over.
                    Some(Admission::Run { .. }) => Some(COME_BACK),
                    Some(
                        Admission::Abandon { .. }
                        | Admission::Replay
                        | Admission::Conflict(_)
                        | Admission::InFlight { .. },
                    )
                    | None => None,
                };
                let retry_after = take_over_in.or_else(|| self.hears_more_in(seen?));
                Err(Refusal::OutcomeUnknown { first_seen: made_at(settlement), retry_after })
            }
        };
        self.tell(verdict);
    }

    /// Tells the caller of an attempt whose claim is not its own any more. That this attempt did not run says nothing
    /// of whoever has the claim now: the same call again meets what came of it.
    fn tell_late(&self, end: &End, settlement: &Settlement, marks: Marks) {
        self.tell(match &end.heard {
            Heard::Answer { kept, beside } => {
                let marks = Marks { not_recorded: true, ..marks };
                Ok(Answer::Claimed { kept: kept.clone(), marks, beside: beside.clone() })
            }
            Heard::TurnedAway { .. } | Heard::NotShown | Heard::NotRun(_) | Heard::Unknown => {
                Err(Refusal::OutcomeUnknown { first_seen: made_at(settlement), retry_after: Some(COME_BACK) })
            }
        });
    }
}

/// What the row says of an attempt that its claim says may have run.
fn unknown(event: &AuditEvent) -> AuditEvent {
    let reason = Some(OUTCOME_UNKNOWN.to_owned());
    AuditEvent { executed: Executed::Maybe, reason, ..event.clone() }
}

/// When its claim was made, where that is known.
fn made_at(settlement: &Settlement) -> Option<Timestamp> {
    match &settlement.known {
        Known::Claimed(claim) => Some(claim.created_at),
        Known::Unsure { draft, .. } => draft.created_at,
    }
}
