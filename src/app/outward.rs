//! The ways out: a gate for each listener towards somebody else's API, and how they end.
//!
//! Promises: they take calls until nothing runs any more that came in by the gate before the app, since such a call may
//! need them to its very end; then they take none, and those inside end. Draining leaves them open: an app that is about
//! to stop, and its jobs, call out until they have stopped.
//!
//! Absent on purpose: observing. A listener enforces; its policy says of which operations it only takes notes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::AppFault;
use super::gates::House;
use super::listeners::listen;
use super::policies::PolicyRead;
use super::reload::Ruling;
use crate::auth::Services;
use crate::auth::porter::{Identity, Porter};
use crate::config::ListenerConfig;
use crate::janitor::Janitor;
use crate::layers::queue::room::Room;
use crate::server::{self, Doors};
use crate::stack::{Parts, outward};

/// All of them, before anybody is let in.
pub(super) struct Outward(Vec<Way>);

struct Way {
    name: String,
    dir: PathBuf,
    listener: TcpListener,
    parts: Parts,
    porter: Arc<Porter>,
}

/// All of them, at work.
pub(super) struct Leading {
    servers: JoinSet<()>,
    rooms: Vec<Room>,
    tasks: Vec<TaskTracker>,
    stop: CancellationToken,
}

impl Outward {
    /// A gate for each listener, with its policy.
    pub(super) async fn open(
        house: &House,
        listeners: Vec<(ListenerConfig, PolicyRead)>,
        services: &Arc<Services>,
    ) -> Result<Self, AppFault> {
        let mut ways = Vec::new();
        for (config, PolicyRead { policy, dir, .. }) in listeners {
            let setting = format!("listen of the listener {}", config.name);
            let porter = Arc::new(match &config.identity {
                None => Porter::Services(Arc::clone(services)),
                Some(pod) => {
                    Porter::Pod(Identity::new(pod.tenants.clone(), pod.user.clone(), pod.scopes.clone()))
                }
            });
            let (name, address) = (config.name.clone(), config.listen);
            let parts = house.outward(config, policy)?;
            let listener = listen(setting, address).await?;
            tell(&name, address, &parts);
            ways.push(Way { name, dir, listener, parts, porter });
        }
        Ok(Self(ways))
    }

    /// Whoever looks after their claims.
    pub(super) fn janitors(&self, house: &House) -> Vec<Janitor> {
        self.0.iter().map(|way| house.janitor(&way.parts.clerk)).collect()
    }

    /// Their names in the ledger.
    pub(super) fn services(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|way| way.parts.clerk.service.as_str())
    }

    /// What decides in each of them, by its listener's name.
    pub(super) fn rulings(&self) -> Vec<(String, Ruling)> {
        let ruling = |way: &Way| (way.name.clone(), Ruling::new(&way.parts, &way.dir));
        self.0.iter().map(ruling).collect()
    }

    /// What each is made of.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Parts> {
        self.0.iter().map(|way| &way.parts)
    }

    /// Begins to take calls; each listener lets so many in at one time, and what runs at the end has this long.
    pub(super) fn lead(self, connections: usize, grace: Duration) -> Leading {
        let stop = CancellationToken::new();
        let mut leading =
            Leading { servers: JoinSet::new(), rooms: Vec::new(), tasks: Vec::new(), stop: stop.clone() };
        for Way { listener, parts, porter, .. } in self.0 {
            leading.rooms.push(parts.post.room.clone());
            leading.tasks.push(parts.clerk.tasks.clone());
            // No load balancer stands before them: connections need not end before there is an end.
            let doors = Doors { connections, leaving: stop.clone(), stop: stop.clone(), grace };
            leading.servers.spawn(server::serve(listener, outward(parts, porter), doors));
        }
        leading
    }
}

impl Leading {
    /// What runs in them, as long as it is counted.
    pub(super) fn tasks(&self) -> Vec<TaskTracker> {
        self.tasks.clone()
    }

    /// Takes no calls any more, and waits for those inside.
    ///
    /// # Cancel safety
    /// Dropping the future ends what is left.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        for (room, tasks) in self.rooms.iter().zip(&self.tasks) {
            room.close();
            tasks.close();
        }
        while self.servers.join_next().await.is_some() {}
        for tasks in &self.tasks {
            tasks.wait().await;
        }
    }
}

fn tell(name: &str, address: SocketAddr, parts: &Parts) {
    let (service, provider) = (parts.clerk.service.as_str(), &parts.road.endpoint);
    info!(name, %address, service, %provider, "A listener leads out.");
}
