//! The step that lets a mutation run once.
//!
//! Promises: [`Claimed`] exists only for a call whose claim is committed, or for one that the policy says needs none, or
//! for one that is observed and says so in its type.
//! From here on the caller may hang up: claim, forward and settle run in a task of their own that nothing cancels.
//!
//! Absent on purpose: the decision, which is [`crate::domain::ledger`], and the wire.

mod act;
mod exchange;
pub mod journal;
mod keep;
mod watch;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower::Service;
use tracing::{Instrument as _, Span};

use self::exchange::Exchange;
use self::journal::Journal;
use super::authorize::{Allowed, AllowedWhat, Court, Mutation};
use super::forward::Forwarded;
use super::forward::raw::Ear;
use super::parse::Head;
use super::watched::Raw;
use super::{Answer, Step};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::policy::{Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::mcp::message::{Message, Request};
use crate::store::{Store, event_id};
use crate::wire;

/// A call that may go to the upstream.
#[derive(Debug)]
pub struct Claimed {
    head: Arc<Head>,
    what: ClaimedWhat,
}

/// What it is.
#[derive(Debug)]
pub(super) enum ClaimedWhat {
    /// Its claim is committed, and owned by the attempt that made this value.
    Owned {
        /// The call.
        mutation: Arc<Mutation>,
        /// The end of the attempt's time. The ledger counts on it: nothing is sent, and nothing is running, later.
        deadline: Instant,
    },
    /// It changes nothing.
    Read {
        /// The message.
        request: Request,
        /// Its rule.
        operation: Arc<Operation>,
    },
    /// It does something to a task.
    Act {
        /// The message.
        request: Request,
    },
    /// Housekeeping.
    Passage {
        /// The message.
        message: Message,
        /// The policy by which a list is filtered.
        policy: Arc<Policy>,
    },
    /// It is observed: whatever the ledger says, it goes on.
    Watched {
        /// The request, as it came.
        raw: Raw,
        /// Who listens to its answer, where somebody does.
        ear: Option<Ear>,
    },
}

impl Claimed {
    /// What it carries along, and what it is.
    pub(super) fn into_parts(self) -> (Arc<Head>, ClaimedWhat) {
        (self.head, self.what)
    }
}

/// What claiming needs.
pub struct Clerk {
    /// The ledger's home.
    pub store: Arc<dyn Store>,
    /// Asked again after a wait.
    pub court: Arc<Court>,
    /// The gate's `service`.
    pub service: String,
    /// Claimed work that is running; shutting down waits for it.
    pub tasks: TaskTracker,
    /// Where the rows of reads queue.
    pub journal: Journal,
    /// One attempt's whole time upstream.
    pub upstream_timeout: Duration,
    /// The largest answer that is kept, in bytes.
    pub stored_response: usize,
    /// Whether the client's token goes on to the upstream.
    pub forwards_token: bool,
}

/// The step.
#[derive(Clone)]
pub struct Claim<S> {
    inner: S,
    clerk: Arc<Clerk>,
}

impl<S> Claim<S> {
    /// Before `inner`.
    pub fn new(inner: S, clerk: Arc<Clerk>) -> Self {
        Self { inner, clerk }
    }
}

impl<S> Service<Allowed> for Claim<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, allowed: Allowed) -> Self::Future {
        let inner = self.inner.clone();
        let clerk = Arc::clone(&self.clerk);
        let (head, what) = allowed.into_parts();
        let head = Arc::new(head);
        match what {
            AllowedWhat::Mutation(mutation) => {
                let (tell, told) = oneshot::channel();
                let tasks = clerk.tasks.clone();
                let exchange = Exchange::new(clerk, head, Arc::new(*mutation), inner, tell);
                tasks.spawn(exchange.run().instrument(Span::current()));
                // The task ends without a word only if it panicked; its claim is then found unknown.
                Box::pin(async { told.await.unwrap_or(Err(Refusal::Internal)) })
            }
            AllowedWhat::Read { request, operation } => Box::pin(clerk.read(inner, head, request, operation)),
            AllowedWhat::Act { request, operation } => Box::pin(clerk.act(inner, head, request, operation)),
            AllowedWhat::Watched(watched) => Box::pin(clerk.watch(inner, head, *watched)),
            AllowedWhat::Passage { message, policy } => {
                Box::pin(pass(inner, Claimed { head, what: ClaimedWhat::Passage { message, policy } }))
            }
        }
    }
}

async fn pass<S>(mut inner: S, claimed: Claimed) -> Result<Answer, Refusal>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal>,
{
    match inner.call(claimed).await? {
        Forwarded::Passed { response, .. } => Ok(Answer::Passed(response)),
        Forwarded::Judged { .. } | Forwarded::NotSent | Forwarded::Lost { .. } => Err(Refusal::Internal),
    }
}

impl Clerk {
    /// A read, and its row. The row's place in the queue is taken first, so that a full queue slows callers; it is
    /// filled even if the caller hangs up.
    async fn read<S>(
        self: Arc<Self>,
        mut inner: S,
        head: Arc<Head>,
        request: Request,
        operation: Arc<Operation>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let mut entry = self.journal.entry(read_event(&head)).await;
        // A full queue may have kept it waiting for long.
        self.court.still_allows(&head.caller, &operation).inspect_err(|_| entry.withdraw())?;
        head.asked.mark_audited();
        let claimed = Claimed { head: Arc::clone(&head), what: ClaimedWhat::Read { request, operation } };
        let forwarded = inner.call(claimed).await;
        let event = entry.event_mut();
        event.duration_ms = i64::try_from(head.asked.elapsed().as_millis()).ok();
        match forwarded {
            Ok(Forwarded::Passed { response, note }) => {
                event.reason = note.reason;
                event.executed = Executed::Yes;
                event.result_summary = note.summary;
                event.upstream_status = Some(note.status);
                Ok(Answer::Passed(response))
            }
            Ok(Forwarded::Judged { .. } | Forwarded::NotSent | Forwarded::Lost { .. }) => {
                Err(Refusal::Internal)
            }
            Err(refusal) => {
                let row = wire::row(&refusal);
                event.reason = Some(row.reason.to_owned());
                event.executed = row.executed;
                Err(refusal)
            }
        }
    }
}

/// What the row says if the caller hangs up before there is an answer.
fn read_event(head: &Head) -> AuditEvent {
    AuditEvent {
        id: event_id(),
        facts: facts(head),
        decision: Decision::Allowed,
        reason: Some("client_gone".to_owned()),
        result_summary: None,
        duration_ms: None,
        executed: Executed::Maybe,
        upstream_status: None,
    }
}

/// The step before learned them for every call that the policy names.
fn facts(head: &Head) -> Facts {
    head.asked.facts().cloned().unwrap_or_default()
}
