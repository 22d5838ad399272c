//! Calls that need no claim: reads, housekeeping, and what a legacy session has to say.
//!
//! Promises: a read's result is masked as the policy says; a tools list shows what the actor may call, and how; what
//! the upstream says otherwise passes as it is, event by event where it streams, except where it would end a client's
//! session for no reason.
//!
//! Absent on purpose: any record of what passed. A read's row is written by the step outside.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::edits::Edit;
use super::inside::own;
use super::passing::{Flow, Last, Learned, Met, Passing, words};
use super::{Forwarded, Note, Resumption, Road, SendFault};
use crate::domain::json::Json;
use crate::domain::policy::{Kind, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::layers::resume::{About, LAST_EVENT_ID, Resumed, Stream};
use crate::layers::words::Spoken;
use crate::mcp::collect::{Collected, Media, collect, media};
use crate::mcp::events::Events;
use crate::mcp::judge::{Verdict, judge};
use crate::mcp::message::{Message, Request};
use crate::upstream::headers;
use crate::wire::envelope::{AnyError, Body, full};
use crate::wire::render::{respond, rpc};

/// The method by which a client listens: its answer is the stream's end.
const LISTEN: &str = "subscriptions/listen";

impl Road {
    /// A read that the policy names.
    pub(super) async fn read(
        &self,
        head: &Head,
        request: &Request,
        operation: &Arc<Operation>,
    ) -> Result<Forwarded, Refusal> {
        let until = Instant::now() + self.timeout;
        let id = request.id.clone().unwrap_or(Json::Null);
        let passing = self.passing(head, Some(Stream { id, about: About::Read(Arc::clone(operation)) }));
        let response = self.ask(head, Self::message(head, request), until).await?;
        if request.inside.is_some() {
            let (parts, body) = response.into_parts();
            let passed = passing.headers(&parts.headers);
            let reading = to_answer(media(&parts.headers), body, &passing);
            let collected = timeout_at(until, reading).await.ok().flatten().ok_or(Refusal::ReadFailed)?;
            let collected = Collected { reply: own(collected.reply, request, operation).reply, ..collected };
            let last = Last::Read(Arc::clone(operation));
            let (response, note) = Self::told(parts.status, passed, collected, &passing, &last)?;
            return Ok(Forwarded::Passed { response, note: Note { status: parts.status.as_u16(), ..note } });
        }
        let listens = operation.kind() == Kind::Method && operation.name() == LISTEN;
        let way = if listens { Way::Lasting } else { Way::Own(Some(until)) };
        self.answer(response, passing, Last::Read(Arc::clone(operation)), way).await
    }

    /// What is done to a task, whose answer is short. It is read to its end before it is told.
    pub(super) async fn act(&self, head: &Head, request: &Request) -> Result<Forwarded, Refusal> {
        let lost = |refusal| if refusal == Refusal::ReadFailed { Refusal::TaskActLost } else { refusal };
        let until = Instant::now() + self.timeout;
        let id = request.id.clone().unwrap_or(Json::Null);
        let passing = self.passing(head, Some(Stream { id, about: About::Other }));
        let response = self.ask(head, Json::Object(request.body.clone()), until).await.map_err(lost)?;
        let (parts, body) = response.into_parts();
        let reading = to_answer(media(&parts.headers), body, &passing);
        let collected = timeout_at(until, reading).await.ok().flatten().ok_or(Refusal::TaskActLost)?;
        let passed = passing.headers(&parts.headers);
        let status = parts.status.as_u16();
        let turned_away =
            matches!(judge(status, collected.reply.clone(), false, false), Verdict::NotRun { .. });
        let note = Note { status, turned_away, ..Note::default() };
        let response = match collected.reply {
            Some(reply) => {
                let (member, value) = passing.plain(reply);
                let id = request.id.clone().unwrap_or(Json::Null);
                rewritten(parts.status, passed, member, value, id)
            }
            None => Self::unguarded(parts.status, passed, collected).map_err(lost)?,
        };
        Ok(Forwarded::Passed { response, note })
    }

    /// Housekeeping. A tools list is filtered; the rest passes.
    pub(super) async fn pass(
        &self,
        head: &Head,
        message: Message,
        policy: &Arc<Policy>,
    ) -> Result<Forwarded, Refusal> {
        let until = Instant::now() + self.timeout;
        let (id, edit, body) = match message {
            Message::Request(request) => (request.id.clone(), Edit::of(&request.method), request.body),
            Message::Notification(request) => (None, None, request.body),
            Message::Response(body) => (None, None, body),
        };
        let about = edit.map_or(About::Other, About::Edited);
        let last = edit.map_or(Last::AsItIs, |edit| self.edited(edit, policy));
        let passing = self.passing(head, id.map(|id| Stream { id, about }));
        let response = self.ask(head, Json::Object(body), until).await?;
        // What is not asked for by id has no answer to wait for.
        let way = if passing.stream.is_some() { Way::Own(None) } else { Way::Lasting };
        self.answer(response, passing, last, way).await
    }

    /// What a legacy session has to say, from now on or from where the client left off.
    pub(super) async fn listen(
        &self,
        head: &Head,
        resumed: Option<Resumed>,
        policy: &Arc<Policy>,
    ) -> Result<Forwarded, Refusal> {
        let mut headers = self.headers_of(head, None);
        headers.remove(CONTENT_TYPE);
        if let Some(place) = &resumed {
            let event = HeaderValue::from_str(&place.event).map_err(|_| Refusal::NoSuchEvent)?;
            headers.insert(LAST_EVENT_ID, event);
        }
        let response = self.ask_session(&Method::GET, &headers).await?;
        let (stream, also) = resumed.map(|place| (place.stream, place.also)).unwrap_or_default();
        let last = match stream.as_ref().map(|stream| &stream.about) {
            Some(About::Read(operation)) => Last::Read(Arc::clone(operation)),
            Some(About::Edited(edit)) => self.edited(*edit, policy),
            Some(About::Claimed { .. } | About::Other) | None => Last::AsItIs,
        };
        let mut passing = self.passing(head, stream);
        passing.sealer.named.also = also;
        let claimed = matches!(&passing.stream, Some(Stream { about: About::Claimed { .. }, .. }));
        let is_stream = response.status().is_success() && media(response.headers()) == Media::Events;
        if response.status().is_success() && !is_stream {
            // Whatever it is, it must not be told: nothing would be looked for in it, and no claim would hear of it.
            return Err(Refusal::ReadFailed);
        }
        if !claimed || !is_stream {
            let way = if passing.stream.is_some() { Way::Resumed } else { Way::Lasting };
            return self.answer(response, passing, last, way).await;
        }
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let headers = passing.headers(&parts.headers);
        let events = Events::of(body);
        Ok(Forwarded::Resumed(Box::new(Resumption { status, headers, events, passing })))
    }

    /// The end of a legacy session.
    pub(super) async fn leave(&self, head: &Head) -> Result<Forwarded, Refusal> {
        let mut headers = self.headers_of(head, None);
        headers.remove(CONTENT_TYPE);
        let response = self.ask_session(&Method::DELETE, &headers).await?;
        self.answer(response, self.passing(head, None), Last::AsItIs, Way::Lasting).await
    }

    /// An answer to a call without a claim.
    async fn answer(
        &self,
        response: Response<Incoming>,
        passing: Passing,
        last: Last,
        way: Way,
    ) -> Result<Forwarded, Refusal> {
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let note = Note { status, ..Note::default() };
        let kind = media(&parts.headers);
        let passed = passing.headers(&parts.headers);
        if kind == Media::Events && parts.status.is_success() {
            let learned = Learned::default();
            let reads = matches!(&last, Last::Read(operation) if operation.reads_results());
            // A row that waits holds a place in the queue: not for as long as a client likes to listen.
            let waits = reads && way != Way::Lasting;
            let row = waits.then(|| Arc::clone(&learned));
            let events = Events::of(body);
            let words = words(Flow {
                events,
                passing,
                last,
                learned,
                status,
                until: way.until(),
                resumable: way == Way::Resumed,
                lasts: way == Way::Lasting,
                first: way != Way::Resumed,
            });
            let spoken = Spoken { headers: passed, words };
            return Ok(Forwarded::Spoken { spoken, note, row });
        }
        let Some(stream) = &passing.stream else {
            // The ids of a stream that is none to its client are the upstream's own.
            let body = if kind == Media::Events { full("") } else { unread(body) };
            return Ok(Forwarded::Passed { response: with(parts.status, passed, body), note });
        };
        let until = way.until().unwrap_or_else(|| Instant::now() + self.timeout);
        let reading = collect(kind, body, &stream.id);
        let mut collected = timeout_at(until, reading).await.ok().flatten().ok_or(Refusal::ReadFailed)?;
        if collected.reply.is_none() && (kind == Media::Events || passing.hides(&last)) {
            // The status tells enough, and nothing can be taken out of what cannot be read.
            collected.bytes = Bytes::new();
        }
        let (response, said) = Self::told(parts.status, passed, collected, &passing, &last)?;
        Ok(Forwarded::Passed { response, note: Note { status, ..said } })
    }

    /// An answer that came whole, as the client may see it.
    fn told(
        status: StatusCode,
        passed: HeaderMap,
        collected: Collected,
        passing: &Passing,
        last: &Last,
    ) -> Result<(Response<Body>, Note), Refusal> {
        let reply = collected.reply.clone().and_then(|reply| passing.last(last, reply));
        let Some((member, value, note)) = reply else {
            return Ok((Self::unguarded(status, passed, collected)?, Note::default()));
        };
        let id = passing.stream.as_ref().map_or(Json::Null, |stream| stream.id.clone());
        Ok((rewritten(status, passed, member, value, id), note))
    }

    fn edited(&self, edit: Edit, policy: &Arc<Policy>) -> Last {
        Last::Edited(edit, Arc::clone(policy), self.editor.clone())
    }

    async fn ask(&self, head: &Head, body: Json, until: Instant) -> Result<Response<Incoming>, Refusal> {
        self.answered(timeout_at(until, self.send(head, Bytes::from(body.to_bytes()), None)).await)
    }

    /// A request about a session, which has no body.
    async fn ask_session(&self, method: &Method, headers: &HeaderMap) -> Result<Response<Incoming>, Refusal> {
        let body = Bytes::new();
        let sending = self.sent(method, headers, &body);
        self.answered(timeout_at(Instant::now() + self.timeout, sending).await)
    }

    fn answered(
        &self,
        sent: Result<Result<Response<Incoming>, SendFault>, Elapsed>,
    ) -> Result<Response<Incoming>, Refusal> {
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(SendFault::NotSent(_))) => return Err(Refusal::UpstreamUnreachable),
            Ok(Err(SendFault::Lost(_))) | Err(_) => return Err(Refusal::ReadFailed),
        };
        // Told in the gate's own words, whatever its body is: both would name the upstream's inner address.
        let scope = || headers::challenged_scope(response.headers());
        match (response.status(), self.front.forward_authorization) {
            (StatusCode::UNAUTHORIZED, true) => Err(Refusal::UpstreamUnauthorized { scope: scope() }),
            (StatusCode::FORBIDDEN, true) => Err(Refusal::UpstreamForbidden { scope: scope() }),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, false) => {
                Err(Refusal::ExecutionFailed { detail: None })
            }
            _ => Ok(response),
        }
    }

    /// An answer as it came, if a client can live with it: a JSON-RPC response with any status, or a status by which
    /// servers turn a request away (a lost session's 404, a version's 400). The rest would only break the client.
    fn unguarded(
        status: StatusCode,
        passed: HeaderMap,
        collected: Collected,
    ) -> Result<Response<Body>, Refusal> {
        if collected.reply.is_none() && !status.is_client_error() {
            return Err(Refusal::ReadFailed);
        }
        Ok(with(status, passed, full(collected.bytes)))
    }
}

/// How the answer to a call without a claim comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To its own request; where a time is given its stream must have come to the answer by then.
    Own(Option<Instant>),
    /// On a stream that was asked for again.
    Resumed,
    /// Not at all: the client listens.
    Lasting,
}

impl Way {
    fn until(self) -> Option<Instant> {
        match self {
            Self::Own(until) => until,
            Self::Resumed | Self::Lasting => None,
        }
    }
}

/// Reads to the answer, whatever way it comes.
async fn to_answer(kind: Media, body: Incoming, passing: &Passing) -> Option<Collected> {
    let id = passing.stream.as_ref().map_or(Json::Null, |stream| stream.id.clone());
    if kind != Media::Events {
        return collect(kind, body, &id).await;
    }
    let (mut events, mut first) = (Events::of(body), true);
    loop {
        match passing.met(&events.next().await.ok()??, first) {
            Met::Reply(reply) => return Some(Collected { reply: Some(*reply), bytes: Bytes::new() }),
            Met::Other(message) => first &= message.is_none(),
            Met::Stray => {}
        }
    }
}

/// A body that goes through as it comes.
fn unread(body: Incoming) -> Body {
    body.map_err(AnyError::from).boxed_unsync()
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A response whose member was changed: the upstream's status and headers, our bytes.
fn rewritten(
    status: StatusCode,
    mut passed: HeaderMap,
    member: &str,
    value: Json,
    id: Json,
) -> Response<Body> {
    let (ours, body) = respond(status.as_u16(), &rpc(Some(id), member, value)).into_parts();
    passed.remove(ETAG);
    passed.extend(ours.headers);
    with(status, passed, body)
}
