//! The pause before something is tried again.
//!
//! Promises: each is twice as long as the one before it, up to a longest one.
//!
//! Absent on purpose: chance. Those who wait here wait for a store that is back for all of them at once, and it groups
//! what they bring.

use std::time::Duration;

use tokio::time::sleep;

use super::exchange::FIRST_PAUSE;

/// The longest pause of a settlement that waits for the store.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pauses of one that tries.
#[derive(Debug)]
pub(super) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    /// From this one up to that one.
    pub(super) const fn between(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Of whoever has something to store.
    pub(super) const fn of_storing() -> Self {
        Self::between(FIRST_PAUSE, LONGEST_PAUSE)
    }

    /// Returns once the next one is over.
    ///
    /// # Cancel safety
    /// Dropping the future ends the pause; the next one is longer all the same.
    pub(super) async fn over(&mut self) {
        let now = self.next;
        self.next = (now * 2).min(self.longest);
        sleep(now).await;
    }
}
