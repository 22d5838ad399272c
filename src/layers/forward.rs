//! The innermost step: the call goes to the upstream.
//!
//! Promises: what is sent is written from what was checked; a claimed call's answer is read whole and judged, never
//! passed on before it is settled; an upstream's failure never becomes a broken connection.
//!
//! Absent on purpose: retries. [`crate::upstream`] tells whether a byte went out, and that is the end of it.

pub mod edits;
mod free;
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
use super::Step;
use super::authorize::Mutation;
use super::claim::{Claimed, ClaimedWhat};
use super::parse::Head;
use super::session;
use crate::domain::chain::Chain;
use crate::domain::json::Json;
use crate::domain::policy::{Forwarded as KeyParts, OnToolError, Operation};
use crate::domain::refusal::Refusal;
use crate::domain::seal::Seal;
use crate::mcp::collect::{collect, media};
use crate::mcp::given::Given;
use crate::mcp::judge::{Verdict, judge};
use crate::mcp::tasks::outbound::Sealer;
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
            match what {
                ClaimedWhat::Owned { mutation, deadline } => Ok(road.run(&head, &mutation, deadline).await),
                ClaimedWhat::Read { request, operation } => road.read(&head, &request, &operation).await,
                ClaimedWhat::Act { request } => road.act(&head, &request).await,
                ClaimedWhat::Passage { message, policy } => road.pass(&head, message, &policy).await,
                ClaimedWhat::Watched { raw, ear } => Ok(road.watch(&head, raw, ear).await),
            }
        })
    }
}

impl Road {
    /// Runs a claimed call within its attempt's time. Where that is over before it was sent (the process was stopped
    /// in between), it is not sent: the ledger may have given the claim away.
    async fn run(&self, head: &Head, mutation: &Mutation, deadline: Instant) -> Forwarded {
        if Instant::now() >= deadline {
            warn!("The attempt's time was over before it was sent.");
            return Forwarded::NotSent;
        }
        tokio::time::timeout_at(deadline, self.exchange(head, mutation)).await.unwrap_or_else(|_| {
            warn!("The upstream did not answer in time.");
            Forwarded::Lost { status: None }
        })
    }

    async fn exchange(&self, head: &Head, mutation: &Mutation) -> Forwarded {
        let id = mutation.request.id.clone().unwrap_or(Json::Null);
        let Some(terms) = mutation.operation.mutation() else {
            return Forwarded::NotSent;
        };
        let key = terms.forward_key().header_value(KeyParts {
            service: &self.service,
            tenant: head.caller.actor().tenant(),
            tool: mutation.operation.name(),
            key: mutation.key.as_str(),
        });
        let body = Json::Object(mutation.request.body.clone()).to_bytes();
        let response = match self.send(head, Bytes::from(body), Some(&key)).await {
            Ok(response) => response,
            Err(fault) => return unsent_or_lost(&fault),
        };
        let status = response.status().as_u16();
        let (parts, body) = response.into_parts();
        let collected = collect(media(&parts.headers), body, &id).await;
        if !collected.whole {
            warn!(status, "The upstream's answer was cut off.");
            return Forwarded::Lost { status: Some(status) };
        }
        let release = terms.on_tool_error() == OnToolError::Release;
        match judge(status, collected.reply, collected.begun, release) {
            Verdict::Unknown => Forwarded::Lost { status: Some(status) },
            verdict @ (Verdict::Answered { .. } | Verdict::AwaitingInput(_) | Verdict::NotRun { .. }) => {
                let challenged = matches!((status, &verdict), (401 | 403, Verdict::NotRun { .. }))
                    .then(|| headers::challenged_scope(&parts.headers));
                Forwarded::Judged { status, headers: headers::kept(&parts.headers), challenged, verdict }
            }
        }
    }

    async fn send(
        &self,
        head: &Head,
        body: Bytes,
        key: Option<&str>,
    ) -> Result<Response<Incoming>, SendFault> {
        let headers = self.headers(head, key);
        self.upstream.send(&Method::POST, &self.endpoint, &headers, &body).await
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

    /// The response headers that this client may see.
    fn passed(&self, head: &Head, upstream: &HeaderMap) -> HeaderMap {
        headers::passed(upstream, session::bound(head, &self.seal))
    }

    fn headers(&self, head: &Head, key: Option<&str>) -> HeaderMap {
        let actor = head.caller.actor();
        let traceparent = &head.asked.trace().parent;
        headers::outbound(&head.headers, &self.front, head.asked.peer(), actor, traceparent, key)
    }
}

fn unsent_or_lost(fault: &SendFault) -> Forwarded {
    warn!(error = %Chain(fault), "The upstream did not answer.");
    match fault {
        SendFault::NotSent(_) => Forwarded::NotSent,
        SendFault::Lost(_) => Forwarded::Lost { status: None },
    }
}
