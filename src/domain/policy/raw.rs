//! The policy files as they are written.
//!
//! Promises: what is not known here is a mistake (`deny_unknown_fields`); nothing is filled in.
//!
//! Absent on purpose: positions. [`super::check`] takes those of the keys from the TOML reader.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::operation::{DenyAs, Duplicate, Effect, OnToolError};
use super::provider::Provider;
use super::route::KeyRule;
use crate::domain::mode::Mode;
use crate::domain::units::Span;

/// `in_flight`, apart from its `wait_up_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawInFlight {
    Refuse,
    Wait,
}

/// `downstream`, apart from its `downstream_retention`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDownstream {
    Unsafe,
    Idempotent,
}

/// `runs`: what such a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawRuns {
    Tools,
}

/// `members`: where the calls inside such a tool's call stand, and their results.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMembers {
    /// The argument that holds the list of calls.
    pub(super) calls: Option<String>,
    /// The member of a call, and of its result, that names the tool.
    pub(super) name: Option<String>,
    /// The member of a call that holds its arguments.
    pub(super) arguments: Option<String>,
    /// The member of the answer that lists the results.
    pub(super) results: Option<String>,
}

/// `reconcile`: how the app is asked what became of a call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReconcile {
    /// a tool with effect = "read"; not for a route
    pub(super) tool: Option<String>,
    /// what it is called with: strings to fill in, integers, true, false
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) arguments: Option<BTreeMap<String, toml::Value>>,
    /// a path to fill in, with its query
    pub(super) get: Option<String>,
    /// members of the answer, each with the values that prove that the call ran; all of them must be there
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) completed: Option<BTreeMap<String, toml::Value>>,
    /// members that prove that it did not, in an answer with 2xx or with one of `absent_status`
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) absent: Option<BTreeMap<String, toml::Value>>,
    /// codes of a tool error that prove that it did not
    pub(super) absent_errors: Option<Vec<String>>,
    /// statuses (4xx) with which a route may say that it did not; with absent, its body must say so as well
    pub(super) absent_status: Option<Vec<u16>>,
    /// the member that is the call's own result, or "*": all of the answer
    pub(super) result: Option<String>,
    /// about one claim, all gates together ask no more often; 1s to 1h
    pub(super) every: Option<Span>,
    /// how long an answer may take; 100ms to 1m
    pub(super) timeout: Option<Span>,
}

/// `[defaults]`: for the operations of its file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    /// how long a settled key is remembered
    pub(super) ttl: Option<Span>,
    /// after how long without a sign of life a call's gate counts as dead
    pub(super) lease: Option<Span>,
    /// what a retry meets while the first call runs: a refusal, or its answer if that comes in time
    pub(super) in_flight: Option<RawInFlight>,
    /// how long it waits, without holding a place among the running calls; only with `in_flight` = "wait"
    pub(super) wait_up_to: Option<Span>,
    /// arguments that would name a tenant: taken out of schemas and calls
    pub(super) tenant_arguments: Option<Vec<String>>,
    /// the argument with the key: added to a mutation's schema, taken out of calls
    pub(super) key_argument: Option<String>,
    /// observe: what is decided about it is written down, and not carried out
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

impl JsonSchema for RawMethods {
    fn schema_name() -> Cow<'static, str> {
        "Methods".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}

/// `[tools.NAME]`, `[methods."NAME"]`, `[routes.NAME]` or `[jobs.NAME]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOperation {
    /// what a call does to the app
    pub(super) effect: Option<Effect>,
    /// stands instead of effect
    pub(super) runs: Option<RawRuns>,
    /// how the tool spells its list of calls and of results
    pub(super) members: Option<RawMembers>,
    /// observe: what is decided about it is written down, and not carried out
    pub(super) mode: Option<Mode>,
    /// a caller must hold all of them; a read without the key is open to every authenticated actor; an empty list
    /// is a mistake
    pub(super) scopes: Option<Vec<String>>,
    /// what the arguments must be: a call of which it does not say true is denied
    pub(super) allow: Option<String>,
    /// how a missing scope is said: HTTP 403 with WWW-Authenticate, or a tool error, for clients whose session a
    /// 403 would end
    pub(super) deny_as: Option<DenyAs>,
    /// fields of arguments and results that are masked, for clients, tables and logs
    pub(super) redact: Option<Vec<String>>,
    /// fields of a result that the audit's `result_summary` keeps, after masking
    pub(super) summary: Option<Vec<String>>,
    /// the audit's reason for a tool error with this code: one word of a-z, 0-9, _, and none of the gate's own
    pub(super) reasons: Option<BTreeMap<String, String>>,
    /// arguments that would name a tenant: taken out of schemas and calls
    pub(super) tenant_arguments: Option<Vec<String>>,
    /// the argument with the key: added to a mutation's schema, taken out of calls
    pub(super) key_argument: Option<String>,
    /// leave that argument in: the app's own tool wants it
    pub(super) forward_argument: Option<bool>,
    /// how long a settled key is remembered
    pub(super) ttl: Option<Span>,
    /// after how long without a sign of life a call's gate counts as dead
    pub(super) lease: Option<Span>,
    /// what a retry meets while the first call runs: a refusal, or its answer if that comes in time
    pub(super) in_flight: Option<RawInFlight>,
    /// how long it waits, without holding a place among the running calls; only with `in_flight` = "wait"
    pub(super) wait_up_to: Option<Span>,
    /// the Idempotency-Key that the app hears
    pub(super) forward_key: Option<String>,
    /// write it as a structured field's string: "…"
    pub(super) forward_key_quoted: Option<bool>,
    /// idempotent: the app itself honours the forwarded key, so a call whose answer got lost may go out again;
    /// needs an explicit `forward_key`, and `downstream_retention`. Where `forward_key` was changed since, or the call
    /// was only observed, it does not: the app would not know the key
    pub(super) downstream: Option<RawDownstream>,
    /// how long the app remembers a key: nothing goes out again later
    pub(super) downstream_retention: Option<Span>,
    /// a tool error is an answer, kept and replayed; or it says that nothing was done, and the key may try again
    pub(super) on_tool_error: Option<OnToolError>,
    /// a new key with the arguments of another call of the same actor within this time is a possible duplicate
    pub(super) duplicate_window: Option<Span>,
    /// it runs and is marked, or is refused; only with `duplicate_window`
    pub(super) duplicate: Option<Duplicate>,
    /// the tenant's users share the key's result; else another user's key is refused
    pub(super) shared_within_tenant: Option<bool>,
    /// whom the gate may ask what became of a call whose answer got lost
    pub(super) reconcile: Option<RawReconcile>,
    /// the annotation destructiveHint in tools/list
    pub(super) destructive: Option<bool>,
    /// the methods that it answers, in capitals; a read by GET answers HEAD too
    pub(super) method: Option<RawMethods>,
    /// the paths that are its own
    pub(super) path: Option<String>,
    /// what becomes of a request without Idempotency-Key: it is refused, or runs unclaimed, as often as it is sent
    pub(super) key: Option<KeyRule>,
    /// answers that are kept and replayed
    pub(super) completes: Option<Vec<String>>,
    /// answers that say that nothing was done: the key may try again
    pub(super) releases: Option<Vec<String>>,
    /// what a known provider does stands for what the route does not say
    pub(super) provider: Option<Provider>,
    /// how long one attempt may take, whole: until then a job whose outcome is unknown may still be running
    pub(super) timeout: Option<Span>,
}
