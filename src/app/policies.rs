//! The policies of one process: the gate's own, and one for each listener.
//!
//! Promises: a process does not start on a mistake in any of them, and every mistake is told at once; what they warn of
//! is logged.

use std::time::Duration;

use tracing::warn;

use super::AppFault;
use crate::config::{ListenerConfig, ServeConfig, load_listener_policy, load_policy};
use crate::domain::mistake::Mistakes;
use crate::domain::policy::{Policy, Warning};

/// All of them.
pub(super) struct Policies {
    /// That of the gate before the app.
    pub(super) front: Policy,
    /// Each listener's, with what it is configured to be.
    pub(super) listeners: Vec<(ListenerConfig, Policy)>,
}

impl Policies {
    /// Reads them; the listeners are taken out of the configuration.
    pub(super) fn load(config: &mut ServeConfig) -> Result<Self, AppFault> {
        let front = told(load_policy(&config.policy_dir));
        let (mut listeners, mut mistakes) = (Vec::new(), Vec::new());
        for listener in std::mem::take(&mut config.listeners) {
            match told(load_listener_policy(&listener.policy_dir)) {
                Ok(policy) => listeners.push((listener, policy)),
                Err(found) => mistakes.extend(found.iter().cloned()),
            }
        }
        match front {
            Ok(front) => {
                Mistakes::none_in(mistakes).map_err(AppFault::Policy)?;
                Ok(Self { front, listeners })
            }
            Err(found) => {
                mistakes.extend(found.iter().cloned());
                Err(AppFault::Policy(Mistakes::none_in(mistakes).err().unwrap_or(found)))
            }
        }
    }

    /// How long a call may take upstream of a listener; none where there is no listener.
    pub(super) fn longest_timeout(&self) -> Option<Duration> {
        self.listeners.iter().map(|(listener, _)| listener.provider.timeout).max()
    }
}

/// What a policy warns of is logged.
fn told(read: Result<(Policy, Vec<Warning>), Mistakes>) -> Result<Policy, Mistakes> {
    let (policy, warnings) = read?;
    for warning in &warnings {
        warn!("{warning}");
    }
    Ok(policy)
}
