//! The step that turns bytes into one checked message.
//!
//! Promises: a [`Parsed`] is one JSON-RPC message to the MCP endpoint, read once, bounded, agreeing with the headers
//! that mirror it, or one plain request that a route matches. What is decided and forwarded later is this value, never
//! the bytes.
//!
//! Absent on purpose: other HTTP methods at the MCP endpoint; they are refused. GET and DELETE, which belong to legacy
//! sessions, bring no message.

pub(super) mod plain;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, Entry, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body::Body;
use tower::Service;

use super::body::{BodyFault, forget, read_body};
use super::caller::Caller;
use super::plain::Matched;
use super::queue::Placed;
use super::subject::Subject;
use super::{Answer, Asked, Step};
use crate::auth::Verified;
use crate::domain::policy::{Kind, Policy, is_housekeeping};
use crate::domain::refusal::Refusal;
use crate::mcp::headers;
use crate::mcp::message::{self, Era, Message};
use crate::mcp::tasks::Named;
use crate::upstream::headers::IDEMPOTENCY_KEY;
use crate::wire::envelope::Envelope;

/// What every parsed message carries along.
#[derive(Debug)]
pub struct Head {
    /// The call's notes.
    pub asked: Asked,
    /// Who asks.
    pub caller: Caller,
    /// The client's headers, as they came.
    pub headers: HeaderMap,
    /// The rules that the message follows.
    pub era: Era,
    /// The tasks that it names, once they were opened.
    pub tasks: Named,
    /// Whether the client's own key header goes on, since its operation is only observed.
    pub keeps_key: bool,
    /// What its rule is asked about.
    pub(super) subject: Subject,
}

impl Head {
    /// What a call carries along that stands inside another one: all but what is said of the outer call alone.
    pub(super) fn inside(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.remove(IDEMPOTENCY_KEY);
        let (asked, caller, tasks) = (self.asked.inside(), self.caller.clone(), Named::default());
        Self { asked, caller, headers, era: self.era, tasks, keeps_key: false, subject: Subject::default() }
    }
}

/// One checked message.
#[derive(Debug)]
pub struct Parsed {
    head: Head,
    what: What,
}

/// What a message is to the gate.
#[derive(Debug)]
pub(super) enum What {
    /// A tool, or a method that the policy must name.
    Call {
        /// The message.
        request: message::Request,
        /// A tool or a method.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// Housekeeping, which passes for every actor.
    Passage(Message),
    /// A legacy client wants to hear what its session has to say.
    Listen,
    /// A legacy client ends its session.
    Leave,
    /// A plain request, which a route of the policy matches.
    Plain(Box<Matched>),
}

impl Parsed {
    /// The message that these bytes are.
    pub(super) fn read(
        asked: Asked,
        caller: Caller,
        headers: HeaderMap,
        target: &Uri,
        bytes: &Bytes,
    ) -> Result<Self, Refusal> {
        let message = Message::parse(bytes).inspect_err(|_| asked.learn_id(bytes))?;
        let era = address(&asked, &message, &headers)?;
        let headers = with_host(headers, target);
        let (tasks, subject) = (Named::default(), Subject::default());
        let head = Head { asked, caller, headers, era, tasks, keeps_key: false, subject };
        Ok(Self { head, what: what(message)? })
    }

    /// The call's notes.
    pub(super) fn asked(&self) -> &Asked {
        &self.head.asked
    }

    /// What it carries along, and what it is.
    pub(super) fn into_parts(self) -> (Head, What) {
        (self.head, self.what)
    }
}

/// The step.
#[derive(Clone)]
pub struct Parse<S> {
    inner: S,
    bounds: Arc<Bounds>,
}

/// What is read, and how much of it.
#[derive(Clone)]
pub struct Bounds {
    /// The path of the MCP endpoint; none where there is no such endpoint.
    pub mcp_path: Option<String>,
    /// The largest body, in bytes.
    pub request_body: u64,
    /// How long a client may take to send it: it holds a place meanwhile.
    pub body_time: Duration,
    /// The policy in force: its routes say what a plain request is, and how much of it must be read.
    pub policy: Arc<ArcSwap<Policy>>,
}

impl<S> Parse<S> {
    /// Before `inner`.
    pub fn new(inner: S, bounds: Arc<Bounds>) -> Self {
        Self { inner, bounds }
    }
}

impl<S, B> Service<Placed<B>> for Parse<S>
where
    S: Service<Parsed, Response = Answer, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, placed: Placed<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let bounds = Arc::clone(&self.bounds);
        Box::pin(async move {
            let (asked, verified, request, waited) = placed.into_parts();
            let step = asked.span().step("parse");
            let parsed = bounds.parse(asked, verified, request).await?;
            drop(step);
            if waited {
                // Its connection looks now whether the client is still there, and drops what nobody wants any more.
                tokio::task::yield_now().await;
            }
            inner.call(parsed).await
        })
    }
}

impl Bounds {
    /// Whether this is the MCP endpoint.
    pub(super) fn is_endpoint(&self, target: &Uri) -> bool {
        self.mcp_path.as_deref() == Some(target.path()) && target.query().is_none()
    }

    /// A body that is read whole, within its bounds.
    async fn whole<B>(&self, body: B) -> Result<Bytes, Refusal>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let reading = read_body(body, self.request_body);
        match tokio::time::timeout(self.body_time, reading).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(BodyFault::TooLarge)) => Err(Refusal::BodyTooLarge { limit: self.request_body }),
            Ok(Err(BodyFault::Cut)) | Err(_) => Err(Refusal::BodyCut),
        }
    }

    /// What a head asks of a session; nothing where a message follows.
    fn wants(parts: &Parts) -> Result<Option<What>, Refusal> {
        match parts.method {
            Method::POST => check_media(&parts.headers).map(|()| None),
            Method::GET => Ok(Some(What::Listen)),
            Method::DELETE => Ok(Some(What::Leave)),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST, DELETE".to_owned() }),
        }
    }

    /// Whether there is anything here that this method is for.
    pub(super) fn serves(method: &Method) -> Result<(), Refusal> {
        match *method {
            Method::GET | Method::POST | Method::DELETE => Ok(()),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST, DELETE".to_owned() }),
        }
    }

    async fn parse<B>(&self, asked: Asked, verified: Verified, request: Request<B>) -> Result<Parsed, Refusal>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let (parts, body) = request.into_parts();
        if !self.is_endpoint(&parts.uri) {
            // On the heap: messages do not carry its state along.
            return Box::pin(self.parse_plain(asked, verified, parts, body)).await;
        }
        let sessions = match Self::wants(&parts) {
            Ok(sessions) => sessions,
            Err(refusal) => {
                forget(body).await;
                return Err(refusal);
            }
        };
        if let Some(what) = sessions {
            let headers = with_host(parts.headers, &parts.uri);
            let (caller, era) = (Caller::Verified(verified), Era::Legacy);
            let tasks = Named::default();
            let subject = Subject::default();
            let head = Head { asked, caller, headers, era, tasks, keeps_key: false, subject };
            return Ok(Parsed { head, what });
        }
        let bytes = self.whole(body).await?;
        let caller = Caller::Verified(verified);
        let parsed = Parsed::read(asked, caller, parts.headers, &parts.uri, &bytes)?;
        if matches!(parsed.what, What::Call { .. }) && headers::takes_events(&parsed.head.headers) {
            parsed.head.asked.let_speak();
        }
        Ok(parsed)
    }
}

/// Notes how to address the answer, then holds the headers against the body.
fn address(asked: &Asked, message: &Message, headers: &HeaderMap) -> Result<Era, Refusal> {
    let (Message::Request(request) | Message::Notification(request)) = message else {
        return Ok(Era::Legacy);
    };
    let version = headers.get(headers::VERSION).and_then(|value| value.to_str().ok());
    asked.is_message(request, request.version().or(version));
    let agreed = headers::agree(request, headers);
    let era = *agreed.as_ref().unwrap_or(&Era::Modern);
    let is_tool_call = request.method == "tools/call";
    asked.learn_envelope(Envelope { id: request.id.clone(), era, is_tool_call });
    agreed
}

fn what(message: Message) -> Result<What, Refusal> {
    match message {
        // A lenient backend would take it for the notification.
        Message::Request(request) if request.method.starts_with("notifications/") => {
            Err(Refusal::NotOneMessage { detail: "a notification has no \"id\"".to_owned() })
        }
        Message::Request(request) if is_housekeeping(&request.method) => {
            Ok(What::Passage(Message::Request(request)))
        }
        Message::Request(request) if request.method == "tools/call" => {
            let name = request.subject().map(str::to_owned);
            let name = name.filter(|name| !name.is_empty()).ok_or_else(|| Refusal::NotOneMessage {
                detail: "tools/call needs \"params.name\", a string".to_owned(),
            })?;
            if request
                .params()
                .and_then(|params| params.get("arguments"))
                .is_some_and(|it| it.as_object().is_none())
            {
                let detail = "\"params.arguments\" must be an object".to_owned();
                return Err(Refusal::NotOneMessage { detail });
            }
            Ok(What::Call { request, kind: Kind::Tool, name })
        }
        Message::Request(request) => {
            let name = request.method.clone();
            Ok(What::Call { request, kind: Kind::Method, name })
        }
        // Only real notifications pass without a policy: a method that acts must ask for its answer.
        Message::Notification(request) if request.method.starts_with("notifications/") => {
            Ok(What::Passage(Message::Notification(request)))
        }
        Message::Notification(request) => {
            Err(Refusal::NotOneMessage { detail: format!("{} needs an \"id\"", short(&request.method)) })
        }
        Message::Response(body) => Ok(What::Passage(Message::Response(body))),
    }
}

fn short(method: &str) -> String {
    method.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

/// The headers with the host that the client asked for: HTTP/2 carries it in the target alone.
pub(super) fn with_host(mut headers: HeaderMap, target: &Uri) -> HeaderMap {
    let host = target.authority().and_then(|host| HeaderValue::try_from(host.as_str()).ok());
    if let (Entry::Vacant(vacant), Some(host)) = (headers.entry(HOST), host) {
        vacant.insert(host);
    }
    headers
}

pub(super) fn check_media(headers: &HeaderMap) -> Result<(), Refusal> {
    let refuse = |detail: &str| Err(Refusal::UnsupportedMedia { detail: detail.to_owned() });
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") || headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return refuse("its Content-Type must be application/json");
    }
    let charset = text.to_ascii_lowercase();
    if charset.contains("charset") && !charset.contains("utf-8") && !charset.contains("utf8") {
        return refuse("it must be UTF-8");
    }
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return refuse("its Content-Encoding must be identity");
    }
    Ok(())
}
