//! The policies of one process: the gate's own, and one for each listener.
//!
//! Promises: neither a start nor a reload takes a mistake in any of them, and every mistake is told at once; what they
//! warn of is logged when they come into force.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::warn;

use crate::config::{ListenerConfig, ServeConfig, load_listener_policy, load_policy};
use crate::domain::mistake::Mistakes;
use crate::domain::policy::{Policy, Warning};

/// All of them.
pub(super) struct Policies {
    /// That of the gate before the app.
    pub(super) front: PolicyRead,
    /// Each listener's, with what it is configured to be.
    pub(super) listeners: Vec<(ListenerConfig, PolicyRead)>,
}

/// One of them, as it was read.
pub(super) struct PolicyRead {
    pub(super) policy: Policy,
    pub(super) dir: PathBuf,
    warnings: Vec<Warning>,
}

impl Policies {
    /// Reads them; the listeners are taken out of the configuration.
    pub(super) fn load(config: &mut ServeConfig) -> Result<Self, Mistakes> {
        let front = read(&config.policy_dir, load_policy);
        let (mut listeners, mut mistakes) = (Vec::new(), Vec::new());
        for listener in std::mem::take(&mut config.listeners) {
            match read(&listener.policy_dir, load_listener_policy) {
                Ok(policy) => listeners.push((listener, policy)),
                Err(found) => mistakes.extend(found.iter().cloned()),
            }
        }
        match front {
            Ok(front) => {
                Mistakes::none_in(mistakes)?;
                Ok(Self { front, listeners })
            }
            Err(found) => {
                mistakes.extend(found.iter().cloned());
                Err(Mistakes::none_in(mistakes).err().unwrap_or(found))
            }
        }
    }

    /// How long a call may take upstream of a listener; none where there is no listener.
    pub(super) fn longest_timeout(&self) -> Option<Duration> {
        self.listeners.iter().map(|(listener, _)| listener.provider.timeout).max()
    }

    /// Says what they warn of.
    pub(super) fn warn(&self) {
        self.reads().for_each(PolicyRead::warn);
    }

    fn reads(&self) -> impl Iterator<Item = &PolicyRead> {
        std::iter::once(&self.front).chain(self.listeners.iter().map(|(_, read)| read))
    }
}

impl PolicyRead {
    /// Says what it warns of.
    pub(super) fn warn(&self) {
        for warning in &self.warnings {
            warn!("{warning}");
        }
    }
}

fn read(
    dir: &Path,
    load: impl Fn(&Path) -> Result<(Policy, Vec<Warning>), Mistakes>,
) -> Result<PolicyRead, Mistakes> {
    let (policy, warnings) = load(dir)?;
    Ok(PolicyRead { policy, dir: dir.to_owned(), warnings })
}
