//! The tools that are not done at once: one says how far it is, one asks before it acts.
//!
//! Promises: nothing happens before the last step or the last answer; what a client carries from one round to the next is
//! sealed by this process, and another's is refused.

use std::time::Duration;

use rmcp::handler::server::tool::{Extension, InputResponses, RequestState};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ElicitResult, ElicitationAction, InputRequiredResult,
    ProgressNotificationParam, ServerRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ledger::Call;
use crate::tools::{Billing, journal_fault};

/// How many steps a month takes to close.
const STEPS: u32 = 3;

/// How long one of them takes.
const STEP: Duration = Duration::from_millis(50);

/// What is asked before an account is closed: the answer's name, and the question.
const QUESTIONS: [(&str, &str); 2] = [
    ("reason", "Why is the account to be closed?"),
    ("confirmed_by", "Nobody can open it again. Who has confirmed that?"),
];

#[derive(Deserialize, JsonSchema)]
struct CloseMonth {
    /// The month, such as `2026-11`.
    month: String,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct CloseAccount {
    /// The account, such as `acc_7`.
    account_id: String,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[tool_router(router = slow_tools, vis = "pub(crate)")]
impl Billing {
    #[tool(description = "Closes the books of a month.", annotations(destructive_hint = true))]
    async fn close_month(
        &self,
        Parameters(wanted): Parameters<CloseMonth>,
        Extension(call): Extension<Call>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        for step in 1..=STEPS {
            tokio::time::sleep(STEP).await;
            if let Some(token) = context.meta.get_progress_token() {
                let told =
                    ProgressNotificationParam::new(token, f64::from(step)).with_total(f64::from(STEPS));
                context.peer.notify_progress(told).await.map_err(broken)?;
            }
        }
        let id = self.ledger.carry_out(call, "month").map_err(journal_fault)?;
        Ok(CallToolResult::structured(json!({ "closing": { "id": id, "month": wanted.month } })))
    }

    #[tool(description = "Closes an account for good.", annotations(destructive_hint = true))]
    async fn close_account(
        &self,
        Parameters(wanted): Parameters<CloseAccount>,
        Extension(call): Extension<Call>,
        InputResponses(inputs): InputResponses,
        RequestState(state): RequestState,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let open = |sealed: String| self.states.open_json(&sealed);
        let answers = state.map(open).transpose();
        let mut answers: Vec<Value> =
            answers.map_err(|_| ErrorData::invalid_params("not our state", None))?.unwrap_or_default();
        // A modern client brings its answer along when it calls again; a legacy one is asked while it waits.
        let modern = context.meta.protocol_version().is_some();
        let mut brought = inputs.unwrap_or_default();
        while let Some((name, question)) = QUESTIONS.get(answers.len()) {
            let answer = match brought.remove(*name) {
                Some(answer) => serde_json::from_value(answer).map_err(broken)?,
                None if modern => {
                    let state = self.states.seal_json(&answers).map_err(broken)?;
                    let ask = json!({ *name: asking(name, question) });
                    let asks = serde_json::from_value(ask).map_err(broken)?;
                    return Ok(InputRequiredResult::new(Some(asks), Some(state)).into());
                }
                None => ask(&context, name, question).await?,
            };
            if answer.action != ElicitationAction::Accept {
                return Ok(CallToolResult::structured(json!({ "closed": false })).into());
            }
            answers.push(answer.content.unwrap_or_default());
        }
        let id = self.ledger.carry_out(call, "closing").map_err(journal_fault)?;
        let closing = json!({ "id": id, "account_id": wanted.account_id, "answers": answers });
        Ok(CallToolResult::structured(json!({ "closed": true, "closing": closing })).into())
    }
}

/// The request that puts a question to the user, whichever way it reaches him.
fn asking(name: &str, question: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let params = json!({ "mode": "form", "message": question, "requestedSchema": schema });
    json!({ "method": "elicitation/create", "params": params })
}

async fn ask(
    context: &RequestContext<RoleServer>,
    name: &str,
    question: &str,
) -> Result<ElicitResult, ErrorData> {
    let request: ServerRequest = serde_json::from_value(asking(name, question)).map_err(broken)?;
    let answer = context.peer.send_request(request).await.map_err(broken)?;
    serde_json::from_value(serde_json::to_value(answer).map_err(broken)?).map_err(broken)
}

fn broken(fault: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(fault.to_string(), None)
}
