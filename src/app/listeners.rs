//! The gate's listeners.
//!
//! Promises: an address that cannot be had is told with the setting that says it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::Service;

use super::AppFault;
use crate::admin::console::{Console, Sights};
use crate::admin::drain::Drain;
use crate::admin::jobs::JobsGate;
use crate::admin::{Operators, OperatorsToken, admin};
use crate::domain::site::Sites;
use crate::server::{self, Doors};

/// Connections at one time to each of the listeners that take no calls.
const HOUSE_CONNECTIONS: usize = 256;

/// A listener at the address that a setting says.
pub(super) async fn listen(setting: impl Into<String>, address: SocketAddr) -> Result<TcpListener, AppFault> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| AppFault::Listen { setting: setting.into(), address, source })
}

/// The listeners that take no calls. They are asked until the very end: an orchestrator must be able to see that the gate
/// lives while it drains.
pub(super) async fn beside<H>(
    health_address: SocketAddr,
    health: H,
    operators: Option<(SocketAddr, OperatorsToken)>,
    (sights, sites): (Sights, &Sites),
    drain: &Drain,
    jobs: &JobsGate,
) -> Result<JoinSet<()>, AppFault>
where
    H: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    H::Future: Send,
{
    let (doors, mut beside) = (Doors::of_the_house(HOUSE_CONNECTIONS), JoinSet::new());
    let listener = listen("health_listen", health_address).await?;
    beside.spawn(server::serve(listener, health, doors.clone()));
    if let Some((address, token)) = operators {
        let listener = listen("admin_listen", address).await?;
        let operators = Operators { token, drain: drain.clone(), in_force: sights.in_force.clone() };
        let console = Console::new(sights, Arc::clone(&operators.token), sites.clone());
        beside.spawn(server::serve(listener, admin(operators, console, jobs.clone()), doors));
    }
    Ok(beside)
}
