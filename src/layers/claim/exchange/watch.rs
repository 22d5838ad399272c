//! An observed mutation: it goes on whatever the ledger says, and what the ledger said is recorded.
//!
//! Promises: a call that would have owned its claim owns it, and settles it by what the upstream really said, whoever
//! hangs up; any other call leaves the claim as it stands. A ledger that is slow keeps nobody waiting for
//! long, and is told later.
//!
//! Absent on purpose: the answer, which goes to the client as it comes, by `carry`, whether or not it is recorded yet;
//! and the attempt's end. A client may wait for an answer longer than an attempt lasts; what comes after that is not
//! recorded any more.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tower::Service;
use tracing::{Instrument as _, Span, info};
use uuid::Uuid;

use super::meet::{Met, Patience};
use super::{Exchange, Owned};
use crate::domain::audit::{AuditEvent, Decision, Facts};
use crate::domain::ledger::{Held, Terms};
use crate::domain::mode::REPLAY;
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::claim::Claimed;
use crate::layers::claim::keep::End;
use crate::layers::claim::watch::would;
use crate::layers::forward::Forwarded;
use crate::store::Seen;

/// How long the ledger may keep a call waiting that passes through.
const GLANCE: Duration = Duration::from_millis(250);

/// How long it may keep one waiting whose claim would come too late then: what came of it would stay unknown.
const LEDGER_TIME: Duration = Duration::from_secs(1);

/// What the row says of a call whose claim is not its own.
#[derive(Clone, Debug)]
pub(in crate::layers::claim) struct Unclaimed {
    /// What would have been done.
    pub(in crate::layers::claim) decision: Decision,
    /// Why.
    pub(in crate::layers::claim) reason: String,
    /// The attempt whose answer would have been given again.
    pub(in crate::layers::claim) attempt_id: Option<Uuid>,
}

/// Hears the answer for the client.
pub(in crate::layers::claim) type Teller = oneshot::Sender<Result<Answer, Refusal>>;

/// What is told of an answer while it passes.
pub(in crate::layers::claim) type Heard = oneshot::Receiver<Forwarded>;

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    /// Asks the ledger, has the call carried, records what came of it. `carry` hears until when the answer is to be
    /// heard to its end though its client has gone, if it is.
    pub(in crate::layers::claim) async fn watch<F>(
        mut self,
        carry: impl FnOnce(Option<Instant>) -> F + Send,
        heard: Heard,
        tell: Teller,
    ) where
        F: Future<Output = Result<Answer, Refusal>> + Send + 'static,
    {
        let Some(rule) = self.mutation.operation.mutation().cloned() else { return };
        let terms = rule.terms(self.clerk.upstream_timeout);
        let deadline = Instant::now() + terms.upstream_timeout;
        let met = {
            let mut patience = Patience::none();
            let mut meeting = pin!(self.meet(&rule, &terms, &mut patience));
            let met = timeout(GLANCE, &mut meeting).await.ok();
            let is_other = matches!(met, Some(Ok(Met::Answered(_)) | Err(_)));
            let carrying = carry((!is_other).then_some(deadline));
            self.clerk.tasks.spawn(answer(carrying, tell, is_other).instrument(Span::current()));
            match met {
                Some(met) => met,
                None => meeting.await,
            }
        };
        let came = async { timeout_at(deadline, heard).await.ok().and_then(Result::ok) };
        match met {
            Ok(Met::Owner(owned)) => self.record(*owned, came, &terms).await,
            Ok(Met::Unsure(unsure)) => {
                let end = self.end(came.await);
                self.settle_unsure(*unsure, end, &terms).await;
            }
            Ok(Met::Answered(seen)) => self.note(self.replayed(&seen), came.await).await,
            Err(refusal) => self.note(Unclaimed::refused(&refusal), came.await).await,
        }
    }

    /// As [`Exchange::run`], for an operation that is only observed: where the claim is not its own, or not in time, it
    /// says so and sends nothing. It says none where the call's row is written here.
    pub(in crate::layers::claim) async fn run_if_owned(
        mut self,
        unclaimed: oneshot::Sender<Option<Unclaimed>>,
    ) {
        let Some(rule) = self.mutation.operation.mutation().cloned() else { return };
        let terms = rule.terms(self.clerk.upstream_timeout);
        let _place = self.place();
        let (met, unclaimed) = {
            let mut patience = Patience::none();
            let mut meeting = pin!(self.meet(&rule, &terms, &mut patience));
            if let Ok(met) = timeout(LEDGER_TIME, &mut meeting).await {
                (met, Some(unclaimed))
            } else {
                disclaim(unclaimed);
                (meeting.await, None)
            }
        };
        match (met, unclaimed) {
            (Ok(Met::Owner(owned)), Some(unclaimed)) => {
                drop(unclaimed);
                let Owned { held, deadline, twin, pen } = *owned;
                self.pen = Some(pen);
                let (held, end) = self.forward(held, deadline, &terms).await;
                self.settle(&held, end, &terms, twin).await;
            }
            // It went on without its claim: what came of it, this attempt does not know.
            (Ok(Met::Owner(owned)), None) => {
                self.settle(&owned.held, End::unknown(None), &terms, owned.twin).await;
            }
            (Ok(Met::Unsure(unsure)), unclaimed) => {
                if let Some(unclaimed) = unclaimed {
                    disclaim(unclaimed);
                }
                self.settle_unsure(*unsure, End::unknown(None), &terms).await;
            }
            (Ok(Met::Answered(seen)), unclaimed) => self.say(self.replayed(&seen), unclaimed).await,
            (Err(refusal), unclaimed) => self.say(Unclaimed::refused(&refusal), unclaimed).await,
        }
    }

    /// Leaves the row to whoever sends the call; writes it where that is done already, or will not be.
    async fn say(&self, row: Unclaimed, unclaimed: Option<oneshot::Sender<Option<Unclaimed>>>) {
        let (row, came) = match unclaimed.map(|unclaimed| unclaimed.send(Some(row.clone()))) {
            Some(Ok(())) => return,
            Some(Err(_)) => (row, Some(Forwarded::NotSent)),
            None => (row, None),
        };
        self.note(row, came).await;
    }

    /// What a call would have been answered whose first answer stands there.
    fn replayed(&self, seen: &Seen) -> Unclaimed {
        match self.stored(seen) {
            Ok(_) => Unclaimed {
                decision: Decision::Replayed,
                reason: would(REPLAY),
                attempt_id: seen.row.as_ref().map(|row| row.attempt_id),
            },
            Err(refusal) => Unclaimed::refused(&refusal),
        }
    }

    /// Keeps the claim while the call runs, and settles it.
    async fn record(&mut self, owned: Owned, came: impl Future<Output = Option<Forwarded>>, terms: &Terms) {
        let Owned { held, twin, pen, .. } = owned;
        self.pen = Some(pen);
        let claim = std::sync::Mutex::new(held.claim.clone());
        let came = tokio::select! {
            came = came => came,
            never = self.renew(&held, &claim, terms) => match never {},
        };
        let claim = claim.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let end = self.end(came);
        self.settle(&Held { claim, ..held }, end, terms, twin).await;
    }

    fn end(&self, came: Option<Forwarded>) -> End {
        self.keeper().end(came.unwrap_or(Forwarded::Lost { status: None }))
    }

    /// Writes down what this call would have met.
    async fn note(&self, row: Unclaimed, came: Option<Forwarded>) {
        let Unclaimed { decision, reason, attempt_id } = row;
        info!(reason, "A call went on that would not have.");
        let end = self.end(came);
        let event = AuditEvent {
            facts: Facts { attempt_id, ..self.ask.facts.clone() },
            decision,
            result_summary: end.summary,
            executed: end.executed,
            upstream_status: end.status,
            ..self.event(Some(reason))
        };
        self.head.asked.came_to(&event);
        self.clerk.journal.entry_now(event).write().await;
    }
}

/// Says that the call is not this attempt's, and that its row is. Whoever hung up sends nothing.
fn disclaim(unclaimed: oneshot::Sender<Option<Unclaimed>>) {
    let _gone = unclaimed.send(None).is_err();
}

/// Gives the client its answer. Where its going ends the call, the upstream hears of it too.
async fn answer(carrying: impl Future<Output = Result<Answer, Refusal>>, mut tell: Teller, ends: bool) {
    let answered = if ends {
        tokio::select! {
            answered = carrying => answered,
            () = tell.closed() => return,
        }
    } else {
        carrying.await
    };
    if tell.send(answered).is_err() {
        info!("The caller had hung up; the call was carried on.");
    }
}
