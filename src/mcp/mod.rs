//! MCP on the wire: messages, answers, streams, lists.

pub mod list;
pub mod sse;
