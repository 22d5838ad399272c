//! What one row of the table holds.

use std::time::Duration;

use crate::domain::audit::Executed;
use crate::domain::time::Timestamp;

/// Whether sending the call again is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// With the same key.
    SameKey,
    /// Only as a new intent, under a new key.
    NewKey,
    /// Not at all.
    No,
}

impl Retry {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same_key",
            Self::NewKey => "new_key",
            Self::No => "no",
        }
    }
}

/// In which form a refusal goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An HTTP error with a JSON-RPC error of this code in it.
    Http {
        /// The HTTP status.
        status: u16,
        /// The JSON-RPC code.
        code: i64,
    },
    /// A 401 or 403 with `WWW-Authenticate`, and a JSON-RPC error in it.
    Challenge {
        /// 401 or 403.
        status: u16,
    },
    /// HTTP 200: a tool error for `tools/call`, a JSON-RPC error of this code for other methods.
    Told {
        /// The JSON-RPC code for methods other than `tools/call`.
        code: i64,
    },
    /// HTTP 200 with JSON-RPC -32603.
    Fault,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The code on the wire.
    pub code: &'static str,
    /// The word in the audit row.
    pub reason: &'static str,
    /// The form.
    pub shape: Shape,
    /// Whether the call ran.
    pub executed: Executed,
    /// Whether sending it again is safe.
    pub retry: Retry,
    /// One plain sentence or two, for a model or a person.
    pub text: String,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// When the key was first seen.
    pub first_seen: Option<Timestamp>,
    /// The earlier key of a possible duplicate.
    pub earlier_key: Option<String>,
    /// The scopes that a challenge asks for.
    pub scopes: Vec<String>,
    /// What is wrong with the token, where one was given.
    pub token_fault: Option<String>,
    /// The methods that the endpoint takes.
    pub allow: Option<String>,
    /// The protocol's extension that the client would have to know.
    pub lacks: Option<&'static str>,
}

impl Row {
    pub(super) fn new(
        code: &'static str,
        reason: &'static str,
        shape: Shape,
        (executed, retry): (Executed, Retry),
        text: String,
    ) -> Self {
        Self {
            code,
            reason,
            shape,
            executed,
            retry,
            text,
            retry_after: None,
            first_seen: None,
            earlier_key: None,
            scopes: Vec::new(),
            token_fault: None,
            allow: None,
            lacks: None,
        }
    }

    /// Its HTTP status where nobody waits for a JSON-RPC response. The codes of what a model is told begin with it; what
    /// has one of JSON-RPC's own is no plain request's.
    pub fn plain_status(&self) -> u16 {
        match self.shape {
            Shape::Http { status, .. } | Shape::Challenge { status } => status,
            Shape::Told { code } => u16::try_from(code / 100).unwrap_or(400),
            Shape::Fault => 500,
        }
    }

    /// With the scopes of a challenge, separated by blanks.
    pub(super) fn asking(self, scopes: &str) -> Self {
        Self { scopes: scopes.split_ascii_whitespace().map(str::to_owned).collect(), ..self }
    }

    pub(super) fn seen(self, first_seen: impl Into<Option<Timestamp>>) -> Self {
        Self { first_seen: first_seen.into(), ..self }
    }

    pub(super) fn after(self, retry_after: impl Into<Option<Duration>>) -> Self {
        Self { retry_after: retry_after.into(), ..self }
    }
}

/// Nothing ran, and nothing ever will.
pub(super) const NEVER_SO: (Executed, Retry) = (Executed::No, Retry::No);

/// What cannot be read as a message.
pub(super) fn malformed(code: &'static str, rpc: i64, text: String) -> Row {
    Row::new(code, "malformed_request", Shape::Http { status: 400, code: rpc }, NEVER_SO, text)
}

/// What the policy does not allow.
pub(super) fn closed(reason: &'static str) -> Row {
    Row::new(
        "operation_not_allowed",
        reason,
        Shape::Told { code: 40_301 },
        NEVER_SO,
        "This operation is not open to you by policy; nothing was run. Do not try it again.".into(),
    )
}

/// What the operation's rule does not allow. Which rule that is stays the operator's.
pub(super) fn ruled_out() -> Row {
    Row::new(
        "operation_not_allowed",
        "argument_rule",
        Shape::Told { code: 40_306 },
        NEVER_SO,
        "This may not be called with these arguments; nothing was run.".into(),
    )
}

/// A key that another call has.
pub(super) fn reused(reason: &'static str) -> Row {
    Row::new(
        "idempotency_key_reuse_with_different_args",
        reason,
        Shape::Told { code: 42_201 },
        (Executed::No, Retry::NewKey),
        "This idempotency key was already used for another call; this one was not run. Use a new key for a new \
         action, and the old key only to repeat the old one exactly."
            .into(),
    )
}

/// A wait in whole seconds, none shorter than its milliseconds are.
pub(super) fn in_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// A wait, for a sentence.
pub(super) fn in_about(wait: Duration) -> String {
    match in_seconds(wait) {
        0 => "now".to_owned(),
        seconds => format!("in about {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sentence_says_agrees_with_the_milliseconds() {
        for (micros, says) in [
            (0, "now"),
            (999, "now"),
            (1_000, "in about 1 s"),
            (1_000_000, "in about 1 s"),
            (1_001_000, "in about 2 s"),
        ] {
            assert_eq!(in_about(Duration::from_micros(micros)), says);
        }
    }
}
