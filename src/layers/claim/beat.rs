//! When leases are renewed: in step, so that those of many calls go to the store together, as one group.
//!
//! Promises: a lease is renewed before a third of it has passed, and not before a sixth: a call that is over by then
//! renews nothing.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

/// Where the steps are counted from.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a lease of this length is renewed next.
pub(super) fn next(now: Instant, lease: Duration) -> Instant {
    let step = lease / 6;
    let earliest = now + step;
    let past = earliest.saturating_duration_since(*BEGAN).as_nanos();
    let left = step.as_nanos() - past % step.as_nanos().max(1);
    earliest + Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::next;

    #[test]
    fn calls_that_began_at_different_times_renew_together_and_in_time() {
        let lease = Duration::from_mins(1);
        let now = Instant::now();
        let steps: std::collections::HashSet<_> = (0..9_999)
            .map(|n| {
                let began = now + Duration::from_millis(n);
                let at = next(began, lease);
                let waits = at - began;
                assert!(waits >= lease / 6 && waits <= lease / 3, "{waits:?}");
                at
            })
            .collect();
        assert!(steps.len() <= 2, "{}", steps.len());
    }
}
