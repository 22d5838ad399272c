//! The store's contract: one suite, run on every home, and what is particular to one of them.
//!
//! Promises tested: `oncegate::store`, DESIGN sections 4 and 6.

mod adrift;
mod away;
mod cancelled;
mod lists;
mod open;
mod partitions;
mod plans;
pub(crate) mod postgres;
pub(crate) mod samples;
mod sqlite;
mod swaps;
mod tallies;
mod upkeep;
