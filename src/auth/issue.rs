//! Development tokens, signed with the configured HS256 secret.
//!
//! Promises: a token made here is one that [`super::Verifier`] takes under the same settings.
//!
//! Absent on purpose: any other algorithm. Whoever has a private key has an issuer.

use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::clock::UnixSeconds;
use super::settings::{KeySource, Settings};

/// Whom a development token is for.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// The tenant.
    pub tenant: String,
    /// The user.
    pub user: String,
    /// The session; none leaves it to the token's `jti`.
    pub session: Option<String>,
    /// The scopes.
    pub scopes: Vec<String>,
    /// How long it holds.
    pub ttl: Duration,
}

/// Why no token can be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueFault {
    /// The keys are somebody else's.
    #[error("tokens can be made only where `auth.hs256_secret_file` is configured")]
    NoSecret,
    /// The signature failed.
    #[error("the token cannot be signed")]
    Signing(#[source] jsonwebtoken::errors::Error),
}

/// Makes a token that holds from `now`.
pub fn issue(settings: &Settings, bearer: &Bearer, now: UnixSeconds) -> Result<String, IssueFault> {
    let KeySource::Hs256(secret) = &settings.keys else {
        return Err(IssueFault::NoSecret);
    };
    let ttl = UnixSeconds::try_from(bearer.ttl.as_secs()).unwrap_or(UnixSeconds::MAX);
    let audience = match settings.audiences.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    let mut claims = Map::from_iter([
        ("iss".to_owned(), json!(settings.issuer)),
        ("aud".to_owned(), audience),
        ("iat".to_owned(), json!(now)),
        ("auth_time".to_owned(), json!(now)),
        ("exp".to_owned(), json!(now.saturating_add(ttl))),
        ("jti".to_owned(), json!(Uuid::now_v7())),
        (settings.claims.tenant.clone(), json!(bearer.tenant)),
        (settings.claims.user.clone(), json!(bearer.user)),
        (settings.claims.scopes.clone(), json!(bearer.scopes.join(" "))),
    ]);
    if let Some(session) = &bearer.session {
        claims.insert(settings.claims.session.clone(), json!(session));
    }
    let secret = EncodingKey::from_secret(secret).map_err(IssueFault::Signing)?;
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &Value::Object(claims), &secret)
        .map_err(IssueFault::Signing)
}
