//! A token taken apart, before anybody believes it.
//!
//! Promises: a [`Token`] is three base64url parts whose first two are JSON objects in which no member stands twice;
//! it asks for an algorithm that the gate knows and for nothing that the gate does not do (`crit`, a key of its own).
//!
//! Absent on purpose: keys. Nothing in here says that the token is genuine.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;

use crate::domain::actor::ActorFault;
use crate::domain::json::{Json, Object};

/// The largest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// How deep a token's JSON may nest.
const MAX_TOKEN_DEPTH: usize = 16;

/// Why a token is not acceptable. Every sentence is safe to show: none repeats what the token says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It is larger than [`MAX_TOKEN_BYTES`].
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// The header `Authorization` does not hold one bearer token.
    #[error("the Authorization header does not hold one bearer token")]
    NotBearer,
    /// It is not a signed JWT, or one of its JSON objects has a member twice.
    #[error("the token is not a well-formed signed JWT")]
    Malformed,
    /// Its algorithm is none of HS256, RS256, ES256, `EdDSA`.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// It wants to be understood in a way that the gate does not know.
    #[error("the token has critical header parameters that are not supported")]
    Critical,
    /// It brings, or points at, the key that it is signed with.
    #[error("the token names a key of its own")]
    OwnKey,
    /// No known key has its `kid` and its algorithm.
    #[error("the token is signed with a key that is not known")]
    UnknownKey,
    /// The signature does not match.
    #[error("the token's signature does not match")]
    Signature,
    /// Another issuer, or none.
    #[error("the token's issuer is not the expected one")]
    Issuer,
    /// It is for somebody else, or for nobody.
    #[error("the token is not meant for this audience")]
    Audience,
    /// It has no end.
    #[error("the token does not say when it expires")]
    NoExpiry,
    /// Its end has passed.
    #[error("the token has expired")]
    Expired,
    /// Its beginning, or that of its session, lies ahead.
    #[error("the token is not valid yet")]
    NotYet,
    /// It says neither when the user signed in nor when it was issued.
    #[error("the token does not say how old its session is")]
    NoAge,
    /// The user signed in longer ago than `max_session_age`.
    #[error("the token's session is too old; sign in again")]
    SessionTooOld,
    /// A claim is of a kind that the gate cannot take.
    #[error("the token's claim for the {part} is not of a usable kind")]
    Claim {
        /// What the claim is for.
        part: &'static str,
    },
    /// No actor can be made of its claims.
    #[error("the token does not name a usable actor: {0}")]
    Actor(ActorFault),
}

/// A token that is well formed, and not believed yet.
pub(super) struct Token<'a> {
    /// What the signature covers.
    pub(super) signed: &'a str,
    /// The signature, in base64url.
    pub(super) signature: &'a str,
    /// The algorithm that it asks for.
    pub(super) algorithm: Algorithm,
    /// The key that it names.
    pub(super) kid: Option<String>,
    /// What it claims.
    pub(super) claims: Object,
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    pub(super) fn parse(text: &'a str) -> Result<Self, TokenFault> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(TokenFault::TooLong);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
        if claims.contains('.') {
            return Err(TokenFault::Malformed);
        }
        let header = object(header)?;
        let algorithm = match header.get("alg").and_then(Json::as_str) {
            Some("HS256") => Algorithm::HS256,
            Some("RS256") => Algorithm::RS256,
            Some("ES256") => Algorithm::ES256,
            Some("EdDSA") => Algorithm::EdDSA,
            _ => return Err(TokenFault::Algorithm),
        };
        if header.contains("crit") || header.get("b64").is_some_and(|b64| *b64 != Json::Bool(true)) {
            return Err(TokenFault::Critical);
        }
        if ["jwk", "jku", "x5c", "x5u"].iter().any(|name| header.contains(name)) {
            return Err(TokenFault::OwnKey);
        }
        let kid = header.get("kid").map(|kid| kid.as_str().map(str::to_owned).ok_or(TokenFault::Malformed));
        let kid = kid.transpose()?;
        Ok(Self { signed, signature, algorithm, kid, claims: object(claims)? })
    }
}

/// The JSON object that one part of a token holds. The reader refuses a member that stands twice: of the two, one
/// program takes the first and another the last.
fn object(part: &str) -> Result<Object, TokenFault> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)?;
    match Json::parse(&bytes, MAX_TOKEN_DEPTH) {
        Ok(Json::Object(members)) => Ok(members),
        _ => Err(TokenFault::Malformed),
    }
}
