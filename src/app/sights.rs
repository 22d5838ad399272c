//! The console, put together of what calls have.
//!
//! Promises: it sees the gate before the app and every listener, each by the policy that decides there at the moment.

use std::sync::Arc;

use super::outward::Outward;
use crate::admin::console::{Ruled, Sights};
use crate::admin::drain::Drain;
use crate::admin::policy::InForce;
use crate::stack::Parts;
use crate::store::Store;

/// What the console looks at.
pub(super) fn sights(
    parts: &Parts,
    outward: &Outward,
    store: &Arc<dyn Store>,
    drain: &Drain,
    in_force: InForce,
) -> Sights {
    Sights {
        service: parts.clerk.service.clone(),
        store: Arc::clone(store),
        policies: std::iter::once(ruled(parts)).chain(outward.parts().map(ruled)).collect(),
        drain: drain.clone(),
        in_force,
    }
}

fn ruled(parts: &Parts) -> Ruled {
    Ruled { service: parts.clerk.service.clone(), policy: Arc::clone(&parts.court.policy) }
}
