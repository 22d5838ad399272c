//! From the configuration of tokens to what judges them.
//!
//! `config` and `auth` stand side by side and do not know each other.

use crate::auth::{ClaimNames, KeySource, Service, Services, Settings};
use crate::config;

/// How tokens are judged, as the configuration says.
pub fn token_settings(auth: config::AuthConfig) -> Settings {
    let config::AuthConfig { issuer, audiences, keys, leeway, max_session_age, claims, roles, .. } = auth;
    let keys = match keys {
        config::KeySource::Hs256(secret) => KeySource::Hs256(secret.bytes().to_vec()),
        config::KeySource::Pem(pem) => KeySource::Pem(pem),
        config::KeySource::JwksFile(path) => KeySource::JwksFile(path),
        config::KeySource::JwksUrl { url, ca_file } => KeySource::JwksUrl { url, ca_file },
    };
    let config::ClaimNames { tenant, user, session, scopes, roles: role_claim, .. } = claims;
    let claims = ClaimNames { tenant, user, session, scopes, roles: role_claim };
    Settings { issuer, audiences, keys, leeway, max_session_age, claims, roles }
}

/// The services that may call in their own names, as the configuration says.
pub fn services(tokens: &[config::ServiceTokenConfig]) -> Services {
    Services::new(tokens.iter().map(|service| {
        let tokens = service.tokens.iter().map(config::ServiceToken::text);
        Service::new(service.name.clone(), tokens, service.scopes.clone(), service.tenants.clone())
    }))
}
