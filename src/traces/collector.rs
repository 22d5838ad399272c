//! The HTTP client to the collector: the gate's own, with its TLS.
//!
//! Promises: an answer is waited for no longer than [`PATIENCE`], and read no further than [`MOST`]; nobody is followed
//! elsewhere.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::domain::chain::Chain;

/// How long the collector may take, connecting included.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most that is read of its answer, in bytes.
const MOST: usize = 64 * 1024;

/// Why it failed last, in words.
pub(super) type Why = Arc<Mutex<String>>;

/// The client.
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    headers: HeaderMap,
    why: Why,
}

impl Collector {
    /// One that trusts what `tls` trusts, and sends these headers along.
    pub(super) fn new(tls: ClientConfig, headers: HeaderMap) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(PATIENCE));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(builder.wrap_connector(tcp));
        Self { client, headers, why: Why::default() }
    }

    /// Where it says why it failed last.
    pub(super) fn why(&self) -> Why {
        Arc::clone(&self.why)
    }

    async fn sent(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
        let (parts, body) = self.client.request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, MOST).collect().await?.to_bytes();
        if !parts.status.is_success() {
            self.note(format!("it answered {}", parts.status));
        }
        Ok(Response::from_parts(parts, body))
    }

    fn note(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        request.headers_mut().extend(self.headers.clone());
        match timeout(PATIENCE, self.sent(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(fault)) => {
                self.note(Chain(&*fault).to_string());
                Err(fault)
            }
            Err(late) => {
                self.note(format!("it did not answer within {PATIENCE:?}"));
                Err(Box::new(late))
            }
        }
    }
}

impl fmt::Debug for Collector {
    /// Without its headers: they may be access.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
