//! The store, as the commands that look into it open it.
//!
//! Promises: a command that finds no schema, or an older one, says what to do about it, and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::failure::Failure;
use crate::config::{ConfigFlags, Layers, RetentionConfig, StoreConfig, load_listener_policy, load_policy};
use crate::domain::mistake::{Mistake, Mistakes, Place};
use crate::domain::policy::Policy;
use crate::store::{self, Role, Schema, Store, StoreOptions};

/// An open store, and whose claims in it are meant.
pub(super) struct Opened {
    /// The store.
    pub(super) store: Arc<dyn Store>,
    /// The gate's `service`, where one is configured: other services' claims are not looked at.
    pub(super) service: Option<String>,
    /// What else is configured.
    pub(super) layers: Layers,
}

/// Those of the gate before the app and of its listeners.
pub(super) struct Policies {
    front: Option<Policy>,
    listeners: BTreeMap<String, Policy>,
}

impl Policies {
    /// The one by which a service's claims were made.
    pub(super) fn of(&self, service: &str) -> Option<&Policy> {
        match service.split_once(':') {
            None => self.front.as_ref(),
            Some((_, listener)) => self.listeners.get(listener),
        }
    }
}

impl Opened {
    /// The policies that are at hand and sound: whoever looks at claims needs them for advice only.
    pub(super) fn policies(&self) -> Policies {
        let loaded = self.layers.policy_dir().and_then(|dir| load_policy(&dir));
        let listeners = self.layers.listener_policies().unwrap_or_default();
        let listeners = listeners.into_iter().filter_map(|(name, dir)| {
            let (policy, _) = load_listener_policy(&dir).ok()?;
            Some((name, policy))
        });
        Policies { front: loaded.ok().map(|(policy, _)| policy), listeners: listeners.collect() }
    }

    /// The policy by which a service's claims were made.
    pub(super) fn policy_of(&self, service: &str) -> Result<Policy, Mistakes> {
        let Some((_, listener)) = service.split_once(':') else {
            return self.layers.policy_dir().and_then(|dir| load_policy(&dir)).map(|(policy, _)| policy);
        };
        let found = self.layers.listener_policies()?.into_iter().find(|(name, _)| name == listener);
        let (_, dir) = found.ok_or_else(|| {
            Mistake::new(Place::Settings, format!("there is no listener \"{listener}\" any more"))
        })?;
        load_listener_policy(&dir).map(|(policy, _)| policy)
    }

    /// Opens the configured store beside whatever serves on it.
    pub(super) async fn new(flags: &ConfigFlags) -> Result<Self, Failure> {
        let layers = Layers::load(flags).map_err(Failure::config)?;
        let config = layers.store().map_err(Failure::config)?;
        let store = store::open(&config.url, options(&config, Role::Inspect)).await?;
        match store.schema().await? {
            Schema::Fits => {}
            Schema::Missing => {
                return Err(Failure::failed("the store has no schema yet; `oncegate migrate` makes it"));
            }
            Schema::Older { found, needed } => {
                let fault = format!(
                    "the store's schema is at version {found}, and this program needs {needed}; `oncegate migrate` \
                     brings it up"
                );
                return Err(Failure::failed(fault));
            }
        }
        let service = layers.service().map_err(Failure::config)?;
        Ok(Self { store, service, layers })
    }
}

/// Opens the configured store, whatever its schema; SQLite's file is made where there is none.
pub(super) async fn for_migration(flags: &ConfigFlags) -> Result<(Arc<dyn Store>, RetentionConfig), Failure> {
    let layers = Layers::load(flags).map_err(Failure::config)?;
    let config = layers.store().map_err(Failure::config)?;
    let retention = layers.retention().map_err(Failure::config)?;
    let role = if config.url.starts_with("sqlite:") { Role::Serve } else { Role::Inspect };
    Ok((store::open(&config.url, options(&config, role)).await?, retention))
}

fn options(config: &StoreConfig, role: Role) -> StoreOptions {
    StoreOptions { connections: config.connections, ..StoreOptions::new(role) }
}
