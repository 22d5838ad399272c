//! What calls hold that a reload exchanges.
//!
//! Promises: an exchange cannot fail, and what is the same stays: nobody is asked for a token again, and no connection is
//! made anew, because a file was written that says the same.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::reading::Read;
use crate::admin::OperatorsToken;
use crate::admin::policy::{Attempt, ListenerPolicy, OnePolicy, PolicyStatus};
use crate::app::gates::House;
use crate::app::jobs::say_if_closed;
use crate::app::policies::PolicyRead;
use crate::app::tokens::services;
use crate::auth::{Newer, Services, Verifier};
use crate::config::{AdminConfig, ServeConfig};
use crate::domain::fingerprint::Secrets;
use crate::domain::policy::Policy;
use crate::meter::Meter;
use crate::stack::Parts;
use crate::upstream::Upstream;

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
    /// What operators show; none where nobody listens to them.
    operators: Option<OperatorsToken>,
    /// For fingerprints and seals.
    secrets: Secrets,
    /// Who issues tokens, as clients are told.
    authorization_servers: Arc<ArcSwap<Vec<String>>>,
    /// Knows who calls.
    pub(super) verifier: Arc<Verifier>,
}

/// A policy that decides, and the folder that it came from.
pub(in crate::app) struct Ruling {
    policy: Arc<ArcSwap<Policy>>,
    /// The service under which its operations are counted.
    service: String,
    dir: String,
    /// Where its calls go.
    upstream: Upstream,
}

impl Ruling {
    /// That of these parts, from there.
    pub(in crate::app) fn new(parts: &Parts, dir: &Path) -> Self {
        let (policy, service) = (Arc::clone(&parts.court.policy), parts.clerk.service.clone());
        let upstream = parts.road.upstream.clone();
        Self { policy, service, dir: dir.display().to_string(), upstream }
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
    /// What these parts hold, whose policy came from `dir`, and these listeners; and where operators are listened to, with
    /// their token.
    pub(in crate::app) fn of(
        parts: &Parts,
        dir: &Path,
        listeners: Vec<(String, Ruling)>,
        house: &House,
        services: &Arc<Services>,
        admin: Option<&AdminConfig>,
    ) -> (Self, Option<(SocketAddr, OperatorsToken)>) {
        let operators = admin.map(|admin| Arc::new(ArcSwap::from_pointee(admin.token.clone())));
        let held = Self {
            front: Ruling::new(parts, dir),
            listeners,
            meter: Arc::clone(house.meter()),
            services: Arc::clone(services),
            operators: operators.clone(),
            secrets: house.secrets().clone(),
            authorization_servers: Arc::clone(&parts.desk.authorization_servers),
            verifier: Arc::clone(&parts.verifier),
        };
        (held, admin.map(|admin| admin.listen).zip(operators))
    }

    /// Puts what was read in the place of what is held. Says what is another one now.
    pub(super) fn take(&mut self, read: Read) -> Vec<String> {
        let Read { config, policies, app, providers, auth, .. } = read;
        let mut changed = self.take_keys(*config, auth);
        if self.front.upstream.take(app) {
            changed.push("upstream.ca_file".to_owned());
        }
        for (name, trust) in providers {
            let place = self.listeners.iter().find(|(listener, _)| *listener == name);
            if place.is_some_and(|(_, ruling)| ruling.upstream.take(trust)) {
                changed.push(format!("listener {name}: upstream.ca_file"));
            }
        }
        // Last: a call that the new policy decides finds the keys that came with it.
        if self.front.take(policies.front, &self.meter) {
            changed.push("policy".to_owned());
            say_if_closed(&self.front.policy.load(), self.operators.is_some(), !self.services.is_empty());
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

    /// Keys and tokens. Says what is another one now.
    fn take_keys(&self, config: ServeConfig, auth: Option<Newer>) -> Vec<String> {
        let mut changed = Vec::new();
        let mut note = |is_other: bool, name: &str| {
            if is_other {
                changed.push(name.to_owned());
            }
        };
        note(self.secrets.take(&config.secrets), "secret_file");
        let servers = config.auth.authorization_servers;
        let others = **self.authorization_servers.load() != servers;
        if others {
            self.authorization_servers.store(Arc::new(servers));
        }
        note(auth.is_some() || others, "auth");
        if let Some(auth) = auth {
            self.verifier.take(auth);
        }
        note(self.services.take(&services(&config.service_tokens)), "service_tokens");
        if let (Some(held), Some(admin)) = (&self.operators, config.admin) {
            let is_other = **held.load() != admin.token;
            if is_other {
                held.store(Arc::new(admin.token));
            }
            note(is_other, "admin_token_file");
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
