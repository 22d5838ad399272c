//! Points in time as the store tells them.
//!
//! Promises: a [`Timestamp`] came from the database's clock (or was derived from one that did), so that two
//! pods with different clocks agree about every lease and expiry.
//!
//! Absent on purpose: a way to read this machine's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z, by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point in time `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This point in time, later by `by`; the far end of time rather than an overflow.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// This point in time, earlier by `by`; the far end of time rather than an overflow.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// How long from `earlier` to this; zero where `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A time that a write asks the store to set. The store's clock is the only one that counts, so a new time
/// is named by its distance from the store's now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// No time: the column is empty.
    Never,
    /// A time that the store told earlier, kept as it is.
    At(Timestamp),
    /// The store's now, plus this.
    In(Duration),
}

impl When {
    /// The store's now.
    pub const NOW: Self = Self::In(Duration::ZERO);

    /// The time that results where the store's clock says `now`.
    pub fn at(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Never => None,
            Self::At(time) => Some(time),
            Self::In(delay) => Some(now.plus(delay)),
        }
    }
}

impl From<Option<Timestamp>> for When {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Never, Self::At)
    }
}
