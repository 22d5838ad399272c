//! What calls hold that a reload exchanges.
//!
//! Promises: an exchange cannot fail, and what is the same stays: whoever compares finds the same value in place.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::reading::Read;
use crate::admin::policy::{Attempt, ListenerPolicy, OnePolicy, PolicyStatus};
use crate::app::jobs::say_if_closed;
use crate::app::policies::PolicyRead;
use crate::auth::{Services, Verifier};
use crate::domain::policy::Policy;
use crate::meter::Meter;
use crate::stack::Parts;

/// All of it.
pub(in crate::app) struct Held {
    /// The policy of the gate before the app.
    front: Ruling,
    /// Those of the listeners, by their names.
    listeners: Vec<(String, Ruling)>,
    /// Knows the names of operations.
    pub(super) meter: Arc<Meter>,
    /// Who calls in services' names.
    services: Arc<Services>,
    /// Knows who calls.
    pub(super) verifier: Arc<Verifier>,
    /// Whether operators and workers are listened to.
    has_admin: bool,
}

/// A policy that decides, and the folder that it came from.
pub(in crate::app) struct Ruling {
    policy: Arc<ArcSwap<Policy>>,
    /// The service under which its operations are counted.
    service: String,
    dir: String,
}

impl Ruling {
    /// That of these parts, from there.
    pub(in crate::app) fn new(parts: &Parts, dir: &Path) -> Self {
        let (policy, service) = (Arc::clone(&parts.court.policy), parts.clerk.service.clone());
        Self { policy, service, dir: dir.display().to_string() }
    }

    /// Takes another one in its place; says whether it is another one.
    fn take(&mut self, read: PolicyRead, meter: &Meter) -> bool {
        self.dir = read.dir.display().to_string();
        if read.policy.version() == self.policy.load().version() {
            return false;
        }
        read.warn();
        meter.know(&self.service, &read.policy);
        self.policy.store(Arc::new(read.policy));
        true
    }

    fn told(&self, at: &str) -> OnePolicy {
        let version = self.policy.load().version().to_owned();
        OnePolicy { version, since: at.to_owned(), dir: self.dir.clone() }
    }
}

impl Held {
    /// What these parts hold, whose policy came from `dir`, and these listeners.
    pub(in crate::app) fn of(
        parts: &Parts,
        dir: &Path,
        listeners: Vec<(String, Ruling)>,
        meter: &Arc<Meter>,
        services: &Arc<Services>,
        has_admin: bool,
    ) -> Self {
        Self {
            front: Ruling::new(parts, dir),
            listeners,
            meter: Arc::clone(meter),
            services: Arc::clone(services),
            verifier: Arc::clone(&parts.verifier),
            has_admin,
        }
    }

    /// Puts what was read in the place of what is held. Says what is another one now.
    pub(super) fn take(&mut self, read: Read) -> Vec<String> {
        let Read { policies, .. } = read;
        let mut changed = Vec::new();
        if self.front.take(policies.front, &self.meter) {
            changed.push("policy".to_owned());
            say_if_closed(&self.front.policy.load(), self.has_admin, !self.services.is_empty());
        }
        for (listener, policy) in policies.listeners {
            // One that there was not at the start has no place yet: it waits for the next.
            let place = self.listeners.iter_mut().find(|(name, _)| *name == listener.name);
            if place.is_some_and(|(_, ruling)| ruling.take(policy, &self.meter)) {
                changed.push(format!("policy of the listener {}", listener.name));
            }
        }
        changed
    }

    /// What is in force, as of a start at this time.
    pub(in crate::app) fn status(&self, at: &str) -> PolicyStatus {
        let listeners = self.listeners.iter();
        PolicyStatus {
            front: self.front.told(at),
            listeners: listeners
                .map(|(name, ruling)| ListenerPolicy { name: name.clone(), policy: ruling.told(at) })
                .collect(),
            last_attempt: Attempt::ok(at.to_owned()),
            waits_for_restart: Vec::new(),
        }
    }
}

/// This machine's time, to the second.
pub(in crate::app) fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}
