//! A request target's query.
//!
//! Promises: the canonical form is that of its pairs, percent-escapes decoded, sorted by name; a query of no pairs is the
//! same as none.
//!
//! Absent on purpose: refusals. A query may hold anything, if only it names no method ([`super::overrides`]).

use http::uri::PathAndQuery;

use super::fields::Fields;
use crate::domain::json::Json;

/// The pairs of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(Fields);

impl Query {
    /// That of a target; empty where it has none.
    pub fn of(target: &PathAndQuery) -> Self {
        Self(Fields::of(target.query().unwrap_or_default().as_bytes()))
    }

    /// What a fingerprint is taken of: the same for two queries exactly if they hold the same pairs.
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.write_canonical(&mut out);
        out
    }

    /// For the audit: an object; the values of a name that stands more than once as an array.
    pub fn told(&self) -> Json {
        self.0.told()
    }

    /// Every value that some backend may read under this name; none for one that is no text.
    pub fn values(&self, name: &str) -> Vec<Option<String>> {
        self.0.values(name)
    }

    /// Whether every backend reads under this name what [`Query::told`] has there, or only further in.
    pub fn is_clear(&self, name: &str, further: bool) -> bool {
        self.0.is_clear(name, further)
    }

    /// Whether some backend takes another method from it.
    pub(super) fn overrides_the_method(&self) -> bool {
        self.0.override_the_method()
    }
}
