//! The client that reaches the API behind the gate.
//!
//! Promises: a request is sent once. When sending fails, the error tells whether a byte can have gone out:
//! [`SendFault::NotSent`] is said only where it certainly did not. A request never goes out on a connection that was
//! idle for longer than `max_idle`.
//!
//! Absent on purpose: retries of anything that was begun. The HTTP client's own retries are off; this module tries
//! again only where the client hands the request back unsent (an idle connection that the upstream had closed).

mod body;
pub mod headers;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub use self::body::{AnyError, Source};
use self::body::{Content, Shared, WatchedBody};
use crate::tls::Trust;

/// How often a request that was handed back unsent is offered to another connection.
const OFFERS: u32 = 3;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendFault {
    /// Not one byte of the request was written.
    #[error("the request was not sent")]
    NotSent(#[source] Box<dyn Error + Send + Sync>),
    /// Bytes may have gone out, and no response head came.
    #[error("the request may have been sent, and no answer came")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
}

/// How to reach the upstream.
#[derive(Clone, Debug)]
pub struct Reach {
    /// How long an idle connection may be used again.
    pub max_idle: Duration,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
}

/// A keep-alive client for one upstream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Upstream {
    reach: Reach,
    line: Arc<ArcSwap<Line>>,
}

/// What leads there, and who must prove to be there.
#[derive(Debug)]
struct Line {
    // Boxed: each connection keeps room for a row of requests.
    client: Client<HttpsConnector<HttpConnector>, Box<WatchedBody>>,
    trust: Trust,
}

impl Upstream {
    /// A client that trusts these.
    pub fn new(reach: &Reach, trust: Trust) -> Self {
        let line = Arc::new(ArcSwap::from_pointee(Line::new(reach, trust)));
        Self { reach: reach.clone(), line }
    }

    /// Trusts these from now on; says whether they are others. Connections that stand go on to the end of their request.
    pub fn take(&self, trust: Trust) -> bool {
        let are_others = !self.line.load().trust.is_like(&trust);
        if are_others {
            self.line.store(Arc::new(Line::new(&self.reach, trust)));
        }
        are_others
    }

    /// Sends one request and waits for the response's head. The caller bounds the time.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; what was written stays written.
    pub async fn send(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response<Incoming>, SendFault> {
        self.offer(method, uri, headers, &Content::Whole(body.clone())).await
    }

    /// As [`Upstream::send`], with a body that is sent as it comes. The response may begin before it has ended.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn send_stream(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Source,
    ) -> Result<Response<Incoming>, SendFault> {
        self.offer(method, uri, headers, &Content::Streamed(Shared::new(body))).await
    }

    async fn offer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        content: &Content,
    ) -> Result<Response<Incoming>, SendFault> {
        let line = self.line.load_full();
        let mut offers = 0;
        loop {
            offers += 1;
            let begun = Arc::new(AtomicBool::new(false));
            let mut request = Request::new(Box::new(WatchedBody::new(content, &begun)));
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            let fault = match line.client.request(request).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            // Both signs must agree: the client says so, and it never asked for the body.
            let handed_back = is_handed_back(&fault);
            let unsent = (fault.is_connect() || handed_back) && !begun.load(Ordering::SeqCst);
            if unsent && handed_back && offers < OFFERS {
                continue;
            }
            return Err(if unsent {
                SendFault::NotSent(fault.into())
            } else {
                SendFault::Lost(fault.into())
            });
        }
    }
}

impl Line {
    fn new(reach: &Reach, trust: Trust) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(reach.connect_timeout));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(trust.client())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_idle_timeout(reach.max_idle)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, trust }
    }
}

/// hyper cancels a request only before it took it from the queue to write it.
fn is_handed_back(fault: &hyper_util::client::legacy::Error) -> bool {
    fault
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_canceled)
}
