//! The way out: what came of the attempt is stored with its row, then the caller hears it.
//!
//! Promises: the caller hears what was stored; a store that is away delays the storing, not the caller, who then
//! hears that it is not recorded.

use tokio::time::sleep;
use tower::Service;
use tracing::{error, warn};

use super::{COME_BACK, Exchange, FIRST_PAUSE, LONGEST_PAUSE};
use crate::domain::audit::{AuditEvent, Executed};
use crate::domain::chain::Chain;
use crate::domain::ledger::{self, Admission, Came, Claim, Held, Settling, Status, Terms};
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::claim::Claimed;
use crate::layers::claim::keep::{End, Heard, OUTCOME_UNKNOWN};
use crate::layers::forward::Forwarded;
use crate::store::{Seen, StoreError, Swap};
use crate::wire::envelope::Marks;

/// How far one try at storing came.
enum Stored {
    /// It is committed: the row as it now stands.
    Done(Box<Seen>),
    /// The claim had moved on; only the attempt's own row is committed.
    TooLate,
    /// Another row stands there.
    Moved(Option<Box<Claim>>),
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    pub(super) async fn settle(&mut self, held: &Held, end: End, terms: &Terms, twin: Option<String>) {
        self.head.asked.mark_audited();
        let event = AuditEvent {
            reason: twin.as_ref().map(|_| "possible_duplicate".to_owned()).or_else(|| end.reason.clone()),
            executed: end.executed,
            result_summary: end.summary.clone(),
            upstream_status: end.status,
            ..self.event(None)
        };
        let marks = Marks { possible_duplicate: twin, ..Marks::default() };
        let mut row = Some(Box::new(held.claim.clone()));
        let mut pause = FIRST_PAUSE;
        loop {
            match self.store(row.as_deref(), held, &end, terms, &event).await {
                Ok(Stored::Done(seen)) => {
                    self.pen.as_ref().inspect(|pen| pen.tell(&seen));
                    return self.tell_end(&end, Some(&seen), held, marks, terms);
                }
                Ok(Stored::TooLate) => return self.tell_late(&end, held, marks),
                Ok(Stored::Moved(other)) => row = other,
                Err(fault) => {
                    error!(error = %Chain(&fault), "A settlement waits for the store.");
                    self.tell_end(&end, None, held, marks.clone(), terms);
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// One try.
    async fn store(
        &self,
        row: Option<&Claim>,
        held: &Held,
        end: &End,
        terms: &Terms,
        event: &AuditEvent,
    ) -> Result<Stored, StoreError> {
        match ledger::settle(row, held, &end.came, terms) {
            Settling::Write { expect, draft } => {
                // A claim that is put back to unknown may have run, whatever its attempt's own end says.
                let mut event = event.clone();
                if draft.status == Status::Unknown {
                    event.executed = Executed::Maybe;
                    event.reason = Some(OUTCOME_UNKNOWN.to_owned());
                }
                Ok(match self.swap(expect, &draft, Some(event)).await? {
                    Swap::Applied { now } => {
                        Stored::Done(Box::new(Seen { row: Some(draft.at(now, expect)), now }))
                    }
                    Swap::Mismatch { row, .. } => Stored::Moved(row),
                })
            }
            Settling::TooLate => {
                warn!("The claim had moved on when its attempt ended; that is only written down.");
                // An attempt that was never sent has no answer that could be late.
                let unsent = matches!(&end.heard, Heard::NotRun(Refusal::StoreUnavailable));
                let reason = if unsent { event.reason.clone() } else { Some("late_answer".to_owned()) };
                self.clerk.append(AuditEvent { reason, ..event.clone() }).await?;
                Ok(Stored::TooLate)
            }
        }
    }

    /// Tells the caller how the attempt ended. Without a stored row its answer is not recorded.
    fn tell_end(&mut self, end: &End, seen: Option<&Seen>, held: &Held, marks: Marks, terms: &Terms) {
        let row = seen.and_then(|seen| seen.row.as_ref());
        let unknown = *ledger::proven(&held.attempt.kind, &end.came) == Came::Unknown;
        let verdict = match &end.heard {
            Heard::Answer(kept) if !unknown => {
                let marks = Marks { not_recorded: row.is_none(), ..marks };
                Ok(Answer::Claimed { kept: kept.clone(), marks })
            }
            Heard::NotRun(refusal) if !unknown => Err(refusal.clone()),
            Heard::Answer(_) | Heard::NotRun(_) | Heard::Unknown => {
                let met = seen.map(|seen| ledger::admit(row, &self.ask, seen.now, terms));
                let take_over_in =
                    if let Some(Admission::Unknown { take_over_in }) = met { take_over_in } else { None };
                let retry_after = take_over_in.or_else(|| self.hears_more_in(seen?));
                Err(Refusal::OutcomeUnknown { first_seen: Some(held.claim.created_at), retry_after })
            }
        };
        self.tell(verdict);
    }

    /// Tells the caller of an attempt whose claim is not its own any more. That this attempt did not run says nothing
    /// of whoever has the claim now: the same call again meets what came of it.
    fn tell_late(&mut self, end: &End, held: &Held, marks: Marks) {
        self.tell(match &end.heard {
            Heard::Answer(kept) => {
                Ok(Answer::Claimed { kept: kept.clone(), marks: Marks { not_recorded: true, ..marks } })
            }
            Heard::NotRun(_) | Heard::Unknown => Err(Refusal::OutcomeUnknown {
                first_seen: Some(held.claim.created_at),
                retry_after: Some(COME_BACK),
            }),
        });
    }
}
