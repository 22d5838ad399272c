//! What a legacy session does besides calling: cancelling, listening, coming back.
//!
//! Promises: no cancellation of a claimed call reaches the upstream; a client that comes back for a claimed call hears the
//! rest of it from the task that runs it, or its answer from the ledger; where neither has it, the answer that the upstream
//! gives again settles the claim before the client hears it.
//!
//! Absent on purpose: running anything. A stream is listened to, never begun.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{once, unfold};
use http::HeaderMap;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::Service;
use tracing::{Instrument as _, Span, info, warn};

use super::exchange::COME_BACK;
use super::resumed::{Settlement, settle};
use super::{Claimed, ClaimedWhat, Clerk, pass};
use crate::domain::policy::{Kind, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::forward::passing::Met;
use crate::layers::forward::{Forwarded, Resumption};
use crate::layers::parse::Head;
use crate::layers::resume::{About, Resumed, Stream};
use crate::layers::running::Place;
use crate::layers::session::session_of;
use crate::layers::words::{Spoken, Word, Words};
use crate::mcp::message::{Era, Message, Request};
use crate::wire::envelope::Envelope;

/// The notification by which a legacy client cancels a request.
const CANCELLED: &str = "notifications/cancelled";

/// How often is looked whether a session's calls have ended that its client has left.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Clerk {
    /// Whether a message must not go on: a cancellation of anything but a call that runs here without a claim. The client
    /// hears that it was heard; the call is carried to its end, which the protocol allows.
    pub(super) fn holds_back(&self, head: &Head, message: &Message) -> bool {
        let Message::Notification(notification) = message else { return false };
        if notification.method != CANCELLED {
            return false;
        }
        let id = notification.params().and_then(|params| params.get("requestId"));
        let actor = head.caller.actor();
        let may = id.is_some_and(|id| self.running.may_cancel(actor, session_of(head), id));
        if !may {
            info!("A cancellation was held back: the call has a claim, or is not running here.");
        }
        !may
    }

    /// A place among the running calls for a request that has no claim. Modern clients cancel by hanging up.
    pub(super) fn unclaimed(&self, head: &Head, request: &Request) -> Option<Place> {
        let id = request.id.as_ref().filter(|_| head.era == Era::Legacy)?;
        Some(self.running.unclaimed(head.caller.actor(), session_of(head), id))
    }

    /// The same for housekeeping.
    pub(super) fn enter(&self, head: &Head, message: &Message) -> Option<Place> {
        match message {
            Message::Request(request) => self.unclaimed(head, request),
            Message::Notification(_) | Message::Response(_) => None,
        }
    }

    /// A client ends its session. Where a claimed call still runs in it the app hears of that once the call has ended: it
    /// would take the end of the session for the end of its calls.
    pub(super) async fn leave<S>(self: Arc<Self>, inner: S, head: Arc<Head>) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + 'static,
        S::Future: Send + 'static,
    {
        let runs = {
            let (clerk, head) = (Arc::clone(&self), Arc::clone(&head));
            move || clerk.running.has_claimed(head.caller.actor(), session_of(&head))
        };
        let leaving = Claimed { head, what: ClaimedWhat::Leave };
        if !runs() {
            return pass(inner, leaving, None).await;
        }
        let later = async move {
            while runs() {
                sleep(LOOK_AGAIN).await;
            }
            if let Err(refusal) = pass(inner, leaving, None).await {
                warn!(?refusal, "The end of a session did not reach the app.");
            }
        };
        self.tasks.spawn(later.instrument(Span::current()));
        Ok(Answer::Accepted)
    }

    /// A client listens to its session, from now on or from where it left off.
    pub(super) async fn listen<S>(
        self: Arc<Self>,
        mut inner: S,
        head: Arc<Head>,
        resumed: Option<Resumed>,
        policy: Arc<Policy>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        if let Some(Resumed { event, stream: Some(stream), .. }) = &resumed
            && let About::Claimed { operation, key, attempt } = &stream.about
        {
            // Its end is addressed as the call was, and its row is the call's own.
            head.asked.learn_envelope(Envelope {
                id: Some(stream.id.clone()),
                era: Era::Legacy,
                is_tool_call: operation.kind() == Kind::Tool,
            });
            head.asked.mark_audited();
            if let Some(listener) = self.running.line(*attempt).and_then(|line| line.take_over(event)) {
                info!("A client came back for a running call.");
                return Ok(listener.stream());
            }
            if let Some(answer) = self.known(&head, operation, key, *attempt).await {
                let end = std::future::ready(Word::End(Box::new(Ok(answer))));
                return Ok(Answer::Spoken(Spoken { headers: HeaderMap::new(), words: Box::pin(once(end)) }));
            }
        }
        let about_claimed = resumed.as_ref().and_then(|place| place.stream.as_ref());
        let about_claimed = about_claimed.is_some_and(|stream| matches!(stream.about, About::Claimed { .. }));
        let claimed = Claimed { head: Arc::clone(&head), what: ClaimedWhat::Listen { resumed, policy } };
        let forwarded = inner.call(claimed).await;
        if let (true, Err(refusal)) = (about_claimed, &forwarded)
            && !matches!(refusal, Refusal::UpstreamUnauthorized { .. } | Refusal::UpstreamForbidden { .. })
        {
            // Whatever became of asking again, it says nothing of the call itself.
            return Ok(unheard());
        }
        match forwarded? {
            Forwarded::Passed { response, .. } => Ok(Answer::Passed(response)),
            Forwarded::Spoken { spoken, .. } => Ok(Answer::Spoken(spoken)),
            Forwarded::Resumed(resumption) => {
                let headers = resumption.headers.clone();
                let flow = Flow { clerk: self, head, resumption };
                Ok(Answer::Spoken(Spoken { headers, words: words(flow) }))
            }
            Forwarded::Judged { .. } | Forwarded::Plain(_) | Forwarded::NotSent | Forwarded::Lost { .. } => {
                Err(Refusal::Internal)
            }
        }
    }
}

/// The end of a stream that could not be asked for again: its call may have run, and the ledger knows more.
fn unheard() -> Answer {
    let refusal = Refusal::OutcomeUnknown { first_seen: None, retry_after: Some(COME_BACK) };
    let words: Words = Box::pin(once(std::future::ready(Word::End(Box::new(Err(refusal))))));
    Answer::Spoken(Spoken { headers: HeaderMap::new(), words })
}

/// The stream of a claimed call that no task of this process runs.
struct Flow {
    clerk: Arc<Clerk>,
    head: Arc<Head>,
    resumption: Box<Resumption>,
}

fn words(flow: Flow) -> Words {
    Box::pin(unfold(Some(flow), async |flow| {
        let mut flow = flow?;
        let word = flow.next().await;
        let more = matches!(word, Word::Event(..));
        Some((word, more.then_some(flow)))
    }))
}

impl Flow {
    async fn next(&mut self) -> Word {
        let Resumption { status, events, passing, .. } = &mut *self.resumption;
        while let Ok(Some(event)) = events.next().await {
            match passing.met(&event, false) {
                Met::Other(message) => {
                    if let Some(bytes) = passing.event(event, message) {
                        return Word::event(bytes, None);
                    }
                }
                Met::Stray => {
                    warn!("The upstream answered what was not asked on this stream; it is dropped.");
                }
                Met::Reply(reply) => {
                    let Some(Stream { about: About::Claimed { operation, key, attempt }, .. }) =
                        passing.stream.clone()
                    else {
                        return Word::Elsewhere;
                    };
                    let (tell, told) = oneshot::channel();
                    let settlement = Settlement {
                        clerk: Arc::clone(&self.clerk),
                        head: Arc::clone(&self.head),
                        operation,
                        key,
                        attempt,
                        sealer: passing.sealer.clone(),
                        status: *status,
                    };
                    // From here on the client may hang up again.
                    self.clerk.tasks.spawn(settle(settlement, *reply, tell).instrument(Span::current()));
                    return Word::End(Box::new(told.await.unwrap_or(Err(Refusal::Internal))));
                }
            }
        }
        // The client knows the place that it has come to, and comes back.
        Word::Elsewhere
    }
}
