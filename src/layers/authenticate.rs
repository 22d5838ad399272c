//! The step that turns a bearer token into an actor.
//!
//! Promises: [`Authenticated`] exists only for a request whose token was verified; the actor comes from the token and
//! from nowhere else. A request that is refused here is read as far as its id, bounded, so that its answer bears it.
//!
//! Absent on purpose: trust in headers. What a client says of itself is dropped before anything is forwarded.

pub mod identify;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use tower::Service;

use super::address::Addressed;
use super::{Answer, Asked, Step, glance};
use crate::auth::{AuthFault, Verified, Verifier, bearer};
use crate::domain::refusal::Refusal;

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
            let step = asked.span().step("authenticate");
            let outcome = match bearer(request.headers()) {
                Ok(token) => verifier.verify(token).await,
                Err(fault) => Err(fault),
            };
            drop(step);
            match outcome {
                Ok(proof) => {
                    asked.learn_actor(proof.actor().clone());
                    inner.call(Authenticated { asked, verified: proof, request }).await
                }
                Err(fault) => {
                    glance::at_stranger(&asked, request.into_body()).await;
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
