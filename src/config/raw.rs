//! The settings as they are written, from all sources together.
//!
//! Promises: what is not known here is a mistake; every value knows where it stands; nothing is filled in.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::number::{Number, Ratio, Switch, Texts};
use crate::domain::mode::{Mode, WhenStoreDown};
use crate::domain::units::{Size, Span};

/// A setting that may be absent, and where it stands if it is not.
pub(super) type Set<T> = Option<Spanned<T>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) mode: Set<Mode>,
    pub(super) service: Set<String>,
    pub(super) secret_file: Set<Texts>,
    pub(super) listen: Set<String>,
    pub(super) health_listen: Set<String>,
    pub(super) admin_listen: Set<String>,
    pub(super) admin_token_file: Set<String>,
    pub(super) public_url: Set<String>,
    pub(super) allowed_hosts: Set<Texts>,
    pub(super) allowed_origins: Set<Texts>,
    #[serde(default)]
    pub(super) upstream: RawUpstream,
    #[serde(default)]
    pub(super) auth: RawAuth,
    #[serde(default)]
    pub(super) service_tokens: BTreeMap<String, Spanned<RawServiceToken>>,
    #[serde(default)]
    pub(super) store: RawStore,
    #[serde(default)]
    pub(super) herd: RawHerd,
    #[serde(default)]
    pub(super) audit: RawAudit,
    #[serde(default)]
    pub(super) retention: RawRetention,
    #[serde(default)]
    pub(super) policy: RawPolicy,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) traces: RawTraces,
    /// A list of tables stands in the file only: neither a flag nor a variable could say which of them is meant.
    #[serde(default)]
    pub(super) listener: Vec<Spanned<RawListener>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpstream {
    pub(super) url: Set<String>,
    pub(super) mcp_path: Set<String>,
    pub(super) timeout: Set<Span>,
    pub(super) connect_timeout: Set<Span>,
    pub(super) max_idle: Set<Span>,
    pub(super) ca_file: Set<String>,
    pub(super) forward_authorization: Set<Switch>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAuth {
    pub(super) issuer: Set<String>,
    pub(super) audience: Set<Texts>,
    pub(super) authorization_servers: Set<Texts>,
    pub(super) hs256_secret_file: Set<String>,
    pub(super) public_key_file: Set<String>,
    pub(super) jwks_file: Set<String>,
    pub(super) jwks_url: Set<String>,
    pub(super) jwks_ca_file: Set<String>,
    pub(super) leeway: Set<Span>,
    pub(super) max_session_age: Set<Span>,
    #[serde(default)]
    pub(super) claims: RawClaims,
    pub(super) roles: Set<BTreeMap<String, Texts>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClaims {
    pub(super) tenant: Set<String>,
    pub(super) user: Set<String>,
    pub(super) session: Set<String>,
    pub(super) scopes: Set<String>,
    pub(super) roles: Set<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServiceToken {
    pub(super) token_file: Set<Texts>,
    pub(super) scopes: Set<Texts>,
    pub(super) tenants: Set<Texts>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStore {
    pub(super) url: Set<String>,
    pub(super) url_file: Set<String>,
    pub(super) connections: Set<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAudit {
    pub(super) when_store_down: Set<WhenStoreDown>,
    pub(super) spool_file: Set<String>,
    pub(super) spool_limit: Set<Size>,
    pub(super) keep: Set<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRetention {
    pub(super) every: Set<Span>,
    pub(super) batch: Set<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTraces {
    pub(super) otlp_url: Set<String>,
    pub(super) headers_file: Set<String>,
    pub(super) ca_file: Set<String>,
    pub(super) sample_ratio: Set<Ratio>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHerd {
    pub(super) redis_url: Set<String>,
    pub(super) redis_url_file: Set<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    pub(super) dir: Set<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) request_body: Set<Size>,
    pub(super) stored_response: Set<Size>,
    pub(super) body_time: Set<Span>,
    pub(super) concurrent_calls: Set<Number>,
    pub(super) queued_calls: Set<Number>,
    pub(super) queue_time: Set<Span>,
    pub(super) connections: Set<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawListener {
    pub(super) name: Set<String>,
    pub(super) listen: Set<String>,
    pub(super) allowed_hosts: Set<Texts>,
    #[serde(default)]
    pub(super) upstream: RawProvider,
    #[serde(default)]
    pub(super) policy: RawPolicy,
    pub(super) identity: Option<Spanned<RawIdentity>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProvider {
    pub(super) url: Set<String>,
    pub(super) timeout: Set<Span>,
    pub(super) connect_timeout: Set<Span>,
    pub(super) max_idle: Set<Span>,
    pub(super) ca_file: Set<String>,
    pub(super) forward_traceparent: Set<Switch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIdentity {
    pub(super) tenant: Set<String>,
    pub(super) tenants: Set<Texts>,
    pub(super) user: Set<String>,
    pub(super) scopes: Set<Texts>,
}
