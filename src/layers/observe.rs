//! The outermost step: a call gets its notes and its trace.
//!
//! Promises: whatever comes in leaves one log line, when it is over. What the notes hold (a place among the concurrent calls) they hold as
//! long as the call runs, its claimed work included.
//!
//! Absent on purpose: answers, and the place itself, which is found once it is known who calls ([`super::queue`]).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Response, Version};
use tower::Service;
use tracing::{Instrument as _, info_span};
use uuid::Uuid;

use super::queue::room::Room;
use super::{Asked, Step};
use crate::domain::json::Json;
use crate::mcp::message;
use crate::meter::Meter;
use crate::traces::{Kind, Remote, Span, Tracer};
use crate::wire::envelope::Body;

/// The name of a trace's context, in headers and in messages.
pub(super) const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The address that a connection came from; the server puts it on each request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Where calls are observed from: what they are counted by, and where they find their places.
#[derive(Clone, Debug)]
pub struct Post {
    /// Room for concurrent calls.
    pub room: Room,
    /// What is counted.
    pub meter: Arc<Meter>,
    /// Makes spans, where traces are told.
    pub tracer: Tracer,
    /// The gate's `service`.
    pub service: Arc<str>,
}

/// W3C trace context.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The `traceparent` to pass on.
    pub parent: String,
    /// Its trace id, 32 hexadecimal digits.
    pub id: String,
    /// The gate's own span in it, where traces are told.
    pub span: Span,
}

impl Trace {
    /// Of a request: its caller's, with a span of the gate's own where traces are told; a new one where the caller sent
    /// none, or none that is well-formed.
    pub fn of(headers: &HeaderMap, tracer: &Tracer, name: &'static str) -> Self {
        let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let given = said(TRACEPARENT).and_then(|parent| remote(parent, said(TRACESTATE)));
        let span = tracer.request(name, given);
        match (span.ids(), given) {
            (Some((parent, id)), _) => Self { parent, id, span },
            (None, Some(given)) => Self::given(said(TRACEPARENT).unwrap_or_default(), given),
            (None, None) => Self::new(),
        }
    }

    /// Of a message, where that brings one of its own: it is the message's sender's, whatever carried it.
    pub(super) fn of_message(&self, message: &message::Request) -> Option<Self> {
        let said = |name: &str| message.meta(name).and_then(Json::as_str);
        let (parent, state) = (said(TRACEPARENT)?, said(TRACESTATE));
        let given = remote(parent, state)?;
        let span = self.span.message("message", given);
        Some(match span.ids() {
            Some((parent, id)) => Self { parent, id, span },
            None => Self::given(parent, given),
        })
    }

    /// Of a call inside.
    pub(super) fn inside(&self) -> Self {
        let span = self.span.under("call", Kind::Internal);
        Self { span, ..self.clone() }
    }

    fn given(parent: &str, given: Remote<'_>) -> Self {
        Self { parent: parent.to_owned(), id: given.trace_id.to_owned(), span: Span::default() }
    }

    fn new() -> Self {
        let id = Uuid::new_v4().simple().to_string();
        let span = Uuid::new_v4().simple().to_string();
        let span = span.get(..16).unwrap_or_default();
        Self { parent: format!("00-{id}-{span}-01"), id, span: Span::default() }
    }
}

/// The span that a `traceparent` names.
fn remote<'a>(parent: &'a str, state: Option<&'a str>) -> Option<Remote<'a>> {
    let mut parts = parent.split('-');
    let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some_id = |text: &str| text.bytes().any(|byte| byte != b'0');
    let whole = version == "00" && parts.next().is_none();
    let good = whole
        && is_hex(trace_id, 32)
        && is_hex(span_id, 16)
        && is_hex(flags, 2)
        && is_some_id(trace_id)
        && is_some_id(span_id);
    let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
    good.then_some(Remote { trace_id, span_id, sampled, state })
}

/// A request that has its notes.
#[derive(Debug)]
pub struct Observed<B> {
    asked: Asked,
    request: Request<B>,
}

impl<B> Observed<B> {
    /// The call's notes.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The request.
    pub(super) fn request(&self) -> &Request<B> {
        &self.request
    }

    /// The notes and the request.
    pub(super) fn into_parts(self) -> (Asked, Request<B>) {
        (self.asked, self.request)
    }
}

/// The step.
#[derive(Clone, Debug)]
pub struct Observe<S> {
    inner: S,
    post: Post,
}

impl<S> Observe<S> {
    /// Around `inner`, from this post.
    pub fn new(inner: S, post: Post) -> Self {
        Self { inner, post }
    }
}

impl<S, B> Service<Request<B>> for Observe<S>
where
    S: Service<Observed<B>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Step<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // No Debug of a request shows its token.
        for (name, value) in request.headers_mut() {
            value.set_sensitive(*name == AUTHORIZATION);
        }
        let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        let trace = Trace::of(request.headers(), &self.post.tracer, name(request.method()));
        describe(&trace.span, &request, &self.post.service);
        let span = info_span!("call", trace_id = %trace.id);
        let asked = Asked::begin(peer, request.method().clone(), trace, &self.post);
        let answering = self.inner.call(Observed { asked: asked.clone(), request });
        let observed = async move {
            let response = answering.await?;
            asked.answered(Some(response.status().as_u16()));
            Ok(response)
        };
        Box::pin(observed.instrument(span))
    }
}

/// The name of a request's span until more is known of it: methods come from outside.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "HTTP",
    }
}

/// What a request's head says of it that is no secret, and nobody's own.
fn describe<B>(span: &Span, request: &Request<B>, service: &str) {
    if !span.is_recording() {
        return;
    }
    span.set("http.request.method", name(request.method()));
    span.set("network.transport", "tcp");
    span.set("network.protocol.name", "http");
    span.set("network.protocol.version", if request.version() == Version::HTTP_2 { "2" } else { "1.1" });
    span.set_text("oncegate.service", service);
}
