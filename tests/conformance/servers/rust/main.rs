//! A server on the official Rust SDK that offers what the conformance suite looks for, in both protocol eras.
//!
//! Promises: it listens on 127.0.0.1 only, at the port that it is given, and keeps no state between requests beyond what
//! the protocol asks of it (legacy sessions and their events, tasks, subscriptions).
//!
//! Absent on purpose: keys, tokens and tenants. It is an app that knows nothing of the gate.

#![expect(deprecated, reason = "the log of the legacy era is what some scenarios are about")]

mod fixture;
mod tasks;
mod tools;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CompletionInfo, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::fixture::{Fixture, Words, filled, words_of};
use crate::tools::{broken, capabilities, next_round};

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

/// One for all sessions.
#[derive(Clone)]
struct Server {
    fixture: Arc<Fixture>,
    states: RequestStateCodec,
    tasks: TaskManager,
    /// The lists that have changed, by name.
    changes: broadcast::Sender<String>,
    /// Ears for subscriptions that are about to begin: whatever changes once the client was told that it is heard has to
    /// reach it, and the SDK tells it so before it calls `listen`.
    ears: Arc<Mutex<VecDeque<broadcast::Receiver<String>>>>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("oncegate-fixture", "1.0.0"))
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.fixture.tools.iter().map(|(tool, _)| tool.clone()).collect()))
    }

    // Asked by the SDK for what it checks by itself: arguments that headers mirror.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.fixture.tools.iter().find(|(tool, _)| tool.name == name).map(|(tool, _)| tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.fixture.prompts.iter().map(|(prompt, ..)| prompt.clone());
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let found = self.fixture.prompts.iter().find(|(prompt, ..)| prompt.name == request.name);
        let (_, does, messages) =
            found.ok_or_else(|| ErrorData::invalid_params("there is no such prompt", None))?;
        let inputs = request.input_responses.unwrap_or_default();
        let can = capabilities(&context)?;
        if let Some(ask) = next_round(&self.states, &can, does, &inputs, request.request_state.as_deref())? {
            return Ok(ask.into());
        }
        let arguments: Value = serde_json::to_value(request.arguments).map_err(broken)?;
        let given = arguments.as_object().into_iter().flatten();
        let mut words: Words = given.map(|(name, value)| (name.clone(), fixture::plain(value))).collect();
        words.extend(words_of(&inputs));
        let messages = serde_json::from_value(filled(messages, &words)).map_err(broken)?;
        Ok(rmcp::model::GetPromptResult::new(messages).into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.fixture.resources.iter().map(|(resource, _)| resource.clone());
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.fixture.templates.iter().map(|(template, _)| template.clone());
        Ok(ListResourceTemplatesResult::with_all_items(templates.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let mut content = json!({ "uri": uri });
        if let Some((resource, known)) =
            self.fixture.resources.iter().find(|(resource, _)| resource.uri == uri)
        {
            put(&mut content, "mimeType", json!(resource.mime_type));
            known.iter().for_each(|(name, value)| put(&mut content, name, value.clone()));
        } else {
            let records = self.fixture.templates.iter().filter_map(|(template, record)| {
                let (before, after) = template.uri_template.split_once("{id}")?;
                let id = uri.strip_prefix(before)?.strip_suffix(after).filter(|id| !id.is_empty())?;
                Some((template, record.replace("{id}", id)))
            });
            let Some((template, record)) = { records }.next() else {
                return Err(ErrorData::resource_not_found("Resource not found", Some(content)));
            };
            put(&mut content, "mimeType", json!(template.mime_type));
            put(&mut content, "text", json!(record));
        }
        let content = serde_json::from_value(content).map_err(broken)?;
        Ok(rmcp::model::ReadResourceResult::new(vec![content]).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["paris", "park", "party"].into_iter();
        let values = known.filter(|word| word.starts_with(&request.argument.value)).map(str::to_owned);
        Ok(CompleteResult::new(CompletionInfo::with_all_values(values.collect()).map_err(broken)?))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.ears.lock().ok()?.push_back(self.changes.subscribe());
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let ready = self.ears.lock().map_err(broken)?.pop_front();
        let mut changes = ready.unwrap_or_else(|| self.changes.subscribe());
        loop {
            let list = tokio::select! {
                () = context.cancelled() => return Ok(()),
                list = changes.recv() => list.map_err(broken)?,
            };
            let (sink, accepted) = (context.sink(), context.accepted());
            if list == "tools" && accepted.tools_list_changed == Some(true) {
                sink.notify_tool_list_changed().await.map_err(broken)?;
            } else if list == "prompts" && accepted.prompts_list_changed == Some(true) {
                sink.notify_prompt_list_changed().await.map_err(broken)?;
            }
        }
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: conformance PORT")?.parse()?;
    let secret = uuid::Uuid::new_v4().to_string();
    let server = Server {
        fixture: Arc::new(Fixture::read()?),
        states: RequestStateCodec::try_new(secret.as_bytes())?,
        tasks: TaskManager::new(),
        changes: broadcast::Sender::new(16),
        ears: Arc::default(),
    };
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*"])
        .with_sse_retry(Some(Duration::from_millis(300)));
    let sessions = Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", mcp)).await?)
}
