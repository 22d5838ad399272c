//! What stands before the pods: the addresses that are in service, dealt out in turn.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::harness::in_time;

#[derive(Debug, Default)]
struct Endpoints {
    addresses: Vec<SocketAddr>,
    dealt: usize,
}

/// A service in the sense of Kubernetes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    endpoints: Arc<Mutex<Endpoints>>,
    refused: Arc<Notify>,
}

impl Service {
    /// A pod is ready.
    pub(super) fn add(&self, address: SocketAddr) {
        self.with(|endpoints| endpoints.addresses.push(address));
    }

    /// A pod is going.
    pub(super) fn remove(&self, address: SocketAddr) {
        self.with(|endpoints| endpoints.addresses.retain(|other| *other != address));
    }

    /// Where the next call goes.
    pub(super) fn next(&self) -> SocketAddr {
        self.with(|endpoints| {
            endpoints.dealt += 1;
            let all = &endpoints.addresses;
            *all.get(endpoints.dealt % all.len()).expect("a rolling deployment leaves somebody in service")
        })
    }

    /// A client was refused by a pod that takes no more calls.
    pub(super) fn refuses(&self) {
        self.refused.notify_waiters();
    }

    /// Returns once the next client is refused so.
    pub(super) async fn refused(&self) {
        in_time("a client to be refused by a draining gate", self.refused.notified()).await;
    }

    fn with<T>(&self, act: impl FnOnce(&mut Endpoints) -> T) -> T {
        act(&mut self.endpoints.lock().expect("no test panics while it holds the addresses"))
    }
}
