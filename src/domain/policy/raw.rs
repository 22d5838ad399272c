//! The policy files as they are written.
//!
//! Promises: what is not known here is a mistake (`deny_unknown_fields`); nothing is filled in.
//!
//! Absent on purpose: positions. [`super::check`] takes those of the keys from the TOML reader.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::operation::{DenyAs, Duplicate, Effect, OnToolError};
use super::provider::Provider;
use super::route::KeyRule;
use crate::domain::mode::Mode;
use crate::domain::units::Span;

/// `in_flight`, apart from its `wait_up_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawInFlight {
    Refuse,
    Wait,
}

/// `downstream`, apart from its `downstream_retention`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDownstream {
    Unsafe,
    Idempotent,
}

/// `runs`: what such a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawRuns {
    Tools,
}

/// `members`: where the calls inside such a tool's call stand, and their results.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMembers {
    pub(super) calls: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) results: Option<String>,
}

/// `reconcile`: how the app is asked what became of a call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReconcile {
    pub(super) tool: Option<String>,
    pub(super) arguments: Option<BTreeMap<String, toml::Value>>,
    pub(super) get: Option<String>,
    pub(super) completed: Option<BTreeMap<String, toml::Value>>,
    pub(super) absent: Option<BTreeMap<String, toml::Value>>,
    pub(super) absent_errors: Option<Vec<String>>,
    pub(super) absent_status: Option<Vec<u16>>,
    pub(super) result: Option<String>,
    pub(super) every: Option<Span>,
    pub(super) timeout: Option<Span>,
}

/// `[defaults]`: for the operations of its file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    pub(super) ttl: Option<Span>,
    pub(super) lease: Option<Span>,
    pub(super) in_flight: Option<RawInFlight>,
    pub(super) wait_up_to: Option<Span>,
    pub(super) tenant_arguments: Option<Vec<String>>,
    pub(super) key_argument: Option<String>,
    pub(super) mode: Option<Mode>,
}

/// `method`: one or several.
#[derive(Clone, Debug)]
pub(super) struct RawMethods(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for RawMethods {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = RawMethods;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a method like \"POST\", or a list of them,")
            }
            fn visit_str<E: de::Error>(self, one: &str) -> Result<RawMethods, E> {
                Ok(RawMethods(vec![one.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawMethods, A::Error> {
                let mut methods = Vec::new();
                while let Some(one) = list.next_element()? {
                    methods.push(one);
                }
                Ok(RawMethods(methods))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

/// `[tools.NAME]`, `[methods."NAME"]`, `[routes.NAME]` or `[jobs.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOperation {
    pub(super) effect: Option<Effect>,
    pub(super) runs: Option<RawRuns>,
    pub(super) members: Option<RawMembers>,
    pub(super) mode: Option<Mode>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) allow: Option<String>,
    pub(super) deny_as: Option<DenyAs>,
    pub(super) redact: Option<Vec<String>>,
    pub(super) summary: Option<Vec<String>>,
    pub(super) reasons: Option<BTreeMap<String, String>>,
    pub(super) tenant_arguments: Option<Vec<String>>,
    pub(super) key_argument: Option<String>,
    pub(super) forward_argument: Option<bool>,
    pub(super) ttl: Option<Span>,
    pub(super) lease: Option<Span>,
    pub(super) in_flight: Option<RawInFlight>,
    pub(super) wait_up_to: Option<Span>,
    pub(super) forward_key: Option<String>,
    pub(super) forward_key_quoted: Option<bool>,
    pub(super) downstream: Option<RawDownstream>,
    pub(super) downstream_retention: Option<Span>,
    pub(super) on_tool_error: Option<OnToolError>,
    pub(super) duplicate_window: Option<Span>,
    pub(super) duplicate: Option<Duplicate>,
    pub(super) shared_within_tenant: Option<bool>,
    pub(super) reconcile: Option<RawReconcile>,
    pub(super) destructive: Option<bool>,
    pub(super) method: Option<RawMethods>,
    pub(super) path: Option<String>,
    pub(super) key: Option<KeyRule>,
    pub(super) completes: Option<Vec<String>>,
    pub(super) releases: Option<Vec<String>>,
    pub(super) provider: Option<Provider>,
    pub(super) timeout: Option<Span>,
}
