//! What is asked of the gate besides calls: by an orchestrator, and by whoever runs it.
//!
//! Promises: two listeners, apart from that of the calls. [`health()`] has no token, and says only whether the gate lives,
//! whether it may be sent calls, and what it counted. [`operators()`] has one that every request must carry, and there
//! things are done.

pub mod drain;
mod health;
mod operators;

pub use health::{Readiness, health};
pub use operators::{Operators, operators};
