//! The listeners towards somebody else's APIs: one table of the file each.
//!
//! Promises: a listener has a name of its own, an address of its own, an upstream, a policy, and somebody who may call;
//! what would go out in the open is told.
//!
//! Absent on purpose: flags and variables. They could not say which of the tables they mean.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use toml::Spanned;

use super::checked::{IdentityConfig, ListenerConfig, ProviderConfig};
use super::checks::Checks;
use super::number::Texts;
use super::raw::{RawIdentity, RawListener, RawProvider};
use super::serve::{IDLE_TIMES, TIMEOUTS};
use crate::domain::actor::Actor;
use crate::domain::mistake::Mistake;
use crate::domain::tenants::Tenants;

/// The longest name.
const NAME_BYTES: usize = 32;

/// What a name may be, for whoever wrote another one.
pub(super) const NAMES: &str = "use 1 to 32 small letters, digits and -";

impl Checks<'_> {
    /// Every listener. `taken` are the addresses of the gate's others; `has_tokens` says whether there are service
    /// tokens by which a caller may be known.
    pub(super) fn listeners(
        &mut self,
        raw: &[Spanned<RawListener>],
        taken: &[Option<SocketAddr>],
        has_tokens: bool,
    ) -> Option<Vec<ListenerConfig>> {
        let mut names = BTreeSet::new();
        let mut addresses: Vec<SocketAddr> = taken.iter().copied().flatten().collect();
        let listeners: Vec<_> = raw
            .iter()
            .map(|table| {
                let listener = self.listener(table, has_tokens);
                let own = table.get_ref();
                if let Some(name) = &own.name
                    && !names.insert(name.get_ref())
                {
                    let message = format!("two listeners have the name \"{}\"", name.get_ref());
                    self.at_with(name, message, "its claims stand under its name: each needs its own");
                }
                if let (Some(text), Some(address)) =
                    (&own.listen, listener.as_ref().map(|listener| listener.listen))
                {
                    if addresses.contains(&address) {
                        self.at(text, "listener.listen is the address of another listener");
                    }
                    addresses.push(address);
                }
                listener
            })
            .collect();
        listeners.into_iter().collect()
    }

    fn listener(&mut self, table: &Spanned<RawListener>, has_tokens: bool) -> Option<ListenerConfig> {
        let raw = table.get_ref();
        let named = self.policy_of_listener(table);
        let listen = self.needed(table, "listen", raw.listen.as_ref());
        let listen = listen.and_then(|text| self.address("listener.listen", Some(text), ""));
        let allowed_hosts = self.hosts(raw.allowed_hosts.as_ref());
        let provider = self.provider(table, &raw.upstream);
        let identity = raw.identity.as_ref().map(|identity| self.identity(identity));
        if identity.is_none() && !has_tokens {
            self.at_with(
                table,
                "nobody may call this listener",
                "say in [listener.identity] who calls, or let callers show a token of [service_tokens]",
            );
        }
        let (name, policy_dir) = named?;
        Some(ListenerConfig {
            name,
            listen: listen?,
            allowed_hosts: allowed_hosts?,
            provider: provider?,
            policy_dir,
            identity: match identity {
                None => None,
                Some(identity) => Some(identity?),
            },
        })
    }

    /// A key that a table must have.
    fn needed<'r, T>(
        &mut self,
        table: &Spanned<T>,
        key: &str,
        set: Option<&'r Spanned<String>>,
    ) -> Option<&'r Spanned<String>> {
        if set.is_none() {
            self.at(table, format!("the key \"{key}\" is missing"));
        }
        set.and_then(|value| self.text(key, value))
    }

    /// The name of a listener, and the folder of its policy.
    pub(super) fn policy_of_listener(&mut self, table: &Spanned<RawListener>) -> Option<(String, PathBuf)> {
        let raw = table.get_ref();
        let name = self.needed(table, "name", raw.name.as_ref()).and_then(|name| self.listener_name(name));
        let dir = self.needed(table, "policy.dir", raw.policy.dir.as_ref());
        Some((name?, PathBuf::from(dir?.get_ref())))
    }

    fn listener_name(&mut self, value: &Spanned<String>) -> Option<String> {
        let name = value.get_ref();
        if !is_listener(name) {
            self.at_with(value, format!("\"{name}\" cannot name a listener"), NAMES);
            return None;
        }
        Some(name.clone())
    }

    fn provider(&mut self, table: &Spanned<RawListener>, raw: &RawProvider) -> Option<ProviderConfig> {
        let url = self.needed(table, "upstream.url", raw.url.as_ref()).and_then(|value| {
            let uri = self.url(value)?;
            if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
                self.at_with(value, "upstream.url has a path", "paths go out as they come in: leave it out");
                return None;
            }
            if is_in_the_open(&uri) {
                let place = self.sources.place(&value.span());
                let message = format!(
                    "calls to {uri} go out without TLS: whoever is on the way reads and changes them"
                );
                self.warnings.push(Mistake::new(place, message).with_help("write https://"));
            }
            Some(uri)
        });
        let timeout = self.span("upstream.timeout", raw.timeout.as_ref(), Duration::from_mins(5), &TIMEOUTS);
        let connect_timeout = self.connect_timeout(raw.connect_timeout.as_ref(), timeout);
        let max_idle =
            self.span("upstream.max_idle", raw.max_idle.as_ref(), Duration::from_secs(1), &IDLE_TIMES);
        let ca_file = raw.ca_file.as_ref().map(|value| self.readable(value));
        Some(ProviderConfig {
            url: url?,
            timeout: timeout?,
            connect_timeout: connect_timeout?,
            max_idle: max_idle?,
            ca_file: match ca_file {
                None => None,
                Some(path) => Some(path?),
            },
            forward_traceparent: raw.forward_traceparent.as_ref().is_some_and(|switch| switch.get_ref().0),
        })
    }

    fn identity(&mut self, table: &Spanned<RawIdentity>) -> Option<IdentityConfig> {
        let raw = table.get_ref();
        let tenants = self.tenants(table, raw.tenant.as_ref(), raw.tenants.as_ref());
        let user = self.needed(table, "user", raw.user.as_ref()).map(|user| user.get_ref().clone());
        let scopes = raw.scopes.as_ref().map(|scopes| scopes.get_ref().0.clone());
        if scopes.is_none() {
            self.at(table, "the key \"scopes\" is missing");
        }
        let identity = IdentityConfig { tenants: tenants?, user: user?, scopes: scopes? };
        // Whatever the tenant: those that calls name are looked at when they come.
        let Tenants::Fixed(tenant) = &identity.tenants else { return self.actor(table, "any", identity) };
        let tenant = tenant.clone();
        self.actor(table, &tenant, identity)
    }

    fn actor(
        &mut self,
        table: &Spanned<RawIdentity>,
        tenant: &str,
        identity: IdentityConfig,
    ) -> Option<IdentityConfig> {
        let made = Actor::new(tenant, &identity.user, None, identity.scopes.iter().cloned());
        made.map_err(|fault| self.at(table, format!("this can be no caller: {fault}"))).ok().map(|_| identity)
    }

    fn tenants(
        &mut self,
        table: &Spanned<RawIdentity>,
        one: Option<&Spanned<String>>,
        several: Option<&Spanned<Texts>>,
    ) -> Option<Tenants> {
        match (one, several) {
            (Some(one), None) => self.text("tenant", one).map(|one| Tenants::Fixed(one.get_ref().clone())),
            (None, Some(several)) => {
                let Texts(names) = several.get_ref();
                if names.is_empty() || names.iter().any(|name| name.is_empty() || name.trim() != name) {
                    self.at_with(
                        several,
                        "tenants is empty, or one of its names is",
                        "[\"*\"] is any tenant",
                    );
                    return None;
                }
                Some(Tenants::of(names.iter().cloned()))
            }
            (Some(_), Some(several)) => {
                self.at(several, "tenant and tenants exclude each other");
                None
            }
            (None, None) => {
                self.at_with(
                    table,
                    "the key \"tenant\" is missing",
                    "or tenants = [..], where each call names its own in X-Oncegate-Tenant",
                );
                None
            }
        }
    }
}

/// Whether this can name a listener.
pub(super) fn is_listener(name: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(sound)
}

/// Whether calls to this leave the machine without TLS.
fn is_in_the_open(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("http") && !is_here
}
