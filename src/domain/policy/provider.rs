//! What known providers make of the `Idempotency-Key` that they are sent, as their own pages say.
//!
//! Promises: only what a provider documents is taken for certain; a policy that says otherwise is followed.
//!
//! Absent on purpose: providers that want the key elsewhere than in that header, or do not say how long they remember
//! it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::answers::{Meaning, Statuses, USUAL};

/// A provider that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Stripe's API, version 1: <https://docs.stripe.com/api/idempotent_requests> and
    /// <https://docs.stripe.com/error-low-level>.
    Stripe,
}

impl Provider {
    /// As it calls itself.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stripe => "Stripe",
        }
    }

    /// What its statuses say, where they say more than anybody's.
    pub(super) fn answers(self) -> Vec<(Statuses, Meaning)> {
        let own: &[(u16, Meaning)] = match self {
            // Nothing is kept of a request that meets another one with its key, or comes too fast: the endpoint has not
            // begun. A 500 is kept there, and says nothing of what was done.
            Self::Stripe => &[(409, Meaning::Releases), (429, Meaning::Releases)],
        };
        let mut answers: Vec<_> = own.iter().map(|(status, is)| (Statuses::One(*status), *is)).collect();
        answers.extend(USUAL);
        answers
    }

    /// How long it remembers a key, at least.
    pub(super) const fn retention(self) -> Duration {
        match self {
            Self::Stripe => Duration::from_hours(24),
        }
    }
}
