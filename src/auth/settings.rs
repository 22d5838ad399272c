//! What the gate is told about tokens: who issues them, whom they are for, where their keys are.
//!
//! Promises: nothing that guards has a default here; what cannot work is refused at start, not at the first call.
//!
//! Absent on purpose: `Debug`. A [`KeySource`] may hold the secret itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::KeyFault;
use crate::domain::actor::is_scope;

/// The fewest bytes of an HS256 secret: as many as the hash has (RFC 7518, section 3.2).
pub const MIN_SECRET_BYTES: usize = 32;

/// How tokens are judged.
#[derive(PartialEq, Eq)]
pub struct Settings {
    /// The only issuer whose tokens are taken; compared exactly.
    pub issuer: String,
    /// What a token must be for: one of these.
    pub audiences: Vec<String>,
    /// Where the keys are.
    pub keys: KeySource,
    /// How far the issuer's clock and this one may be apart.
    pub leeway: Duration,
    /// How long after the user signed in a token is still taken.
    pub max_session_age: Duration,
    /// Where the actor stands in the token.
    pub claims: ClaimNames,
    /// The scopes that each role brings. Roles that are not named bring none.
    pub roles: BTreeMap<String, Vec<String>>,
}

/// Where the keys are that tokens are checked with.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A secret shared with the issuer: HS256.
    Hs256(Vec<u8>),
    /// One public key in PEM: RS256, ES256 or `EdDSA`, as the key's own type says.
    Pem(Vec<u8>),
    /// A JWKS document in a file, read again when it changes.
    JwksFile(PathBuf),
    /// A JWKS document at an `https` URL, fetched again when a token names a key that is not in it.
    JwksUrl {
        /// Where.
        url: String,
        /// The certificates (PEM) that its server may be signed by; the system's where there is no file.
        ca_file: Option<PathBuf>,
    },
}

/// The names of the claims that make an actor. A name is looked up as it stands; where the token has no such claim
/// and the name has dots, as a path through nested objects (`realm_access.roles`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The tenant.
    pub tenant: String,
    /// The user.
    pub user: String,
    /// The session; where a token has none, its `jti`.
    pub session: String,
    /// The scopes; where a token has none, its `scp`.
    pub scopes: String,
    /// The roles.
    pub roles: String,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthSetupFault {
    /// Without it every issuer's tokens would be taken.
    #[error("the issuer is empty")]
    NoIssuer,
    /// Without one, tokens for anybody would be taken.
    #[error("there is no audience, or an empty one")]
    NoAudience,
    /// It could be guessed.
    #[error("the HS256 secret has fewer than {MIN_SECRET_BYTES} bytes")]
    ShortSecret,
    /// A scope of the role cannot be a scope.
    #[error("the role `{role}` names a scope that is empty or has a blank, a quote or a control character")]
    BadRole {
        /// Which.
        role: String,
    },
    /// The keys cannot be read.
    #[error("the keys that tokens are checked with cannot be used")]
    Keys(#[from] KeyFault),
    /// Other keys are asked for than those at hand, and are not to be had.
    #[error("the key server gave no keys; the log says why")]
    NotFetched,
}

/// How often keys are looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Without a reason: how old a key set may become.
    pub refresh: Duration,
    /// For a token whose key is not known: how long after the last look at the earliest.
    pub on_miss: Duration,
    /// How long one fetch may take, whole.
    pub timeout: Duration,
}

impl Settings {
    /// Refuses what would let everyone in, or nobody.
    pub(super) fn check(&self) -> Result<(), AuthSetupFault> {
        if self.issuer.is_empty() {
            return Err(AuthSetupFault::NoIssuer);
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            return Err(AuthSetupFault::NoAudience);
        }
        let fits = |scopes: &Vec<String>| scopes.iter().all(|scope| is_scope(scope));
        if let Some((role, _)) = self.roles.iter().find(|(_, scopes)| !fits(scopes)) {
            return Err(AuthSetupFault::BadRole { role: role.clone() });
        }
        match &self.keys {
            KeySource::Hs256(secret) if secret.len() < MIN_SECRET_BYTES => Err(AuthSetupFault::ShortSecret),
            KeySource::Hs256(_) | KeySource::Pem(_) | KeySource::JwksFile(_) | KeySource::JwksUrl { .. } => {
                Ok(())
            }
        }
    }
}

impl KeySource {
    /// The pace that suits this source: a file costs nothing, a key server is somebody else's.
    pub(super) fn pace(&self) -> Pace {
        match self {
            Self::JwksUrl { .. } => Pace {
                refresh: Duration::from_mins(10),
                on_miss: Duration::from_secs(30),
                timeout: Duration::from_secs(5),
            },
            Self::Hs256(_) | Self::Pem(_) | Self::JwksFile(_) => Pace {
                refresh: Duration::from_secs(5),
                on_miss: Duration::from_secs(2),
                timeout: Duration::from_secs(5),
            },
        }
    }
}
