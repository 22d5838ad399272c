//! A cable between two sockets that can be cut: the way to take a database or an upstream away from a gate.
//!
//! Promises: a cut resets every connection and refuses new ones at once; once mended it carries as before, on the
//! same address.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A cable that is carrying, or cut.
pub(crate) struct Cable {
    address: SocketAddr,
    target: SocketAddr,
    carrying: Option<JoinHandle<()>>,
}

impl Cable {
    /// A cable to `target`.
    pub(crate) async fn to(target: SocketAddr) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), target).await
    }

    /// A cable to `target` whose near end is here.
    pub(crate) async fn at(near: SocketAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind(near).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        Self { address, target, carrying: Some(tokio::spawn(carry(listener, target))) }
    }

    /// Its near end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing gets through any more.
    pub(crate) async fn cut(&mut self) {
        if let Some(carrying) = self.carrying.take() {
            carrying.abort();
            // Its connections end with it; only then is the cable cut.
            assert!(carrying.await.is_err_and(|error| error.is_cancelled()), "the cable had ended by itself");
        }
    }

    /// It carries again.
    pub(crate) async fn mend(&mut self) {
        self.cut().await;
        let listener = TcpListener::bind(self.address).await.expect("the port that it had");
        self.carrying = Some(tokio::spawn(carry(listener, self.target)));
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        if let Some(carrying) = &self.carrying {
            carrying.abort();
        }
    }
}

async fn carry(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        connections.spawn(async move {
            let Ok(mut far) = TcpStream::connect(target).await else { return };
            near.set_zero_linger().expect("a TCP socket");
            // However it ends, both ends are closed.
            let _ended = copy_bidirectional(&mut near, &mut far).await.is_ok();
        });
    }
}
