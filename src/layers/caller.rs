//! Who calls.
//!
//! Promises: where the gate enforces, a [`Caller`] is always [`Caller::Verified`]: the step that authenticates makes no
//! other. [`Caller::Anonymous`] has no scopes, so that the policy allows it nothing, and holds after no wait.
//!
//! Absent on purpose: any other way to become an actor.

use crate::auth::Verified;
use crate::domain::actor::Actor;

/// Who calls.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Whom a genuine token names.
    Verified(Verified),
    /// Nobody that a token names. Only a gate that observes lets such a caller on.
    Anonymous(Actor),
}

impl Caller {
    /// The actor.
    pub fn actor(&self) -> &Actor {
        match self {
            Self::Verified(verified) => verified.actor(),
            Self::Anonymous(actor) => actor,
        }
    }

    /// What a token proved.
    pub fn verified(&self) -> Option<&Verified> {
        match self {
            Self::Verified(verified) => Some(verified),
            Self::Anonymous(_) => None,
        }
    }
}
