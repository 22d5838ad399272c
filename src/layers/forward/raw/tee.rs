//! Somebody who listens to an answer that passes.
//!
//! Promises: the client gets every byte as it comes, and no byte waits for the listener. The listener is told once: as
//! soon as the call's own response was heard, or at the answer's end. Its memory is bounded; an answer that is larger,
//! compressed, or no JSON proves what its status proves.
//!
//! Where the client goes first and the listener is to hear the end all the same, reading goes on in a task of its own
//! until then, or until its time is over.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::response::Parts;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::super::Forwarded;
use super::super::plain::Heard as Answered;
use crate::domain::answer::Kind;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::policy::Answers;
use crate::mcp::collect::{Media, media};
use crate::mcp::judge::{Reply, Verdict, judge, reply_to};
use crate::mcp::sse;
use crate::upstream::headers;
use crate::wire::envelope::{AnyError, Body};

/// Hears what came of a call. Dropped unheard, it means that nobody will know.
pub type Tell = Box<dyn FnOnce(Forwarded) + Send>;

/// A listener that waits for an answer.
pub struct Ear {
    /// What it listens for.
    pub hears: Hears,
    /// How much of the answer may be kept in mind, in bytes.
    pub limit: usize,
    /// Hears it.
    pub tell: Tell,
    /// Where, and for how long, reading goes on when the client has gone.
    pub goes_on: Option<(TaskTracker, Instant)>,
}

/// What an answer is listened to for.
#[derive(Debug)]
pub enum Hears {
    /// The response to a message.
    Message {
        /// The call's id.
        id: Json,
        /// Whether a tool error means that it did not run.
        release: bool,
    },
    /// The whole of a plain answer, which by its status says what this makes of it.
    Plain(Answers),
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Ear").field("hears", &self.hears).finish_non_exhaustive()
    }
}

impl Ear {
    /// Says at once what came.
    pub(super) fn tell(self, came: Forwarded) {
        (self.tell)(came);
    }

    /// The body, listened to.
    pub(super) fn listen(self, parts: &Parts, body: Incoming) -> Body {
        let status = parts.status.as_u16();
        let heard = match (&self.hears, media(&parts.headers)) {
            (Hears::Plain(_), _) => Heard::Plain(Some(BytesMut::new())),
            (Hears::Message { .. }, Media::Json) => Heard::Json(BytesMut::new()),
            (Hears::Message { .. }, Media::Events) => Heard::Events(sse::Decoder::new(self.limit)),
            (Hears::Message { .. }, Media::Other) => Heard::Nothing,
        };
        let headers = headers::detached(&headers::passed(&parts.headers, None));
        let listening = Listening { ear: self, heard, begun: false, status, headers };
        let mut tee = Tee { body: Some(body), listening: Some(listening) };
        tee.look_for_end();
        tee.boxed_unsync()
    }
}

/// What was heard so far.
enum Heard {
    /// All of it; none where it was too much.
    Plain(Option<BytesMut>),
    Json(BytesMut),
    Events(sse::Decoder),
    Nothing,
}

struct Listening {
    ear: Ear,
    heard: Heard,
    /// Whether other messages came before the response.
    begun: bool,
    status: u16,
    headers: HeaderMap,
}

impl Listening {
    /// The response, if this was the last of it.
    fn hear(&mut self, data: &Bytes) -> Option<Reply> {
        match &mut self.heard {
            Heard::Nothing => None,
            Heard::Plain(bytes) => {
                *bytes = bytes.take().filter(|bytes| bytes.len() + data.len() <= self.ear.limit);
                if let Some(bytes) = bytes {
                    bytes.extend_from_slice(data);
                }
                None
            }
            Heard::Json(bytes) if bytes.len() + data.len() > self.ear.limit => {
                self.heard = Heard::Nothing;
                None
            }
            Heard::Json(bytes) => {
                bytes.extend_from_slice(data);
                None
            }
            Heard::Events(decoder) => {
                let Ok(events) = decoder.feed(data) else {
                    self.heard = Heard::Nothing;
                    return None;
                };
                let data = events.iter().filter_map(|event| event.data.as_deref());
                let messages = data.map(|data| Json::parse(data.as_bytes(), MAX_DEPTH));
                let Hears::Message { id, .. } = &self.ear.hears else { return None };
                for message in messages.filter_map(Result::ok) {
                    let reply = reply_to(message, id, !self.begun);
                    if reply.is_some() {
                        return reply;
                    }
                    self.begun = true;
                }
                None
            }
        }
    }

    /// The answer has ended. `whole` says that it came to its own end.
    fn end(self, whole: bool) {
        let reply = match (&self.heard, &self.ear.hears) {
            (Heard::Json(bytes), Hears::Message { id, .. }) if whole => {
                let json = Json::parse(bytes, MAX_DEPTH).ok();
                json.and_then(|json| reply_to(json, id, true))
            }
            (Heard::Plain(_) | Heard::Json(_) | Heard::Events(_) | Heard::Nothing, _) => None,
        };
        self.tell(reply, whole);
    }

    fn tell(self, reply: Option<Reply>, whole: bool) {
        let Self { ear, heard, begun, status, headers } = self;
        let verdict = match &ear.hears {
            Hears::Plain(answers) if whole => {
                let meaning = answers.of(status);
                let Heard::Plain(body) = heard else {
                    return ear.tell(Forwarded::Lost { status: Some(status) });
                };
                let body = body.map(BytesMut::freeze);
                return ear.tell(Forwarded::Plain(Box::new(Answered { status, meaning, headers, body })));
            }
            Hears::Message { release, .. } if whole => judge(status, reply, begun, *release),
            Hears::Plain(_) | Hears::Message { .. } => Verdict::Unknown,
        };
        let headers = headers::kept(&headers, Kind::Result);
        ear.tell(match verdict {
            Verdict::Unknown => Forwarded::Lost { status: Some(status) },
            Verdict::Answered { .. } | Verdict::AwaitingInput(_) | Verdict::NotRun { .. } => {
                // The client hears the challenge itself.
                Forwarded::Judged { status, headers, challenged: None, verdict }
            }
        });
    }
}

/// The body that the client gets.
struct Tee {
    body: Option<Incoming>,
    listening: Option<Listening>,
}

impl Tee {
    /// Whoever reads a body of known length may stop before it is told of its end.
    fn look_for_end(&mut self) {
        if self.body.as_ref().is_some_and(Incoming::is_end_stream) {
            self.end(true);
        }
    }

    fn end(&mut self, whole: bool) {
        if let Some(listening) = self.listening.take() {
            listening.end(whole);
        }
    }

    fn hear(&mut self, frame: &Frame<Bytes>) {
        let heard = frame.data_ref().and_then(|data| self.listening.as_mut()?.hear(data));
        if heard.is_some()
            && let Some(listening) = self.listening.take()
        {
            listening.tell(heard, true);
        }
        self.look_for_end();
    }
}

impl HttpBody for Tee {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let Poll::Ready(next) = Pin::new(body).poll_frame(cx) else { return Poll::Pending };
        match &next {
            Some(Ok(frame)) => self.hear(frame),
            Some(Err(_)) => self.end(false),
            None => self.end(true),
        }
        Poll::Ready(next.map(|frame| frame.map_err(AnyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        // Once: what is dropped in the task is dropped for good.
        let goes_on = self.listening.as_mut().and_then(|listening| listening.ear.goes_on.take());
        let Some((tasks, until)) = goes_on else { return };
        let mut rest = Tee { body: self.body.take(), listening: self.listening.take() };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let reading = async move {
                while rest.listening.is_some() {
                    if !matches!(timeout_at(until, rest.frame()).await, Ok(Some(Ok(_)))) {
                        break;
                    }
                }
                rest.end(false);
            };
            tasks.spawn_on(reading, &runtime);
        }
    }
}
