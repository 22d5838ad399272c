//! What the backend hears as a key, and what it makes of it.
//!
//! Promises: an operation that may be sent again names the key that the backend hears, and for how long that is good.

use std::time::Duration;

use super::{Checks, SECOND, YEAR};
use crate::domain::ledger::Downstream;
use crate::domain::policy::forward_key::ForwardKey;
use crate::domain::policy::raw::{RawDownstream, RawOperation};
use crate::domain::units::duration_text;

impl Checks<'_> {
    pub(super) fn forward_key(&mut self, raw: &RawOperation) -> ForwardKey {
        let quoted = raw.forward_key_quoted.unwrap_or_default();
        let text = raw.forward_key.as_deref().unwrap_or("{key}");
        ForwardKey::parse(text, quoted).unwrap_or_else(|fault| {
            self.found(
                "forward_key",
                format!("\"{text}\" is not a template: {fault}"),
                "see \"{tenant}/{tool}/{key}\"",
            );
            ForwardKey::bare()
        })
    }

    pub(super) fn downstream(&mut self, raw: &RawOperation, ttl: Duration) -> Downstream {
        let retention = self.span("downstream_retention", raw.downstream_retention, SECOND, YEAR);
        let known = raw.provider.map(|provider| provider.retention().min(ttl));
        let downstream = raw.downstream.or(known.map(|_| RawDownstream::Idempotent));
        if downstream != Some(RawDownstream::Idempotent) {
            if raw.downstream_retention.is_some() {
                let help = "say downstream = \"idempotent\" as well";
                self.found("downstream_retention", "nothing runs again here", help);
            }
            return Downstream::Unsafe;
        }
        let key = if raw.downstream.is_some() { "downstream" } else { "provider" };
        if raw.forward_key.is_none() {
            let message = "an idempotent downstream needs an explicit forward_key";
            self.found(key, message, "say what the backend hears: forward_key = \"{tenant}/{tool}/{key}\"");
        }
        if raw.downstream_retention.is_none() && known.is_none() {
            let message = "an idempotent downstream needs downstream_retention";
            self.found(key, message, "say how long the backend remembers a key");
        }
        let retention = retention.or(known.filter(|_| raw.downstream_retention.is_none()));
        let Some(retention) = retention else { return Downstream::Unsafe };
        if ttl < retention {
            let message = format!(
                "downstream_retention ({}) is longer than ttl ({})",
                duration_text(retention),
                duration_text(ttl)
            );
            self.found(
                "downstream_retention",
                message,
                "the gate may not forget a key before the backend does",
            );
        }
        Downstream::Idempotent { retention }
    }
}
