//! The step of a gate that observes: it stands where one that enforces asks for the address and the token, parses, and
//! authorizes.
//!
//! Promises: it decides what those steps would have decided, by the same functions and in their order, and lets every
//! request go on as it came: other paths, other methods and bodies that are no message too. Whoever has no good token is
//! nobody ([`Actor::anonymous`]).

mod peek;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tower::Service;

use self::peek::{Peeked, peek};
use super::authorize::{Allowed, Court};
use super::caller::Caller;
use super::observe::Observed;
use super::parse::plain::Found;
use super::parse::{Bounds, Head, Parsed, What, check_media, with_host};
use super::plain::{Matched, MatchedBody};
use super::subject::Subject;
use super::watched::{Raw, Watched, Would};
use super::{Answer, Asked, Step};
use super::{address, session};
use crate::auth::{AuthFault, Verifier, bearer};
use crate::domain::actor::Actor;
use crate::domain::policy::Kind;
use crate::domain::refusal::Refusal;
use crate::domain::site::Sites;
use crate::http::content::Content;
use crate::http::reading::Reading;
use crate::mcp::message::{Era, Message};
use crate::mcp::tasks::Named;
use crate::upstream::{AnyError, Source};

/// How long the keys that tokens are checked with may keep a caller waiting.
const KEYS_TIME: Duration = Duration::from_secs(1);

/// The step.
#[derive(Clone)]
pub struct Watch<S> {
    inner: S,
    eye: Arc<Eye>,
}

/// What looking needs.
pub struct Eye {
    /// Where the gate may be called, and from where.
    pub sites: Arc<Sites>,
    /// Knows actors.
    pub verifier: Arc<Verifier>,
    /// What is read.
    pub bounds: Arc<Bounds>,
    /// Decides by the policy.
    pub court: Arc<Court>,
}

impl<S> Watch<S> {
    /// Before `inner`.
    pub fn new(inner: S, eye: Arc<Eye>) -> Self {
        Self { inner, eye }
    }
}

impl<S> Service<Observed<Incoming>> for Watch<S>
where
    S: Service<Allowed, Response = Answer, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, observed: Observed<Incoming>) -> Self::Future {
        let mut inner = self.inner.clone();
        let eye = Arc::clone(&self.eye);
        Box::pin(async move {
            let allowed = eye.look(observed).await?;
            inner.call(allowed).await
        })
    }
}

impl Eye {
    async fn look(&self, observed: Observed<Incoming>) -> Result<Allowed, Refusal> {
        let (asked, request) = observed.into_parts();
        // Whatever row there is to be is written further in.
        asked.mark_audited();
        let foreign = address::check(&self.sites, request.uri(), request.headers()).err();
        let (caller, stranger) = self.caller(&request).await;
        let outside = foreign.or(stranger);
        asked.learn_actor(caller.actor().clone());
        let has_room = asked.take_room_if_any();
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().cloned();
        // A tunnel has no path, and cannot be forwarded.
        let target = target.filter(|_| parts.method != Method::CONNECT).ok_or(Refusal::NoSuchEndpoint)?;
        let found = (!self.bounds.is_endpoint(&parts.uri)).then(|| self.bounds.find(&asked, &parts));
        let mut headers = with_host(parts.headers, &parts.uri);
        // Clients of a gate that enforced a moment ago go on where they were.
        session::open_where_sealed(&mut headers, &self.court.seal, caller.actor());
        let mut sight = Sight { asked, caller, outside, method: parts.method, target, headers };
        if let Some(found) = found {
            return Ok(self.look_at_plain(sight, found, body, has_room).await);
        }
        if sight.method != Method::POST {
            let would = match Bounds::serves(&sight.method) {
                Err(refusal) => {
                    let name = format!("{} {}", sight.method, parts.uri.path());
                    sight.asked.learn_wanted(Kind::Method, &name);
                    sight.refused(refusal)
                }
                Ok(()) => sight.outside.take().map_or(Would::Pass, Would::Refuse),
            };
            return Ok(sight.allowed(None, would, body.map_err(AnyError::from).boxed_unsync()));
        }
        if let Err(refusal) = check_media(&sight.headers) {
            let would = sight.refused(refusal);
            return Ok(sight.allowed(None, would, body.map_err(AnyError::from).boxed_unsync()));
        }
        let Peeked { read, body } = peek(body, self.bounds.request_body, self.bounds.body_time).await;
        let parsed = read.and_then(|bytes| {
            let (asked, caller) = (sight.asked.clone(), sight.caller.clone());
            let parsed = Parsed::read(asked, caller, sight.headers.clone(), &parts.uri, &bytes)?;
            if has_room { Ok(parsed) } else { Err(Refusal::Overloaded) }
        });
        Ok(match parsed {
            Ok(parsed) => {
                let (mut head, what) = parsed.into_parts();
                learn_name(&sight.asked, &what);
                let would = self.court.would(&mut head, what);
                let would = sight.outside.take().map_or(would, Would::Refuse);
                sight.allowed(Some(head), would, body)
            }
            Err(refusal) => {
                let would = sight.refused(refusal);
                sight.allowed(None, would, body)
            }
        })
    }

    /// A plain request: read as far as deciding about it needs.
    async fn look_at_plain(
        &self,
        mut sight: Sight,
        found: Result<Found, Refusal>,
        body: Incoming,
        has_room: bool,
    ) -> Allowed {
        let found = found.and_then(|found| if has_room { Ok(found) } else { Err(Refusal::Overloaded) });
        let unread = |body: Incoming| body.map_err(AnyError::from).boxed_unsync();
        let (decided, body) = match found {
            Err(refusal) => (Err(refusal), unread(body)),
            Ok(found) if found.reading != Reading::Whole => (Ok((found, Content::default())), unread(body)),
            Ok(found) => {
                let Peeked { read, body } = peek(body, self.bounds.request_body, self.bounds.body_time).await;
                let content = read.and_then(|bytes| Content::read(&sight.headers, bytes));
                (content.map(|content| (found, content)), body)
            }
        };
        match decided {
            Err(refusal) => {
                let would = sight.refused(refusal);
                sight.allowed(None, would, body)
            }
            Ok((found, content)) => {
                let Found { policy, operation, parameters, target, .. } = found;
                let (method, body_read) = (sight.method.clone(), MatchedBody::Whole(content));
                let matched = Matched { policy, operation, parameters, method, target, body: body_read };
                let mut head = sight.head();
                head.headers = sight.headers.clone();
                let would = self.court.would(&mut head, What::Plain(Box::new(matched)));
                let would = sight.outside.take().map_or(would, Would::Refuse);
                sight.allowed(Some(head), would, body)
            }
        }
    }

    /// Who calls; and where that is nobody, what a gate that enforces would have said.
    async fn caller(&self, request: &Request<Incoming>) -> (Caller, Option<Refusal>) {
        let verified = match bearer(request.headers()) {
            Ok(token) => tokio::time::timeout(KEYS_TIME, self.verifier.verify(token))
                .await
                .unwrap_or(Err(AuthFault::KeysUnavailable)),
            Err(fault) => Err(fault),
        };
        match verified {
            Ok(verified) => (Caller::Verified(verified), None),
            Err(fault) => (Caller::Anonymous(Actor::anonymous()), Some(fault.into())),
        }
    }
}

/// What is known of a request while it is looked at.
struct Sight {
    asked: Asked,
    caller: Caller,
    /// What a gate that enforces would have said before it read the body.
    outside: Option<Refusal>,
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
}

impl Sight {
    /// What would have been refused, for the first reason that there was.
    fn refused(&mut self, refusal: Refusal) -> Would {
        Would::Refuse(self.outside.take().unwrap_or(refusal))
    }

    fn head(&self) -> Head {
        Head {
            asked: self.asked.clone(),
            caller: self.caller.clone(),
            headers: HeaderMap::new(),
            era: Era::Legacy,
            tasks: Named::default(),
            keeps_key: false,
            subject: Subject::default(),
        }
    }

    fn allowed(self, head: Option<Head>, would: Would, body: Source) -> Allowed {
        let head = head.unwrap_or_else(|| self.head());
        let Self { method, target, headers, .. } = self;
        Allowed::watched(head, Watched { raw: Raw { method, target, headers, body }, would })
    }
}

/// Notes what a message is about, so that the row of one that names no operation says it too.
fn learn_name(asked: &Asked, what: &What) {
    match what {
        What::Call { kind, name, .. } => asked.learn_wanted(*kind, name),
        What::Passage(Message::Request(request) | Message::Notification(request)) => {
            asked.learn_wanted(Kind::Method, &request.method);
        }
        What::Passage(Message::Response(_)) | What::Listen | What::Leave | What::Plain(_) => {}
    }
}
