//! The step that asks whether a request is for this gate, and from a page that may call it.
//!
//! Promises: [`Addressed`] exists only for a request whose host is this gate's and whose origin, if it has one, is
//! allowed. A request that is refused here is refused before its token is looked at, and whatever its body says, so
//! that a web page that reached the gate by a trick with names learns nothing and moves nothing.
//!
//! Absent on purpose: the metadata documents (RFC 9728), which [`super::reply`] serves outside of this step. They are
//! public, the same under every name, and always say the public URL: such a page would gain nothing by them, while a
//! client that was refused here may still learn where it should have gone.

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body::Body;
use tower::Service;
use tracing::warn;

use super::body::forget;
use super::observe::Observed;
use super::{Answer, Asked, Step};
use crate::domain::refusal::Refusal;
use crate::domain::site::Sites;

/// A request that is for this gate.
#[derive(Debug)]
pub struct Addressed<B> {
    asked: Asked,
    request: Request<B>,
}

impl<B> Addressed<B> {
    /// The notes and the request.
    pub(super) fn into_parts(self) -> (Asked, Request<B>) {
        (self.asked, self.request)
    }
}

/// The step.
#[derive(Clone)]
pub struct Address<S> {
    inner: S,
    sites: Arc<Sites>,
}

impl<S> Address<S> {
    /// Before `inner`.
    pub fn new(inner: S, sites: Arc<Sites>) -> Self {
        Self { inner, sites }
    }
}

impl<S, B> Service<Observed<B>> for Address<S>
where
    S: Service<Addressed<B>, Response = Answer, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, observed: Observed<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let sites = Arc::clone(&self.sites);
        Box::pin(async move {
            let (asked, request) = observed.into_parts();
            match check(&sites, request.uri(), request.headers()) {
                Ok(()) => inner.call(Addressed { asked, request }).await,
                Err(refusal) => {
                    forget(request.into_body()).await;
                    Err(refusal)
                }
            }
        })
    }
}

/// Whether a request with this target and these headers may go on. Whoever runs the gate reads what to change if it
/// should have.
pub(super) fn check(sites: &Sites, target: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let all = |name: HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let authority = target.authority().map(Authority::as_str);
    sites.check_host(authority, all(HOST)).inspect_err(|_| {
        let host = headers.get(HOST).map(tracing::field::debug);
        warn!(
            authority,
            host, "The request is for another host. If this gate is meant, name that host in allowed_hosts."
        );
    })?;
    sites.check_origin(all(ORIGIN)).inspect_err(|_| {
        let origin = headers.get(ORIGIN).map(tracing::field::debug);
        if !sites.takes_pages() {
            return warn!(origin, "The request comes from a web page. None may call this listener.");
        }
        warn!(
            origin,
            "The request comes from a web page that may not call. If it may, name its origin in allowed_origins."
        );
    })
}
