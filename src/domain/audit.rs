//! What is written down about every attempt.
//!
//! Promises: an [`AuditEvent`] holds only what was redacted before; its names are the table's column names.
//!
//! Absent on purpose: the time of the event. The store stamps it with its own clock.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The audit row's word for what the gate did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call went to the upstream, or was let go there.
    Allowed,
    /// The gate answered with a refusal.
    Denied,
    /// The first call's answer was given again.
    Replayed,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Denied, Self::Replayed];

    /// The word in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Replayed => "replayed",
        }
    }

    /// The decision that the table's word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.as_str() == word)
    }
}

/// Whether the upstream ran the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executed {
    /// It certainly did not.
    No,
    /// It may have: bytes went out and no trustworthy answer came.
    Maybe,
    /// It did, now or at the first attempt.
    Yes,
}

impl Executed {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::No, Self::Maybe, Self::Yes];

    /// The word in the table and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Maybe => "maybe",
            Self::Yes => "yes",
        }
    }

    /// The value that the table's word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.as_str() == word)
    }
}

/// What is known of one attempt before its end. Kept on the claim too, so that whoever finds a dead owner's
/// claim can write the row that the owner could not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The actor's tenant.
    pub tenant_id: String,
    /// The gate's `service`.
    pub service: String,
    /// The actor's user.
    pub user_id: String,
    /// The actor's session.
    pub session_id: Option<String>,
    /// The operation; empty where the call was refused before it had one.
    pub tool: String,
    /// The fingerprint of the arguments, as in [`crate::domain::fingerprint`].
    pub args_hash: Option<String>,
    /// The arguments as JSON text, redacted.
    pub args: Option<String>,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// The attempt that this is about; empty where no claim was made.
    pub attempt_id: Option<Uuid>,
    /// The key that the app hears from this attempt, without quotes. Kept with the claim only: by no other key can the
    /// app be asked about it, or know it again. Empty where the call went as its client sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_key: Option<String>,
    /// The gate's span of the call that made the attempt, where its trace was told: a later call that gets its answer points
    /// there. Kept with the claim only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// What a worker's report about this attempt will need. Kept with the claim only, and only where a worker runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_out: Option<HandedOut>,
    /// The version of the policy that decided.
    pub policy_version: Option<String>,
    /// The trace, from the caller's `traceparent` or made by the gate.
    pub trace_id: Option<String>,
    /// The protocol and its version: `mcp/2026-07-28`.
    pub protocol: Option<String>,
    /// What the client calls itself. Unverified.
    pub client: Option<String>,
}

/// What is known of an attempt that a worker carries out, and that the worker is not asked to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOut {
    /// Whether no earlier attempt at this claim may have run.
    pub is_first: bool,
    /// The earlier key of a call with the same arguments, where the policy looks out for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<String>,
}

/// One row of `audit_events`, before the store stamps its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// A time-ordered UUID (version 7).
    pub id: Uuid,
    /// Who called what.
    pub facts: Facts,
    /// What the gate did.
    pub decision: Decision,
    /// Why, in one of the documented words; empty for a call that simply ran.
    pub reason: Option<String>,
    /// A few fields of the result, redacted, as JSON text.
    pub result_summary: Option<String>,
    /// How long the call took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Whether the upstream ran it.
    pub executed: Executed,
    /// The upstream's HTTP status, where one came.
    pub upstream_status: Option<u16>,
}

impl AuditEvent {
    /// The row of an attempt whose owner died before it could write one: whoever moves its claim on writes it, in the
    /// same transaction.
    pub fn abandoned(id: Uuid, facts: Facts) -> Self {
        Self {
            id,
            facts,
            decision: Decision::Allowed,
            reason: Some("abandoned".to_owned()),
            result_summary: None,
            duration_ms: None,
            executed: Executed::Maybe,
            upstream_status: None,
        }
    }
}
