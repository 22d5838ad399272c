//! What is asked of a store that grows, and what it says.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// Which expired claims to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneOf {
    /// At most so many.
    pub batch: u32,
    /// Only those that expired then or later: what an earlier batch deleted need not be passed again.
    pub from: Option<Timestamp>,
}

/// Claims that were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many.
    pub claims: u64,
    /// When the last of them expired.
    pub through: Option<Timestamp>,
}

/// Which audit rows may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditAge {
    /// Those that were written longer ago than this; none: all are kept.
    pub keep: Option<Duration>,
    /// At most so many, where they go one by one.
    pub batch: u32,
}

/// What came of one step towards an audit of the right age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditKept {
    /// How many partitions were made for rows to come.
    pub made: u64,
    /// The partition that was dropped.
    pub dropped: Option<String>,
    /// How many rows went: counted, or as the server estimated them in the partition.
    pub deleted: u64,
    /// Whether another step would do more.
    pub more: bool,
    /// Whether something was left for later, since somebody else held it.
    pub busy: bool,
}

/// What could be taken away now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Expired claims.
    pub claims: u64,
    /// Partitions of the audit that are wholly too old, and how many rows the server estimates in each.
    pub partitions: Vec<(String, u64)>,
    /// Audit rows that go one by one.
    pub rows: u64,
}

/// How long audit rows are kept at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// There is no such bound: whoever can write the file can do anything.
    None,
    /// So long.
    At(Duration),
    /// For ever.
    Forever,
}

/// How a migration gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationNews {
    /// This step was taken; it holds once the last was.
    Step(i64),
    /// An index is built beside the writers: so many rows of so many, roughly.
    Indexing {
        /// How many are done.
        done: u64,
        /// How many there are.
        total: u64,
    },
    /// Rows are looked through, beside the writers.
    Checking,
    /// Somebody else has what is needed for a moment: it is tried again.
    Waiting,
}

/// How far the schema of a database fits this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// It is the one this program was built for, or a newer one that still serves it.
    Fits,
    /// There is none.
    Missing,
    /// It is older: `oncegate migrate` brings it up.
    Older {
        /// Its version.
        found: i64,
        /// The version this program needs.
        needed: i64,
    },
}
