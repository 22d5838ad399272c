//! The rules, as values and pure functions.
//!
//! Promises: the same input gives the same answer. Whatever depends on time takes `now` as an argument.
//!
//! Absent on purpose: tokio, hyper, SQL, clocks, randomness. Nothing here imports another part of Oncegate,
//! so that every rule can be read, and tested, without a server.

pub mod actor;
pub mod answer;
pub mod audit;
pub mod call;
pub mod chain;
pub mod fingerprint;
pub mod json;
pub mod key;
pub mod ledger;
pub mod mistake;
pub mod mode;
pub mod policy;
pub mod redact;
pub mod refusal;
pub mod seal;
pub mod shown;
pub mod site;
pub mod tenants;
pub mod time;
pub mod turns;
pub mod units;
