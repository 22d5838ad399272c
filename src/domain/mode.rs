//! What an operator chooses for the whole gate: whether what is decided is carried out, and what a store's outage stops.

use schemars::JsonSchema;
use serde::Deserialize;

/// Before the audit's reason for what would have been refused, or answered otherwise.
pub const WOULD: &str = "would_";

/// Behind it, for what would have been answered with the first call's answer: the one such reason that is no refusal's.
pub const REPLAY: &str = "replay";

/// What a gate does about its decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It carries them out.
    #[default]
    Enforce,
    /// It writes them down, and lets every call go on as it came.
    Observe,
}

/// What becomes of a read while the store is away, which should take its audit row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenStoreDown {
    /// It is refused.
    #[default]
    Refuse,
    /// It is served, and its row waits in the spool, as rows of refused calls do.
    Spool,
}
