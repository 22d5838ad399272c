//! The day itself: what the agent sends, and what each call should meet.
//!
//! Promises: three refunds are meant, however often each of them is sent.

use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Fallible;
use crate::agent::{Agent, Met, at, text};
use crate::parts::Parts;

/// How many refunds the agent means.
pub(crate) const INTENTS: usize = 3;

/// How many send the same refund at once.
const STORM: usize = 50;

const PATIENCE: Duration = Duration::from_secs(10);

/// What the agent sent, what it met, and whether that is as it should be.
pub(crate) struct Line {
    pub(crate) sent: &'static str,
    pub(crate) met: String,
    pub(crate) held: bool,
}

/// A day that is over.
pub(crate) struct Day {
    pub(crate) lines: Vec<Line>,
    /// How many calls were sent in each session.
    pub(crate) calls: usize,
    pub(crate) storm_calls: usize,
}

/// Sends everything.
pub(crate) async fn spend(parts: &Parts) -> Fallible<Day> {
    let agent = Agent::new(parts.gate, parts.token("day", "billing:read billing:refund").await?);
    let storm = Agent::new(parts.gate, parts.token("storm", "billing:read billing:refund").await?);
    let poor = Agent::new(parts.gate, parts.token("day", "billing:read").await?);

    let lines = vec![
        hang_up(parts, &agent).await?,
        retry(&agent).await?,
        storm_of_retries(&storm).await?,
        expect(
            "the storm's key, another amount",
            &agent.call("refund_order", &refund("ord_a17", 99_00, "bad-day-2")).await?,
            |met| met.is_refused("idempotency_key_reuse_with_different_args"),
        ),
        expect(
            "a refund without a key",
            &agent.call("refund_order", &json!({ "order_id": "ord_9f2", "amount_cents": 700 })).await?,
            |met| met.is_refused("idempotency_key_required"),
        ),
        expect(
            "a refund without the scope",
            &poor.call("refund_order", &refund("ord_9f2", 7_00, "bad-day-3")).await?,
            |met| matches!(met, Met::Challenged { status: 403, scope } if scope.contains("billing:refund")),
        ),
        tenant_in_arguments(parts, &agent).await?,
        expect(
            "an invoice",
            &agent.call("get_invoice", &json!({ "invoice_id": "inv_1001" })).await?,
            |met| matches!(met, Met::Ran(_)) && met.found("/invoice/id") == "inv_1001",
        ),
        expect(
            "an invoice of another tenant",
            &agent.call("get_invoice", &json!({ "invoice_id": "inv_2001", "tenant_id": "globex" })).await?,
            |met| matches!(met, Met::AppError(_)) && met.found("/error/code") == "invoice_not_found",
        ),
        expect(
            "a tool that the policy denies",
            &agent.call("run_sql", &json!({ "query": "drop table refunds" })).await?,
            |met| met.is_refused("operation_not_allowed"),
        ),
    ];
    Ok(Day { lines, calls: agent.sent() + poor.sent(), storm_calls: storm.sent() })
}

fn refund(order: &str, cents: u32, key: &str) -> Value {
    json!({ "order_id": order, "amount_cents": cents, "idempotency_key": key })
}

fn expect(sent: &'static str, met: &Met, should: impl Fn(&Met) -> bool) -> Line {
    Line { sent, held: should(met), met: met.to_string() }
}

/// The agent hangs up when the upstream has moved the money and not answered yet.
async fn hang_up(parts: &Parts, agent: &Agent) -> Fallible<Line> {
    let arguments = refund("ord_9f2", 12_50, "bad-day-1");
    let moved = async {
        let begun = Instant::now();
        while parts.effects().await?.is_empty() && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(10)).await;
        }
        Fallible::Ok(())
    };
    let sent = "a refund; then the connection drops";
    tokio::select! {
        early = agent.call("refund_order", &arguments) => {
            Ok(Line { sent, met: format!("an answer before it could hang up: {}", early?), held: false })
        }
        moved = moved => {
            moved?;
            Ok(Line { sent, met: "nothing: it hung up after the money had moved".to_owned(), held: true })
        }
    }
}

async fn retry(agent: &Agent) -> Fallible<Line> {
    let (waits, met) = agent.insist("refund_order", &refund("ord_9f2", 12_50, "bad-day-1")).await?;
    let held = matches!(met, Met::Replayed(_)) && met.found("/refund/amount_cents") == "1250";
    let waited = match waits {
        0 => String::new(),
        1 => "asked to wait once, then ".to_owned(),
        more => format!("asked to wait {more} times, then "),
    };
    Ok(Line { sent: "the same again, on a new connection", met: format!("{waited}{met}"), held })
}

async fn storm_of_retries(agent: &Agent) -> Fallible<Line> {
    let arguments = refund("ord_a17", 49_00, "bad-day-2");
    let storm = try_join_all((0..STORM).map(|_| agent.insist("refund_order", &arguments))).await?;
    let waits: usize = storm.iter().map(|(waits, _)| waits).sum();
    let ran = storm.iter().filter(|(_, met)| matches!(met, Met::Ran(_))).count();
    let replayed = storm.iter().filter(|(_, met)| matches!(met, Met::Replayed(_))).count();
    let mut refunds: Vec<_> = storm.iter().map(|(_, met)| met.found("/refund/id")).collect();
    refunds.dedup();
    let one = matches!(refunds.as_slice(), [id] if !id.is_empty());
    let met = format!(
        "{ran} ran, {replayed} got its answer replayed (asked to wait {waits} times), {}",
        if one { "all the same refund" } else { "NOT all the same refund" },
    );
    Ok(Line {
        sent: "another refund, fifty times at once",
        met,
        held: ran == 1 && replayed == STORM - 1 && one,
    })
}

/// A model that names a tenant is not heard.
async fn tenant_in_arguments(parts: &Parts, agent: &Agent) -> Fallible<Line> {
    let arguments = json!({
        "order_id": "ord_9f2", "amount_cents": 300, "idempotency_key": "bad-day-4", "tenant_id": "globex"
    });
    let met = agent.call("refund_order", &arguments).await?;
    let effects = parts.effects().await?;
    let last = effects.last().unwrap_or(&Value::Null);
    let tenant = text(at(last, "/tenant"));
    let held = matches!(met, Met::Ran(_)) && tenant == "acme" && at(last, "/arguments/tenant_id").is_null();
    Ok(Line { sent: "a refund that names tenant globex", met: format!("{met}, for {tenant}"), held })
}
