//! The keys that are good now, and when to look for newer ones.
//!
//! Promises: the last good key set is kept until a newer one has come, however long the key server is away; looks
//! caused by unknown tokens are rate-limited, and callers who wait at one time share one look; a set's generation
//! changes exactly when its document does.
//!
//! Absent on purpose: judging tokens. A set that is replaced by one without keys is replaced all the same: its issuer
//! says that no token is good.
//!
//! # Cancel safety
//! A look runs in its own task. A caller that goes away stops waiting for it, and nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use jsonwebtoken::Algorithm;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::fetch::{self, Remote};
use super::keys::{KeyFault, KeySet};
use super::settings::{AuthSetupFault, KeySource, Pace};
use super::token::{Token, TokenFault};
use super::verifier::AuthFault;
use crate::domain::chain::Chain;

/// The keys, and where they come from.
pub(super) struct Keyring {
    origin: Origin,
    pace: Pace,
    current: ArcSwapOption<Generation>,
    looks: AtomicU64,
    last: Mutex<LastLook>,
}

/// Where keys come from.
enum Origin {
    Fixed,
    File(PathBuf),
    Remote(Box<Remote>),
}

/// One key set, as its document had it.
struct Generation {
    number: u64,
    document: Bytes,
    keys: KeySet,
}

/// How the last look for keys went.
#[derive(Default)]
struct LastLook {
    began: Option<Instant>,
    failed: bool,
}

impl Keyring {
    /// Reads the keys, except those of a URL: they are fetched once a task runs [`Keyring::keep_fresh`], or a token
    /// asks for them.
    pub(super) fn open(source: &KeySource, pace: Pace) -> Result<Arc<Self>, AuthSetupFault> {
        let (origin, document, keys) = match source {
            KeySource::Hs256(secret) => (Origin::Fixed, Bytes::new(), Some(KeySet::of_secret(secret)?)),
            KeySource::Pem(pem) => (Origin::Fixed, Bytes::new(), Some(KeySet::of_pem(pem)?)),
            KeySource::JwksFile(path) => {
                let document = fetch::read(path)?;
                let keys = KeySet::of_jwks(&document)?;
                if keys.is_empty() {
                    return Err(KeyFault::NoneUsable.into());
                }
                (Origin::File(path.clone()), document.into(), Some(keys))
            }
            KeySource::JwksUrl { url, ca_file } => {
                let remote = Remote::new(url, ca_file.as_deref(), pace.timeout)?;
                (Origin::Remote(Box::new(remote)), Bytes::new(), None)
            }
        };
        let first = keys.map(|keys| Arc::new(Generation { number: 1, document, keys }));
        Ok(Arc::new(Self {
            origin,
            pace,
            current: ArcSwapOption::new(first),
            looks: AtomicU64::new(0),
            last: Mutex::default(),
        }))
    }

    /// Whether this source leads to the same keys: they need not be read anew then, but where they come from looks after
    /// itself. A file that holds none is a mistake, as it is at start.
    pub(super) fn has_source(&self, source: &KeySource, former: &KeySource) -> Result<bool, AuthSetupFault> {
        if source != former {
            return Ok(false);
        }
        match (&self.origin, source) {
            (Origin::Remote(remote), KeySource::JwksUrl { ca_file, .. }) => {
                Ok(remote.trusts_still(ca_file.as_deref())?)
            }
            (Origin::File(path), _) => {
                if KeySet::of_jwks(&fetch::read(path)?)?.is_empty() {
                    return Err(KeyFault::NoneUsable.into());
                }
                Ok(true)
            }
            (Origin::Fixed | Origin::Remote(_), _) => Ok(true),
        }
    }

    /// Reads the keys again, where they stand in a file that is read again.
    pub(super) async fn reread(self: Arc<Self>) {
        if matches!(self.origin, Origin::File(_)) {
            self.look(Duration::ZERO).await;
        }
    }

    /// Looks for the keys now, where they may have changed.
    pub(super) async fn refresh(self: Arc<Self>) {
        self.look(Duration::ZERO).await;
    }

    /// The number of the key set that is good now; zero before there was one.
    pub(super) fn generation(&self) -> u64 {
        self.current.load().as_ref().map_or(0, |current| current.number)
    }

    /// Whether a known key signed the token; looks for newer keys where none of those at hand did. Returns the number
    /// of the key set that said so.
    pub(super) async fn prove(self: &Arc<Self>, token: &Token<'_>) -> Result<u64, AuthFault> {
        if !self.may_do(token.algorithm) {
            return Err(TokenFault::Algorithm.into());
        }
        match self.check(token) {
            Some(Ok(number)) => return Ok(number),
            Some(Err(fault)) if self.is_fixed() => return Err(fault.into()),
            Some(Err(_)) | None => {}
        }
        // An unknown `kid` may be a new key, and so may a known one: some issuers keep the name.
        let failed = self.look(self.patience()).await;
        match self.check(token) {
            Some(Ok(number)) => Ok(number),
            // The key server is away: whether the token is bad is not known.
            Some(Err(TokenFault::UnknownKey)) if failed => Err(AuthFault::KeysUnavailable),
            Some(Err(fault)) => Err(fault.into()),
            None => Err(AuthFault::KeysUnavailable),
        }
    }

    /// Looks for newer keys every now and then, for as long as it is polled.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        while !self.is_fixed() {
            self.look(Duration::ZERO).await;
            let pause = if self.generation() == 0 { self.patience() } else { self.pace.refresh };
            tokio::time::sleep(pause).await;
        }
    }

    fn is_fixed(&self) -> bool {
        matches!(self.origin, Origin::Fixed)
    }

    /// Whether there is, or could come, a key for this algorithm. A secret never comes with a JWKS document: one that
    /// anybody may read holds none.
    fn may_do(&self, algorithm: Algorithm) -> bool {
        match &self.origin {
            Origin::Fixed => self.current.load().as_ref().is_some_and(|current| current.keys.does(algorithm)),
            Origin::File(_) | Origin::Remote(_) => algorithm != Algorithm::HS256,
        }
    }

    /// How far apart two looks are that nothing but an unknown key asks for. Without any key everything is refused:
    /// then it is worth asking sooner.
    fn patience(&self) -> Duration {
        if self.generation() == 0 { self.pace.on_miss.min(Duration::from_secs(2)) } else { self.pace.on_miss }
    }

    fn check(&self, token: &Token<'_>) -> Option<Result<u64, TokenFault>> {
        let current = self.current.load();
        current.as_ref().map(|current| current.keys.check(token).map(|()| current.number))
    }

    /// Looks for newer keys unless somebody did within `unless_within`, or does so now; returns whether the last look
    /// failed.
    async fn look(self: &Arc<Self>, unless_within: Duration) -> bool {
        let (ring, asked_at) = (Arc::clone(self), self.looks.load(Ordering::Acquire));
        let look = tokio::spawn(async move {
            let mut last = ring.last.lock().await;
            let shared = ring.looks.load(Ordering::Acquire) != asked_at;
            let too_soon = last.began.is_some_and(|began| began.elapsed() < unless_within);
            if !shared && !too_soon {
                last.began = Some(Instant::now());
                last.failed = ring.look_now().await;
                ring.looks.fetch_add(1, Ordering::Release);
            }
            last.failed
        });
        look.await.unwrap_or(true)
    }

    /// Takes the document as it is now; returns whether that failed.
    async fn look_now(&self) -> bool {
        let document = match &self.origin {
            Origin::Fixed => return false,
            Origin::File(path) => fetch::read(path).map(Bytes::from),
            Origin::Remote(remote) => remote.fetch().await,
        };
        let current = self.current.load_full();
        let newer = document.and_then(|document| {
            if current.as_ref().is_some_and(|current| current.document == document) {
                return Ok(None);
            }
            let keys = KeySet::of_jwks(&document)?;
            Ok(Some((document, keys)))
        });
        match newer {
            Ok(None) => false,
            Ok(Some((document, keys))) => {
                let number = current.map_or(1, |current| current.number + 1);
                if keys.is_empty() {
                    warn!(generation = number, "The key set has no usable key: every token will be refused.");
                } else {
                    info!(generation = number, "The keys that tokens are checked with were read.");
                }
                self.current.store(Some(Arc::new(Generation { number, document, keys })));
                false
            }
            Err(fault) => {
                let so = match current {
                    Some(_) => "the last good ones stay",
                    None => "until they are, no token can be checked",
                };
                warn!(error = %Chain(&fault), "The keys could not be read; {so}.");
                true
            }
        }
    }
}
