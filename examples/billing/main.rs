//! A sample upstream: a billing app's MCP server, as it might have stood before Oncegate came in front of it.
//!
//! Promises: it serves both protocol eras at `/mcp` (2026-07-28 without sessions, the earlier ones with), and it
//! keeps the truth: every effect that really happened is listed at `GET /effects`, in order, and, with
//! `--journal FILE`, is a line of JSON in that file before the caller hears of it.
//!
//! Absent on purpose: any guard. It runs what it is told, as often as it is told; only `charge_card` honours
//! the `Idempotency-Key` header, as a payment provider would. It acts for the tenant in `X-Oncegate-Tenant` and
//! believes it, which is sound only because nothing but the gate can reach its port.

mod ledger;
mod slow;
mod tools;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::{Json, Router, extract::State, routing::get};
use clap::Parser;
use rmcp::model::RequestStateCodec;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::ledger::{Effect, Ledger};
use crate::tools::Billing;

/// A billing MCP server to put a gate in front of.
#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, env = "BILLING_LISTEN", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// How long a refund or a charge takes to answer once the money has moved, such as 2s or 250ms.
    #[arg(long, env = "BILLING_REFUND_TAKES", default_value = "0s", value_parser = duration)]
    refund_takes: Duration,
    /// A file that gets one line of JSON for every effect.
    #[arg(long, env = "BILLING_JOURNAL")]
    journal: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, jiff::Error> {
    text.parse::<jiff::SignedDuration>().and_then(Duration::try_from)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let ledger = Arc::new(Ledger::open(options.journal.as_deref())?);
    let states = RequestStateCodec::try_new(uuid::Uuid::new_v4().to_string())?;
    let billing = Billing::new(Arc::clone(&ledger), states, options.refund_takes);

    // The `Host` that arrives is the gate's public name, so this server cannot know it; the gate checks it.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().with_json_response(true);
    let sessions = Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(billing.clone()), sessions, config);
    let app = Router::new().route("/effects", get(effects)).with_state(ledger).nest_service("/mcp", mcp);

    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("billing listening on http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

async fn effects(State(ledger): State<Arc<Ledger>>) -> Json<Vec<Effect>> {
    Json(ledger.effects())
}
