//! Listeners, connections, and the way to stop.
//!
//! Promises: HTTP/1.1 and HTTP/2 with prior knowledge; no more connections than the limit, and what one may cost before
//! anybody knows who calls is bounded; on shutdown no new connection is taken, and running ones finish their requests, up
//! to the grace period. A gate that is about to leave ends each connection with its next answer.
//!
//! Absent on purpose: TLS towards clients (the pod's ingress ends it) and any look into requests.

pub mod patient;

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, Version};
use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _, service_fn};
use tracing::{debug, warn};

use self::patient::Patient;
use crate::domain::chain::Chain;
use crate::layers::observe::Peer;

/// How long a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The most headers of one request.
const MAX_HEADERS: usize = 128;

/// How much of a connection is read or written at once, and so the most that a request's head may take.
const HEAD_BYTES: usize = 64 * 1024;

/// The most requests at one time on a connection in HTTP/2.
const STREAMS: u32 = 128;

/// How much a client may send there of a request that nobody reads yet, and of all of them.
const STREAM_BYTES: u32 = 64 * 1024;
const CONNECTION_BYTES: u32 = 512 * 1024;

/// How long accepting pauses when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// When connections are taken, how many, and when they end.
#[derive(Clone, Debug)]
pub struct Doors {
    /// How many at one time; others wait to be accepted.
    pub connections: usize,
    /// Cancelled once connections are to end with their next answers.
    pub leaving: CancellationToken,
    /// Cancelled once none is taken any more.
    pub stop: CancellationToken,
    /// How long running requests may take after that.
    pub grace: Duration,
}

impl Doors {
    /// Of a listener that is served to the very end of the process.
    pub fn of_the_house(connections: usize) -> Self {
        let (leaving, stop) = (CancellationToken::new(), CancellationToken::new());
        Self { connections, leaving, stop, grace: Duration::ZERO }
    }
}

/// Serves `service` on `listener` until the doors close, then waits for running requests. Streams on which a client only
/// listens must end by themselves.
pub async fn serve<S, B>(listener: TcpListener, service: S, doors: Doors)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (connections, builder) = (TaskTracker::new(), builder());
    let mut entrance =
        Entrance { listener, places: Arc::new(Semaphore::new(doors.connections)), full: false };
    loop {
        let (stream, peer, place) = tokio::select! {
            () = doors.stop.cancelled() => break,
            next = entrance.next() => next,
        };
        let visit = Visit { peer, doors: doors.clone(), is_http2: CancellationToken::new() };
        let (builder, service) = (builder.clone(), service.clone());
        connections.spawn(async move {
            let _place = place;
            visit.serve(&builder, stream, service).await;
        });
    }
    drop(entrance);
    connections.close();
    if tokio::time::timeout(doors.grace, connections.wait()).await.is_err() {
        warn!(grace = ?doors.grace, "Some connections did not end within the grace period.");
    }
}

/// Where connections come in.
struct Entrance {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// Whether it was said that all places are taken.
    full: bool,
}

impl Entrance {
    /// The next connection, once there is a place for it: until then it waits in the system's own queue.
    async fn next(&mut self) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
        if self.places.available_permits() == 0 && !self.full {
            warn!("As many clients are connected as limits.connections says; others wait.");
        }
        self.full = self.places.available_permits() == 0;
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (stream, peer, place),
                Err(fault) => {
                    warn!(error = %Chain(&fault), "A connection was not accepted.");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HEAD_BYTES)
        // Whoever closes its sending side has gone, as most servers take it: a read ends upstream at once, a mutation goes on.
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(64 * 1024)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .max_send_buf_size(HEAD_BYTES)
        // A peer that is gone without a word must not keep its place.
        .keep_alive_interval(HEAD_TIME);
    builder
}

fn quick(stream: TcpStream) -> TcpStream {
    if let Err(fault) = stream.set_nodelay(true) {
        debug!(error = %Chain(&fault), "A socket keeps its delay.");
    }
    stream
}

/// One connection.
struct Visit {
    peer: SocketAddr,
    doors: Doors,
    /// Cancelled once a request came in HTTP/2.
    is_http2: CancellationToken,
}

impl Visit {
    async fn serve<S, B>(self, builder: &Builder<TokioExecutor>, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let service = TowerToHyperService::new(self.door(service));
        let mut connection =
            pin!(builder.serve_connection(TokioIo::new(Patient::new(quick(stream))), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.farewell() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(fault) = ended {
            debug!(error = %Chain(&*fault), "A connection ended early.");
        }
    }

    /// Until the connection is told to end. HTTP/2 can say so beside its requests, and loses none. An idle one of HTTP/1.1
    /// would be closed while its client sends the next: it hears of it with its next answer.
    async fn farewell(&self) {
        let leaving = async {
            self.doors.leaving.cancelled().await;
            self.is_http2.cancelled().await;
        };
        tokio::select! {
            () = self.doors.stop.cancelled() => {}
            () = leaving => {}
        }
    }

    /// The service, which hears where a request came from, and whose answers say when they are the last.
    fn door<S, B>(
        &self,
        service: S,
    ) -> impl Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
    + Clone
    + use<S, B>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        let peer = Peer(self.peer.ip());
        let (leaving, is_http2) = (self.doors.leaving.clone(), self.is_http2.clone());
        service_fn(move |mut request: Request<Incoming>| {
            let http2 = request.version() == Version::HTTP_2;
            if http2 {
                is_http2.cancel();
            }
            request.extensions_mut().insert(peer);
            let (answering, leaving) = (service.clone().oneshot(request), leaving.clone());
            async move {
                let mut response = answering.await?;
                if leaving.is_cancelled() && !http2 {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok(response)
            }
        })
    }
}
