//! Messages on their way to a client, event by event.
//!
//! Promises: what answers the request is what the policy says of it (masked, filtered), whether it comes as JSON or as
//! an event; a response to anything else is no business of this client's and is dropped, and so is what some client may
//! read as a response and the gate does not (a batch, a member named twice); all other messages pass as they came. Ids
//! of events are sealed in the legacy era and left out in the modern one, which has none.
//!
//! Absent on purpose: anything that a claim hangs on (`claimed`).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::stream::unfold;
use http::HeaderMap;
use tokio::time::Instant;
use tracing::warn;

use super::Note;
use super::edits::{Edit, Editor};
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::policy::{Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::resume::{self, Stream};
use crate::layers::words::{Word, Words};
use crate::mcp::errors;
use crate::mcp::events::Events;
use crate::mcp::judge::{Reply, reply_to};
use crate::mcp::message::Era;
use crate::mcp::sse::Event;
use crate::mcp::tasks::outbound::Sealer;
use crate::upstream::headers::{self, Bound};
use crate::wire::render::rpc;

/// What a read's row says of its answer, once its stream is over; none where that came to no answer.
pub type Learned = Arc<OnceLock<Option<Note>>>;

/// How messages pass to one client.
#[derive(Clone)]
pub struct Passing {
    /// Seals ids, and knows for whom.
    pub sealer: Sealer,
    /// By which rules.
    pub era: Era,
    /// What the stream answers; none where it answers nothing.
    pub stream: Option<Stream>,
}

impl std::fmt::Debug for Passing {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Passing").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// What becomes of the answer.
#[derive(Clone, Debug)]
pub enum Last {
    /// It passes.
    AsItIs,
    /// It is masked, and read for its row.
    Read(Arc<Operation>),
    /// It is changed.
    Edited(Edit, Arc<Policy>, Editor),
}

/// What one event is.
pub enum Met {
    /// The answer.
    Reply(Box<Reply>),
    /// A message on the way; none where the event is only an id.
    Other(Option<Json>),
    /// An answer to something else, or what may be one to whoever reads more leniently.
    Stray,
}

impl Passing {
    /// The upstream's response headers as this client sees them.
    pub fn headers(&self, upstream: &HeaderMap) -> HeaderMap {
        let bound = Bound { seal: &self.sealer.seal, actor: &self.sealer.actor };
        headers::passed(upstream, (self.era == Era::Legacy).then_some(bound))
    }

    /// What an event is to this stream. `first`: no message came before it in answer to the request itself.
    pub fn met(&self, event: &Event, first: bool) -> Met {
        let data = event.data.as_deref().unwrap_or_default();
        let json = match Json::parse(data.as_bytes(), MAX_DEPTH) {
            Ok(json @ Json::Object(_)) => json,
            Ok(Json::Array(_)) => return Met::Stray,
            // To some reader it may be a message all the same.
            Err(_) if data.trim_start().starts_with(['{', '[']) => return Met::Stray,
            Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_)) | Err(_) => {
                return Met::Other(None);
            }
        };
        let answers = json.get("result").is_some() || json.get("error").is_some();
        if !answers {
            return Met::Other(Some(json));
        }
        let reply = self.stream.as_ref().and_then(|stream| reply_to(json, &stream.id, first));
        reply.map_or(Met::Stray, |reply| Met::Reply(Box::new(reply)))
    }

    /// An event on the way, with its message, as the client sees it.
    pub fn event(&self, mut event: Event, message: Option<Json>) -> Option<Bytes> {
        if let Some(mut message) = message
            && self.sealer.message(&mut message)
        {
            event.data = Some(String::from_utf8_lossy(&message.to_bytes()).into_owned());
        }
        self.written(event)
    }

    /// The event as the client sees it; nothing where nothing is left of it.
    fn written(&self, event: Event) -> Option<Bytes> {
        let event = match self.era {
            Era::Legacy => {
                let id = event.id.map(|id| self.sealed(&id));
                Event { id, ..event }
            }
            Era::Modern => Event { id: None, retry: None, ..event },
        };
        let left = event.data.is_some() || event.id.is_some() || event.retry.is_some();
        left.then(|| event.encode().into())
    }

    /// The event that gives the answer.
    pub fn answer(&self, id: Option<String>, member: &str, value: Json) -> Option<Bytes> {
        let answers = self.stream.as_ref().map(|stream| stream.id.clone());
        let text = String::from_utf8_lossy(&rpc(answers, member, value).to_bytes()).into_owned();
        self.written(Event { id, ..Event::message(text) })
    }

    /// An id that says nothing stays so: it tells the client to forget the last one.
    fn sealed(&self, id: &str) -> String {
        if id.is_empty() {
            return String::new();
        }
        let Sealer { seal, actor, named, .. } = &self.sealer;
        resume::seal(seal, actor, id, self.stream.as_ref(), named.also.as_deref())
    }

    /// The answer with nothing done to it but what every answer needs.
    pub fn plain(&self, reply: Reply) -> (&'static str, Json) {
        match reply {
            Reply::Error(error) => ("error", Json::Object(error)),
            Reply::Result(mut result) => {
                self.sealer.result(&mut result);
                ("result", Json::Object(result))
            }
        }
    }

    /// Whose masks hold for the answer.
    fn masking<'a>(&'a self, last: &'a Last) -> impl Iterator<Item = &'a Arc<Operation>> {
        let operation = match last {
            Last::Read(operation) => Some(operation),
            Last::AsItIs | Last::Edited(..) => None,
        };
        operation.into_iter().chain(&self.sealer.named.also)
    }

    /// Whether something may stand in the answer that is not to be shown.
    pub fn hides(&self, last: &Last) -> bool {
        self.masking(last).any(|operation| !operation.redactor().has_no_paths())
    }

    /// The answer as this client may see it, and what its row says of it; none where it passes as it came.
    pub fn last(&self, last: &Last, reply: Reply) -> Option<(&'static str, Json, Note)> {
        let mut note = Note::default();
        let mut result = match reply {
            Reply::Error(_) if matches!(last, Last::AsItIs) => return None,
            Reply::Error(error) => {
                let mut error = Json::Object(error);
                for operation in self.masking(last) {
                    operation.redactor().mask_error(&mut error);
                }
                return Some(("error", error, note));
            }
            Reply::Result(result) => result,
        };
        let sealed = self.sealer.result(&mut result);
        match last {
            Last::AsItIs if !sealed => None,
            Last::AsItIs => Some(("result", Json::Object(result), note)),
            Last::Edited(edit, policy, editor) => {
                editor.edit(*edit, &mut result, policy, &self.sealer.actor, self.era == Era::Modern);
                Some(("result", Json::Object(result), note))
            }
            Last::Read(operation) => {
                let mut result = Json::Object(result);
                for operation in self.masking(last) {
                    operation.redactor().mask_result(&mut result);
                }
                let told = self.sealer.told(&result);
                note.summary = operation.summary_of(told);
                note.reason = told
                    .as_object()
                    .and_then(errors::code_of)
                    .and_then(|code| operation.reason_for(&code).map(str::to_owned));
                Some(("result", result, note))
            }
        }
    }
}

/// A stream that passes.
pub struct Flow {
    /// What comes.
    pub events: Events,
    /// How it passes.
    pub passing: Passing,
    /// What becomes of the answer.
    pub last: Last,
    /// What its row learns.
    pub learned: Learned,
    /// The upstream's HTTP status.
    pub status: u16,
    /// When the answer must have come; none where the stream may last.
    pub until: Option<Instant>,
    /// Whether the client may go on elsewhere: an id came, or it did so before.
    pub resumable: bool,
    /// Whether it is there to be listened to, and no answer is owed.
    pub lasts: bool,
    /// Whether it answers the request itself, and no message has come yet.
    pub first: bool,
}

/// Everything that such a stream tells its client.
pub fn words(flow: Flow) -> Words {
    Box::pin(unfold(Some(flow), async |flow| {
        let mut flow = flow?;
        let word = flow.next().await;
        let more = matches!(word, Word::Event(..)) && !flow.is_over();
        Some((word, more.then_some(flow)))
    }))
}

impl Flow {
    fn is_over(&self) -> bool {
        self.learned.get().is_some()
    }

    async fn next(&mut self) -> Word {
        loop {
            let next = match self.until {
                None => self.events.next().await,
                Some(until) => match tokio::time::timeout_at(until, self.events.next()).await {
                    Ok(next) => next,
                    Err(_elapsed) => return self.failed(),
                },
            };
            let Ok(Some(event)) = next else { return self.broken() };
            self.resumable |= event.id.as_ref().is_some_and(|id| !id.is_empty());
            let passed = match self.passing.met(&event, self.first) {
                Met::Other(message) => {
                    self.first &= message.is_none();
                    self.passing.event(event, message)
                }
                Met::Stray => {
                    warn!("The upstream answered what was not asked on this stream; it is dropped.");
                    None
                }
                Met::Reply(reply) if self.is_of_another(&reply) => {
                    warn!("An answer came on a stream of another request with the same id; it is dropped.");
                    None
                }
                Met::Reply(reply) => {
                    let told = self.passing.last(&self.last, *reply);
                    let note = told.as_ref().map(|(_, _, note)| note.clone()).unwrap_or_default();
                    let _once = self.learned.set(Some(Note { status: self.status, ..note }));
                    match told {
                        Some((member, value, _)) => self.passing.answer(event.id, member, value),
                        None => self.passing.written(event),
                    }
                }
            };
            if let Some(bytes) = passed {
                return Word::event(bytes, None);
            }
        }
    }

    /// Whether a stream that was asked for again brings what its own request cannot be answered with, but a tool or a
    /// resource can: some servers know a stream by its request's id alone, and a client may have used that twice. It would
    /// pass without its own rule's masks.
    fn is_of_another(&self, reply: &Reply) -> bool {
        let asked_again = !self.first && self.until.is_none() && !self.lasts;
        let Reply::Result(result) = reply else { return false };
        let guarded = ["content", "structuredContent", "contents"].iter().any(|name| result.contains(name));
        asked_again && guarded && !matches!(self.last, Last::Read(_))
    }

    /// A stream that ended before its answer. Some clients would wait for it until they time out.
    fn broken(&self) -> Word {
        let elsewhere = self.resumable && self.passing.era == Era::Legacy;
        if self.lasts || elsewhere { Word::Elsewhere } else { self.failed() }
    }

    fn failed(&self) -> Word {
        let _once = self.learned.set(None);
        Word::End(Box::new(Err(Refusal::ReadFailed)))
    }
}
