//! `oncegate drain`: takes a running gate out of service, and waits for its calls.
//!
//! Promises: exit code 0 says that nothing runs in the gate and nothing will; 1 says that something does, or that no gate
//! could be asked. Whoever waits too long stops nothing by leaving.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::failure::Failure;
use super::screen;
use crate::admin::drain::Standing;
use crate::config::{AdminConfig, ConfigFlags, Layers};
use crate::domain::units::{duration_text, parse_duration};

/// How often the gate is asked whether its calls have ended.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// How long it may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Takes the running gate out of service and waits for its calls to end: a preStop hook.
///
/// The gate is not ready from now on. It serves calls a little longer, until load balancers have heard of that, then takes
/// no new ones. It stays so until it gets SIGTERM. Needs `admin_token_file`, in the gate's configuration and in this one.
#[derive(Args)]
pub(super) struct Drain {
    /// How long to wait for running calls, --settle included
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    wait: Duration,
    /// How long the gate still takes calls: load balancers need some seconds
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    settle: Duration,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Why the gate did not say how far it has come.
#[derive(Debug, thiserror::Error)]
enum Silence {
    #[error("no gate listens at {0} (admin_listen): is it running, with admin_token_file set?")]
    Nobody(SocketAddr, #[source] Box<dyn Error + Send + Sync>),
    #[error("the gate at {0} does not know this token: is its admin_token_file the same?")]
    Stranger(SocketAddr),
    #[error("what listens at {0} (admin_listen) is no gate that can drain: HTTP {1}")]
    Other(SocketAddr, StatusCode),
}

impl Drain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.settle > self.wait {
            return Err(Failure::usage(format!(
                "--settle {} is longer than --wait {}: nothing would be waited for",
                duration_text(self.settle),
                duration_text(self.wait)
            )));
        }
        let admin = Layers::load(&self.config).and_then(|layers| layers.admin()).map_err(Failure::config)?;
        let until = Instant::now() + self.wait;
        let path = format!("/drain?settle={}", duration_text(self.settle));
        let mut standing = ask(&admin, Method::POST, &path).await.map_err(Failure::failed)?;
        while !standing.is_over() {
            if Instant::now() >= until {
                return Err(Failure::failed(format!(
                    "after {}, the gate is not done: {} calls run, {} wait, and they go on until it is stopped; {} \
                     records in its spool wait for the store",
                    duration_text(self.wait),
                    standing.calls_running,
                    standing.calls_waiting,
                    standing.spooled
                )));
            }
            sleep(ASK_AGAIN).await;
            standing = ask(&admin, Method::GET, "/drain").await.map_err(Failure::failed)?;
        }
        Ok(screen::show("drained: nothing runs in the gate, and it takes no more calls\n")?)
    }
}

/// Asks the gate.
async fn ask(admin: &AdminConfig, method: Method, path: &str) -> Result<Standing, Silence> {
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
