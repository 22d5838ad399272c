//! The step that finds a place for a call among the concurrent ones.
//!
//! Promises: [`Placed`] exists only for a request that has a place, or needs none since its client only listens. Where
//! no place is free it waits, its tenant's turn against the others'; of what waits no more than [`READ_AHEAD`] is read.
//! Whoever hangs up while it waits is gone at once: what nobody wants any more is never begun. Whoever is sent away is
//! read as far as its id, so that its answer bears it.
//!
//! Absent on purpose: turns, which are [`crate::domain::turns`], and streams: whoever listens holds no place.

pub mod room;

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request};
use http_body::Body;
use tower::Service;

use super::authenticate::Authenticated;
use super::body::Ahead;
use super::glance::Glance;
use super::{Answer, Asked, Step};
use crate::auth::Verified;
use crate::domain::refusal::Refusal;

/// How much is read of a body whose call waits, in bytes: all of most calls. A connection whose body is unread does not
/// notice that its client has gone.
pub const READ_AHEAD: usize = 16 * 1024;

/// A request of a verified actor that may be read.
#[derive(Debug)]
pub struct Placed<B> {
    asked: Asked,
    verified: Verified,
    request: Request<Ahead<B>>,
    waited: bool,
}

impl<B> Placed<B> {
    /// The notes, who asks, what, and whether it had to wait.
    pub(super) fn into_parts(self) -> (Asked, Verified, Request<Ahead<B>>, bool) {
        (self.asked, self.verified, self.request, self.waited)
    }
}

/// The step.
#[derive(Clone)]
pub struct Queue<S> {
    inner: S,
    glance: Arc<Glance>,
}

impl<S> Queue<S> {
    /// Before `inner`.
    pub fn new(inner: S, glance: Arc<Glance>) -> Self {
        Self { inner, glance }
    }
}

impl<S, B> Service<Authenticated<B>> for Queue<S>
where
    S: Service<Placed<B>, Response = Answer, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, authenticated: Authenticated<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let glance = Arc::clone(&self.glance);
        Box::pin(async move {
            let (asked, verified, request) = authenticated.into_parts();
            let mut request = request.map(Ahead::new);
            let step = asked.span().step("queue");
            let found = come_in(&asked, &mut request).await;
            drop(step);
            match found {
                Ok(waited) => inner.call(Placed { asked, verified, request, waited }).await,
                Err(refusal) => {
                    glance.at(&asked, request.into_body()).await;
                    Err(refusal)
                }
            }
        })
    }
}

/// Finds a place. Says whether it had to wait for it.
async fn come_in<B>(asked: &Asked, request: &mut Request<Ahead<B>>) -> Result<bool, Refusal>
where
    B: Body<Data = Bytes>,
{
    asked.come_in()?;
    if request.method() == Method::GET && !asked.is_plain() {
        // Whoever only listens may do so for hours.
        asked.only_listen();
        return Ok(false);
    }
    let (mut finding, mut waited) = (pin!(asked.find_first_room()), false);
    loop {
        tokio::select! {
            biased;
            found = &mut finding => return found.map(|()| waited),
            more = request.body_mut().read_ahead(READ_AHEAD) => more?,
        }
        waited = true;
    }
}
