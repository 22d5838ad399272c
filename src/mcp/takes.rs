//! Whether a client can take a stored answer of a special kind.
//!
//! Promises: a client that did not say that it knows tasks, or that speaks a protocol without input requests, is never
//! given one from the ledger: it would choke on it, and its user would try again.

use super::message::{Era, META_CAPABILITIES, Request};
use crate::domain::json::Json;

/// The extension by which modern clients say that they know tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether whoever sent `request` can take `result`.
pub fn takes(request: &Request, era: Era, result: &Json) -> bool {
    let kind = result.get("resultType").and_then(Json::as_str);
    match (kind, era) {
        (Some("input_required" | "task"), Era::Legacy) => false,
        (Some("task"), Era::Modern) => declares_tasks(request),
        _ if result.get("task").is_some_and(|task| task.get("taskId").is_some()) => {
            era == Era::Legacy && request.params().is_some_and(|params| params.contains("task"))
        }
        _ => true,
    }
}

/// Whether a modern request says that its client knows tasks.
pub fn declares_tasks(request: &Request) -> bool {
    request.meta(META_CAPABILITIES).and_then(|can| can.path(&["extensions", TASKS])).is_some()
}
