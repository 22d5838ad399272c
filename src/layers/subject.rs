//! What an argument rule is asked about, kept as long as it may be asked again.
//!
//! Promises: every asking about one call is about the same arguments.
//!
//! Absent on purpose: arguments of calls whose operation had no rule when they came. Where one has been made since,
//! such a call is refused when it is asked about again; sent again, it is asked about properly.

use std::sync::Arc;

use crate::domain::json::Json;
use crate::domain::policy::{Arguments, Operation};

/// What a call's rule is asked about.
#[derive(Clone, Debug, Default)]
pub(super) enum Subject {
    /// There was no rule.
    #[default]
    NotKept,
    /// These arguments.
    Kept(Option<Arc<Json>>),
    /// Arguments that different readers may read differently.
    Unclear,
    /// None: what it is about was made by another call, which was asked about then.
    Earlier,
}

impl Subject {
    /// These arguments, where the operation has a rule.
    pub(super) fn of(rule: Option<&Operation>, arguments: Option<&Json>) -> Self {
        match rule.and_then(Operation::argument_rule) {
            None => Self::NotKept,
            Some(_) => Self::Kept(arguments.cloned().map(Arc::new)),
        }
    }

    /// As the policy is asked.
    pub(super) fn arguments(&self) -> Arguments<'_> {
        match self {
            Self::NotKept | Self::Unclear => Arguments::Unclear,
            Self::Kept(arguments) => Arguments::Given(arguments.as_deref()),
            Self::Earlier => Arguments::Unasked,
        }
    }
}
