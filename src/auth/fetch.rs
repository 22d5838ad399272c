//! Fetches a JWKS document.
//!
//! Promises: https only; no redirect is followed; the answer's size and the time that it takes are bounded.
//!
//! Absent on purpose: deciding when to fetch ([`super::keyring`]).

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::keys::KeyFault;
use crate::tls::Trust;

/// The largest document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// A JWKS document at an https URL.
pub(super) struct Remote {
    url: Uri,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    timeout: Duration,
    trust: Trust,
}

impl Remote {
    /// Checks the URL and reads the certificate authorities; nothing is fetched yet.
    pub(super) fn new(url: &str, ca_file: Option<&Path>, timeout: Duration) -> Result<Self, KeyFault> {
        let url: Uri = url.parse().map_err(|_| KeyFault::NotHttps)?;
        if url.scheme() != Some(&http::uri::Scheme::HTTPS) || url.host().is_none_or(str::is_empty) {
            return Err(KeyFault::NotHttps);
        }
        let trust = Trust::read(ca_file).map_err(|fault| KeyFault::Roots(fault.into()))?;
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(trust.client())
            .https_only()
            .enable_http1()
            .build();
        // One document every few minutes: a connection kept open for it would only ever be found closed.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { url, client, timeout, trust })
    }

    /// Whether it trusts what this file says by now.
    pub(super) fn trusts_still(&self, ca_file: Option<&Path>) -> Result<bool, KeyFault> {
        let now = Trust::read(ca_file).map_err(|fault| KeyFault::Roots(fault.into()))?;
        Ok(self.trust.is_like(&now))
    }

    /// Fetches the document.
    pub(super) async fn fetch(&self) -> Result<Bytes, KeyFault> {
        tokio::time::timeout(self.timeout, self.exchange()).await.map_err(|_| KeyFault::TimedOut)?
    }

    async fn exchange(&self) -> Result<Bytes, KeyFault> {
        let request = Request::get(&self.url)
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("oncegate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| KeyFault::Fetch(error.into()))?;
        let response = self.client.request(request).await.map_err(|error| KeyFault::Fetch(error.into()))?;
        if response.status() != StatusCode::OK {
            return Err(KeyFault::Status(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES);
        Ok(body.collect().await.map_err(KeyFault::Fetch)?.to_bytes())
    }
}

/// A file, or the fault that names it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, KeyFault> {
    std::fs::read(path).map_err(|source| KeyFault::File { path: path.display().to_string(), source })
}
