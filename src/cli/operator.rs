//! Asking a running gate, as its operator: what `drain` and `policy status` do.
//!
//! Promises: whoever is asked is the gate of this configuration, by its admin token; why it did not answer is told with
//! the setting to look at.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::AdminConfig;

/// How long it may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Why the gate did not say what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    #[error("no gate listens at {0} (admin_listen): is it running, with admin_token_file set?")]
    Nobody(SocketAddr, #[source] Box<dyn Error + Send + Sync>),
    #[error("the gate at {0} does not know this token: is its admin_token_file the same?")]
    Stranger(SocketAddr),
    #[error("what listens at {0} (admin_listen) is no gate that can say this: HTTP {1}")]
    Other(SocketAddr, StatusCode),
}

/// Asks the gate.
pub(super) async fn ask<T: DeserializeOwned>(
    admin: &AdminConfig,
    method: Method,
    path: &str,
) -> Result<T, Silence> {
    let address = dialled(admin.listen);
    let nobody = |fault: Box<dyn Error + Send + Sync>| Silence::Nobody(address, fault);
    let asking = async {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", admin.token.text()))
            .body(Empty::<Bytes>::new())?;
        let socket = TcpStream::connect(address).await?;
        let (mut sender, connection) = handshake(TokioIo::new(socket)).await?;
        // It ends with the sender; what goes wrong with it, the sender says.
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok::<_, Box<dyn Error + Send + Sync>>((parts.status, body))
    };
    let answered = timeout(ANSWER_TIME, asking).await.unwrap_or_else(|late| Err(late.into()));
    let (status, body) = answered.map_err(nobody)?;
    match status {
        StatusCode::OK => serde_json::from_slice(&body).map_err(|_| Silence::Other(address, status)),
        StatusCode::UNAUTHORIZED => Err(Silence::Stranger(address)),
        other => Err(Silence::Other(address, other)),
    }
}

/// Where to dial what listens there: every address is this machine's, too.
fn dialled(listen: SocketAddr) -> SocketAddr {
    let here = if listen.is_ipv4() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { Ipv6Addr::LOCALHOST.into() };
    let ip = if listen.ip().is_unspecified() { here } else { listen.ip() };
    SocketAddr::new(ip, listen.port())
}
