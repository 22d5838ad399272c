//! Places in a legacy client's event streams.
//!
//! Promises: an event's id is handed out sealed for its actor, with all that the gate must know to go on from there in any
//! pod and after a restart: which request the stream answers, by which operation, and for a claimed call its key and its
//! attempt. What a client sends back as `Last-Event-ID` is taken for nothing else, and the operation is asked about again.
//!
//! Absent on purpose: ids in the modern era, which has none.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName};
use uuid::Uuid;

use crate::domain::actor::Actor;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::key::Key;
use crate::domain::policy::{Arguments, Kind, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::domain::seal::{Handle, Seal};
use crate::layers::forward::edits::Edit;

/// Where a client wants to go on.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What one stream is about.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The id of the request that it answers.
    pub id: Json,
    /// What that request was.
    pub about: About,
}

/// What a request was.
#[derive(Clone, Debug)]
pub enum About {
    /// A claimed call.
    Claimed {
        /// Its rule.
        operation: Arc<Operation>,
        /// Its key.
        key: Key,
        /// The attempt that the stream answers.
        attempt: Uuid,
    },
    /// A call without a claim.
    Read(Arc<Operation>),
    /// A request whose result is changed.
    Edited(Edit),
    /// Housekeeping.
    Other,
}

impl About {
    /// The operation that was called, where it was one.
    pub fn operation(&self) -> Option<&Arc<Operation>> {
        match self {
            Self::Claimed { operation, .. } | Self::Read(operation) => Some(operation),
            Self::Edited(_) | Self::Other => None,
        }
    }
}

/// A place in a stream, as a client gave it back.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The event's own id upstream.
    pub event: String,
    /// What the stream is about; none for one that answers no request.
    pub stream: Option<Stream>,
    /// A rule whose masks hold for a read's result as well as its own operation's.
    pub also: Option<Arc<Operation>>,
}

const CLAIMED: &str = "c";
const TOOL: &str = "t";
const METHOD: &str = "m";
const LIST: &str = "l";
const CAPABILITIES: &str = "i";
const OTHER: &str = "o";

/// The id of an event as its client sees it.
pub fn seal(
    seal: &Seal,
    actor: &Actor,
    event: &str,
    stream: Option<&Stream>,
    also: Option<&Operation>,
) -> String {
    let Some(Stream { id, about }) = stream else {
        return seal.seal(Handle::Event, actor, event, &[]);
    };
    let id = String::from_utf8_lossy(&id.to_bytes()).into_owned();
    let word = |operation: &Operation| match operation.kind() {
        Kind::Tool => TOOL,
        // The others have no streams.
        Kind::Method | Kind::Route | Kind::Job => METHOD,
    };
    match about {
        About::Claimed { operation, key, attempt } => {
            let attempt = attempt.simple().to_string();
            let note = [&id, CLAIMED, word(operation), operation.name(), key.as_str(), &attempt];
            seal.seal(Handle::Event, actor, event, &note)
        }
        About::Read(operation) => {
            let also = also.into_iter().flat_map(|also| [word(also), also.name()]);
            let note = [&id, word(operation), operation.name()].into_iter().chain(also);
            seal.seal(Handle::Event, actor, event, &note.collect::<Vec<_>>())
        }
        About::Edited(Edit::Tools) => seal.seal(Handle::Event, actor, event, &[&id, LIST]),
        About::Edited(Edit::Capabilities) => seal.seal(Handle::Event, actor, event, &[&id, CAPABILITIES]),
        About::Other => seal.seal(Handle::Event, actor, event, &[&id, OTHER]),
    }
}

/// The place that a client wants to go on from; none where it wants to hear what is new.
pub fn open(
    seal: &Seal,
    actor: &Actor,
    headers: &HeaderMap,
    policy: &Policy,
) -> Result<Option<Resumed>, Refusal> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let opened = text.and_then(|text| seal.open(Handle::Event, actor, text)).ok_or(Refusal::NoSuchEvent)?;
    let note: Vec<&str> = opened.note.iter().map(String::as_str).collect();
    let decide = |word: &str, name: &str| -> Result<Arc<Operation>, Refusal> {
        let kind = if word == METHOD { Kind::Method } else { Kind::Tool };
        // Whoever goes on listening brings no arguments; the call did.
        Ok(Arc::clone(policy.admit(actor, kind, name, Arguments::Unasked)?))
    };
    let mut also = None;
    let stream = match note.as_slice() {
        [] => None,
        [id, rest @ ..] => Some(Stream {
            id: Json::parse(id.as_bytes(), MAX_DEPTH).map_err(|_| Refusal::NoSuchEvent)?,
            about: match *rest {
                [CLAIMED, word, name, key, attempt] => About::Claimed {
                    operation: decide(word, name)?,
                    key: Key::parse(key).map_err(|_| Refusal::NoSuchEvent)?,
                    attempt: attempt.parse().map_err(|_| Refusal::NoSuchEvent)?,
                },
                [word @ (TOOL | METHOD), name] => About::Read(decide(word, name)?),
                [word @ (TOOL | METHOD), name, other @ (TOOL | METHOD), other_name] => {
                    also = Some(decide(other, other_name)?);
                    About::Read(decide(word, name)?)
                }
                [LIST] => About::Edited(Edit::Tools),
                [CAPABILITIES] => About::Edited(Edit::Capabilities),
                [OTHER] => About::Other,
                _ => return Err(Refusal::NoSuchEvent),
            },
        }),
    };
    Ok(Some(Resumed { event: opened.raw, stream, also }))
}
