//! A short lock in Redis before the ledger: of calls with one key in many gates, one claims and the others read.
//!
//! Promises: speed, and nothing else. The lock is never given back (it lapses), never trusted, and never waited for
//! longer than [`PATIENCE`]; a Redis that is away, slow or empty leaves every call to the ledger, and is not asked again
//! for [`REST`]. It learns a keyed hash of the claim's name, and no key.
//!
//! Absent on purpose: correctness. The claim in the store is the truth.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ExistenceCheck, RedisError, SetExpiry, SetOptions};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::domain::chain::Chain;

/// How long one who is not first lets the first go ahead.
const HEAD_START: Duration = Duration::from_millis(15);

/// How long a lock holds, in milliseconds: a claim is committed long before.
const HOLDS_MS: u64 = 1000;

/// How long Redis may take.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How long a Redis that did not answer is left alone.
pub const REST: Duration = Duration::from_secs(5);

/// The URL names no Redis.
#[derive(Debug, thiserror::Error)]
#[error("the URL of Redis cannot be used")]
pub struct NoRedis(#[source] RedisError);

/// Who is first with a key, as far as Redis knows. Without Redis everybody is.
#[derive(Default)]
pub struct Herd(Option<Lock>);

struct Lock {
    redis: ConnectionManager,
    rests_until: Mutex<Option<Instant>>,
}

impl Herd {
    /// A lock in the Redis at `url` (`redis://…`, `rediss://…`). It need not be there yet.
    ///
    /// # Errors
    /// Where the URL is none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn at(url: &str) -> Result<Self, NoRedis> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(REST))
            .set_response_timeout(Some(REST))
            .set_number_of_retries(0);
        let client = Client::open(url).map_err(NoRedis)?;
        let redis = ConnectionManager::new_lazy_with_config(client, config).map_err(NoRedis)?;
        Ok(Self(Some(Lock { redis, rests_until: Mutex::default() })))
    }

    /// Whether another gate is claiming what `name` names, which got its head start meanwhile.
    pub async fn is_led(&self, name: impl FnOnce() -> String) -> bool {
        let Some(lock) = &self.0 else { return false };
        if lock.rests() || lock.is_first(&name()).await {
            return false;
        }
        sleep(HEAD_START).await;
        true
    }
}

impl Lock {
    fn rests(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    async fn is_first(&self, name: &str) -> bool {
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(HOLDS_MS));
        let mut redis = self.redis.clone();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(1).arg(options);
        match timeout(PATIENCE, set.query_async::<Option<String>>(&mut redis)).await {
            Ok(Ok(set)) => set.is_some(),
            Ok(Err(fault)) => self.rest(&Chain(&fault).to_string()),
            Err(_elapsed) => self.rest("it took too long"),
        }
    }

    /// Leaves Redis alone for a while; everybody is first.
    fn rest(&self, why: &str) -> bool {
        warn!(why, "Redis did not say who is first; the ledger does without it.");
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
        true
    }
}
