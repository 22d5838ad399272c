//! The settings that take effect with the next start only, and which of them were changed since this one.
//!
//! Promises: every setting is either here or can be reloaded ([`RELOADABLE`]); a value that is written another way and
//! means the same is no change.
//!
//! Absent on purpose: the values themselves, of which some are secret. Their hashes tell whether they are the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use sha2::{Digest as _, Sha256};

use super::checked::{ListenerConfig, ServeConfig, TracesConfig};

/// The settings that a reload puts into force, and those of tables whose names begin so.
pub const RELOADABLE: [&str; 6] =
    ["secret_file", "admin_token_file", "auth.", "service_tokens.", "policy.dir", "upstream.ca_file"];

/// What was fixed at one start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed(BTreeMap<String, [u8; 32]>);

impl Fixed {
    /// The names of the settings that are other ones in `newer`.
    pub fn changed(&self, newer: &Self) -> Vec<String> {
        let gone = self.0.keys().filter(|key| !newer.0.contains_key(*key));
        let other = newer.0.iter().filter(|(key, hash)| self.0.get(*key) != Some(*hash)).map(|(key, _)| key);
        let mut names: Vec<String> = gone.chain(other).cloned().collect();
        names.sort();
        names
    }

    /// The names of all of them.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn note(&mut self, key: impl Into<String>, value: &dyn Debug) {
        self.0.insert(key.into(), Sha256::digest(format!("{value:?}")).into());
    }
}

impl ServeConfig {
    /// What of it takes effect with the next start only.
    pub fn fixed(&self) -> Fixed {
        let mut fixed = Fixed(BTreeMap::new());
        let (upstream, audit, limits) = (&self.upstream, &self.audit, &self.limits);
        let (spool, traces) = (audit.spool.as_ref(), self.traces.as_ref());
        let settings: [(&str, &dyn Debug); 35] = [
            ("service", &self.service),
            ("mode", &self.mode),
            ("listen", &self.listen),
            ("health_listen", &self.health_listen),
            ("admin_listen", &self.admin.as_ref().map(|admin| admin.listen)),
            // A token may be another one; whether there is one says whether anybody listens.
            ("admin_token_file", &self.admin.is_some()),
            ("public_url", &self.public_url),
            ("allowed_hosts", &self.allowed_hosts),
            ("allowed_origins", &self.allowed_origins),
            ("upstream.url", &upstream.url),
            ("upstream.mcp_path", &upstream.mcp_path),
            ("upstream.timeout", &upstream.timeout),
            ("upstream.connect_timeout", &upstream.connect_timeout),
            ("upstream.max_idle", &upstream.max_idle),
            ("upstream.forward_authorization", &upstream.forward_authorization),
            ("store.url", &self.store.url),
            ("store.connections", &self.store.connections),
            ("herd.redis_url", &self.herd),
            ("audit.when_store_down", &audit.when_store_down),
            ("audit.spool_file", &spool.map(|spool| &spool.file)),
            ("audit.spool_limit", &spool.map(|spool| spool.limit)),
            ("audit.keep", &self.retention.audit),
            ("retention.every", &self.retention.every),
            ("retention.batch", &self.retention.batch),
            ("limits.request_body", &limits.request_body),
            ("limits.stored_response", &limits.stored_response),
            ("limits.body_time", &limits.body_time),
            ("limits.concurrent_calls", &limits.concurrent_calls),
            ("limits.queued_calls", &limits.queued_calls),
            ("limits.queue_time", &limits.queue_time),
            ("limits.connections", &limits.connections),
            ("traces.otlp_url", &traces.map(|traces| &traces.url)),
            ("traces.headers_file", &traces.map(headers)),
            ("traces.ca_file", &traces.map(|traces| &traces.ca_file)),
            ("traces.sample_ratio", &traces.map(|traces| traces.sample_ratio)),
        ];
        for (key, value) in settings {
            fixed.note(key, value);
        }
        for listener in &self.listeners {
            fixed.listener(listener);
        }
        fixed
    }
}

/// What every request to the collector carries. As headers show themselves, what is access would not be told apart.
fn headers(traces: &TracesConfig) -> Vec<(&str, &[u8])> {
    traces.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

impl Fixed {
    fn listener(&mut self, listener: &ListenerConfig) {
        let ListenerConfig { name, listen, allowed_hosts, provider, policy_dir: _, identity } = listener;
        let settings: [(&str, &dyn Debug); 8] = [
            ("listen", listen),
            ("allowed_hosts", allowed_hosts),
            ("upstream.url", &provider.url),
            ("upstream.timeout", &provider.timeout),
            ("upstream.connect_timeout", &provider.connect_timeout),
            ("upstream.max_idle", &provider.max_idle),
            ("upstream.forward_traceparent", &provider.forward_traceparent),
            ("identity", identity),
        ];
        for (key, value) in settings {
            self.note(format!("listener {name}: {key}"), value);
        }
    }
}
