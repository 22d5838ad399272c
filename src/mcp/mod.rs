//! MCP on the wire: messages, answers, streams, lists.
//!
//! Promises: both protocol eras, never translated into one another; pure functions but for [`collect`] and [`events`],
//! which read, and [`given`] and [`mirrors`], which remember.
//!
//! Absent on purpose: decisions about claims, and refusals' shapes.

pub mod capabilities;
pub mod collect;
pub mod errors;
pub mod events;
pub mod found;
pub mod given;
pub mod headers;
pub mod judge;
pub mod list;
pub mod message;
pub mod mirrors;
pub mod shell;
pub mod sse;
pub mod takes;
pub mod tasks;
