//! From the settings as they are written to those that a command needs.
//!
//! Promises: every mistake in what the command needs is told at once, and nothing is asked for that it does not need.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;

use super::checked::{
    AdminConfig, AuditConfig, AuthConfig, Limits, ServeConfig, SpoolConfig, StoreConfig, UpstreamConfig,
};
use super::checks::Checks;
use super::files::{self, Secret};
use super::layers::Layers;
use super::listener::{NAMES as LISTENER_NAMES, is_listener};
use super::number::Texts;
use super::raw::{RawAudit, RawConfig, RawHerd, RawLimits, RawStore, RawUpstream, Set};
use crate::domain::fingerprint::Secrets;
use crate::domain::mistake::{Mistake, Mistakes, Place};
use crate::domain::mode::WhenStoreDown;
use crate::domain::site::{HostRule, OriginRule};
use crate::domain::units::Span;

const SHORTEST: Duration = Duration::from_millis(10);
pub(super) const TIMEOUTS: RangeInclusive<Duration> = SHORTEST..=Duration::from_hours(1);
pub(super) const CONNECT_TIMEOUTS: RangeInclusive<Duration> = SHORTEST..=Duration::from_mins(1);
const BODY_TIMES: RangeInclusive<Duration> = SHORTEST..=Duration::from_mins(10);
const QUEUE_TIMES: RangeInclusive<Duration> = SHORTEST..=Duration::from_mins(10);
pub(super) const IDLE_TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(1);
const SPOOLS: RangeInclusive<u64> = 1 << 20..=1 << 30;

/// How the URLs of one thing may begin.
struct Kinds {
    begin: &'static [&'static str],
    unknown: &'static str,
    known: &'static str,
}

const STORES: Kinds = Kinds {
    begin: &["sqlite:", "postgres://", "postgresql://"],
    unknown: "the store's URL is of no known kind",
    known: "it begins with postgres:// or sqlite:",
};
const REDIS: Kinds = Kinds {
    begin: &["redis://", "rediss://", "redis+unix://"],
    unknown: "the URL is none of a Redis",
    known: "it begins with redis:// or rediss://",
};

impl Layers {
    /// What `serve` needs: everything.
    pub fn serve(&self) -> Result<ServeConfig, Mistakes> {
        self.checked(|checks, raw| {
            let service = checks.service(raw.service.as_ref());
            let secrets = checks.secrets(raw.secret_file.as_ref());
            let listen = checks.address("listen", raw.listen.as_ref(), "0.0.0.0:8080");
            let health_listen = checks.address("health_listen", raw.health_listen.as_ref(), "0.0.0.0:8081");
            if let (Some(value), true) = (&raw.health_listen, listen.is_some() && listen == health_listen) {
                checks.at(value, "health_listen is the address of listen");
            }
            let admin = raw.admin_token_file.as_ref().map(|file| checks.admin(raw, file));
            if let (Some(value), Some(Some(admin))) = (&raw.admin_listen, &admin)
                && [listen, health_listen].contains(&Some(admin.listen))
            {
                checks.at(value, "admin_listen is the address of another listener");
            }
            let public_url = checks.required("public_url", raw.public_url.as_ref());
            let public_url = public_url.and_then(|url| checks.url(url).map(|_| url.get_ref().clone()));
            let hosts = checks.hosts(raw.allowed_hosts.as_ref());
            let origins = checks.each(
                raw.allowed_origins.as_ref(),
                OriginRule::parse,
                "an origin",
                "write it like \"https://app.example.com\", without a path",
            );
            let upstream = checks.upstream(&raw.upstream);
            let auth = checks.auth(&raw.auth);
            let admin_token = admin.iter().flatten().map(|admin| &admin.token).next();
            let service_tokens = checks.service_tokens(&raw.service_tokens, admin_token);
            let store = checks.store(&raw.store);
            let herd = checks.herd(&raw.herd);
            let audit = checks.audit(&raw.audit);
            let traces = checks.traces(&raw.traces);
            let retention = checks.retention(&raw.audit, &raw.retention);
            let policy_dir = checks.required("policy.dir", raw.policy.dir.as_ref());
            let limits = checks.limits(&raw.limits);
            let taken =
                [listen, health_listen, admin.as_ref().and_then(|admin| Some(admin.as_ref()?.listen))];
            let listeners = checks.listeners(&raw.listener, &taken, !raw.service_tokens.is_empty());
            Some(ServeConfig {
                service: service?,
                mode: raw.mode.as_ref().map(|mode| *mode.get_ref()).unwrap_or_default(),
                secrets: secrets?,
                listen: listen?,
                health_listen: health_listen?,
                admin: match admin {
                    None => None,
                    Some(admin) => Some(admin?),
                },
                public_url: public_url?,
                allowed_hosts: hosts?,
                allowed_origins: origins?,
                upstream: upstream?,
                auth: auth?,
                service_tokens: service_tokens?,
                store: store?,
                herd,
                audit: audit?,
                traces,
                retention: retention?,
                policy_dir: PathBuf::from(policy_dir?.get_ref()),
                limits: limits?,
                listeners: listeners?,
                warnings: std::mem::take(&mut checks.warnings),
            })
        })
    }

    /// What a command needs that makes or checks tokens.
    pub fn auth(&self) -> Result<AuthConfig, Mistakes> {
        self.checked(|checks, raw| checks.auth(&raw.auth))
    }

    /// What a command needs that talks to the running gate.
    pub fn admin(&self) -> Result<AdminConfig, Mistakes> {
        self.checked(|checks, raw| {
            let Some(file) = &raw.admin_token_file else {
                checks.missing(&["admin_token_file"]);
                return None;
            };
            checks.admin(raw, file)
        })
    }

    /// What a command needs that looks at the store.
    pub fn store(&self) -> Result<StoreConfig, Mistakes> {
        self.checked(|checks, raw| checks.store(&raw.store))
    }

    /// The app's name, where one is configured; or, as `NAME:LISTENER`, one of its listeners'.
    pub fn service(&self) -> Result<Option<String>, Mistakes> {
        self.checked(|checks, raw| match &raw.service {
            None => Some(None),
            Some(value) => checks.service_or_listener(value).map(Some),
        })
    }

    /// The folder of the policy.
    pub fn policy_dir(&self) -> Result<PathBuf, Mistakes> {
        self.checked(|checks, raw| {
            checks.required("policy.dir", raw.policy.dir.as_ref()).map(|dir| PathBuf::from(dir.get_ref()))
        })
    }

    /// The names of the listeners, and the folders of their policies.
    pub fn listener_policies(&self) -> Result<Vec<(String, PathBuf)>, Mistakes> {
        self.checked(|checks, raw| {
            let named = raw.listener.iter().map(|table| checks.policy_of_listener(table));
            // All of them are looked at, so that every mistake is told at once.
            named.collect::<Vec<_>>().into_iter().collect()
        })
    }

    pub(super) fn checked<T>(
        &self,
        check: impl FnOnce(&mut Checks<'_>, &RawConfig) -> Option<T>,
    ) -> Result<T, Mistakes> {
        let mut checks = Checks { sources: &self.sources, found: Vec::new(), warnings: Vec::new() };
        let made = check(&mut checks, &self.raw);
        Mistakes::none_in(checks.found).map_err(|mistakes| self.explained(mistakes))?;
        made.ok_or_else(|| Mistake::new(Place::Settings, "they are not complete").into())
    }
}

impl Checks<'_> {
    /// The listener for operators, whose token is in this file.
    fn admin(&mut self, raw: &RawConfig, file: &Spanned<String>) -> Option<AdminConfig> {
        let listen = self.address("admin_listen", raw.admin_listen.as_ref(), "127.0.0.1:9090");
        let token = files::read_admin_token(file.get_ref().as_ref());
        let token = token.map_err(|message| self.at(file, message)).ok();
        Some(AdminConfig { listen: listen?, token: token? })
    }

    fn service(&mut self, set: Option<&Spanned<String>>) -> Option<String> {
        let value = self.required("service", set)?;
        self.service_name(value, value.get_ref())
    }

    /// As claims stand under it, for whoever looks at them.
    fn service_or_listener(&mut self, value: &Spanned<String>) -> Option<String> {
        let name = self.text("service", value)?.get_ref();
        match name.split_once(':') {
            None => self.service_name(value, name),
            Some((service, listener)) => {
                let sound = is_listener(listener);
                if !sound {
                    self.at_with(value, format!("\"{listener}\" cannot name a listener"), LISTENER_NAMES);
                }
                self.service_name(value, service).filter(|_| sound).map(|_| name.clone())
            }
        }
    }

    fn service_name(&mut self, value: &Spanned<String>, name: &str) -> Option<String> {
        if name.is_empty()
            || name.len() > 64
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        {
            self.at_with(
                value,
                format!("\"{name}\" cannot name a service"),
                "use up to 64 letters, digits, - _ and .",
            );
            return None;
        }
        Some(name.to_owned())
    }

    fn secrets(&mut self, set: Option<&Spanned<Texts>>) -> Option<Secrets> {
        let Some(paths) = set else {
            self.missing(&["secret_file"]);
            return None;
        };
        let secrets: Option<Vec<Secret>> =
            paths.get_ref().0.iter().map(|path| self.secret(paths, path)).collect();
        let made = Secrets::new(secrets?);
        if let Err(fault) = &made {
            self.at(paths, fault.to_string());
        }
        made.ok()
    }

    fn upstream(&mut self, raw: &RawUpstream) -> Option<UpstreamConfig> {
        let url = self.required("upstream.url", raw.url.as_ref()).and_then(|value| {
            let uri = self.url(value)?;
            if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
                self.at_with(
                    value,
                    "upstream.url has a path",
                    "the path of the MCP endpoint is upstream.mcp_path",
                );
                return None;
            }
            Some(uri)
        });
        let mcp_path = self.or("upstream.mcp_path", raw.mcp_path.as_ref(), "/mcp");
        if let (Some(path), Some(value)) = (&mcp_path, &raw.mcp_path)
            && (!path.starts_with('/') || path.contains(['?', '#', ' ']))
        {
            self.at_with(value, format!("\"{path}\" is not a path"), "write it like \"/mcp\"");
        }
        let timeout = self.span("upstream.timeout", raw.timeout.as_ref(), Duration::from_mins(5), &TIMEOUTS);
        let connect_timeout = self.connect_timeout(raw.connect_timeout.as_ref(), timeout);
        let max_idle =
            self.span("upstream.max_idle", raw.max_idle.as_ref(), Duration::from_secs(1), &IDLE_TIMES);
        let ca_file = raw.ca_file.as_ref().map(|value| self.readable(value));
        Some(UpstreamConfig {
            url: url?,
            mcp_path: mcp_path?,
            timeout: timeout?,
            connect_timeout: connect_timeout?,
            max_idle: max_idle?,
            ca_file: match ca_file {
                None => None,
                Some(path) => Some(path?),
            },
            forward_authorization: raw
                .forward_authorization
                .as_ref()
                .is_some_and(|switch| switch.get_ref().0),
        })
    }

    /// Until a connection stands, within the call's whole time.
    pub(super) fn connect_timeout(
        &mut self,
        set: Option<&Spanned<Span>>,
        whole: Option<Duration>,
    ) -> Option<Duration> {
        let usual = Duration::from_secs(5).min(whole.unwrap_or(Duration::MAX));
        let found = self.span("upstream.connect_timeout", set, usual, &CONNECT_TIMEOUTS);
        if let (Some(value), true) = (set, found.zip(whole).is_some_and(|(one, whole)| one > whole)) {
            self.at(value, "upstream.connect_timeout is longer than upstream.timeout, the call's whole time");
        }
        found
    }

    pub(super) fn hosts(&mut self, set: Option<&Spanned<Texts>>) -> Option<Vec<HostRule>> {
        self.each(
            set,
            HostRule::parse,
            "a host",
            "write it like \"api.example.com\" or, for one port only, \"api.example.com:8443\"",
        )
    }

    fn store(&mut self, raw: &RawStore) -> Option<StoreConfig> {
        if raw.url.is_none() && raw.url_file.is_none() {
            self.missing(&["store.url", "store.url_file"]);
        }
        let url = self.url_or_file(["store.url", "store.url_file"], [&raw.url, &raw.url_file], &STORES);
        let connections = self.number("store.connections", raw.connections.as_ref(), 2, 64);
        Some(StoreConfig { url: url?, connections: connections? })
    }

    fn herd(&mut self, raw: &RawHerd) -> Option<String> {
        let names = ["herd.redis_url", "herd.redis_url_file"];
        self.url_or_file(names, [&raw.redis_url, &raw.redis_url_file], &REDIS)
    }

    /// A URL that may hold a password, as it stands or in a file: it is never said. None where neither is set, or what is set is a mistake.
    fn url_or_file(
        &mut self,
        [url_name, file_name]: [&'static str; 2],
        [url, file]: [&Set<String>; 2],
        kinds: &Kinds,
    ) -> Option<String> {
        let (at, url) = match (url, file) {
            (None, None) => return None,
            (Some(_), Some(file)) => {
                self.at(file, format!("{url_name} and {file_name} exclude each other"));
                return None;
            }
            (Some(value), None) => (value, self.text(url_name, value)?.get_ref().clone()),
            (None, Some(file)) => match files::read_text(file.get_ref().as_ref()) {
                Ok(text) => (file, text),
                Err(message) => {
                    self.at(file, message);
                    return None;
                }
            },
        };
        if kinds.begin.iter().any(|start| url.starts_with(start)) {
            return Some(url);
        }
        self.at_with(at, kinds.unknown, kinds.known);
        None
    }

    fn audit(&mut self, raw: &RawAudit) -> Option<AuditConfig> {
        let limit = self.size_in("audit.spool_limit", raw.spool_limit.as_ref(), 64 << 20, &SPOOLS);
        let file = match &raw.spool_file {
            None => None,
            Some(value) => Some(PathBuf::from(self.text("audit.spool_file", value)?.get_ref())),
        };
        if let (Some(value), None) = (&raw.when_store_down, &file)
            && *value.get_ref() == WhenStoreDown::Spool
        {
            self.at_with(
                value,
                "audit.when_store_down = \"spool\" without audit.spool_file",
                "name a file on a disk that outlives the process, or leave it at \"refuse\"",
            );
        }
        let when_store_down = raw.when_store_down.as_ref().map(|word| *word.get_ref()).unwrap_or_default();
        let limit = limit?;
        Some(AuditConfig { when_store_down, spool: file.map(|file| SpoolConfig { file, limit }) })
    }

    fn limits(&mut self, raw: &RawLimits) -> Option<Limits> {
        let request_body = self.size("limits.request_body", raw.request_body.as_ref(), 1 << 20);
        let stored_response = self.size("limits.stored_response", raw.stored_response.as_ref(), 1 << 20);
        let body_time =
            self.span("limits.body_time", raw.body_time.as_ref(), Duration::from_secs(30), &BODY_TIMES);
        let concurrent_calls =
            self.number("limits.concurrent_calls", raw.concurrent_calls.as_ref(), 1024, 1 << 20);
        let queued_calls = self.number("limits.queued_calls", raw.queued_calls.as_ref(), 1024, 1 << 20);
        let queue_time =
            self.span("limits.queue_time", raw.queue_time.as_ref(), Duration::from_secs(5), &QUEUE_TIMES);
        let connections = self.number("limits.connections", raw.connections.as_ref(), 8192, 1 << 20);
        Some(Limits {
            request_body: request_body?,
            stored_response: stored_response?,
            body_time: body_time?,
            concurrent_calls: concurrent_calls?,
            queued_calls: queued_calls?,
            queue_time: queue_time?,
            connections: connections?,
        })
    }
}
