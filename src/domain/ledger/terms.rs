//! What the way into the ledger and the way out of it have in common: the policy's terms, and the attempt.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::claim::Round;
use crate::domain::answer::as_text;

/// What the backend makes of a forwarded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Downstream {
    /// It ignores it, or nobody knows: an unknown outcome stays unknown.
    Unsafe,
    /// It honours it for this long after the first time it saw it.
    Idempotent {
        /// `downstream_retention`.
        retention: Duration,
    },
}

/// The policy's terms for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// How long a settled claim is remembered.
    pub ttl: Duration,
    /// How long an attempt owns its claim without renewing it.
    pub lease: Duration,
    /// How long one attempt may take upstream, whole.
    pub upstream_timeout: Duration,
    /// What the backend makes of a forwarded key.
    pub downstream: Downstream,
    /// Whether any user of the tenant may present the key.
    pub shared_within_tenant: bool,
}

/// One try at running a claimed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Random; the only proof of ownership.
    pub id: Uuid,
    /// What went before it.
    pub kind: AttemptKind,
}

/// What went before an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// Nothing that may have run.
    First,
    /// An attempt that may have run; the backend honours the key.
    Rerun,
    /// A round that the upstream answered with a request for input.
    Continuation {
        /// That round.
        round: Round,
        /// That answer, as kept.
        #[serde(with = "as_text")]
        response: Option<Bytes>,
    },
}
