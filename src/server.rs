//! Listeners, connections, and the way to stop.
//!
//! Promises: HTTP/1.1 and HTTP/2 with prior knowledge; on shutdown no new connection is taken, running ones finish their
//! requests, and claimed work is waited for, up to the grace period.
//!
//! Absent on purpose: TLS towards clients (the pod's ingress ends it) and any look into requests.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};
use tracing::{debug, warn};

use crate::domain::chain::Chain;
use crate::layers::observe::Peer;

/// How long a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The most headers of one request.
const MAX_HEADERS: usize = 128;

/// How long accepting pauses when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `service` on `listener` until `stop`, then waits up to `grace` for running requests. Streams on which a client
/// only listens must end by themselves at `stop`.
pub async fn serve<S, B>(listener: TcpListener, service: S, stop: CancellationToken, grace: Duration)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connections = GracefulShutdown::new();
    let builder = builder();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = builder.serve_connection(
                    TokioIo::new(quick(stream)),
                    TowerToHyperService::new(of_peer(&service, peer)),
                );
                let watched = connections.watch(connection.into_owned());
                tokio::spawn(async move {
                    if let Err(fault) = watched.await {
                        debug!(error = %Chain(&*fault), "A connection ended early.");
                    }
                });
            }
            Err(fault) => {
                warn!(error = %Chain(&fault), "A connection was not accepted.");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(grace, connections.shutdown()).await.is_err() {
        warn!(?grace, "Some connections did not end within the grace period.");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MAX_HEADERS)
        // Whoever closes its sending side has gone, as most servers take it: a read ends upstream at once, a mutation goes on.
        .half_close(false);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(64 * 1024);
    builder
}

fn quick(stream: TcpStream) -> TcpStream {
    if let Err(fault) = stream.set_nodelay(true) {
        debug!(error = %Chain(&fault), "A socket keeps its delay.");
    }
    stream
}

/// The service, with the connection's address put on each request.
fn of_peer<S>(
    service: &S,
    peer: SocketAddr,
) -> impl Service<Request<Incoming>, Response = S::Response, Error = S::Error, Future: Send> + Clone + Send + 'static
where
    S: Service<Request<Incoming>> + Clone + Send + 'static,
    S::Future: Send,
{
    service.clone().map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        request
    })
}
