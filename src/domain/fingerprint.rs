//! Keyed hashes: of a call's arguments, of the round that it brings, of what [`super::seal`] binds to an actor.
//!
//! Promises: two calls have the same fingerprint exactly if their arguments mean the same
//! ([`Json::canonical`]); without the secret nobody can test a guess of the arguments against a stored fingerprint;
//! a hash made for one purpose never equals one made for another.
//!
//! Several secrets: the first signs, and the fingerprints under all of them are accepted, so that a claim made before
//! a change of secrets is still known. Rounds are hashed under the signing secret only: a claim that awaits input while
//! that secret changes replays its question to the first round, and refuses the next round as a conflict. Nothing
//! runs twice for it.
//!
//! Secrets may be exchanged while calls go on: whoever holds them takes the new ones from the next hash on, and each hash
//! is taken under one list of them.
//!
//! Absent on purpose: `Debug` on whatever holds a secret, and the secrets' own bytes once they are keyed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::domain::json::Json;
use crate::domain::ledger::ClaimId;

/// The shortest secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 32;

/// How many hexadecimal digits name a secret.
const ID_DIGITS: usize = 8;

/// The secrets that every pod shares; the first signs, the others are still accepted. Every clone has the same, after an
/// exchange too.
#[derive(Clone)]
pub struct Secrets(Arc<ArcSwap<Ring>>);

struct Ring {
    signing: Secret,
    others: Vec<Secret>,
}

#[derive(Clone)]
struct Secret {
    keyed: Hmac<Sha256>,
    id: String,
}

/// Why a list of secrets cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsFault {
    /// The list is empty.
    #[error("there is no secret")]
    Missing,
    /// One is too short to be one.
    #[error("secret {position} has {found} bytes, and needs {MIN_SECRET_BYTES} or more")]
    TooShort {
        /// Which, counted from 1.
        position: usize,
        /// Its length in bytes.
        found: usize,
    },
}

impl Secrets {
    /// Secrets of at least [`MIN_SECRET_BYTES`] each. The bytes count as they are: nothing is trimmed or decoded.
    pub fn new<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, SecretsFault> {
        let mut keyed =
            secrets.into_iter().enumerate().map(|(at, secret)| Secret::new(at + 1, secret.as_ref()));
        let signing = keyed.next().ok_or(SecretsFault::Missing)??;
        let others = keyed.collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(ArcSwap::from_pointee(Ring { signing, others }))))
    }

    /// Takes others in their place; says whether they are others.
    pub fn take(&self, newer: &Self) -> bool {
        let newer = newer.0.load_full();
        let are_others = self.0.load().names() != newer.names();
        if are_others {
            self.0.store(newer);
        }
        are_others
    }

    /// The keyed hash of these parts, under the secret that signs.
    pub(super) fn signed(&self, purpose: Purpose, parts: &[&[u8]]) -> Vec<u8> {
        let parts: Vec<_> = parts.iter().copied().map(Some).collect();
        keyed_over(&self.0.load().signing.keyed, purpose, &parts).finalize().into_bytes().to_vec()
    }

    /// Whether `tag` begins the keyed hash of these parts under one of the secrets. How far it agrees shows in no time.
    pub(super) fn has_signed(&self, purpose: Purpose, parts: &[&[u8]], tag: &[u8]) -> bool {
        let parts: Vec<_> = parts.iter().copied().map(Some).collect();
        self.0
            .load()
            .all()
            .any(|secret| keyed_over(&secret.keyed, purpose, &parts).verify_truncated_left(tag).is_ok())
    }
}

impl Ring {
    fn all(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.signing).chain(&self.others)
    }

    /// A hash of each, whole: what a fingerprint names it by is shorter.
    fn names(&self) -> Vec<String> {
        self.all().map(|secret| hash(&secret.keyed, Purpose::SecretId, &[])).collect()
    }
}

impl Secret {
    fn new(position: usize, bytes: &[u8]) -> Result<Self, SecretsFault> {
        let fault = SecretsFault::TooShort { position, found: bytes.len() };
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(fault);
        }
        let keyed = Hmac::new_from_slice(bytes).map_err(|_| fault)?;
        let mut id = hash(&keyed, Purpose::SecretId, &[]);
        id.truncate(ID_DIGITS);
        Ok(Self { keyed, id })
    }
}

/// What a hash is for. The word goes into the hash, so that no two purposes share one.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    SecretId,
    Arguments,
    Request,
    Bytes,
    Round,
    State,
    Session,
    Task,
    Event,
    Herd,
}

impl Purpose {
    const fn word(self) -> &'static str {
        match self {
            Self::SecretId => "oncegate 1 secret id",
            Self::Arguments => "oncegate 1 arguments",
            Self::Request => "oncegate 1 request",
            Self::Bytes => "oncegate 1 bytes",
            Self::Round => "oncegate 1 round",
            Self::State => "oncegate 1 request state",
            Self::Session => "oncegate 1 session",
            Self::Task => "oncegate 1 task",
            Self::Event => "oncegate 1 event",
            Self::Herd => "oncegate 1 herd",
        }
    }
}

/// Hexadecimal digits of a keyed hash.
fn hash(keyed: &Hmac<Sha256>, purpose: Purpose, parts: &[Option<&[u8]>]) -> String {
    hex::encode(keyed_over(keyed, purpose, parts).finalize().into_bytes())
}

/// Every part goes in with its length, and an absent one is not an empty one.
fn keyed_over(keyed: &Hmac<Sha256>, purpose: Purpose, parts: &[Option<&[u8]>]) -> Hmac<Sha256> {
    let mut hash = keyed.clone();
    for part in [Some(purpose.word().as_bytes())].iter().chain(parts) {
        let length = part.map_or(u64::MAX, |bytes| bytes.len() as u64);
        hash.update(&length.to_be_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash
}

/// The fingerprints of one call's arguments, each as `ID:HEX` where the id names the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// Under the secret that signs: what is written.
    pub signed: String,
    /// Under every secret, `signed` first: what is taken for the same.
    pub accepted: Vec<String>,
}

/// Makes fingerprints.
#[derive(Clone)]
pub struct Fingerprinter {
    secrets: Secrets,
}

impl Fingerprinter {
    /// A maker of fingerprints under these secrets.
    pub const fn new(secrets: Secrets) -> Self {
        Self { secrets }
    }

    /// The fingerprints of a call's arguments, once the key and the tenant are out of them. Absent arguments are `{}`.
    pub fn of(&self, arguments: Option<&Json>) -> Fingerprints {
        let canonical = arguments.map_or_else(|| b"{}".to_vec(), Json::canonical);
        self.over(Purpose::Arguments, &[Some(&canonical)])
    }

    /// The fingerprints of a plain request: method, path, canonical query, media type and canonical body, in that order.
    pub fn of_request(&self, parts: &[&[u8]; 5]) -> Fingerprints {
        self.over(Purpose::Request, &parts.map(Some))
    }

    fn over(&self, purpose: Purpose, parts: &[Option<&[u8]>]) -> Fingerprints {
        let under = |secret: &Secret| format!("{}:{}", secret.id, hash(&secret.keyed, purpose, parts));
        let ring = self.secrets.0.load();
        let signed = under(&ring.signing);
        let accepted = std::iter::once(signed.clone()).chain(ring.others.iter().map(under)).collect();
        Fingerprints { signed, accepted }
    }

    /// The hash, as `ID:HEX`, of bytes that are no JSON: what the audit keeps of them.
    pub fn of_bytes(&self, bytes: &[u8]) -> String {
        let ring = self.secrets.0.load();
        let secret = &ring.signing;
        format!("{}:{}", secret.id, hash(&secret.keyed, Purpose::Bytes, &[Some(bytes)]))
    }

    /// What names a claim to the herd's lock, and tells nobody else anything.
    pub fn herd_name(&self, id: &ClaimId) -> String {
        let parts = [&id.tenant, &id.service, &id.tool, &id.key].map(|part| Some(part.as_bytes()));
        format!("oncegate:{}", hash(&self.secrets.0.load().signing.keyed, Purpose::Herd, &parts))
    }

    /// The hash of the round that a call brings, in hexadecimal digits; empty for a first round, which brings neither.
    pub fn round_hash(&self, input_responses: Option<&Json>, request_state: Option<&Json>) -> String {
        if input_responses.is_none() && request_state.is_none() {
            return String::new();
        }
        let parts = [input_responses, request_state].map(|part| part.map(Json::canonical));
        let [inputs, state] = parts.each_ref().map(Option::as_deref);
        hash(&self.secrets.0.load().signing.keyed, Purpose::Round, &[inputs, state])
    }

    /// The hash of a `requestState`, in hexadecimal digits; empty where there is none.
    pub fn state_hash(&self, request_state: Option<&Json>) -> String {
        request_state.map_or_else(String::new, |state| {
            hash(&self.secrets.0.load().signing.keyed, Purpose::State, &[Some(&state.canonical())])
        })
    }
}
