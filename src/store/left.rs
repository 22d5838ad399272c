//! Claims that nobody has settled, as whoever looks after them asks for them.

use std::time::Duration;

use super::ListedClaim;
use crate::domain::ledger::Status;
use crate::domain::time::Timestamp;

/// Which claims of dead owners to look for.
#[derive(Clone, Debug)]
pub struct LapsedOf {
    /// Only this service's.
    pub service: String,
    /// Its shortest lease: a claim that is younger cannot have lapsed, and is not looked at.
    pub lease: Duration,
    /// At most so many, the oldest first.
    pub limit: u32,
}

/// Which unknown claims to ask the app about.
#[derive(Clone, Debug)]
pub struct UnknownOf {
    /// Only this service's.
    pub service: String,
    /// Only these operations'.
    pub tools: Vec<String>,
    /// At most so many, those first that nobody has asked about for longest.
    pub limit: u32,
}

/// How many claims of a service are in one of the states that somebody has to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClaims {
    /// In flight, or unknown.
    pub status: Status,
    /// So many.
    pub count: u64,
    /// How long ago the oldest of them was made.
    pub oldest: Duration,
}

/// Claims that somebody has to look after, and the store's time at which they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The claims.
    pub claims: Vec<ListedClaim>,
    /// The store's time.
    pub now: Timestamp,
}
