//! Which policy is in force, and how the last reload went: what every place tells that is asked for it.
//!
//! Promises: what is told here is of one moment; it holds no secret, and of the policy's text no more than where a
//! mistake stands and what is wrong there.
//!
//! Absent on purpose: reloading, which is [`crate::app`]'s, and the policy itself: calls ask the court for it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::domain::mistake::{Mistake, Mistakes};

/// What is in force. Cheap to clone; every clone tells the same.
#[derive(Clone, Debug)]
pub struct InForce(Arc<ArcSwap<PolicyStatus>>);

/// What is in force, at one moment. Times are this machine's, as RFC 3339 writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The policy of the gate before the app.
    #[serde(flatten)]
    pub front: OnePolicy,
    /// The policies of the listeners.
    pub listeners: Vec<ListenerPolicy>,
    /// The last time that the files were read because they had changed, or somebody asked; at first, the start.
    pub last_attempt: Attempt,
    /// Settings that were changed, and take effect with the next start.
    pub waits_for_restart: Vec<String>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnePolicy {
    /// The short hash that audit rows carry.
    pub version: String,
    /// Since when it decides.
    pub since: String,
    /// The folder that it was read from.
    pub dir: String,
}

/// One listener's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerPolicy {
    /// The listener's name.
    pub name: String,
    /// Its policy.
    #[serde(flatten)]
    pub policy: OnePolicy,
}

/// How a reload went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When.
    pub at: String,
    /// Whether what was read is in force.
    pub result: AttemptResult,
    /// What was wrong, where it is not.
    pub mistakes: Vec<ToldMistake>,
}

/// Whether what was read is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// It is.
    Ok,
    /// It is not: what was in force before still is.
    Failed,
}

/// A mistake, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldMistake {
    /// File, line and column; or the variable, or the flag.
    pub place: String,
    /// What is wrong there.
    pub message: String,
    /// How it may be put right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl InForce {
    /// This is.
    pub fn new(status: PolicyStatus) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(status)))
    }

    /// What is.
    pub fn status(&self) -> Arc<PolicyStatus> {
        self.0.load_full()
    }

    /// From now on, this is told.
    pub fn tell(&self, status: PolicyStatus) {
        self.0.store(Arc::new(status));
    }
}

impl Attempt {
    /// One that went well.
    pub fn ok(at: String) -> Self {
        Self { at, result: AttemptResult::Ok, mistakes: Vec::new() }
    }

    /// One that did not.
    pub fn failed(at: String, mistakes: &Mistakes) -> Self {
        Self { at, result: AttemptResult::Failed, mistakes: mistakes.iter().map(ToldMistake::from).collect() }
    }

    /// Whether it did not.
    pub fn has_failed(&self) -> bool {
        self.result == AttemptResult::Failed
    }
}

impl From<&Mistake> for ToldMistake {
    fn from(mistake: &Mistake) -> Self {
        Self {
            place: mistake.place().to_string(),
            message: mistake.message().to_owned(),
            help: mistake.help().map(str::to_owned),
        }
    }
}

impl std::fmt::Display for ToldMistake {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}: {}", self.place, self.message)?;
        self.help.iter().try_for_each(|help| write!(to, "; {help}"))
    }
}
