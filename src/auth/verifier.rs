//! From a bearer token to an actor.
//!
//! Promises: a [`Verified`] is made here only, of a token whose signature, issuer, audience, times and claims all
//! held, or by [`super::porter`], of a caller whom the configuration itself makes known; it says until when. A verified
//! token is remembered by its hash for at most a minute, never past its end, and never past a change of keys.
//!
//! Absent on purpose: anonymous callers, and any other place that an actor could come from.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, header};
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};

use super::claims::judge;
use super::clock::{Clock, UnixSeconds};
use super::keyring::Keyring;
use super::settings::{AuthSetupFault, Pace, Settings};
use super::token::{MAX_TOKEN_BYTES, Token, TokenFault};
use crate::domain::actor::Actor;
use crate::domain::refusal::Refusal;

/// How long a verified token is remembered.
const REMEMBERED_SECONDS: UnixSeconds = 60;
/// How many are.
const REMEMBERED_TOKENS: usize = 4096;

/// Who calls, as a genuine token says, or the configuration.
#[derive(Clone, Debug)]
pub struct Verified {
    actor: Arc<Actor>,
    until: UnixSeconds,
}

impl Verified {
    /// Of a caller who is known as long as the configuration says so.
    pub(super) fn lasting(actor: Actor) -> Self {
        Self { actor: Arc::new(actor), until: UnixSeconds::MAX }
    }

    /// The caller.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The first second (Unix time) at which it does not hold any more: the token's expiry and leeway, or the end of
    /// its session, whichever comes first.
    pub fn until(&self) -> UnixSeconds {
        self.until
    }
}

/// Why a call has no actor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// It brings no token.
    #[error("there is no token")]
    Missing,
    /// Its token is not acceptable.
    #[error(transparent)]
    Bad(#[from] TokenFault),
    /// The keys that would tell are not to be had.
    #[error("the keys that tokens are checked with are not available")]
    KeysUnavailable,
}

impl From<AuthFault> for Refusal {
    fn from(fault: AuthFault) -> Self {
        match fault {
            AuthFault::Missing => Self::NoToken,
            AuthFault::Bad(fault) => Self::BadToken { detail: fault.to_string() },
            AuthFault::KeysUnavailable => Self::KeysUnavailable,
        }
    }
}

/// Verifies tokens.
pub struct Verifier {
    rules: ArcSwap<Rules>,
    clock: Clock,
}

/// How tokens are judged, and who was found to be genuine so.
struct Rules {
    settings: Settings,
    keyring: Arc<Keyring>,
    remembered: Cache<[u8; 32], Remembered>,
}

/// Other rules, ready to be taken.
pub struct Newer(Rules);

#[derive(Clone)]
struct Remembered {
    verified: Verified,
    generation: u64,
    from: UnixSeconds,
}

impl Verifier {
    /// Checks the settings and reads the keys; those of a URL are not fetched yet.
    pub fn new(settings: Settings) -> Result<Self, AuthSetupFault> {
        let pace = settings.keys.pace();
        Self::paced(settings, pace, Clock::system())
    }

    /// As [`Verifier::new`], with a pace and a clock of one's own.
    pub fn paced(settings: Settings, pace: Pace, clock: Clock) -> Result<Self, AuthSetupFault> {
        settings.check()?;
        let keyring = Keyring::open(&settings.keys, pace)?;
        Ok(Self { rules: ArcSwap::from_pointee(Rules::new(settings, keyring)), clock })
    }

    /// Checks other settings and has their keys read; those of a URL must come, since the ones at hand are good. None where
    /// the settings and the keys are those in force.
    pub async fn prepare(&self, settings: Settings) -> Result<Option<Newer>, AuthSetupFault> {
        settings.check()?;
        let rules = self.rules.load_full();
        if rules.keyring.has_source(&settings.keys, &rules.settings.keys)? {
            let same = rules.settings == settings;
            return Ok((!same).then(|| Newer(Rules::new(settings, Arc::clone(&rules.keyring)))));
        }
        let keyring = Keyring::open(&settings.keys, settings.keys.pace())?;
        if keyring.generation() == 0 {
            Arc::clone(&keyring).refresh().await;
        }
        if keyring.generation() == 0 {
            return Err(AuthSetupFault::NotFetched);
        }
        Ok(Some(Newer(Rules::new(settings, keyring))))
    }

    /// Judges by these from now on. Nobody is remembered whom the former ones let in.
    pub fn take(&self, newer: Newer) {
        self.rules.store(Arc::new(newer.0));
    }

    /// Reads the keys again, where they stand in a file that is read again.
    pub fn reread(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.rules.load().keyring).reread()
    }

    /// Looks for newer keys now, beside the look-outs of [`Verifier::keep_fresh`].
    pub fn refresh(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.rules.load().keyring).refresh()
    }

    /// Keeps the keys fresh for as long as it is polled; ends at once where keys cannot change. Run it beside the
    /// server, and anew where other rules were taken: keys that an issuer withdrew are noticed by nothing else.
    pub fn keep_fresh(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.rules.load().keyring).keep_fresh()
    }

    /// Who calls. May wait for keys (bounded by the pace's timeout).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future; a fetch that it began goes on.
    pub async fn verify(&self, token: &str) -> Result<Verified, AuthFault> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenFault::TooLong.into());
        }
        let (now, hash) = (self.clock.now(), Sha256::digest(token).into());
        let rules = self.rules.load_full();
        if let Some(verified) = rules.recall(&hash, now) {
            return Ok(verified);
        }
        let parsed = Token::parse(token)?;
        // Before the signature: a token that could not be taken anyway must not send us to the key server.
        let judged = judge(&parsed.claims, &rules.settings, now)?;
        let generation = rules.keyring.prove(&parsed).await?;
        let verified = Verified { actor: Arc::new(judged.actor), until: judged.until };
        rules.remembered.insert(hash, Remembered { verified: verified.clone(), generation, from: now });
        Ok(verified)
    }

    /// Whether what was verified still holds: for whoever waited since.
    pub fn still_holds(&self, verified: &Verified) -> bool {
        self.clock.now() < verified.until
    }
}

impl Rules {
    fn new(settings: Settings, keyring: Arc<Keyring>) -> Self {
        Self { settings, keyring, remembered: Cache::new(REMEMBERED_TOKENS) }
    }

    fn recall(&self, hash: &[u8; 32], now: UnixSeconds) -> Option<Verified> {
        let seen = self.remembered.get(hash)?;
        let until = seen.verified.until.min(seen.from.saturating_add(REMEMBERED_SECONDS));
        let holds = (seen.from..until).contains(&now) && seen.generation == self.keyring.generation();
        holds.then_some(seen.verified)
    }
}

/// The one bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Result<&str, AuthFault> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next().ok_or(AuthFault::Missing)?, values.next());
    let parts = first.to_str().ok().and_then(|text| text.split_once(' '));
    match parts {
        Some((scheme, token)) if second.is_none() && scheme.eq_ignore_ascii_case("bearer") => {
            let token = token.trim_matches(' ');
            if token.is_empty() { Err(AuthFault::Missing) } else { Ok(token) }
        }
        _ => Err(TokenFault::NotBearer.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::auth::{Bearer, ClaimNames, KeySource, issue};

    #[tokio::test]
    async fn a_verified_token_is_remembered_for_a_minute() {
        let settings = || Settings {
            issuer: "https://id.example.com".to_owned(),
            audiences: vec!["billing".to_owned()],
            keys: KeySource::Hs256(vec![7; 32]),
            leeway: Duration::ZERO,
            max_session_age: Duration::from_hours(12),
            claims: ClaimNames {
                tenant: "tenant_id".to_owned(),
                user: "sub".to_owned(),
                session: "sid".to_owned(),
                scopes: "scope".to_owned(),
                roles: "roles".to_owned(),
            },
            roles: BTreeMap::new(),
        };
        let (now, told) = (Arc::new(AtomicI64::new(1000)), settings());
        let clock = {
            let now = Arc::clone(&now);
            Clock::telling(move || now.load(Ordering::SeqCst))
        };
        let pace = told.keys.pace();
        let verifier = Verifier::paced(told, pace, clock).unwrap();
        let mut bearer = Bearer {
            tenant: "acme".to_owned(),
            user: "u1".to_owned(),
            session: None,
            scopes: Vec::new(),
            ttl: Duration::from_hours(1),
        };
        let check = async |bearer: &Bearer, at: UnixSeconds, remembered: bool| {
            let token = issue(&settings(), bearer, 1000).unwrap();
            now.store(1000, Ordering::SeqCst);
            verifier.verify(&token).await.unwrap();
            let hash = Sha256::digest(&token).into();
            assert_eq!(verifier.rules.load().recall(&hash, at).is_some(), remembered, "at {at}");
        };
        check(&bearer, 1000, true).await;
        check(&bearer, 1000 + REMEMBERED_SECONDS - 1, true).await;
        check(&bearer, 1000 + REMEMBERED_SECONDS, false).await;
        check(&bearer, 999, false).await;
        bearer.ttl = Duration::from_secs(20);
        check(&bearer, 1019, true).await;
        check(&bearer, 1020, false).await;
    }
}
