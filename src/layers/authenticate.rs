//! The step that turns a bearer token into an actor.
//!
//! Promises: [`Authenticated`] exists only for a request whose token was verified; the actor comes from the token and
//! from nowhere else. A request that is refused here is read as far as its id, bounded, so that its answer bears it.
//!
//! Absent on purpose: trust in headers. What a client says of itself is dropped before anything is forwarded.

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Body;
use tower::Service;

use super::address::Addressed;
use super::body::{BodyFault, read_body};
use super::{Answer, Asked, Step};
use crate::auth::{AuthFault, Verified, Verifier, bearer};
use crate::domain::policy::Kind;
use crate::domain::refusal::Refusal;
use crate::mcp::message::{Era, Message};
use crate::wire::envelope::Envelope;

/// How much of an unauthenticated body is read, in bytes.
const PEEK_BYTES: u64 = 64 * 1024;

/// How long is waited for it.
const PEEK_TIME: Duration = Duration::from_secs(2);

/// A request of a verified actor.
#[derive(Debug)]
pub struct Authenticated<B> {
    asked: Asked,
    verified: Verified,
    request: Request<B>,
}

impl<B> Authenticated<B> {
    /// The notes, who asks, and what.
    pub(super) fn into_parts(self) -> (Asked, Verified, Request<B>) {
        (self.asked, self.verified, self.request)
    }
}

/// The step.
#[derive(Clone)]
pub struct Authenticate<S> {
    inner: S,
    verifier: Arc<Verifier>,
}

impl<S> Authenticate<S> {
    /// Before `inner`.
    pub fn new(inner: S, verifier: Arc<Verifier>) -> Self {
        Self { inner, verifier }
    }
}

impl<S, B> Service<Addressed<B>> for Authenticate<S>
where
    S: Service<Authenticated<B>, Response = Answer, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, addressed: Addressed<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let verifier = Arc::clone(&self.verifier);
        Box::pin(async move {
            let (asked, request) = addressed.into_parts();
            let outcome = match bearer(request.headers()) {
                Ok(token) => verifier.verify(token).await,
                Err(fault) => Err(fault),
            };
            match outcome {
                Ok(proof) => {
                    asked.learn_actor(proof.actor().clone());
                    inner.call(Authenticated { asked, verified: proof, request }).await
                }
                Err(fault) => {
                    learn_id(&asked, request).await;
                    Err(refusal(&fault))
                }
            }
        })
    }
}

fn refusal(fault: &AuthFault) -> Refusal {
    match fault {
        AuthFault::Missing => Refusal::NoToken,
        AuthFault::Bad(fault) => Refusal::BadToken { detail: fault.to_string() },
        AuthFault::KeysUnavailable => Refusal::KeysUnavailable,
    }
}

/// Reads the body of a refused request for its id and for what it wanted, so that the challenge can name the scopes.
/// Whatever goes wrong, the answer has neither.
async fn learn_id<B>(asked: &Asked, request: Request<B>)
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let reading = read_body(request.into_body(), PEEK_BYTES);
    let Ok(Ok::<_, BodyFault>(bytes)) = tokio::time::timeout(PEEK_TIME, reading).await else {
        return;
    };
    match Message::parse(&bytes) {
        Ok(Message::Request(request)) => {
            let era = if request.version().is_some() { Era::Modern } else { Era::Legacy };
            let is_tool_call = request.method == "tools/call";
            if is_tool_call {
                asked.learn_wanted(Kind::Tool, request.subject().unwrap_or_default());
                let arguments = request.params().and_then(|params| params.get("arguments")?.as_object());
                if let Some(arguments) = arguments {
                    asked.learn_wanted_arguments(arguments);
                }
            } else {
                asked.learn_wanted(Kind::Method, &request.method);
            }
            asked.learn_envelope(Envelope { id: request.id, era, is_tool_call });
        }
        Ok(Message::Notification(_) | Message::Response(_)) => {}
        Err(_) => asked.learn_id(&bytes),
    }
}
