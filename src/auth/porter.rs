//! Who calls at a listener towards somebody else's API, where no JWT says it: a service by its token, or the pod itself.
//!
//! Promises: a caller is one actor for one tenant, and not known any other way. Where the configuration says who the pod
//! is, a token is not looked at and its bearer is refused: who calls is said in one place.
//!
//! Absent on purpose: `Authorization`. Whatever stands there is for the provider.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::service::{ServiceFault, Services};
use super::verifier::Verified;
use crate::domain::actor::{Actor, ActorFault};
use crate::domain::refusal::Refusal;
use crate::domain::tenants::{TenantFault, Tenants};

/// Carries a service's token.
pub const TOKEN: HeaderName = HeaderName::from_static("x-oncegate-token");

/// Names the tenant that a call is for.
pub const TENANT: HeaderName = HeaderName::from_static("x-oncegate-tenant");

/// Knows who calls.
pub enum Porter {
    /// Those who show a token.
    Services(Arc<Services>),
    /// Everybody who reaches the listener is this.
    Pod(Identity),
}

/// The pod itself, as it is configured.
#[derive(Clone, Debug)]
pub struct Identity {
    tenants: Tenants,
    user: String,
    scopes: Vec<String>,
}

/// Why it is not known who calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// There is no token.
    #[error("X-Oncegate-Token is missing")]
    NoToken,
    /// There are several.
    #[error("X-Oncegate-Token stands there more than once")]
    Tokens,
    /// It is nobody's.
    #[error("the token in X-Oncegate-Token is not known")]
    Stranger,
    /// Nobody shows one here.
    #[error("this listener knows its callers, and takes no X-Oncegate-Token")]
    NotAsked,
    /// Not one tenant is named that may be.
    #[error("X-Oncegate-Tenant: {0}")]
    Tenant(TenantFault),
    /// What is named can be no tenant.
    #[error("X-Oncegate-Tenant: {0}")]
    NoActor(ActorFault),
}

impl Identity {
    /// This user, with these scopes, for one of these tenants.
    pub fn new(tenants: Tenants, user: String, scopes: Vec<String>) -> Self {
        Self { tenants, user, scopes }
    }
}

impl Porter {
    /// Who sends a request with these headers.
    pub fn knows(&self, headers: &HeaderMap) -> Result<Verified, Unknown> {
        let named = tenants(headers)?;
        let actor = match self {
            Self::Services(services) => {
                let service = services.holder(token(headers)?).ok_or(Unknown::Stranger)?;
                service.actor(named)?
            }
            Self::Pod(_) if headers.contains_key(TOKEN) => return Err(Unknown::NotAsked),
            Self::Pod(pod) => {
                let tenant = pod.tenants.choose(named).map_err(Unknown::Tenant)?;
                let actor = Actor::new(tenant, &pod.user, None, pod.scopes.iter().cloned());
                actor.map_err(Unknown::NoActor)?
            }
        };
        Ok(Verified::lasting(actor))
    }
}

/// What is no text names nobody: it is told as a tenant that is not the caller's.
fn tenants(headers: &HeaderMap) -> Result<Vec<&str>, Unknown> {
    let texts = headers.get_all(TENANT).iter().map(HeaderValue::to_str);
    texts.collect::<Result<_, _>>().map_err(|_| Unknown::Tenant(TenantFault::Foreign))
}

fn token(headers: &HeaderMap) -> Result<&str, Unknown> {
    let mut tokens = headers.get_all(TOKEN).iter();
    let (one, another) = (tokens.next().ok_or(Unknown::NoToken)?, tokens.next());
    if another.is_some() {
        return Err(Unknown::Tokens);
    }
    one.to_str().map_err(|_| Unknown::Stranger)
}

impl From<ServiceFault> for Unknown {
    fn from(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Tenant(fault) => Self::Tenant(fault),
            ServiceFault::NoActor(fault) => Self::NoActor(fault),
        }
    }
}

impl From<Unknown> for Refusal {
    fn from(fault: Unknown) -> Self {
        match fault {
            Unknown::Tenant(TenantFault::Foreign) => Self::ForeignTenant,
            Unknown::NoToken
            | Unknown::Tokens
            | Unknown::Stranger
            | Unknown::NotAsked
            | Unknown::Tenant(TenantFault::Unnamed | TenantFault::Several)
            | Unknown::NoActor(_) => Self::CallerUnknown { detail: fault.to_string() },
        }
    }
}
