//! The way out of service.
//!
//! Promises: from the moment a gate is told to drain it is not ready. While load balancers come to hear of that, calls
//! are served, and their connections end with their answers; then no new call is taken, and those that run go on to
//! their end. There is no way back, and being told twice changes nothing.
//!
//! Absent on purpose: the end of the process. That is a signal's business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Readiness;
use crate::layers::queue::room::{Census, Room};
use crate::meter::Meter;

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It takes calls.
    Serving,
    /// It takes calls, and wants no more of them.
    Settling,
    /// It takes none.
    Closed,
}

/// How far a gate has come, and who is still in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// How far.
    pub state: State,
    /// Calls that run.
    pub calls_running: usize,
    /// Calls that wait: for a place, or for another call.
    pub calls_waiting: usize,
    /// Records that wait in the spool for the store.
    pub spooled: u64,
}

impl Standing {
    /// Whether nothing runs, and nothing will, and all that came of it is stored.
    pub fn is_over(&self) -> bool {
        self.state == State::Closed && self.calls_running == 0 && self.calls_waiting == 0 && self.spooled == 0
    }
}

/// The way out of one gate. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Drain(Arc<Way>);

#[derive(Debug)]
struct Way {
    readiness: Readiness,
    room: Room,
    meter: Arc<Meter>,
    leaving: CancellationToken,
    begun: AtomicBool,
}

impl Drain {
    /// Of the gate with this room, whose spool is counted here.
    pub fn new(readiness: Readiness, room: Room, meter: Arc<Meter>) -> Self {
        let leaving = CancellationToken::new();
        Self(Arc::new(Way { readiness, room, meter, leaving, begun: AtomicBool::new(false) }))
    }

    /// Cancelled once connections are to end with their next answers.
    pub fn leaving(&self) -> &CancellationToken {
        &self.0.leaving
    }

    /// Begins it: calls are served for as long as this says, and none after that.
    pub fn begin(&self, settle: Duration) {
        self.leave();
        if self.0.begun.swap(true, Ordering::SeqCst) {
            return;
        }
        info!(?settle, "Draining: not ready any more; soon no call is taken.");
        let room = self.0.room.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sleep(settle) => {}
                () = room.closed().cancelled() => return,
            }
            room.close();
            let Census { running, waiting, queued: _ } = room.census();
            info!(running, waiting, "No call is taken any more; those inside go on.");
        });
    }

    /// The gate stops: no call is taken from now on.
    pub fn stop(&self) {
        self.leave();
        self.0.room.close();
    }

    /// How far it has come.
    pub fn standing(&self) -> Standing {
        let state = if self.0.room.closed().is_cancelled() {
            State::Closed
        } else if self.0.leaving.is_cancelled() {
            State::Settling
        } else {
            State::Serving
        };
        let Census { running, waiting, queued: _ } = self.0.room.census();
        let spooled = self.0.meter.spooled_now();
        Standing { state, calls_running: running, calls_waiting: waiting, spooled }
    }

    fn leave(&self) {
        self.0.readiness.leaves();
        self.0.leaving.cancel();
    }
}
