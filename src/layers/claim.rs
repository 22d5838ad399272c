//! The step that lets a mutation run once.
//!
//! Promises: [`Claimed`] exists only for a call whose claim is committed, or for one that the policy says needs none, or
//! for one that is observed and says so in its type.
//! From here on the caller may hang up: claim, forward and settle run in a task of their own that nothing cancels.
//!
//! Absent on purpose: the decision, which is [`crate::domain::ledger`], and the wire.

mod act;
mod beat;
pub mod emptier;
mod exchange;
pub mod flights;
pub mod jobs;
pub mod journal;
mod keep;
mod open;
mod pause;
mod read;
pub mod reconcile;
mod resumed;
mod sessions;
mod several;
mod storing;
mod twins;
mod unenforced;
mod watch;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower::Service;
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use self::exchange::Exchange;
use self::flights::Flights;
use self::journal::Journal;
use self::keep::Keeper;
use self::read::read_event;
use self::reconcile::Reconciler;
use super::authorize::{Allowed, AllowedWhat, Court, Mutation};
use super::forward::Forwarded;
use super::forward::raw::Ear;
use super::line::Line;
use super::parse::Head;
use super::plain::Going;
use super::resume::Resumed;
use super::running::{Place, Running};
use super::session;
use super::watched::Raw;
use super::{Answer, Step};
use crate::domain::audit::{AuditEvent, Facts};
use crate::domain::key::Key;
use crate::domain::ledger::ClaimId;
use crate::domain::policy::{Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::herd::Herd;
use crate::mcp::headers::takes_events;
use crate::mcp::message::{Message, Request};
use crate::mcp::tasks::outbound::Sealer;
use crate::store::{Store, StoreError, Swap, Write};
use crate::upstream::headers::detached;

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
    Owned(Sending),
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
    /// A plain request that needs no claim.
    Open {
        /// What goes out.
        going: Going,
        /// Its rule.
        operation: Arc<Operation>,
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
    /// A legacy client listens to its session.
    Listen {
        /// From where it goes on, if it does.
        resumed: Option<Resumed>,
        /// The policy by which a list is filtered.
        policy: Arc<Policy>,
    },
    /// A legacy client ends its session.
    Leave,
}

/// One attempt, on its way to the upstream.
#[derive(Debug)]
pub struct Sending {
    /// The call.
    pub mutation: Arc<Mutation>,
    /// The attempt that owns its claim.
    pub attempt: Uuid,
    /// The end of the attempt's time. The ledger counts on it: nothing is sent, and nothing is running, later.
    pub deadline: Instant,
    /// The line to the caller, for what comes before the answer.
    pub line: Arc<Line>,
}

impl Claimed {
    /// The attempt, where the call owns a claim.
    pub fn sending(&self) -> Option<&Sending> {
        if let ClaimedWhat::Owned(sending) = &self.what { Some(sending) } else { None }
    }

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
    /// Every call that runs in this process.
    pub running: Running,
    /// The keys that calls bring right now.
    pub flights: Flights,
    /// Who is first with a key among all gates, where a Redis tells.
    pub herd: Herd,
    /// Asks the app what became of a call; none where nobody may.
    pub reconciler: Option<Arc<Reconciler>>,
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
        let (mut head, what) = allowed.into_parts();
        if matches!(what, AllowedWhat::Mutation(_)) {
            // It may run for long: its headers must not hold on to all that its connection has read.
            head.headers = detached(&head.headers);
        }
        let head = Arc::new(head);
        match what {
            AllowedWhat::Mutation(mutation) => {
                let (line, listener) =
                    Line::open(mutation.message().is_some() && takes_events(&head.headers));
                let tasks = clerk.tasks.clone();
                let exchange = Exchange::new(clerk, head, Arc::new(*mutation), inner, line);
                tasks.spawn(exchange.run().instrument(Span::current()));
                Box::pin(listener.answer())
            }
            AllowedWhat::Read { request, operation } => Box::pin(clerk.read(inner, head, request, operation)),
            AllowedWhat::Act { request, operation } => Box::pin(clerk.act(inner, head, request, operation)),
            AllowedWhat::Open(open) => Box::pin(clerk.open(inner, head, *open)),
            AllowedWhat::Several(several) => Box::pin(self.clone().several(head, *several)),
            AllowedWhat::Watched(watched) => Box::pin(clerk.watch(inner, head, *watched)),
            AllowedWhat::Unenforced { request, operation, would } => {
                Box::pin(clerk.let_go(inner, head, request, operation, would))
            }
            AllowedWhat::Recorded(mutation) => Box::pin(clerk.try_claim(inner, head, *mutation)),
            AllowedWhat::Passage { message, policy } => {
                if clerk.holds_back(&head, &message) {
                    return Box::pin(std::future::ready(Ok(Answer::Accepted)));
                }
                let place = clerk.enter(&head, &message);
                let claimed = Claimed { head, what: ClaimedWhat::Passage { message, policy } };
                Box::pin(pass(inner, claimed, place))
            }
            AllowedWhat::Listen { resumed, policy } => Box::pin(clerk.listen(inner, head, resumed, policy)),
            AllowedWhat::Leave => Box::pin(clerk.leave(inner, head)),
        }
    }
}

async fn pass<S>(mut inner: S, claimed: Claimed, place: Option<Place>) -> Result<Answer, Refusal>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal>,
{
    match inner.call(claimed).await? {
        Forwarded::Passed { response, .. } => Ok(Answer::Passed(response)),
        Forwarded::Spoken { spoken, .. } => Ok(Answer::Spoken(spoken.keeping(place))),
        Forwarded::Judged { .. }
        | Forwarded::Plain(_)
        | Forwarded::NotSent
        | Forwarded::Lost { .. }
        | Forwarded::Resumed(_) => Err(Refusal::Internal),
    }
}

impl Clerk {
    /// The name of a call's claim.
    fn claim_id(&self, head: &Head, operation: &Operation, key: &Key) -> ClaimId {
        ClaimId {
            tenant: head.caller.actor().tenant().to_owned(),
            service: self.service.clone(),
            tool: operation.name().to_owned(),
            key: key.as_str().to_owned(),
        }
    }

    /// The keeper of a call's answer. `sealer` seals the ids of tasks in it.
    fn keeper<'a>(&'a self, head: &Head, operation: &'a Operation, sealer: Sealer) -> Keeper<'a> {
        Keeper {
            operation,
            fingerprinter: &self.court.fingerprinter,
            limit: self.stored_response,
            forwards_token: self.forwards_token,
            in_session: session::in_session(head),
            sealer,
        }
    }

    /// A write to the ledger; its row is counted once it is committed.
    async fn swap(&self, write: Write) -> Result<Swap, StoreError> {
        let event = write.event.clone();
        let swap = self.store.swap(write).await;
        if let (Ok(Swap::Applied { .. }), Some(event)) = (&swap, &event) {
            self.journal.meter().row(event);
        }
        swap
    }

    /// Writes a row down that goes with no claim, and counts it.
    async fn append(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.store.append(event.clone()).await?;
        self.journal.meter().row(&event);
        Ok(())
    }
}

/// The step before learned them for every call that the policy names.
fn facts(head: &Head) -> Facts {
    head.asked.facts().cloned().unwrap_or_default()
}
