//! The way in: a call owns its claim, or gets the first call's answer, or is refused.
//!
//! Promises: a claim whose commit stays uncertain is not forwarded, and is settled as failed once the store answers; a
//! replay's row is committed before it is given.

use tower::Service;
use tracing::error;

use super::meet::{Met, Patience};
use super::{Exchange, Owned, first_seen};
use crate::domain::answer::{Kept, Kind};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::ledger::{Status, Terms};
use crate::domain::policy::Mutation as MutationRule;
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::claim::Claimed;
use crate::layers::claim::keep::End;
use crate::layers::forward::Forwarded;
use crate::mcp::takes::takes;
use crate::store::Seen;
use crate::traces::Remote;
use crate::wire::envelope::Marks;

/// How a call goes on once the ledger was asked.
pub(super) enum Entry {
    /// It owns the claim.
    Owner(Box<Owned>),
    /// It is answered with the first call's answer.
    Replay(Answer),
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    pub(super) async fn enter(&mut self, rule: &MutationRule, terms: &Terms) -> Result<Entry, Refusal> {
        let mut patience = Patience::of(rule);
        match self.meet(rule, terms, &mut patience).await? {
            Met::Owner(owned) => Ok(Entry::Owner(owned)),
            Met::Answered(seen) => self.replay(&seen).await.map(Entry::Replay),
            Met::Unsure(unsure) => {
                self.head.asked.mark_audited();
                let refusal = patience.unavailable();
                self.tell(Err(refusal.clone()));
                // Nothing was forwarded, and nothing will be.
                let end = End::not_run(Refusal::StoreUnavailable, None);
                self.settle_unsure(*unsure, end, terms).await;
                Err(refusal)
            }
        }
    }

    /// The first answer, if it is at hand and of a kind that this client can take.
    pub(super) fn stored(&self, seen: &Seen) -> Result<(Kept, Json), Refusal> {
        let first_seen = first_seen(seen);
        let row = seen.row.as_ref();
        let completed = row.is_some_and(|row| row.status == Status::Completed);
        // A question that was not kept is no answer: nobody has carried the call out yet.
        let not_kept = || {
            let unknown = Refusal::OutcomeUnknown { first_seen: Some(first_seen), retry_after: None };
            if completed { Refusal::AnswerNotKept { first_seen } } else { unknown }
        };
        let response = row.and_then(|row| row.response.as_ref()).ok_or_else(not_kept)?;
        let kept = Kept::decode(response).map_err(|fault| {
            error!(error = %Chain(&fault), "A stored answer cannot be read.");
            not_kept()
        })?;
        let json = Json::parse(&kept.body, MAX_DEPTH).unwrap_or(Json::Null);
        let takes = |request| takes(request, self.head.era, &json);
        if kept.kind == Kind::Result && !self.mutation.message().is_some_and(takes) {
            return Err(Refusal::AnswerNotForClient { first_seen });
        }
        Ok((kept, json))
    }

    /// Its trace leads to that of the call whose answer it gets, where that was told.
    fn points_to(&self, first: &Facts) {
        if let (Some(trace_id), Some(span_id)) = (&first.trace_id, &first.span_id) {
            self.head.asked.span().link(Remote { trace_id, span_id, sampled: true, state: None });
        }
    }

    /// The first answer again, after its row is committed.
    async fn replay(&self, seen: &Seen) -> Result<Answer, Refusal> {
        let (kept, json) = self.stored(seen)?;
        let (row, first_seen) = (seen.row.as_ref(), first_seen(seen));
        let completed = row.is_some_and(|row| row.status == Status::Completed);
        let event = AuditEvent {
            facts: Facts { attempt_id: row.map(|row| row.attempt_id), ..self.ask.facts.clone() },
            decision: Decision::Replayed,
            result_summary: self.mutation.operation.summary_of(&json),
            executed: if completed { Executed::Yes } else { Executed::Maybe },
            upstream_status: Some(kept.status),
            ..self.event(None)
        };
        if let Some(first) = row.map(|row| &row.facts) {
            self.points_to(first);
        }
        self.head.asked.came_to(&event);
        let _step = self.step.store("append");
        self.clerk.append(event).await.map_err(|fault| {
            error!(error = %Chain(&fault), "A replay was not written down, and so not given.");
            Refusal::ReplayNotRecorded { first_seen }
        })?;
        Ok(Answer::claimed(kept, Marks { replayed: true, ..Marks::default() }))
    }
}
