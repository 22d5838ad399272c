//! The innermost step: the call goes to the upstream.
//!
//! Promises: what is sent is written from what was checked; a claimed call's answer is judged, never passed on before it
//! is settled; an upstream's failure never becomes a broken connection.
//!
//! Absent on purpose: retries. [`crate::upstream`] tells whether a byte went out, and that is the end of it.

mod claimed;
pub mod edits;
mod free;
mod inside;
pub mod passing;
pub mod plain;
pub(in crate::layers) mod question;
pub mod raw;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use hyper::body::Incoming;
use tokio::time::Instant;
use tower::Service;
use tracing::warn;

use self::edits::Editor;
use self::passing::{Learned, Passing};
use self::plain::Heard;
use super::Step;
use super::claim::{Claimed, ClaimedWhat};
use super::observe::TRACEPARENT;
use super::parse::Head;
use super::resume::{LAST_EVENT_ID, Stream};
use super::words::Spoken;
use crate::domain::chain::Chain;
use crate::domain::json::Json;
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::domain::seal::Seal;
use crate::mcp::events::Events;
use crate::mcp::given::Given;
use crate::mcp::judge::Verdict;
use crate::mcp::message::Request;
use crate::mcp::tasks::outbound::Sealer;
use crate::traces;
use crate::upstream::headers::provider::Provider;
use crate::upstream::headers::{self, Front};
use crate::upstream::{SendFault, Upstream};
use crate::wire::envelope::Body;

/// What came of a call.
#[derive(Debug)]
pub enum Forwarded {
    /// A claimed call was answered.
    Judged {
        /// The upstream's HTTP status.
        status: u16,
        /// Headers that may be kept.
        headers: Vec<(String, String)>,
        /// The scopes that the upstream's own challenge named, where it turned the call away with one.
        challenged: Option<Option<String>>,
        /// What the answer proves.
        verdict: Verdict,
    },
    /// A claimed plain request was answered.
    Plain(Box<Heard>),
    /// Not one byte of a claimed call went out.
    NotSent,
    /// A claimed call may have gone out, and no trustworthy answer came.
    Lost {
        /// The upstream's HTTP status, where at least that came.
        status: Option<u16>,
    },
    /// A call without a claim was answered.
    Passed {
        /// The response for the client.
        response: Response<Body>,
        /// What its audit row says.
        note: Note,
    },
    /// A call without a claim is answered with a stream.
    Spoken {
        /// The stream for the client.
        spoken: Spoken,
        /// What its audit row says.
        note: Note,
        /// Where its row must wait for the answer: what that says.
        row: Option<Learned>,
    },
    /// The stream of a claimed call, from where its client left off. Its answer settles that claim.
    Resumed(Box<Resumption>),
}

/// A stream that goes on.
#[derive(Debug)]
pub struct Resumption {
    /// The upstream's HTTP status.
    pub status: u16,
    /// The upstream's headers that a client may see.
    pub headers: HeaderMap,
    /// What comes.
    pub events: Events,
    /// How it passes.
    pub passing: Passing,
}

/// What a read's audit row says of its answer.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// The upstream's HTTP status.
    pub status: u16,
    /// The policy's reason for the tool's error code.
    pub reason: Option<String>,
    /// A few redacted fields of the result.
    pub summary: Option<String>,
    /// Whether the upstream certainly turned away what would have changed something.
    pub turned_away: bool,
}

/// The step.
#[derive(Clone)]
pub struct Forward {
    road: Arc<Road>,
}

/// What forwarding needs.
pub struct Road {
    /// The client.
    pub upstream: Upstream,
    /// The MCP endpoint upstream.
    pub endpoint: Uri,
    /// What the gate says of itself.
    pub front: Front,
    /// Whose API the upstream is, where it is somebody else's.
    pub provider: Option<Provider>,
    /// Changes what lists and capabilities say.
    pub editor: Editor,
    /// The gate's `service`.
    pub service: String,
    /// Binds what the upstream opens to its actor.
    pub seal: Seal,
    /// Which tasks were given to whom.
    pub given: Given,
    /// How long a call that needs no claim may take to be answered, in full or by its stream's head.
    pub timeout: Duration,
}

impl Forward {
    /// Down this road.
    pub fn new(road: Arc<Road>) -> Self {
        Self { road }
    }
}

impl Service<Claimed> for Forward {
    type Response = Forwarded;
    type Error = Refusal;
    type Future = Step<Forwarded, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, claimed: Claimed) -> Self::Future {
        let road = Arc::clone(&self.road);
        Box::pin(async move {
            let (head, what) = claimed.into_parts();
            let timed = Timed::begin(&road, &head);
            let came = match what {
                ClaimedWhat::Owned(owned) => Ok(road.run(&head, &owned).await),
                ClaimedWhat::Read { request, operation } => road.read(&head, &request, &operation).await,
                ClaimedWhat::Open { going, operation } => Box::pin(road.open(&head, going, &operation)).await,
                ClaimedWhat::Act { request } => road.act(&head, &request).await,
                ClaimedWhat::Passage { message, policy } => road.pass(&head, message, &policy).await,
                ClaimedWhat::Listen { resumed, policy } => road.listen(&head, resumed, &policy).await,
                ClaimedWhat::Leave => road.leave(&head).await,
                ClaimedWhat::Watched { raw, ear } => Ok(road.watch(&head, raw, ear).await),
            };
            timed.came(&came);
            came
        })
    }
}

/// Takes the time of an operation upstream, until this is dropped.
struct Timed<'a> {
    road: &'a Road,
    head: &'a Head,
    began: Instant,
    step: traces::Step,
}

impl<'a> Timed<'a> {
    fn begin(road: &'a Road, head: &'a Head) -> Self {
        let step = head.asked.forwards();
        if step.is_recording() {
            step.set_text("server.address", road.endpoint.host().unwrap_or_default());
            if let Some(port) = road.endpoint.port_u16() {
                step.set("server.port", i64::from(port));
            }
        }
        Self { road, head, began: Instant::now(), step }
    }

    /// It came to this.
    fn came(&self, came: &Result<Forwarded, Refusal>) {
        if !self.step.is_recording() {
            return;
        }
        let status = match came {
            Ok(Forwarded::Judged { status, .. }) => Some(*status),
            Ok(Forwarded::Plain(heard)) => Some(heard.status),
            Ok(Forwarded::Passed { note, .. } | Forwarded::Spoken { note, .. }) => Some(note.status),
            Ok(Forwarded::Resumed(resumption)) => Some(resumption.status),
            Ok(Forwarded::Lost { status }) => {
                self.step.failed("lost");
                *status
            }
            Ok(Forwarded::NotSent) => {
                self.step.failed("not_sent");
                None
            }
            Err(refusal) => {
                self.step.failed(crate::wire::row(refusal).code);
                None
            }
        };
        if let Some(status) = status.filter(|status| *status != 0) {
            self.step.set("http.response.status_code", i64::from(status));
        }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if let Some(facts) = self.head.asked.facts() {
            self.road.editor.meter.upstream_took(&self.road.service, &facts.tool, self.began.elapsed());
        }
    }
}

impl Road {
    async fn send(
        &self,
        head: &Head,
        body: Bytes,
        key: Option<&str>,
    ) -> Result<Response<Incoming>, SendFault> {
        let headers = self.headers_of(head, key);
        self.sent(&Method::POST, &headers, &body).await
    }

    async fn sent(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response<Incoming>, SendFault> {
        let mut response = self.upstream.send(method, &self.endpoint, headers, body).await?;
        headers::turn_outward(response.headers_mut(), &self.endpoint, &self.front);
        Ok(response)
    }

    /// A message as it goes out. Where it names its sender's span, and the gate has one of its own, it names that.
    fn message(head: &Head, request: &Request) -> Json {
        let mut message = request.outgoing();
        if head.asked.span().is_recording() {
            let meta = message.get_mut("params").and_then(|params| params.get_mut("_meta"));
            if let Some(parent) = meta.and_then(|meta| meta.get_mut(TRACEPARENT)) {
                *parent = Json::from(head.asked.traceparent());
            }
        }
        Json::Object(message)
    }

    /// How task ids pass to this client; `called` is the operation of which a task may come.
    fn sealer(&self, head: &Head, called: Option<&Arc<Operation>>) -> Sealer {
        Sealer {
            seal: self.seal.clone(),
            given: self.given.clone(),
            actor: head.caller.actor().clone(),
            named: head.tasks.clone(),
            called: called.cloned(),
        }
    }

    fn headers_of(&self, head: &Head, key: Option<&str>) -> HeaderMap {
        let actor = head.caller.actor();
        let traceparent = head.asked.traceparent();
        let own = head.headers.get(headers::IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
        let key = if head.keeps_key { own } else { key };
        let mut headers =
            headers::outbound(&head.headers, &self.front, head.asked.peer(), actor, traceparent, key);
        // Only one that was opened goes on, with what asks for a stream again.
        headers.remove(LAST_EVENT_ID);
        headers
    }

    /// How messages pass to the client of this call, on a stream about this.
    fn passing(&self, head: &Head, stream: Option<Stream>) -> Passing {
        // Of a request about a task no other comes.
        let may_make = head.tasks.subject.is_none();
        let called = stream.as_ref().and_then(|stream| stream.about.operation()).filter(|_| may_make);
        Passing { sealer: self.sealer(head, called), era: head.era, stream }
    }
}

fn unsent_or_lost(fault: &SendFault) -> Forwarded {
    warn!(error = %Chain(fault), "The upstream did not answer.");
    match fault {
        SendFault::NotSent(_) => Forwarded::NotSent,
        SendFault::Lost(_) => Forwarded::Lost { status: None },
    }
}
