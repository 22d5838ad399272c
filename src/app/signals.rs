//! The signals that stop a process, and the one that asks it to reload.

use tokio::signal::unix::{SignalKind, signal};

use super::AppFault;

/// SIGHUP. From now on it ends nothing.
pub(super) fn hangup() -> Result<tokio::signal::unix::Signal, AppFault> {
    signal(SignalKind::hangup()).map_err(AppFault::Signal)
}

/// SIGTERM and SIGINT: they mean the same.
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, AppFault> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(AppFault::Signal)?,
            interrupt: signal(SignalKind::interrupt()).map_err(AppFault::Signal)?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
