//! The answer of a claimed call that came on another stream than the one that it was sent on.
//!
//! Promises: it settles the claim of its own attempt, and only that, by the same rules as any late answer; the client hears
//! it after it was stored, or what was stored before. A store that is away delays the storing, not the client.
//!
//! Absent on purpose: a claim made anew. Where the row is gone nobody knows any more what it said, and the answer is only
//! passed on.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::{error, warn};
use uuid::Uuid;

use super::Clerk;
use super::keep::{End, Heard, OUTCOME_UNKNOWN};
use super::pause::Pause;
use crate::domain::answer::Kept;
use crate::domain::audit::{AuditEvent, Decision, Executed};
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::key::Key;
use crate::domain::ledger::{
    self, Attempt, AttemptKind, Claim, ClaimId, Downstream, Held, Settling, Status, Terms,
};
use crate::domain::policy::{OnToolError, Operation};
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::forward::Forwarded;
use crate::layers::parse::Head;
use crate::mcp::judge::{Reply, judge};
use crate::mcp::tasks::outbound::Sealer;
use crate::store::{StoreError, Swap, Write, event_id};
use crate::wire::envelope::Marks;

/// Whose answer came.
pub(super) struct Settlement {
    pub(super) clerk: Arc<Clerk>,
    pub(super) head: Arc<Head>,
    pub(super) operation: Arc<Operation>,
    pub(super) key: Key,
    pub(super) attempt: Uuid,
    /// Seals the ids of tasks.
    pub(super) sealer: Sealer,
    /// The HTTP status of the stream that it came on.
    pub(super) status: u16,
}

type Verdict = Result<Answer, Refusal>;

/// Settles the claim by this answer, and tells the client once.
pub(super) async fn settle(settlement: Settlement, reply: Reply, tell: oneshot::Sender<Verdict>) {
    let mut tell = Some(tell);
    let mut say = |verdict: Verdict| {
        if let Some(tell) = tell.take() {
            // Whoever hung up again hears nothing.
            let _heard = tell.send(verdict);
        }
    };
    let Some(end) = settlement.end(reply) else { return say(Err(Refusal::Internal)) };
    let mut pause = Pause::of_storing();
    loop {
        match settlement.store(&end).await {
            Ok(verdict) => return say(verdict),
            Err(fault) => {
                let ClaimId { tenant, tool, key, .. } = settlement.id();
                let attempt = settlement.attempt;
                error!(tenant, tool, key, %attempt, came_to = settlement.comes_to(&end), error = %Chain(&fault), "A settlement waits for the store.");
                say(heard(&end, Marks { not_recorded: true, ..Marks::default() }));
                pause.over().await;
            }
        }
    }
}

fn heard(end: &End, marks: Marks) -> Verdict {
    match &end.heard {
        Heard::Answer { kept, .. } => Ok(Answer::claimed(kept.clone(), marks)),
        Heard::NotRun(_) | Heard::TurnedAway { .. } | Heard::NotShown | Heard::Unknown => {
            Err(Refusal::OutcomeUnknown { first_seen: None, retry_after: None })
        }
    }
}

/// The answer that an attempt has settled its claim with, where that was kept.
fn answer_of(claim: &Claim, attempt: Uuid) -> Option<Kept> {
    let own = claim.status == Status::Completed && claim.attempt_id == attempt;
    Kept::decode(claim.response.as_ref().filter(|_| own)?).ok()
}

impl Clerk {
    /// The answer that is known already to a call whose client comes back for it, after its row is committed. None where
    /// the ledger does not have it: the upstream may.
    pub(super) async fn known(
        &self,
        head: &Head,
        operation: &Operation,
        key: &Key,
        attempt: Uuid,
    ) -> Option<Answer> {
        let id = self.claim_id(head, operation, key);
        let claim = self.store.read(&id).await.ok()?.row?;
        let kept = answer_of(&claim, attempt)?;
        let json = Json::parse(&kept.body, MAX_DEPTH).unwrap_or(Json::Null);
        let event = AuditEvent {
            id: event_id(),
            facts: claim.facts.clone(),
            decision: Decision::Replayed,
            reason: None,
            result_summary: operation.summary_of(&json),
            duration_ms: i64::try_from(head.asked.elapsed().as_millis()).ok(),
            executed: Executed::Yes,
            upstream_status: Some(kept.status),
        };
        self.append(event).await.ok()?;
        Some(Answer::claimed(kept, Marks { replayed: true, ..Marks::default() }))
    }
}

impl Settlement {
    /// What the answer says. Other messages came before it on its first stream: the call had begun.
    fn end(&self, reply: Reply) -> Option<End> {
        let rule = self.operation.mutation()?;
        let verdict = judge(self.status, Some(reply), true, rule.on_tool_error() == OnToolError::Release);
        let keeper = self.clerk.keeper(&self.head, &self.operation, self.sealer.clone());
        let (status, headers, challenged) = (self.status, Vec::new(), None);
        Some(keeper.end(Forwarded::Judged { status, headers, challenged, verdict }))
    }

    fn id(&self) -> ClaimId {
        self.clerk.claim_id(&self.head, &self.operation, &self.key)
    }

    /// One try, against the row as it stands.
    async fn store(&self, end: &End) -> Result<Verdict, StoreError> {
        let Some(rule) = self.operation.mutation() else { return Ok(Err(Refusal::Internal)) };
        let terms = rule.terms(self.clerk.upstream_timeout);
        let mut row = self.clerk.store.read(&self.id()).await?.row;
        loop {
            let Some(claim) = row else {
                warn!("An answer came for a claim that is gone; it is only passed on.");
                return Ok(heard(end, Marks { not_recorded: true, ..Marks::default() }));
            };
            let held = self.held(&claim, &terms);
            let Settling::Write { expect, draft } = ledger::settle(Some(&claim), &held, &end.came, &terms)
            else {
                return self.too_late(&claim, end).await;
            };
            let mut event = self.event(&claim, end);
            if draft.status == Status::Unknown {
                event.executed = Executed::Maybe;
                event.reason = Some(OUTCOME_UNKNOWN.to_owned());
            }
            let unknown = draft.status == Status::Unknown;
            let write = Write { id: self.id(), expect, next: *draft, event: Some(event) };
            match self.clerk.swap(write).await? {
                Swap::Applied { .. } if unknown => {
                    let (id, first_seen) = (self.id(), Some(claim.created_at));
                    warn!(tenant = id.tenant, tool = id.tool, key = id.key, attempt = %self.attempt, "A mutation's outcome is unknown.");
                    return Ok(Err(Refusal::OutcomeUnknown { first_seen, retry_after: None }));
                }
                Swap::Applied { .. } => return Ok(heard(end, Marks::default())),
                Swap::Mismatch { row: other, .. } => row = other.map(|other| *other),
            }
        }
    }

    /// The attempt whose answer this is. Whether it was a re-run is not known here, so what would be doubtful in one is
    /// taken for doubtful.
    fn held(&self, claim: &Claim, terms: &Terms) -> Held {
        Held { attempt: Attempt { id: self.attempt, kind: kind(terms) }, claim: claim.clone() }
    }

    /// Where this answer leaves the claim, for the log.
    fn comes_to(&self, end: &End) -> Option<&'static str> {
        let terms = self.operation.mutation()?.terms(self.clerk.upstream_timeout);
        Some(ledger::comes_to(&kind(&terms), &end.came).as_str())
    }

    /// The claim is settled already: by this same answer, as a rule.
    async fn too_late(&self, claim: &Claim, end: &End) -> Result<Verdict, StoreError> {
        let mut event = self.event(claim, end);
        if let Some(kept) = answer_of(claim, self.attempt) {
            event.decision = Decision::Replayed;
            event.reason = None;
            self.clerk.append(event).await?;
            return Ok(Ok(Answer::claimed(kept, Marks { replayed: true, ..Marks::default() })));
        }
        event.reason = Some("late_answer".to_owned());
        self.clerk.append(event).await?;
        Ok(heard(end, Marks { not_recorded: true, ..Marks::default() }))
    }

    fn event(&self, claim: &Claim, end: &End) -> AuditEvent {
        let mut facts = claim.facts.clone();
        facts.attempt_id = Some(self.attempt);
        AuditEvent {
            id: event_id(),
            facts,
            decision: Decision::Allowed,
            reason: end.reason.clone(),
            result_summary: end.summary.clone(),
            duration_ms: i64::try_from(self.head.asked.elapsed().as_millis()).ok(),
            executed: end.executed,
            upstream_status: end.status,
        }
    }
}

/// What the attempt is taken for.
fn kind(terms: &Terms) -> AttemptKind {
    match terms.downstream {
        Downstream::Unsafe => AttemptKind::First,
        Downstream::Idempotent { .. } => AttemptKind::Rerun,
    }
}
