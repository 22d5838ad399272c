//! How fast a process asks.
//!
//! Promises: in any time no more questions begin than the rate allows for it and one burst.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One question in this time, on the long run.
const EACH: Duration = Duration::from_millis(100);

/// How far ahead of that a burst may run.
const AHEAD: Duration = Duration::from_secs(2);

/// The pace: until when questions that were asked already have used up the rate.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Whether another question may be asked now. If so, it counts.
    pub fn take(&self, now: Instant) -> bool {
        let mut used_until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = used_until.map_or(now, |until| until.max(now)) + EACH;
        if next > now + AHEAD {
            return false;
        }
        *used_until = Some(next);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_asked_at_once_and_then_one_at_a_time() {
        let (pace, now) = (Pace::default(), Instant::now());
        assert_eq!((0..1000).filter(|_| pace.take(now)).count(), 20);
        assert!(!pace.take(now + EACH / 2));
        assert!(pace.take(now + EACH));
        assert!(!pace.take(now + EACH));
    }

    #[test]
    fn in_a_minute_no_more_are_asked_than_the_rate_allows() {
        let (pace, begin) = (Pace::default(), Instant::now());
        let asked = (0..60_000).filter(|ms| pace.take(begin + Duration::from_millis(*ms))).count();
        assert!((600..=620).contains(&asked), "{asked}");
    }
}
