//! The tools, as a model sees them.
//!
//! Every schema has a `tenant_id`, as in an app whose tools let the model say for whom they act. Nothing here
//! reads it: the gate's header decides, and through the gate no model ever sees the argument.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use rmcp::handler::server::tool::{Extension, ToolCallContext, ToolRouter};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, RequestStateCodec};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ledger::{Call, Ledger, Moved};

/// The books: tenant, invoice, order, cents.
const BOOKS: [(&str, &str, &str, i64); 3] = [
    ("acme", "inv_1001", "ord_9f2", 12_500),
    ("acme", "inv_1002", "ord_a17", 4_900),
    ("globex", "inv_2001", "ord_c40", 99_000),
];

/// The app; a clone for every session, all on one ledger.
#[derive(Clone)]
pub(crate) struct Billing {
    pub(crate) ledger: Arc<Ledger>,
    /// Seals what a client carries between two rounds of one call.
    pub(crate) states: RequestStateCodec,
    refund_takes: Duration,
}

#[derive(Deserialize, JsonSchema)]
struct GetInvoice {
    /// The invoice, such as `inv_1001`.
    invoice_id: String,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ListOrders {
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

/// For `refund_order` and `charge_card`.
#[derive(Deserialize, JsonSchema)]
struct Money {
    /// The order, such as `ord_9f2`.
    order_id: String,
    /// How much, in cents.
    amount_cents: i64,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct SendPasswordReset {
    /// Where the mail goes.
    email: String,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct RunSql {
    /// One statement.
    query: String,
    /// The customer account.
    #[serde(rename = "tenant_id")]
    _tenant_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Refunded {
    refund: Moved,
    customer: Customer,
}

#[derive(Serialize, JsonSchema)]
struct Charged {
    charge: Moved,
}

#[derive(Serialize, JsonSchema)]
struct Customer {
    email: String,
}

#[tool_router]
impl Billing {
    #[tool(description = "Shows one invoice.", annotations(read_only_hint = true))]
    fn get_invoice(
        Parameters(wanted): Parameters<GetInvoice>,
        Extension(call): Extension<Call>,
    ) -> CallToolResult {
        let mut own = BOOKS.iter().filter(|(tenant, ..)| *tenant == call.tenant());
        match own.find(|(_, id, ..)| *id == wanted.invoice_id) {
            Some((_, id, order, cents)) => CallToolResult::structured(
                json!({ "invoice": { "id": id, "order_id": order, "amount_cents": cents } }),
            ),
            // An app's own error. It does not tell whether another tenant has such an invoice.
            None => CallToolResult::structured_error(
                json!({ "error": { "code": "invoice_not_found", "message": "There is no such invoice." } }),
            ),
        }
    }

    #[tool(description = "Lists the orders.", annotations(read_only_hint = true))]
    fn list_orders(_: Parameters<ListOrders>, Extension(call): Extension<Call>) -> CallToolResult {
        let own = BOOKS.iter().filter(|(tenant, ..)| *tenant == call.tenant());
        let orders: Vec<Value> =
            own.map(|(_, _, order, cents)| json!({ "id": order, "amount_cents": cents })).collect();
        CallToolResult::structured(json!({ "tenant": call.tenant(), "orders": orders }))
    }

    #[tool(description = "Refunds an order, in full or in part.", annotations(destructive_hint = true))]
    async fn refund_order(
        &self,
        Parameters(Money { order_id, amount_cents, .. }): Parameters<Money>,
        Extension(call): Extension<Call>,
    ) -> Result<Json<Refunded>, ErrorData> {
        let id = self.ledger.carry_out(call, "re").map_err(journal_fault)?;
        // The money has moved and the caller does not know: the moment in which clients hang up and try again.
        tokio::time::sleep(self.refund_takes).await;
        let customer = Customer { email: "ada@example.com".to_owned() };
        Ok(Json(Refunded { refund: Moved { id, order_id, amount_cents }, customer }))
    }

    #[tool(description = "Charges the stored card for an order.", annotations(idempotent_hint = true))]
    async fn charge_card(
        &self,
        Parameters(Money { order_id, amount_cents, .. }): Parameters<Money>,
        Extension(call): Extension<Call>,
    ) -> Result<Json<Charged>, ErrorData> {
        let charge = self.ledger.charge_once(call, order_id, amount_cents).map_err(journal_fault)?;
        tokio::time::sleep(self.refund_takes).await;
        Ok(Json(Charged { charge }))
    }

    #[tool(description = "Mails a link that resets a password.")]
    fn send_password_reset(
        &self,
        Parameters(wanted): Parameters<SendPasswordReset>,
        Extension(call): Extension<Call>,
    ) -> Result<CallToolResult, ErrorData> {
        let id = self.ledger.carry_out(call, "mail").map_err(journal_fault)?;
        Ok(CallToolResult::structured(json!({ "mail": { "id": id, "to": wanted.email } })))
    }

    #[tool(description = "Runs a statement on the production database.")]
    fn run_sql(
        &self,
        Parameters(wanted): Parameters<RunSql>,
        Extension(call): Extension<Call>,
    ) -> Result<CallToolResult, ErrorData> {
        let id = self.ledger.carry_out(call, "sql").map_err(journal_fault)?;
        Ok(CallToolResult::structured(json!({ "id": id, "query": wanted.query, "rows": [] })))
    }
}

impl Billing {
    /// The app, with a secret for its seals.
    pub(crate) fn new(ledger: Arc<Ledger>, states: RequestStateCodec, refund_takes: Duration) -> Self {
        Self { ledger, states, refund_takes }
    }

    fn tools() -> ToolRouter<Self> {
        Self::tool_router() + Self::slow_tools()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
pub(crate) fn journal_fault(fault: std::io::Error) -> ErrorData {
    ErrorData::internal_error(format!("the journal cannot be written: {fault}"), None)
}

#[tool_handler(router = Self::tools(), name = "billing", version = "1.0.0")]
impl ServerHandler for Billing {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = Call::new(&request, context.extensions.get::<Parts>());
        context.extensions.insert(call);
        Self::tools().call(ToolCallContext::new(self, request, context)).await
    }
}
