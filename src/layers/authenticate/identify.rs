//! The step that knows who calls at a listener towards somebody else's API.
//!
//! Promises: as of [`super`], but that the actor comes from a service's token or from the configuration. What was shown for
//! that goes no further: neither the token nor the tenant's name is in the request that the next step gets.
//!
//! Absent on purpose: a look at the body of whoever is not known. There is nothing in it that an answer would need.

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body;
use tower::Service;

use super::Authenticated;
use crate::auth::porter::{Porter, TENANT, TOKEN};
use crate::domain::refusal::Refusal;
use crate::layers::address::Addressed;
use crate::layers::body::forget;
use crate::layers::{Answer, Step};

/// The step.
#[derive(Clone)]
pub struct Identify<S> {
    inner: S,
    porter: Arc<Porter>,
}

impl<S> Identify<S> {
    /// Before `inner`.
    pub fn new(inner: S, porter: Arc<Porter>) -> Self {
        Self { inner, porter }
    }
}

impl<S, B> Service<Addressed<B>> for Identify<S>
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
        let porter = Arc::clone(&self.porter);
        Box::pin(async move {
            let (asked, mut request) = addressed.into_parts();
            let step = asked.span().step("authenticate");
            let known = porter.knows(request.headers());
            drop(step);
            for shown in [TOKEN, TENANT] {
                request.headers_mut().remove(shown);
            }
            match known {
                Ok(verified) => {
                    asked.learn_actor(verified.actor().clone());
                    inner.call(Authenticated { asked, verified, request }).await
                }
                Err(fault) => {
                    forget(request.into_body()).await;
                    Err(fault.into())
                }
            }
        })
    }
}
