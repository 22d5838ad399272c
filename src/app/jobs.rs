//! The jobs' gate, put together of what calls have.
//!
//! Promises: a policy with jobs that nobody can claim is told of at start.

use std::sync::Arc;

use tracing::warn;

use crate::admin::jobs::{Bounds, Jobs, JobsGate};
use crate::auth::Services;
use crate::config::Limits;
use crate::domain::policy::{Kind, Policy};
use crate::stack::Parts;

/// The gate for these services' workers.
pub(super) fn jobs(services: Arc<Services>, parts: &Parts, limits: Limits, has_listener: bool) -> JobsGate {
    say_if_closed(&parts.court.policy.load(), has_listener, !services.is_empty());
    JobsGate::new(Jobs {
        services,
        clerk: Arc::clone(&parts.clerk),
        room: parts.post.room.clone(),
        tracer: parts.post.tracer.clone(),
        bounds: Bounds {
            request_body: limits.request_body,
            body_time: limits.body_time,
            queue_time: limits.queue_time,
        },
    })
}

/// Says what is missing where the policy names jobs.
pub(super) fn say_if_closed(policy: &Policy, has_listener: bool, has_services: bool) {
    if !policy.operations().any(|operation| operation.kind() == Kind::Job) {
        return;
    }
    if !has_listener {
        warn!(
            "The policy names jobs, and nobody can claim them: admin_token_file is not set, so nobody listens there."
        );
    }
    if !has_services {
        warn!("The policy names jobs, and nobody can claim them: there are no [service_tokens].");
    }
}
