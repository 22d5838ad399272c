//! Calls of operations that are only observed, in a gate that enforces the rest.
//!
//! Promises: such a call goes on whatever policy and ledger say of it; what they said is its row's decision and reason. A
//! mutation whose claim is its own is carried out, recorded and answered as any other.
//!
//! Absent on purpose: waiting for the store. A call that cannot be recorded in time goes on unrecorded.

use std::sync::Arc;

use tokio::sync::oneshot;
use tower::Service;
use tracing::{Instrument as _, Span, info};

use super::exchange::Exchange;
use super::exchange::watch::Unclaimed;
use super::watch::would;
use super::{Claimed, ClaimedWhat, Clerk, read_event};
use crate::domain::audit::{AuditEvent, Decision, Facts};
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::authorize::{Mutation, Sends};
use crate::layers::forward::Forwarded;
use crate::layers::line::Line;
use crate::layers::parse::Head;
use crate::mcp::headers::takes_events;
use crate::mcp::message::Request;
use crate::wire;

impl Clerk {
    /// A call that would have been refused.
    pub(super) async fn let_go<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        request: Request,
        operation: Arc<Operation>,
        refusal: Refusal,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let row = Unclaimed::refused(&refusal);
        self.go_unclaimed(inner, head, ClaimedWhat::Read { request, operation }, Some(row)).await
    }

    /// A mutation with a key: as any other where it owns its claim; without one where it does not.
    pub(super) async fn try_claim<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        mutation: Mutation,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let mutation = Arc::new(mutation);
        let (line, listener) = Line::open(takes_events(&head.headers));
        let (tell, unclaimed) = oneshot::channel();
        let (clerk, forward) = (Arc::clone(&self), inner.clone());
        let exchange = Exchange::new(clerk, Arc::clone(&head), Arc::clone(&mutation), forward, line);
        self.tasks.spawn(exchange.run_if_owned(tell).instrument(Span::current()));
        match unclaimed.await {
            // It owns its claim, and answers on the line.
            Err(_) => listener.answer().await,
            Ok(row) => {
                let operation = Arc::clone(&mutation.operation);
                let what = match &mutation.sends {
                    Sends::Message(request) => ClaimedWhat::Read { request: request.clone(), operation },
                    Sends::Plain(plain) => ClaimedWhat::Open { going: plain.clone().into(), operation },
                };
                self.go_unclaimed(inner, head, what, row).await
            }
        }
    }

    /// Sends a call that has no claim. Without a row of its own it has one elsewhere.
    pub(super) async fn go_unclaimed<S>(
        &self,
        inner: S,
        head: Arc<Head>,
        what: ClaimedWhat,
        row: Option<Unclaimed>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let mut event = read_event(&head);
        let has_row = row.is_some();
        if let Some(Unclaimed { decision, reason, attempt_id }) = row {
            info!(reason, "A call went on that would not have.");
            let facts = Facts { attempt_id, ..event.facts };
            event = AuditEvent { facts, decision, reason: Some(reason), ..event };
        }
        let mut entry = self.journal.entry_now(event);
        if !has_row {
            entry.withdraw();
        }
        self.answer_read(inner, head, what, entry).await
    }
}

impl Unclaimed {
    /// What would have been refused.
    pub(super) fn refused(refusal: &Refusal) -> Self {
        let reason = would(wire::row(refusal).reason);
        Self { decision: Decision::Denied, reason, attempt_id: None }
    }
}
