//! Tools that run as tasks (`io.modelcontextprotocol/tasks`, 2026-07-28), on the SDK's own task manager.
//!
//! Promises: only a client that declared the extension gets a task; where a tool can do without one, it then runs at
//! once.
//!
//! Absent on purpose: owners. Whom a task belongs to is what the gate adds.

use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ClientCapabilities, CreateTaskResult, InputRequest};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use crate::fixture::{Does, Words, words_of};
use crate::tools::{broken, result_of};

/// A new task's handle; nothing where the tool can do without one and the client knows none.
pub(crate) fn begin(
    tasks: &TaskManager,
    context: &RequestContext<RoleServer>,
    does: &Does,
    words: &Words,
) -> Result<Option<CreateTaskResult>, ErrorData> {
    let Some(kind) = does.task.as_deref() else { return Ok(None) };
    if !context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks()) {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        let refused = ErrorData::missing_required_client_capability(needed);
        return if kind == "must" { Err(refused) } else { Ok(None) };
    }
    let (does, words) = (does.clone(), words.clone());
    let options = TaskOptions::new().with_poll_interval_ms(100);
    let task = tasks.spawn(options, |task| Box::pin(carry_out(task, does, words)));
    Ok(Some(CreateTaskResult::new(task)))
}

async fn carry_out(task: TaskContext, does: Does, mut words: Words) -> Result<CallToolResult, TaskExit> {
    let asked = words.get("seconds").and_then(|seconds| seconds.parse().ok());
    let seconds = asked.or(does.seconds).unwrap_or_default();
    tokio::select! {
        () = task.cancelled() => return Err(TaskExit::Cancelled),
        () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
    }
    let asks = does.wants.iter().map(|(name, ask)| answer_to(&task, name, ask));
    let given: serde_json::Map<String, Value> = try_join_all(asks).await?.into_iter().collect();
    words.extend(words_of(&given));
    if let Some(error) = does.error {
        return Err(TaskExit::Error(serde_json::from_value(error).map_err(broken)?));
    }
    Ok(result_of(&does, &words)?)
}

async fn answer_to(task: &TaskContext, name: &str, ask: &Value) -> Result<(String, Value), TaskExit> {
    let ask: InputRequest = serde_json::from_value(ask.clone()).map_err(broken)?;
    Ok((name.to_owned(), task.request_input(name, ask).await?))
}
