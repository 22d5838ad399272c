//! Whether the store is there, for whoever should not even ask while it is away.
//!
//! Promises: an outage is noticed by what failed, and its end by somebody who keeps trying, whether or not anybody calls;
//! a short interruption is bridged: whoever asks meanwhile waits until it is over, or until it has lasted too long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::StoreError;
use super::op::Cause;
use crate::domain::chain::Chain;

/// How a store stands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standing(watch::Receiver<Option<Outage>>);

/// What is known of an outage.
#[derive(Clone, Debug)]
struct Outage {
    /// Until then it is a short interruption.
    bridged_until: Instant,
    why: Why,
}

/// Why a store is away: told to everybody who asks meanwhile.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// It could not be reached, or refused.
    Cause(Cause),
    /// It holds what cannot be read.
    Corrupt(String),
    /// It is set up so that it cannot keep the promise.
    Unfit(String),
}

impl Why {
    /// Told to somebody for whom certainly nothing was written.
    pub(super) fn error(&self) -> StoreError {
        match self {
            Self::Cause(cause) => cause.unavailable(),
            Self::Corrupt(what) => StoreError::Corrupt(what.clone()),
            Self::Unfit(what) => StoreError::Unfit(what.clone()),
        }
    }
}

impl Standing {
    /// Of a store that is never known to be away.
    pub fn there_always() -> Self {
        Self(watch::channel(None).1)
    }

    /// Whether it is known to be away, for longer than is bridged.
    pub fn is_away(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(Outage::is_long)
    }

    /// Waits until it is known to be away, for longer than is bridged.
    pub async fn away(&self) {
        let mut seen = self.0.clone();
        loop {
            let until = seen.borrow_and_update().as_ref().map(|outage| outage.bridged_until);
            let ended = match until {
                Some(until) if Instant::now() >= until => return,
                Some(until) => matches!(timeout_at(until, seen.changed()).await, Ok(Err(_))),
                None => seen.changed().await.is_err(),
            };
            if ended {
                // Of a store that nobody hears of any more, nothing is known.
                return std::future::pending().await;
            }
        }
    }

    /// Waits until it is there.
    pub async fn there(&self) {
        // A store that was dropped is never there again, and nobody asks it.
        let _gone = self.0.clone().wait_for(Option::is_none).await.is_err();
    }
}

impl Outage {
    fn is_long(&self) -> bool {
        Instant::now() >= self.bridged_until
    }
}

/// What a store itself says of how it stands.
#[derive(Clone, Debug)]
pub(super) struct Notice(Arc<watch::Sender<Option<Outage>>>);

impl Notice {
    /// Of a store that is there as far as anybody knows.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// For others to look at.
    pub(super) fn standing(&self) -> Standing {
        Standing(self.0.subscribe())
    }

    /// It went away at `since`, or still is; `bridged` is how long that is only an interruption. Says whether this is news.
    pub(super) fn away(&self, since: Instant, bridged: Duration, why: Why) -> bool {
        let mut is_news = false;
        self.0.send_modify(|seen| {
            if let Some(outage) = seen {
                // What will not pass by itself is not bridged, even if it began as what might.
                outage.bridged_until = outage.bridged_until.min(since + bridged);
                outage.why = why;
                return;
            }
            is_news = true;
            warn!(error = %Chain(&why.error()), "The store is away.");
            *seen = Some(Outage { bridged_until: since + bridged, why });
        });
        is_news
    }

    /// It is there.
    pub(super) fn there(&self) {
        self.0.send_if_modified(|outage| {
            let was_away = outage.take().is_some();
            if was_away {
                info!("The store is back.");
            }
            was_away
        });
    }

    /// Why it is away, where it is, for longer than is bridged.
    pub(super) fn long_away(&self) -> Option<Why> {
        self.0.borrow().as_ref().filter(|outage| outage.is_long()).map(|outage| outage.why.clone())
    }

    /// Waits until a short interruption is over.
    pub(super) async fn bridged(&self) -> Result<(), Why> {
        let mut seen = self.0.subscribe();
        loop {
            let outage = seen.borrow_and_update().clone();
            let Some(outage) = outage else { return Ok(()) };
            if outage.is_long() {
                return Err(outage.why);
            }
            // Whichever comes first: it is judged again.
            let _passed = timeout_at(outage.bridged_until, seen.changed()).await.is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::{Notice, Why};
    use crate::store::op::{Cause, Closed};

    const SECOND: Duration = Duration::from_secs(1);

    fn away(notice: &Notice, bridged: Duration) -> bool {
        notice.away(Instant::now(), bridged, Why::Cause(Cause::new(Closed)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_interruption_is_bridged_for_its_time_and_no_longer() {
        let notice = Notice::new();
        let standing = notice.standing();
        assert!(away(&notice, SECOND * 4) && !standing.is_away());
        sleep(SECOND * 3).await;
        let begun = Instant::now();
        assert!(notice.bridged().await.is_err());
        assert_eq!(begun.elapsed(), SECOND, "whoever comes late waits for the rest only");
        assert!(standing.is_away());
        let begun = Instant::now();
        assert!(notice.bridged().await.is_err());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_goes_on_at_once_when_it_is_over() {
        let notice = Notice::new();
        let standing = notice.standing();
        assert!(away(&notice, SECOND * 4));
        let (waits, asks) = (standing.clone(), notice.clone());
        let waiting = tokio::spawn(async move { (waits.there().await, asks.bridged().await.is_ok()) });
        sleep(SECOND).await;
        let begun = Instant::now();
        notice.there();
        assert!(waiting.await.expect("it does not panic").1);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(!standing.is_away());
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_pass_by_itself_ends_the_bridging() {
        let notice = Notice::new();
        assert!(away(&notice, SECOND * 4));
        assert!(!away(&notice, Duration::ZERO), "it is no news that it is away");
        assert!(notice.standing().is_away());
        // A later fault of the same outage does not begin it anew.
        assert!(!away(&notice, SECOND * 4));
        assert!(notice.standing().is_away());
    }
}
