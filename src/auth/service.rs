//! From a service's token to an actor.
//!
//! Promises: which token it is shows in no time: every known one is compared, by its hash, whichever is meant. The actor
//! has the tenant that the service names, if it may speak for it, the service's name as its user, no session, and the
//! scopes that the configuration gives it.
//!
//! Absent on purpose: expiry. Such a token is good for as long as the configuration names it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::domain::actor::{Actor, ActorFault};
use crate::domain::tenants::{TenantFault, Tenants};

/// Every service that may call in its own name, by now.
#[derive(Default)]
pub struct Services(ArcSwap<Vec<Arc<Service>>>);

/// A service that may.
#[derive(PartialEq, Eq)]
pub struct Service {
    name: String,
    hashes: Vec<[u8; 32]>,
    scopes: Vec<String>,
    tenants: Tenants,
}

/// Why a service is not this actor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceFault {
    /// It may not speak for this tenant.
    #[error(transparent)]
    Tenant(#[from] TenantFault),
    /// No tenant has such a name.
    #[error(transparent)]
    NoActor(#[from] ActorFault),
}

impl Service {
    /// A service with these tokens.
    pub fn new<'t>(
        name: String,
        tokens: impl IntoIterator<Item = &'t str>,
        scopes: Vec<String>,
        tenants: Tenants,
    ) -> Self {
        let hashes = tokens.into_iter().map(hash).collect();
        Self { name, hashes, scopes, tenants }
    }

    /// Its name: the user that it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The actor that it is for a call that names these tenants.
    pub fn actor<'a>(&self, named: impl IntoIterator<Item = &'a str>) -> Result<Actor, ServiceFault> {
        let named: Vec<&str> = named.into_iter().collect();
        let tenant = self.tenants.choose(named)?;
        Ok(Actor::new(tenant, &self.name, None, self.scopes.iter().cloned())?)
    }
}

impl Services {
    /// These services.
    pub fn new(services: impl IntoIterator<Item = Service>) -> Self {
        Self(ArcSwap::from_pointee(services.into_iter().map(Arc::new).collect()))
    }

    /// Takes others in their place; says whether they are others.
    pub fn take(&self, newer: &Self) -> bool {
        let newer = newer.0.load_full();
        let are_others = **self.0.load() != *newer;
        if are_others {
            self.0.store(newer);
        }
        are_others
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// The service that has this token.
    pub fn holder(&self, token: &str) -> Option<Arc<Service>> {
        let given = hash(token);
        let mut holder = None;
        for service in self.0.load().iter() {
            for known in &service.hashes {
                if bool::from(known.ct_eq(&given)) {
                    holder = Some(Arc::clone(service));
                }
            }
        }
        holder
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}
