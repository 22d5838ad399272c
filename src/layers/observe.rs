//! The outermost step: a call gets its notes and its trace.
//!
//! Promises: whatever comes in leaves one log line. What the notes hold (a place among the concurrent calls) they hold as
//! long as the call runs, its claimed work included.
//!
//! Absent on purpose: answers, and the place itself, which is found once it is known who calls ([`super::queue`]).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use tower::Service;
use tracing::{Instrument as _, info, info_span};
use uuid::Uuid;

use super::queue::room::Room;
use super::{Asked, Step};
use crate::domain::actor::Actor;
use crate::meter::Meter;
use crate::wire::envelope::Body;

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
    /// The gate's `service`.
    pub service: Arc<str>,
}

/// W3C trace context.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The `traceparent` to pass on.
    pub parent: String,
    /// Its trace id, 32 hexadecimal digits.
    pub id: String,
}

impl Trace {
    /// The caller's context; a new one where it sent none, or none that is well-formed.
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
        given.and_then(Self::parse).unwrap_or_else(Self::new)
    }

    fn parse(parent: &str) -> Option<Self> {
        let mut parts = parent.split('-');
        let (version, id, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, len: usize| {
            text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_some_id = |text: &str| text.bytes().any(|byte| byte != b'0');
        let whole = version == "00" && parts.next().is_none();
        let good = whole
            && is_hex(id, 32)
            && is_hex(span, 16)
            && is_hex(flags, 2)
            && is_some_id(id)
            && is_some_id(span);
        good.then(|| Self { parent: parent.to_owned(), id: id.to_owned() })
    }

    fn new() -> Self {
        let id = Uuid::new_v4().simple().to_string();
        let span = Uuid::new_v4().simple().to_string();
        let span = span.get(..16).unwrap_or_default();
        Self { parent: format!("00-{id}-{span}-01"), id }
    }
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
        let trace = Trace::of(request.headers());
        let span = info_span!("call", trace_id = %trace.id);
        let asked = Asked::begin(peer, trace, &self.post);
        let method = request.method().clone();
        let answering = self.inner.call(Observed { asked: asked.clone(), request });
        let observed = async move {
            let response = answering.await?;
            asked.answered();
            let facts = asked.facts();
            info!(
                %method,
                status = response.status().as_u16(),
                tool = facts.map(|facts| facts.tool.as_str()),
                tenant = asked.actor().map(Actor::tenant),
                ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX),
                "Answered."
            );
            Ok(response)
        };
        Box::pin(observed.instrument(span))
    }
}
