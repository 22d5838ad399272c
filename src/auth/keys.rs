//! The keys that tokens are checked with, each tied to the one algorithm of its own type.
//!
//! Promises: a token never chooses how a key is used. A secret does HS256 and nothing else, an RSA key RS256, a P-256
//! key ES256, an Ed25519 key `EdDSA`; so a public key's bytes are never taken for a secret.
//!
//! Absent on purpose: where keys come from ([`super::keyring`]).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

use super::token::{Token, TokenFault};
use crate::domain::json::Json;

/// More keys than any issuer has; a token without a `kid` is tried against each.
const MAX_KEYS: usize = 64;
/// How deep a JWKS document may nest.
const MAX_DOCUMENT_DEPTH: usize = 16;
/// 2048 bits.
const MIN_RSA_BYTES: usize = 256;
/// How the public-key info of every P-256 key begins: the curve by its name, the point uncompressed.
const P256_INFO: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// The secret is empty.
    #[error("the secret cannot be used")]
    Secret,
    /// Not one `PUBLIC KEY` or `RSA PUBLIC KEY` in PEM.
    #[error("expected one public key in PEM (`BEGIN PUBLIC KEY`, or `BEGIN RSA PUBLIC KEY`)")]
    NotPublicPem,
    /// A key of a type that no accepted algorithm uses.
    #[error("the public key is neither RSA of 2048 bits or more, nor P-256, nor Ed25519")]
    KeyType,
    /// Not a JWKS document.
    #[error("expected a JWKS document: a JSON object with an array `keys`, no member twice")]
    NotJwks,
    /// Too many keys to try.
    #[error("the JWKS document has more than {MAX_KEYS} keys")]
    TooMany,
    /// A file of keys with none that could check a token.
    #[error("the JWKS document has no key that could check RS256, ES256 or EdDSA")]
    NoneUsable,
    /// The file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Tokens' keys are never fetched over an open connection.
    #[error("the JWKS URL must be an https URL")]
    NotHttps,
    /// The system's roots, or the named ones, cannot be used.
    #[error("no usable certificate authorities")]
    Roots(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The key server did not answer with a document.
    #[error("the key server could not be asked")]
    Fetch(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It answered with something else.
    #[error("the key server answered with status {0}")]
    Status(u16),
    /// It took too long.
    #[error("the key server did not answer in time")]
    TimedOut,
}

/// One key.
#[derive(Clone)]
struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    checks: DecodingKey,
}

/// Every key that is good now.
#[derive(Clone)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// A shared secret.
    pub(super) fn of_secret(secret: &[u8]) -> Result<Self, KeyFault> {
        let key = DecodingKey::from_secret(secret).map_err(|_| KeyFault::Secret)?;
        Ok(Self(vec![Key { kid: None, algorithm: Algorithm::HS256, checks: key }]))
    }

    /// One public key in PEM.
    pub(super) fn of_pem(pem: &[u8]) -> Result<Self, KeyFault> {
        let text = std::str::from_utf8(pem).map_err(|_| KeyFault::NotPublicPem)?;
        let labels: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")).collect();
        let (algorithm, key) = match labels.as_slice() {
            ["RSA PUBLIC KEY-----"] => {
                (Algorithm::RS256, DecodingKey::from_rsa_pem(pem).map_err(|_| KeyFault::KeyType)?)
            }
            ["PUBLIC KEY-----"] => of_public_key_info(pem)?,
            _ => return Err(KeyFault::NotPublicPem),
        };
        if algorithm == Algorithm::RS256 && !is_long_enough(&key) {
            return Err(KeyFault::KeyType);
        }
        Ok(Self(vec![Key { kid: None, algorithm, checks: key }]))
    }

    /// The usable keys of a JWKS document. Keys of other kinds, or for other uses, are passed over.
    pub(super) fn of_jwks(document: &[u8]) -> Result<Self, KeyFault> {
        let document = Json::parse(document, MAX_DOCUMENT_DEPTH).map_err(|_| KeyFault::NotJwks)?;
        let keys = document.get("keys").and_then(Json::as_array).ok_or(KeyFault::NotJwks)?;
        if keys.len() > MAX_KEYS {
            return Err(KeyFault::TooMany);
        }
        Ok(Self(keys.iter().filter_map(of_jwk).collect()))
    }

    /// Whether there is no key at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some key here does this algorithm.
    pub(super) fn does(&self, algorithm: Algorithm) -> bool {
        self.0.iter().any(|key| key.algorithm == algorithm)
    }

    /// Whether one of these keys signed the token. A key without a name may be meant by any `kid`.
    pub(super) fn check(&self, token: &Token<'_>) -> Result<(), TokenFault> {
        let mut fault = TokenFault::UnknownKey;
        for key in &self.0 {
            let is_named = match (&key.kid, &token.kid) {
                (Some(known), Some(asked)) => known == asked,
                (None, _) | (_, None) => true,
            };
            if !is_named || key.algorithm != token.algorithm {
                continue;
            }
            let signed = token.signed.as_bytes();
            if crypto::verify(token.signature, signed, &key.checks, key.algorithm).unwrap_or(false) {
                return Ok(());
            }
            fault = TokenFault::Signature;
        }
        Err(fault)
    }
}

fn of_public_key_info(pem: &[u8]) -> Result<(Algorithm, DecodingKey), KeyFault> {
    let info = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyFault::NotPublicPem)?;
    if let Ok(key) = DecodingKey::from_rsa_pem(pem) {
        return Ok((Algorithm::RS256, key));
    }
    if let Ok(key) = DecodingKey::from_ed_pem(pem) {
        return Ok((Algorithm::EdDSA, key));
    }
    match DecodingKey::from_ec_pem(pem) {
        Ok(key) if info.starts_with(P256_INFO) => Ok((Algorithm::ES256, key)),
        _ => Err(KeyFault::KeyType),
    }
}

/// Whether an RSA key has 2048 bits. The check of a signature would refuse a shorter one, but only then.
fn is_long_enough(key: &DecodingKey) -> bool {
    use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
    match Jwk::from_decoding_key(key, None).map(|jwk| jwk.algorithm) {
        Ok(AlgorithmParameters::RSA(rsa)) => decoded(&rsa.n).is_some_and(|n| n.len() >= MIN_RSA_BYTES),
        _ => false,
    }
}

fn of_jwk(jwk: &Json) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Json::as_str);
    let of_length =
        |name: &str, length: usize| text(name).filter(|x| decoded(x).is_some_and(|x| x.len() == length));
    let for_signatures = jwk.get("use").is_none_or(|its_use| its_use.as_str() == Some("sig"))
        && jwk.get("key_ops").is_none_or(|ops| {
            ops.as_array().is_some_and(|ops| ops.iter().any(|operation| operation.as_str() == Some("verify")))
        });
    let (algorithm, names, key) = match (text("kty")?, text("crv")) {
        ("RSA", None) => {
            let (n, e) = (decoded(text("n")?)?, decoded(text("e")?)?);
            let key = (n.len() >= MIN_RSA_BYTES).then(|| DecodingKey::from_rsa_raw_components(&n, &e))?;
            (Algorithm::RS256, ["RS256", "RS256"], key)
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (of_length("x", 32)?, of_length("y", 32)?);
            (Algorithm::ES256, ["ES256", "ES256"], DecodingKey::from_ec_components(x, y).ok()?)
        }
        // RFC 9864 renamed the algorithm; keys carry either name.
        ("OKP", Some("Ed25519")) => {
            let x = of_length("x", 32)?;
            (Algorithm::EdDSA, ["EdDSA", "Ed25519"], DecodingKey::from_ed_components(x).ok()?)
        }
        _ => return None,
    };
    let says_so = jwk.get("alg").is_none_or(|alg| alg.as_str().is_some_and(|alg| names.contains(&alg)));
    let kid = match jwk.get("kid") {
        None => None,
        Some(kid) => Some(kid.as_str()?.to_owned()),
    };
    (for_signatures && says_so).then_some(Key { kid, algorithm, checks: key })
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
