//! A client on one HTTP/2 connection, with prior knowledge: many calls side by side, each of which can be given up.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::setup::token;

/// The connection.
pub(crate) struct H2 {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    carried: JoinHandle<hyper::Result<()>>,
}

impl H2 {
    /// A connection to the gate at this address.
    pub(crate) async fn to(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.expect("the gate listens");
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
        Self { address, sender, carried: tokio::spawn(connection) }
    }

    /// Sends a legacy request with a good token. Dropping what this returns gives the call up.
    pub(crate) fn send(
        &mut self,
        id: u32,
        method: &str,
        params: &Value,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let request = Request::post(format!("http://{}/mcp", self.address))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", token()));
        let request = request.body(Full::new(Bytes::from(body.to_string()))).expect("a request");
        self.sender.send_request(request)
    }

    /// Whether this says that a request was certainly not looked at: the connection had been told to end.
    pub(crate) fn was_not_taken(fault: &hyper::Error) -> bool {
        let text = format!("{fault:?}");
        fault.is_canceled()
            || fault.is_closed()
            || text.contains("REFUSED_STREAM")
            || text.contains("NO_ERROR")
    }

    /// Sends any request.
    pub(crate) async fn send_any(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.sender.send_request(request).await.expect("an answer")
    }

    /// Closes it, in order.
    pub(crate) async fn close(self) {
        drop(self.sender);
        self.carried.await.expect("the connection's task").expect("it ends well");
    }
}

/// The body of an answer, which is JSON.
pub(crate) async fn json_of(response: Response<Incoming>) -> Value {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}
