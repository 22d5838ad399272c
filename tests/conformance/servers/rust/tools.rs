//! What happens when a tool is called or a prompt is got.
//!
//! Promises: a tool that asks gets no further than its answer allows, round by round; a state that the client carries is
//! one that this process sealed.
//!
//! Absent on purpose: closing a stream in the middle of a call (`hangs_up`). The SDK has no way to do so for the call at
//! hand.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ErrorCode,
    InputRequiredResult, InputResponses, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, RequestStateCodec, ServerRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use crate::fixture::{Does, Words, answers, filled, plain, words_of};
use crate::{Server, tasks};

/// Between two of a tool's signs of life.
const BEAT: Duration = Duration::from_millis(50);

type Context = RequestContext<RoleServer>;

impl Server {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let found = self.fixture.tools.iter().find(|(tool, _)| tool.name == request.name);
        let (_, does) = found.ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?;
        let can = capabilities(&context)?;
        if let Some(need) = does.needs.as_ref().filter(|need| !can.contains_key(*need)) {
            let needed: ClientCapabilities = serde_json::from_value(json!({ need: {} })).map_err(broken)?;
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        let inputs = request.input_responses.unwrap_or_default();
        if let Some(ask) = next_round(&self.states, &can, does, &inputs, request.request_state.as_deref())? {
            return Ok(ask.into());
        }
        let arguments = request.arguments.unwrap_or_default();
        let mut words: Words = arguments.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        words.extend(words_of(&inputs));
        if let Some(handle) = tasks::begin(&self.tasks, &context, does, &words)? {
            return Ok(handle.into());
        }
        show_life(does, &context).await?;
        if let Some(ask) = &does.asks {
            let ask: ServerRequest = serde_json::from_value(filled(ask, &words)).map_err(broken)?;
            let answer = context.peer.send_request(ask).await.map_err(broken)?;
            words.insert("answer".into(), serde_json::to_string(&answer).map_err(broken)?);
        }
        if let Some(list) = &does.changes {
            // Nobody may be listening.
            drop(self.changes.send(list.clone()));
        }
        Ok(result_of(does, &words)?.into())
    }
}

/// What is still to be asked of the client, if anything.
pub(crate) fn next_round(
    states: &RequestStateCodec,
    can: &Map<String, Value>,
    does: &Does,
    inputs: &InputResponses,
    state: Option<&str>,
) -> Result<Option<InputRequiredResult>, ErrorData> {
    // The round that was asked last. Where the client carries no state, there is only one.
    let mut asked: usize = match state {
        Some(sealed) => {
            let opened = states.open(sealed).map_err(|_| ErrorData::invalid_params("not our state", None))?;
            String::from_utf8(opened).map_err(broken)?.parse().map_err(broken)?
        }
        None => 0,
    };
    let answered =
        |round: &Map<String, Value>| round.iter().all(|(name, ask)| answers(ask, inputs.get(name)));
    if does.rounds.get(asked).is_some_and(answered) {
        asked += 1;
    }
    let Some(round) = does.rounds.get(asked) else { return Ok(None) };
    let mut asks: Map<String, Value> =
        round.iter().filter(|(_, ask)| can.contains_key(capability_for(ask))).map(own).collect();
    if asks.is_empty() {
        asks.clone_from(round);
    }
    let mut result = json!({ "resultType": "input_required", "inputRequests": asks });
    if let Some(members) = result.as_object_mut().filter(|_| does.state) {
        members.insert("requestState".into(), states.seal(asked.to_string().as_bytes()).into());
    }
    serde_json::from_value(result).map(Some).map_err(broken)
}

fn own((name, ask): (&String, &Value)) -> (String, Value) {
    (name.clone(), ask.clone())
}

fn capability_for(ask: &Value) -> &str {
    match ask.get("method").and_then(Value::as_str) {
        Some("roots/list") => "roots",
        Some("sampling/createMessage") => "sampling",
        _ => "elicitation",
    }
}

pub(crate) fn capabilities(context: &Context) -> Result<Map<String, Value>, ErrorData> {
    let known = serde_json::to_value(context.client_capabilities()).map_err(broken)?;
    Ok(known.as_object().cloned().unwrap_or_default())
}

/// Lines for the client's log, and how far the call is.
async fn show_life(does: &Does, context: &Context) -> Result<(), ErrorData> {
    // A modern client says with each request whether it wants lines.
    let legacy = context.meta.protocol_version().is_none();
    if legacy || context.meta.log_level().is_some() {
        for line in &does.logs {
            let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            context.peer.notify_logging_message(line).await.map_err(broken)?;
            tokio::time::sleep(BEAT).await;
        }
    }
    let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
    for done in &does.progress {
        let told = ProgressNotificationParam::new(token.clone(), *done).with_total(100.0);
        context.peer.notify_progress(told).await.map_err(broken)?;
        tokio::time::sleep(BEAT).await;
    }
    Ok(())
}

pub(crate) fn result_of(does: &Does, words: &Words) -> Result<CallToolResult, ErrorData> {
    let said = || json!([{ "type": "text", "text": format!("state-ok: {words:?}") }]);
    let content = does.answer.as_ref().map_or_else(said, |answer| filled(answer, words));
    let content = serde_json::from_value(content).map_err(broken)?;
    Ok(if does.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) })
}

/// What should not happen.
pub(crate) fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, error.to_string(), None)
}
