//! The settings of tokens: whose are taken, with which keys, and where the actor stands in them.
//!
//! Promises: issuer, audience, keys and session age have no default, and there is exactly one source of keys.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;

use super::checked::{AuthConfig, ClaimNames, KeySource};
use super::checks::Checks;
use super::files;
use super::number::Texts;
use super::raw::{RawAuth, RawClaims};
use crate::domain::actor::is_scope;

const LEEWAYS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(5);
const SESSION_AGES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(366 * 24);

const KEYS: [&str; 4] = ["auth.hs256_secret_file", "auth.public_key_file", "auth.jwks_file", "auth.jwks_url"];

impl Checks<'_> {
    pub(super) fn auth(&mut self, raw: &RawAuth) -> Option<AuthConfig> {
        let issuer = self.required("auth.issuer", raw.issuer.as_ref()).map(|value| value.get_ref().clone());
        let audiences = self.texts("auth.audience", raw.audience.as_ref());
        if raw.audience.is_none() {
            self.missing(&["auth.audience"]);
        }
        let authorization_servers = match &raw.authorization_servers {
            Some(_) => self.texts("auth.authorization_servers", raw.authorization_servers.as_ref()),
            None => issuer.clone().map(|issuer| vec![issuer]),
        };
        let keys = self.keys(raw);
        if raw.max_session_age.is_none() {
            self.missing(&["auth.max_session_age"]);
        }
        let max_session_age =
            self.span("auth.max_session_age", raw.max_session_age.as_ref(), Duration::ZERO, &SESSION_AGES);
        let leeway = self.span("auth.leeway", raw.leeway.as_ref(), Duration::from_secs(30), &LEEWAYS);
        let claims = self.claims(&raw.claims);
        let roles = self.roles(raw.roles.as_ref());
        Some(AuthConfig {
            issuer: issuer?,
            audiences: audiences?,
            authorization_servers: authorization_servers?,
            keys: keys?,
            leeway: leeway?,
            max_session_age: max_session_age?,
            claims: claims?,
            roles: roles?,
        })
    }

    fn texts(&mut self, key: &str, set: Option<&Spanned<Texts>>) -> Option<Vec<String>> {
        let value = set?;
        let Texts(texts) = value.get_ref();
        if texts.is_empty() || texts.iter().any(|text| text.is_empty() || text.trim() != text) {
            self.at(value, format!("{key} is empty, or one of its texts is, or has blanks around it"));
            return None;
        }
        Some(texts.clone())
    }

    fn keys(&mut self, raw: &RawAuth) -> Option<KeySource> {
        if let (Some(ca_file), None) = (&raw.jwks_ca_file, &raw.jwks_url) {
            self.at(ca_file, "auth.jwks_ca_file has no meaning without auth.jwks_url");
        }
        match (&raw.hs256_secret_file, &raw.public_key_file, &raw.jwks_file, &raw.jwks_url) {
            (Some(file), None, None, None) => self.secret(file, file.get_ref()).map(KeySource::Hs256),
            (None, Some(file), None, None) => {
                let pem = files::read(file.get_ref().as_ref());
                pem.map_err(|message| self.at(file, message)).ok().map(KeySource::Pem)
            }
            (None, None, Some(file), None) => self.readable(file).map(KeySource::JwksFile),
            (None, None, None, Some(value)) => {
                let url = self.url(value).is_some_and(|uri| {
                    let safe = uri.scheme_str() == Some("https");
                    if !safe {
                        self.at(
                            value,
                            "auth.jwks_url must be https: whoever can change the keys can be anyone",
                        );
                    }
                    safe
                });
                let ca_file = match &raw.jwks_ca_file {
                    None => None,
                    Some(file) => Some(self.readable(file)?),
                };
                url.then(|| KeySource::JwksUrl { url: value.get_ref().clone(), ca_file })
            }
            (None, None, None, None) => {
                self.missing(&KEYS);
                None
            }
            (first, second, third, fourth) => {
                let last = [fourth, third, second, first].into_iter().flatten().next()?;
                self.at(last, format!("only one of {} may be set", KEYS.join(", ")));
                None
            }
        }
    }

    fn claims(&mut self, raw: &RawClaims) -> Option<ClaimNames> {
        let tenant = self.or("auth.claims.tenant", raw.tenant.as_ref(), "tenant_id");
        let user = self.or("auth.claims.user", raw.user.as_ref(), "sub");
        let session = self.or("auth.claims.session", raw.session.as_ref(), "sid");
        let scopes = self.or("auth.claims.scopes", raw.scopes.as_ref(), "scope");
        let roles = self.or("auth.claims.roles", raw.roles.as_ref(), "roles");
        Some(ClaimNames { tenant: tenant?, user: user?, session: session?, scopes: scopes?, roles: roles? })
    }

    fn roles(
        &mut self,
        set: Option<&Spanned<BTreeMap<String, Texts>>>,
    ) -> Option<BTreeMap<String, Vec<String>>> {
        let Some(value) = set else { return Some(BTreeMap::new()) };
        let mut sound = true;
        for (role, Texts(scopes)) in value.get_ref() {
            for scope in scopes.iter().filter(|scope| !is_scope(scope)) {
                sound = false;
                self.at(value, format!("the role \"{role}\" names \"{scope}\", which cannot be a scope"));
            }
        }
        sound.then(|| {
            value.get_ref().iter().map(|(role, Texts(scopes))| (role.clone(), scopes.clone())).collect()
        })
    }
}
