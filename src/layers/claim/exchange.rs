//! One mutation's way through the ledger: [`meet`] (and [`ask`]), [`enter`], forward, [`settle`].
//!
//! Promises, in the order of the code: nothing is forwarded before its claim is committed; the lease is renewed while
//! the call runs; the answer is stored, with its row, before the client hears it; where storing fails the client gets
//! the answer marked as not recorded, and storing goes on until it succeeds. Nothing the client does stops any of it.
//!
//! Absent on purpose: choices. [`ledger::admit`] and [`ledger::settle`] make them; these files carry them out.

mod ask;
mod enter;
mod meet;
mod settle;
pub(super) mod watch;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};
use tower::Service;
use tracing::{error, warn};
use uuid::Uuid;

use super::beat;
use super::flights::Pen;
use super::keep::{End, Keeper};
use super::reconcile::hears_more_in;
use super::{Claimed, ClaimedWhat, Clerk, Sending, facts};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::chain::Chain;
use crate::domain::ledger::{self, Ask, Claim, ClaimId, Draft, Expect, Held, Terms};
use crate::domain::policy::Forwarded as KeyParts;
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::Answer;
use crate::layers::authorize::Mutation;
use crate::layers::forward::Forwarded;
use crate::layers::line::Line;
use crate::layers::parse::Head;
use crate::layers::running::Place;
use crate::layers::{reply, session};
use crate::mcp::tasks::outbound::Sealer;
use crate::store::{Seen, StoreError, Swap, Write};
use crate::traces;
use crate::wire;

/// The first pause of whoever waits for a running call or for the store; each next one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// What a caller is told to wait, at most, before it asks again what came of a call that somebody else has in hand.
pub(super) const COME_BACK: Duration = Duration::from_secs(2);

/// One mutation, with its caller on the line.
pub(super) struct Exchange<S> {
    clerk: Arc<Clerk>,
    head: Arc<Head>,
    mutation: Arc<Mutation>,
    forward: S,
    line: Arc<Line>,
    id: ClaimId,
    ask: Ask,
    /// Held from the claim to its settlement: other calls with this key hear from this one.
    pen: Option<Pen>,
    /// The step that it is at, where traces are told.
    step: traces::Span,
}

/// A committed claim, and what its owner must know.
struct Owned {
    held: Held,
    /// The end of the attempt's time.
    deadline: Instant,
    /// The key of another call with the same arguments.
    twin: Option<String>,
    /// The right to speak for this key.
    pen: Pen,
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    pub(super) fn new(
        clerk: Arc<Clerk>,
        head: Arc<Head>,
        mutation: Arc<Mutation>,
        forward: S,
        line: Arc<Line>,
    ) -> Self {
        let id = clerk.claim_id(&head, &mutation.operation, &mutation.key);
        let attempt_id = Uuid::new_v4();
        let ask = Ask {
            args_hash: mutation.prints.signed.clone(),
            accepted_hashes: mutation.prints.accepted.clone(),
            round: mutation.round.clone(),
            attempt_id,
            facts: Facts {
                attempt_id: Some(attempt_id),
                span_id: head.asked.span().own_id(),
                ..facts(&head)
            },
        };
        let step = head.asked.span().clone();
        Self { clerk, head, mutation, forward, line, id, ask, pen: None, step }
    }

    /// Claim, forward, settle.
    pub(super) async fn run(mut self) {
        let Some(rule) = self.mutation.operation.mutation().cloned() else {
            return self.tell(Err(Refusal::Internal));
        };
        let terms = rule.terms(self.clerk.upstream_timeout);
        let _place = self.place();
        self.ask.facts.forwarded_key = Some(rule.forward_key().render(KeyParts {
            service: &self.id.service,
            tenant: &self.id.tenant,
            tool: &self.id.tool,
            key: &self.id.key,
        }));
        // What lasts is the forwarding. The way in and the way out are on the heap, for as long as they take.
        let at_claim = self.at("claim");
        let entered = Box::pin(self.enter(&rule, &terms)).await;
        drop(at_claim);
        match entered {
            Ok(enter::Entry::Owner(owned)) => {
                let Owned { held, deadline, twin, pen } = *owned;
                self.pen = Some(pen);
                self.step = self.head.asked.span().clone();
                let (held, end) = self.forward(held, deadline, &terms).await;
                let _at_settle = self.at("settle");
                Box::pin(self.settle(&held, end, &terms, twin)).await;
            }
            Ok(enter::Entry::Replay(answer)) => self.tell(Ok(answer)),
            Err(refusal) => self.deny(refusal).await,
        }
    }

    /// Its place among the calls that run here.
    fn place(&self) -> Place {
        self.clerk.running.claimed(
            self.head.caller.actor(),
            session::session_of(&self.head),
            &self.mutation.id(),
            self.ask.attempt_id,
            &self.line,
        )
    }

    /// Comes to a step.
    fn at(&mut self, step: &'static str) -> traces::Step {
        self.step = self.head.asked.span().under(step, traces::Kind::Internal);
        self.step.clone().into()
    }

    /// Refuses the call, after its row is committed: here, so that whoever hangs up does not stop that either.
    async fn deny(&mut self, refusal: Refusal) {
        if !self.head.asked.is_audited() {
            self.head.asked.mark_audited();
            let (clerk, row) = (&self.clerk, wire::row(&refusal));
            reply::write_down(&clerk.journal, &row, facts(&self.head), &self.head.asked).await;
        }
        self.tell(Err(refusal));
    }

    /// Sends the call, and renews the lease until it has come to its end.
    async fn forward(&mut self, held: Held, deadline: Instant, terms: &Terms) -> (Held, End) {
        let sending = Sending {
            mutation: Arc::clone(&self.mutation),
            attempt: held.attempt.id,
            deadline,
            line: Arc::clone(&self.line),
        };
        let claimed = Claimed { head: Arc::clone(&self.head), what: ClaimedWhat::Owned(sending) };
        let forwarding = AssertUnwindSafe(self.forward.call(claimed)).catch_unwind();
        let claim = Mutex::new(held.claim.clone());
        let forwarded = tokio::select! {
            forwarded = forwarding => forwarded,
            never = self.renew(&held, &claim, terms) => match never {},
        };
        let end = match forwarded {
            Ok(Ok(forwarded)) => self.keeper().end(forwarded),
            Ok(Err(refusal)) => {
                error!(?refusal, "A claimed call came back as a refusal; its outcome is unknown.");
                End::unknown(None)
            }
            Err(_panic) => {
                error!("A claimed call panicked; its outcome is unknown.");
                End::unknown(None)
            }
        };
        let claim = claim.into_inner().unwrap_or_else(PoisonError::into_inner);
        (Held { claim, ..held }, end)
    }

    /// Renews the lease for ever. Where somebody else moved the claim on it only waits: the answer may still come.
    async fn renew(&self, held: &Held, claim: &Mutex<Claim>, terms: &Terms) -> Infallible {
        let mut owned_until = Instant::now() + terms.lease;
        loop {
            sleep_until(beat::next(Instant::now(), terms.lease)).await;
            if Instant::now() > owned_until {
                // Others may have moved the claim on: whoever asks from now on asks the ledger.
                self.pen.as_ref().inspect(|pen| pen.put_down());
            }
            let began = Instant::now();
            let seen = claim.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some((expect, draft)) = ledger::renew(&seen, &held.attempt, terms.lease) else {
                warn!("The claim is no longer this attempt's; it waits for its answer all the same.");
                self.pen.as_ref().inspect(|pen| pen.put_down());
                return std::future::pending().await;
            };
            let renewed = match Box::pin(self.swap(expect, &draft, None)).await {
                Ok(Swap::Applied { now }) => {
                    owned_until = began + terms.lease;
                    let renewed = draft.at(now, expect);
                    self.pen.as_ref().inspect(|pen| pen.running(&renewed, now));
                    Some(renewed)
                }
                Ok(Swap::Mismatch { row, .. }) => row.map(|row| *row),
                Err(fault) => {
                    warn!(error = %Chain(&fault), "A lease was not renewed.");
                    None
                }
            };
            if let Some(renewed) = renewed {
                *claim.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
            }
        }
    }

    /// How long until a call that meets this unknown claim may hear more, where the app can be asked.
    fn hears_more_in(&self, seen: &Seen) -> Option<Duration> {
        self.clerk.reconciler.as_ref()?;
        hears_more_in(&self.id, &self.mutation.operation, seen)
    }

    fn sealer(&self) -> Sealer {
        let court = &self.clerk.court;
        Sealer {
            seal: court.seal.clone(),
            given: court.given.clone(),
            actor: self.head.caller.actor().clone(),
            named: self.head.tasks.clone(),
            called: Some(Arc::clone(&self.mutation.operation)),
        }
    }

    fn keeper(&self) -> Keeper<'_> {
        self.clerk.keeper(&self.head, &self.mutation.operation, self.sealer())
    }

    /// This attempt's row, to complete.
    fn event(&self, reason: Option<String>) -> AuditEvent {
        AuditEvent {
            id: self.head.asked.new_row_id(),
            facts: self.ask.facts.clone(),
            decision: Decision::Allowed,
            reason,
            result_summary: None,
            duration_ms: i64::try_from(self.head.asked.elapsed().as_millis()).ok(),
            executed: Executed::No,
            upstream_status: None,
        }
    }

    async fn read(&self) -> Result<Seen, Refusal> {
        let _step = self.step.store("read");
        self.clerk.store.read(&self.id).await.map_err(|fault| unavailable(&fault))
    }

    async fn swap(
        &self,
        expect: Expect,
        next: &Draft,
        event: Option<AuditEvent>,
    ) -> Result<Swap, StoreError> {
        let _step = self.step.store("claim");
        self.clerk.swap(Write { id: self.id.clone(), expect, next: next.clone(), event }).await
    }

    /// Tells the caller, once; whoever hung up hears nothing.
    fn tell(&self, verdict: Result<Answer, Refusal>) {
        self.line.end(verdict);
    }
}

fn first_seen(seen: &Seen) -> Timestamp {
    seen.row.as_ref().map_or(seen.now, |row| row.created_at)
}

fn unavailable(fault: &StoreError) -> Refusal {
    error!(error = %Chain(fault), "The store failed.");
    Refusal::StoreUnavailable
}
