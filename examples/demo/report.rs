//! What the demo prints: what each call met, what the upstream really did, what the audit says.

use crate::Fallible;
use crate::agent::{at, text};
use crate::day::{Day, INTENTS};
use crate::parts::Parts;

/// What no row may hold: the policy masks it.
const CUSTOMER: &str = "ada@example.com";

/// Prints everything; true where all of it came out as it should.
pub(crate) async fn print(parts: &Parts, day: &Day) -> Fallible<bool> {
    println!("\nAn agent's bad day\n");
    let mut held = true;
    for line in &day.lines {
        let what = format!("{:<38} {}", line.sent, line.met);
        held &= mark(line.held, &what);
    }

    println!("\nWhat the billing server really did\n");
    let effects = parts.effects().await?;
    for effect in &effects {
        let told = |pointer| text(at(effect, pointer));
        println!(
            "    {:<6} {} of {} cents for {}, tenant {}",
            told("/id"),
            told("/tool"),
            told("/arguments/amount_cents"),
            told("/arguments/order_id"),
            told("/tenant")
        );
    }
    let count = format!("{INTENTS} refunds were meant, {} were made", effects.len());
    held &= mark(effects.len() == INTENTS, &count);

    println!("\nWhat the audit says: oncegate audit --session day\n");
    let rows = parts.audit("day", day.calls).await?;
    let storm = parts.audit("storm", day.storm_calls).await?;
    print!("{}", parts.command(&["audit", "--session", "day"]).await?);
    println!();
    held &= mark(rows.len() == day.calls, &format!("{} calls, {} rows", day.calls, rows.len()));
    let by = |decision| storm.iter().filter(|row| at(row, "/decision") == decision).count();
    let tally = format!(
        "{} calls in the storm, {} rows: {} allowed, {} replayed, {} asked to wait",
        day.storm_calls,
        storm.len(),
        by("allowed"),
        by("replayed"),
        by("denied")
    );
    held &= mark(storm.len() == day.storm_calls && by("allowed") == 1, &tally);
    let told = rows.iter().chain(&storm).any(|row| row.to_string().contains(CUSTOMER));
    held &= mark(!told, "no customer's mail address in any row");

    println!(
        "\n{}",
        if held { "All as it should be." } else { "NOT as it should be: see the lines marked ✗." }
    );
    Ok(held)
}

fn mark(held: bool, what: &str) -> bool {
    println!("  {} {what}", if held { "✓" } else { "✗" });
    held
}

/// Prints lines to paste.
pub(crate) fn invite(parts: &Parts) {
    let (oncegate, config) = (parts.oncegate.display(), parts.config.display());
    let (gate, billing) = (parts.gate, parts.billing);
    let folder = parts.config.parent().unwrap_or(&parts.config).display();
    println!(
        r#"
It stays up until Ctrl-C; the gate's files and its log are in {folder}. In another terminal:

TOKEN=$({oncegate} token --config {config} --tenant acme --user you --scope 'billing:read billing:refund')

curl -s -w '\n' http://{gate}/mcp -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
  -H 'Mcp-Method: tools/call' -H 'Mcp-Name: refund_order' -d '{{"jsonrpc":"2.0","id":1,"method":"tools/call",
  "params":{{"name":"refund_order","arguments":{{"order_id":"ord_9f2","amount_cents":500,"idempotency_key":"mine-1"}},
  "_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}'

# Send it again: the answer is the first one, marked as a replay. Change the amount: it is refused. Then look:

curl -s -w '\n' http://{billing}/effects
{oncegate} claims list --config {config}
{oncegate} audit --config {config} --user you
"#
    );
}
