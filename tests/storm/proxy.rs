//! A fault proxy: one link between two parts, with weather on it.
//!
//! Promises: in clear weather it carries bytes as they come; what a weather does, it does to the connections that stand
//! and to new ones alike; connections that it ends are reset, not closed.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::Fallible;

/// What a link does to what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nothing.
    Clear,
    /// Each piece comes later by this.
    Slow(Duration),
    /// A few bytes at a time.
    Throttled,
    /// Nothing moves; connections stand.
    Stalled,
    /// Connections end, new ones too.
    Resetting,
    /// New connections are taken, and lead nowhere; old ones go on.
    BlackHole,
    /// Each connection is reset once it has carried so many bytes one way.
    CutAfter(usize),
}

/// A link that stands as long as its value.
pub(crate) struct Link {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    carrying: AbortHandle,
}

impl Link {
    /// A link to `target`.
    pub(crate) async fn to(target: SocketAddr) -> Fallible<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (weather, seen) = watch::channel(Weather::Clear);
        let carrying = tokio::spawn(carry(listener, target, seen)).abort_handle();
        Ok(Self { address, weather, carrying })
    }

    /// Its near end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather.
    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(listener: TcpListener, target: SocketAddr, weather: watch::Receiver<Weather>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((near, _)) = accepted {
                connections.spawn(join(near, target, weather.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn join(near: TcpStream, target: SocketAddr, mut weather: watch::Receiver<Weather>) {
    if *weather.borrow() == Weather::BlackHole {
        // It wakes up when the weather changes, as if the packet had been lost.
        if weather.wait_for(|now| *now != Weather::BlackHole).await.is_err() {
            return;
        }
    }
    let Ok(far) = TcpStream::connect(target).await else { return };
    near.set_nodelay(true).and(far.set_nodelay(true)).expect("TCP sockets");
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let (there, back) = (weather.clone(), weather.clone());
    // Whichever way ends first ends both.
    tokio::select! {
        () = pump(&mut near_in, &mut far_out, there) => {}
        () = pump(&mut far_in, &mut near_out, back) => {}
        _ = weather.wait_for(|now| *now == Weather::Resetting) => {}
    }
    if matches!(*weather.borrow(), Weather::Resetting | Weather::CutAfter(_)) {
        near_in.as_ref().set_zero_linger().and(far_in.as_ref().set_zero_linger()).expect("TCP sockets");
    }
}

async fn pump(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, mut weather: watch::Receiver<Weather>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut carried = 0;
    loop {
        let most = if *weather.borrow() == Weather::Throttled { 64 } else { buffer.len() };
        let Ok(read @ 1..) = from.read(&mut buffer[..most]).await else { return };
        let now = *weather.borrow_and_update();
        let mut whole = read;
        match now {
            Weather::Clear | Weather::Resetting | Weather::BlackHole => {}
            Weather::Slow(by) => sleep(by).await,
            Weather::Throttled => sleep(Duration::from_millis(40)).await,
            Weather::Stalled => {
                if weather.wait_for(|now| *now != Weather::Stalled).await.is_err() {
                    return;
                }
            }
            Weather::CutAfter(most) => whole = read.min(usize::saturating_sub(most, carried)),
        }
        carried += whole;
        if to.write_all(&buffer[..whole]).await.is_err() || whole < read {
            return;
        }
    }
}
