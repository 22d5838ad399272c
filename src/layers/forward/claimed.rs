//! The exchange of one claimed call.
//!
//! Promises: it is sent once, within its attempt's time; its answer is read to the result and judged, never passed on before
//! it is settled; what comes before the result on a stream passes to the caller as it comes. A legacy stream that ends
//! before its result, and can be resumed, is resumed here: the caller's own request stays open.
//!
//! Absent on purpose: sending again. A resumed stream is asked for with GET, which runs nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::inside::{Own, own};
use super::passing::Met;
use super::{Forwarded, Road, SendFault, unsent_or_lost};
use crate::domain::answer::Kind;
use crate::domain::chain::Chain;
use crate::domain::json::Json;
use crate::domain::policy::{Forwarded as KeyParts, OnToolError};
use crate::layers::authorize::Sends;
use crate::layers::claim::Sending;
use crate::layers::parse::Head;
use crate::layers::resume::{About, LAST_EVENT_ID, Stream};
use crate::mcp::collect::{Media, collect, media};
use crate::mcp::events::Events;
use crate::mcp::judge::{Reply, Verdict, judge};
use crate::mcp::message::Era;
use crate::upstream::headers;

/// How long is waited before a stream is resumed, where the upstream does not say.
const PAUSE: Duration = Duration::from_secs(1);

/// The shortest and the longest such wait, whatever the upstream says.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(30));

/// What a stream came to.
struct Told {
    reply: Option<Reply>,
    /// Whether a message about the call came before.
    begun: bool,
    /// Whether it broke off.
    cut: bool,
}

impl Road {
    /// Runs a claimed call within its attempt's time. Where that is over before it was sent (the process was stopped
    /// in between), it is not sent: the ledger may have given the claim away.
    pub(super) async fn run(&self, head: &Head, owned: &Sending) -> Forwarded {
        if Instant::now() >= owned.deadline {
            warn!("The attempt's time was over before it was sent.");
            return Forwarded::NotSent;
        }
        tokio::time::timeout_at(owned.deadline, self.exchange(head, owned)).await.unwrap_or_else(|_| {
            warn!("The upstream did not answer in time.");
            Forwarded::Lost { status: None }
        })
    }

    async fn exchange(&self, head: &Head, owned: &Sending) -> Forwarded {
        let mutation = &*owned.mutation;
        let Some(terms) = mutation.operation.mutation() else {
            return Forwarded::NotSent;
        };
        let key = terms.forward_key().header_value(KeyParts {
            service: &self.service,
            tenant: head.caller.actor().tenant(),
            tool: mutation.operation.name(),
            key: mutation.key.as_str(),
        });
        let request = match &mutation.sends {
            Sends::Message(request) => request,
            Sends::Plain(plain) => {
                // On the heap: messages do not carry its state along.
                return Box::pin(self.exchange_plain(head, plain, &mutation.operation, &key)).await;
            }
        };
        let body = Self::message(head, request).to_bytes();
        let response = match self.send(head, Bytes::from(body), Some(&key)).await {
            Ok(response) => response,
            Err(fault) => return unsent_or_lost(&fault),
        };
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let (kind, kept) = (media(&parts.headers), headers::kept(&parts.headers, Kind::Result));
        let challenge = matches!(status, 401 | 403).then(|| headers::challenged_scope(&parts.headers));
        // They hold on to all that their connection has read.
        drop(parts);
        let id = request.id.clone().unwrap_or(Json::Null);
        let told = match kind {
            Media::Events => self.listen_to(head, owned, id, Events::of(body)).await,
            Media::Json | Media::Other => match collect(kind, body, &id).await {
                Some(collected) => Told { reply: collected.reply, begun: false, cut: false },
                None => Told { reply: None, begun: false, cut: true },
            },
        };
        if told.cut {
            warn!(status, "The upstream's answer was cut off.");
            return Forwarded::Lost { status: Some(status) };
        }
        let Own { reply, is_own } = own(told.reply, request, &mutation.operation);
        // What the tool around it says of an error says nothing of whether this one ran.
        let release = is_own && terms.on_tool_error() == OnToolError::Release;
        match judge(status, reply, told.begun, release) {
            Verdict::Unknown => Forwarded::Lost { status: Some(status) },
            verdict @ (Verdict::Answered { .. } | Verdict::AwaitingInput(_) | Verdict::NotRun { .. }) => {
                let challenged = challenge.filter(|_| matches!(verdict, Verdict::NotRun { .. }));
                Forwarded::Judged { status, headers: kept, challenged, verdict }
            }
        }
    }

    /// Reads a stream to its result, and on where it is resumed.
    async fn listen_to(&self, head: &Head, owned: &Sending, id: Json, mut events: Events) -> Told {
        let about = About::Claimed {
            operation: owned.mutation.operation.clone(),
            key: owned.mutation.key.clone(),
            attempt: owned.attempt,
        };
        let passing = self.passing(head, Some(Stream { id, about }));
        let mut told = Told { reply: None, begun: false, cut: false };
        let (mut last_id, mut pause, mut first) = (None, PAUSE, true);
        // Longer each time that nothing came.
        let mut wait = pause;
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                ended => {
                    let after = last_id.as_deref().filter(|_| head.era == Era::Legacy);
                    let resumed = match after {
                        Some(after) => self.resume(head, after, wait).await,
                        None => None,
                    };
                    let Some(resumed) = resumed else {
                        return Told { cut: ended.is_err(), ..told };
                    };
                    events = resumed;
                    first = false;
                    wait = (wait * 2).min(PAUSES.1);
                    continue;
                }
            };
            if let Some(id) = &event.id {
                last_id = Some(id.clone()).filter(|id| !id.is_empty());
            }
            if let Some(retry) = event.retry {
                pause = Duration::from_millis(retry).clamp(PAUSES.0, PAUSES.1);
            }
            wait = pause;
            match passing.met(&event, first) {
                Met::Reply(reply) => return Told { reply: Some(*reply), ..told },
                Met::Stray => {
                    warn!("The upstream answered what was not asked on this stream; it is dropped.");
                }
                Met::Other(message) => {
                    told.begun |= event.data.as_ref().is_some_and(|data| !data.is_empty());
                    first &= !told.begun;
                    let id = event.id.clone();
                    if let Some(bytes) = passing.event(event, message) {
                        owned.line.pass(bytes, id).await;
                    }
                }
            }
        }
    }

    /// The rest of a legacy stream; none where the upstream does not have it. The attempt's time bounds the tries.
    async fn resume(&self, head: &Head, after: &str, first_pause: Duration) -> Option<Events> {
        let mut headers = self.headers_of(head, None);
        headers.remove(http::header::CONTENT_TYPE);
        headers.insert(LAST_EVENT_ID, HeaderValue::from_str(after).ok()?);
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut pause = first_pause;
        loop {
            sleep(pause).await;
            info!("The upstream's stream ended before its result; it is resumed.");
            match self.get(&headers).await {
                Ok(response) if response.status().is_success() => {
                    let is_stream = media(response.headers()) == Media::Events;
                    return is_stream.then(|| Events::of(response.into_body()));
                }
                Ok(response) if response.status().is_client_error() => {
                    warn!(status = response.status().as_u16(), "The stream cannot be resumed.");
                    return None;
                }
                Ok(response) => warn!(status = response.status().as_u16(), "The stream is not resumed yet."),
                Err(fault) => warn!(error = %Chain(&fault), "The stream is not resumed yet."),
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn get(&self, headers: &HeaderMap) -> Result<Response<Incoming>, SendFault> {
        self.upstream.send(&Method::GET, &self.endpoint, headers, &Bytes::new()).await
    }
}
