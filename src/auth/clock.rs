//! The wall clock that tokens are judged by.
//!
//! Promises: everything in `auth` that asks for the time asks here, so that a test can say what time it is.
//!
//! Absent on purpose: leases and expiries of claims. Those are told by the database's clock.

use std::sync::Arc;

/// Whole seconds since 1970-01-01T00:00:00Z, as tokens count them.
pub type UnixSeconds = i64;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> UnixSeconds + Send + Sync>);

impl Clock {
    /// This machine's clock.
    pub fn system() -> Self {
        Self(Arc::new(|| jiff::Timestamp::now().as_second()))
    }

    /// A clock that says what `tell` says.
    pub fn telling(tell: impl Fn() -> UnixSeconds + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// The time now.
    pub fn now(&self) -> UnixSeconds {
        (self.0)()
    }
}
