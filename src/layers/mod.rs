//! The steps of a call, one file each. [`crate::stack`] puts them in order.
//!
//! Promises: each step asks for what the step before proved, in a type that only that step can make, so a stack with
//! a step left out or out of order does not compile. Between [`reply`] and [`forward`] every step answers with an
//! [`Answer`] or a [`Refusal`](crate::domain::refusal::Refusal).
//!
//! Absent on purpose: decisions. They are pure functions in [`crate::domain`]; a layer is thin.

pub mod address;
pub mod answer;
pub mod asked;
pub mod authenticate;
pub mod authorize;
mod body;
pub mod caller;
pub mod claim;
pub mod forward;
pub mod glance;
pub mod line;
pub mod observe;
pub mod parse;
pub mod plain;
pub mod queue;
pub mod reply;
pub mod resume;
pub mod running;
mod session;
mod subject;
pub mod watch;
pub mod watched;
pub mod words;

pub use answer::Answer;
pub use asked::Asked;

use std::future::Future;
use std::pin::Pin;

/// The future of a layer.
pub type Step<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
