//! The audit table.
//!
//! Promises: whatever was answered has its row, found by the call's trace, at the latest when the storm is over: what the
//! store could not take waits in a file. Whatever was done has an attempt's row. Only a read's row that was still queued may
//! be lost, with the process that held it.

use std::collections::HashMap;

use super::Verdict;
use super::effects::name_of;
use crate::history::{Call, Came, Death, Events, How, Told};
use crate::intents::READ;

pub(super) fn check(events: &Events, verdict: &mut Verdict) {
    let mut rows: HashMap<&str, Vec<&Told>> = HashMap::new();
    for told in &events.audit {
        rows.entry(&told.trace).or_default().push(told);
    }
    for call in &events.calls {
        let rows = rows.get(call.trace.as_str()).map(Vec::as_slice).unwrap_or_default();
        one_of_each(call, rows, verdict);
        match &call.came {
            Came::Answer { recorded: true, body, replayed, .. } if call.tool != READ => {
                let error = body.starts_with(r#"{"code""#);
                let decision = if *replayed { "replayed" } else { "allowed" };
                if !rows.iter().any(|told| told.decision == decision || (error && told.decision == "allowed"))
                {
                    let says = format!("{} was answered and has no row \"{decision}\"", call.trace);
                    verdict.add("what was answered has its row", call.name().as_ref(), says);
                }
            }
            Came::Answer { .. } | Came::Refusal { .. } if events.ended && rows.is_empty() => {
                if may_be_lost(events, call) {
                    verdict.rows_lost += 1;
                } else {
                    let says = format!("{} heard {:?} and has no row", call.trace, call.came);
                    verdict.add("what was answered has its row", call.name().as_ref(), says);
                }
            }
            Came::Answer { .. } | Came::Refusal { .. } | Came::Nothing(_) | Came::Garbled(_) => {}
        }
    }
    if events.ended {
        attempts(events, &rows, verdict);
    }
}

/// Every attempt that did something has its row, written by itself or by whoever found its claim.
fn attempts(events: &Events, rows: &HashMap<&str, Vec<&Told>>, verdict: &mut Verdict) {
    for deed in events.deeds.iter().filter(|deed| deed.effect) {
        let rows = rows.get(deed.trace.as_str()).map(Vec::as_slice).unwrap_or_default();
        let said = rows.iter().any(|told| told.decision == "allowed" && told.executed != "no");
        if !said {
            let says = format!("{} did {} and has no row that says so", deed.trace, deed.run);
            verdict.add("every attempt has its row", Some(&name_of(deed)), says);
        }
    }
}

fn one_of_each(call: &Call, rows: &[&Told], verdict: &mut Verdict) {
    for decision in ["denied", "replayed"] {
        let count = rows.iter().filter(|told| told.decision == decision).count();
        if count > 1 {
            let says = format!("{} has {count} rows \"{decision}\"", call.trace);
            verdict.add("one row for one decision", call.name().as_ref(), says);
        }
    }
    // Who was sent away before it was read has no tool in its row.
    if let Some(told) = rows
        .iter()
        .find(|told| told.tenant != call.tenant || (told.tool != call.tool && !told.tool.is_empty()))
    {
        let says = format!("{} stands under {}/{}", call.trace, told.tenant, told.tool);
        verdict.add("a row is its call's", call.name().as_ref(), says);
    }
}

/// It was a read while the store was there, whose row was queued when its gate was killed.
fn may_be_lost(events: &Events, call: &Call) -> bool {
    let killed = |death: &Death| {
        death.gate == call.gate && death.at >= call.sent && matches!(death.how, How::Killed | How::Itself)
    };
    call.tool == READ && events.deaths.iter().any(killed)
}
