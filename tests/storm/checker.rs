//! The checker: a history in, violations out.
//!
//! Promises: pure. It believes the upstream's record, what clients heard, and the tables, and nothing that the gate says
//! of itself; each rule says what it found about which key, so that the key's whole story can be told. A history that has
//! not ended is checked for what must hold at every moment; the rest is asked of an ended one.

mod answers;
mod audit;
mod claims;
mod effects;
mod gates;
#[cfg(test)]
mod tests;

use crate::history::{Events, Name};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// The rule that it breaks.
    pub(crate) rule: &'static str,
    /// Whose story it is.
    pub(crate) name: Option<Name>,
    /// What was found.
    pub(crate) says: String,
}

/// What the checker found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// Audit rows that were lost with a killed gate, where that is allowed.
    pub(crate) rows_lost: usize,
}

impl Verdict {
    fn add(&mut self, rule: &'static str, name: Option<&Name>, says: impl Into<String>) {
        self.violations.push(Violation { rule, name: name.cloned(), says: says.into() });
    }
}

/// Checks everything.
pub(crate) fn check(events: &Events) -> Verdict {
    let mut verdict = Verdict::default();
    effects::check(events, &mut verdict);
    answers::check(events, &mut verdict);
    claims::check(events, &mut verdict);
    audit::check(events, &mut verdict);
    gates::check(events, &mut verdict);
    verdict.violations.sort();
    verdict.violations.dedup();
    verdict
}
