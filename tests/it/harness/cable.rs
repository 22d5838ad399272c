//! A cable between two sockets that can be cut: the way to take a database or an upstream away from a gate.
//!
//! Promises: a cut resets every connection and refuses new ones at once; once mended it carries as before, on the
//! same address.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A cable that is carrying, or cut.
pub(crate) struct Cable {
    address: SocketAddr,
    target: SocketAddr,
    deaf: watch::Sender<bool>,
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
        let deaf = watch::Sender::new(false);
        let carrying = Some(tokio::spawn(carry(listener, target, deaf.subscribe())));
        Self { address, target, deaf, carrying }
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

    /// Nothing comes back any more; what is sent still arrives.
    pub(crate) fn deafen(&self) {
        self.deaf.send_replace(true);
    }

    /// It carries again.
    pub(crate) async fn mend(&mut self) {
        self.cut().await;
        let listener = TcpListener::bind(self.address).await.expect("the port that it had");
        self.deaf.send_replace(false);
        self.carrying = Some(tokio::spawn(carry(listener, self.target, self.deaf.subscribe())));
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        if let Some(carrying) = &self.carrying {
            carrying.abort();
        }
    }
}

async fn carry(listener: TcpListener, target: SocketAddr, deaf: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let deaf = deaf.clone();
        connections.spawn(async move {
            let Ok(far) = TcpStream::connect(target).await else { return };
            near.set_zero_linger().expect("a TCP socket");
            let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
                (near.into_split(), far.into_split());
            // However it ends, both ends are closed.
            tokio::select! {
                _ended = copy(&mut from_near, &mut to_far) => {}
                () = answer(&mut from_far, &mut to_near, deaf) => {}
            }
        });
    }
}

/// Carries what comes back, as long as it is let through.
async fn answer(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, mut deaf: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if deaf.wait_for(|deaf| !deaf).await.is_err()
            || read == 0
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
