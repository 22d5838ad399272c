//! The official Rust SDK's client meets the gate, `rmcp_client modern|legacy`: it does what orders say and tells what it
//! met, one JSON object a line, as `tests/clients/telling.py` has it.
//!
//! Promises: what the SDK gave to its caller is told as it is. A call is given up as the SDK lets its caller do it: by
//! dropping its future.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, Implementation, ProgressNotificationParam, ProtocolVersion, RequestMetaObject,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinHandle;

type Session = RunningService<RoleClient, User>;
type Fault = Box<dyn Error + Send + Sync>;

/// Who sits before the client: answers as the order says for which a call was made last.
#[derive(Clone, Default)]
struct User(Arc<Mutex<Value>>);

impl User {
    fn order(&self) -> MutexGuard<'_, Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, what: Value) {
        tell(&self.order(), what);
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let can = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(can, Implementation::new("rmcp", "3.11"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        self.tell(json!({ "asked": message }));
        let order = self.order();
        let Some(answers) = order.get("answers").and_then(Value::as_object) else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let names = requested_schema.properties.keys();
        let given: Map<String, Value> =
            names.filter_map(|name| Some((name.clone(), answers.get(name)?.clone()))).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(given)))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.tell(json!({ "progress": told.progress, "total": told.total }));
    }
}

fn tell(order: &Value, mut what: Value) {
    if let Some(told) = what.as_object_mut() {
        told.insert("step".into(), order.get("step").cloned().unwrap_or_default());
    }
    println!("{what}");
}

fn word<'a>(order: &'a Value, name: &str) -> &'a str {
    order.get(name).and_then(Value::as_str).unwrap_or_default()
}

async fn connected(order: &Value, modern: bool) -> Result<(Session, Value), ClientInitializeError> {
    let config =
        StreamableHttpClientTransportConfig::with_uri(word(order, "url")).auth_header(word(order, "token"));
    let lifecycle = if modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let transport = StreamableHttpClientTransport::from_config(config);
    let session = User::default().serve_with_lifecycle(transport, lifecycle).await?;
    let version = session.peer_info().map(|info| info.protocol_version.to_string());
    Ok((session, json!({ "outcome": "connected", "version": version })))
}

async fn listed(session: &Session) -> Result<Value, ServiceError> {
    let tools = session.list_all_tools().await?;
    let tools: Map<String, Value> =
        tools.into_iter().map(|tool| (tool.name.to_string(), json!(tool.input_schema))).collect();
    Ok(json!({ "outcome": "listed", "tools": tools }))
}

async fn called(session: &Session, order: &Value) -> Result<Value, ServiceError> {
    session.service().order().clone_from(order);
    let mut params = CallToolRequestParams::new(word(order, "tool").to_owned());
    params.arguments = order.get("arguments").and_then(Value::as_object).cloned();
    if let Some(meta) = order.get("meta").and_then(Value::as_object) {
        params.meta = Some(RequestMetaObject::from(meta.clone()));
    }
    let result = json!(session.call_tool(params).await?);
    let texts = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<_> = texts.filter_map(|block| block.get("text")?.as_str()).collect();
    Ok(json!({
        "outcome": "result",
        "is_error": result.get("isError") == Some(&json!(true)),
        "text": texts.join("\n"),
        "structured": result.get("structuredContent"),
        "meta": result.get("_meta").unwrap_or(&json!({})),
    }))
}

fn raised(fault: &ServiceError) -> Value {
    let code = if let ServiceError::McpError(error) = fault { Some(error.code.0) } else { None };
    let kind = match code {
        Some(_) => "McpError",
        None if fault.auth_challenge().is_some() => "challenge",
        None => "ServiceError",
    };
    json!({
        "outcome": "raised",
        "type": kind,
        "message": fault.to_string(),
        "code": code,
        "challenge": fault.auth_challenge(),
    })
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let modern = std::env::args().nth(1).is_some_and(|mode| mode == "modern");
    let mut sessions: HashMap<String, Arc<Session>> = HashMap::new();
    let mut running: HashMap<String, JoinHandle<()>> = HashMap::new();
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = orders.next_line().await? {
        let order: Value = serde_json::from_str(&line)?;
        let name = word(&order, "as").to_owned();
        match word(&order, "do") {
            "connect" => match connected(&order, modern).await {
                Ok((session, told)) => {
                    sessions.insert(name, Arc::new(session));
                    tell(&order, told);
                }
                Err(fault) => {
                    let kind = if fault.auth_challenge().is_some() { "challenge" } else { "connect" };
                    let told = json!({ "outcome": "raised", "type": kind, "message": fault.to_string() });
                    tell(&order, told);
                }
            },
            "cancel" => {
                let of = word(&order, "of");
                if let Some(call) = running.remove(of) {
                    call.abort();
                    if call.await.is_err_and(|ended| ended.is_cancelled()) {
                        tell(&json!({ "step": of }), json!({ "outcome": "cancelled" }));
                    }
                }
            }
            "close" => {
                if let Some(session) = sessions.remove(&name).and_then(Arc::into_inner) {
                    session.cancel().await?;
                }
                tell(&order, json!({ "outcome": "closed" }));
            }
            does => {
                let Some(session) = sessions.get(&name).cloned() else {
                    tell(&order, json!({ "outcome": "no session" }));
                    continue;
                };
                let lists = does == "list";
                let step = word(&order, "step").to_owned();
                let call = tokio::spawn(async move {
                    let told = if lists { listed(&session).await } else { called(&session, &order).await };
                    tell(&order, told.unwrap_or_else(|fault| raised(&fault)));
                });
                running.insert(step, call);
            }
        }
    }
    Ok(())
}
