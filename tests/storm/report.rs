//! What a storm came to: its counts, and the story of every key that something is wrong with.
//!
//! Promises: the counts are taken from the history, not kept beside it; at most a few stories are told in full.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checker::{Verdict, Violation};
use crate::history::{Came, Events, Name, Time};
use crate::intents::{READ, key_of_order};
use crate::options::Plan;

/// How many violations are listed.
const LISTED: usize = 40;

/// How many of them are told with their stories.
const STORIES: usize = 5;

/// How long before and after a key's first and last event faults belong to its story.
const AROUND: Duration = Duration::from_secs(1);

/// Prints it all.
pub(crate) fn tell(plan: &Plan, events: &Events, verdict: &Verdict) {
    table(events, verdict);
    if verdict.violations.is_empty() {
        println!("  clean ({:?}, seed {})", plan.store, plan.seed);
        return;
    }
    println!("  {} VIOLATIONS ({:?}, seed {}):", verdict.violations.len(), plan.store, plan.seed);
    for violation in verdict.violations.iter().take(LISTED) {
        let name = violation
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!("{}/{}/{}: ", name.tenant, name.tool, name.key));
        println!("    {}: {name}{}", violation.rule, violation.says);
    }
    // One of each rule first: the others are often the same fault again.
    let mut told = Vec::new();
    for violation in &verdict.violations {
        if told.len() < STORIES && !told.contains(&violation.rule) {
            told.push(violation.rule);
            story(events, violation);
        }
    }
}

fn table(events: &Events, verdict: &Verdict) {
    let keyed: BTreeMap<Option<Name>, usize> =
        counts(events.calls.iter().filter(|call| call.key.is_some()).map(crate::history::Call::name));
    let retries: usize = keyed.values().map(|count| count - 1).sum();
    let answered = |wanted: fn(&Came) -> bool| events.calls.iter().filter(|call| wanted(&call.came)).count();
    let line = |name: &str, count: usize| println!("    {name:<28}{count:>8}");
    line("intents", events.intents);
    line("calls", events.calls.len());
    line("retries", retries);
    line("upstream requests", events.deeds.len());
    line("upstream effects", events.deeds.iter().filter(|deed| deed.effect).count());
    line("answers", answered(|came| matches!(came, Came::Answer { replayed: false, .. })));
    line("answers not recorded", answered(|came| matches!(came, Came::Answer { recorded: false, .. })));
    line("replays", answered(|came| matches!(came, Came::Answer { replayed: true, .. })));
    line("claims", events.claims.len());
    line("claims seen in between", events.samples.len());
    line("unknown at the end", events.claims.iter().filter(|row| row.status == "unknown").count());
    line("audit rows", events.audit.len());
    line("rows of reads lost", verdict.rows_lost);
    let nothing = events.calls.iter().filter_map(|call| match &call.came {
        Came::Nothing(why) => Some((*why).to_owned()),
        Came::Answer { .. } | Came::Refusal { .. } | Came::Garbled(_) => None,
    });
    several("clients that heard nothing", counts(nothing));
    let refused = events.calls.iter().filter_map(|call| match &call.came {
        Came::Refusal { code, executed, .. } => Some(format!("{code} ({executed})")),
        Came::Answer { .. } | Came::Nothing(_) | Came::Garbled(_) => None,
    });
    several("refusals", counts(refused));
    several("faults", counts(events.faults.iter().map(|fault| fault.kind.to_owned())));
    several("gates that ended", counts(events.deaths.iter().map(|death| death.how.as_str().to_owned())));
    several(
        "rows by reason",
        counts(events.audit.iter().map(|told| format!("{} {}", told.decision, told.reason))),
    );
}

fn several(title: &str, counts: BTreeMap<String, usize>) {
    let total: usize = counts.values().sum();
    println!("    {title:<28}{total:>8}");
    for (name, count) in counts {
        println!("      {name:<44}{count:>8}");
    }
}

fn counts<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

/// Everything that is known about the key of a violation, in order.
fn story(events: &Events, violation: &Violation) {
    println!("\n  VIOLATION: {}: {}", violation.rule, violation.says);
    let Some(name) = &violation.name else { return };
    println!("  key {} of {}/{}:", name.key, name.tenant, name.tool);
    let mut lines: Vec<(Time, String)> = Vec::new();
    for deed in &events.deeds {
        let own = deed.tool != READ && key_of_order(&deed.order) == name.key;
        if own && deed.tenant == name.tenant && deed.tool == name.tool {
            let effect = if deed.effect { "EFFECT" } else { "no effect" };
            let says = format!("upstream {} ({effect}, {}), trace {}", deed.did, deed.run, deed.trace);
            lines.push((deed.at, says));
        }
    }
    for call in events.calls.iter().filter(|call| call.name().as_ref() == Some(name)) {
        let says = format!("{} calls gate {}: {}, trace {}", call.user, call.gate, call.order, call.trace);
        lines.push((call.sent, says));
        lines.push((call.heard, format!("  and hears {:?}, trace {}", call.came, call.trace)));
    }
    for sample in events.samples.iter().filter(|sample| sample.row.name == *name) {
        let row = &sample.row;
        let says = format!("row: {} revision {} attempt {}", row.status, row.revision, row.attempt);
        lines.push((sample.at, says));
    }
    let from = lines.iter().map(|(at, _)| *at).min().unwrap_or_default().saturating_sub(AROUND);
    let to = lines.iter().map(|(at, _)| *at).max().unwrap_or_default() + AROUND;
    for fault in events.faults.iter().filter(|fault| fault.from < to && fault.to > from) {
        let gate = fault.gate.map_or_else(String::new, |gate| format!(" (gate {gate})"));
        lines.push((fault.from, format!("FAULT {}{gate} until {:.3}", fault.kind, fault.to.as_secs_f64())));
    }
    lines.sort();
    for (at, says) in lines {
        println!("    {:>9.3}  {says}", at.as_secs_f64());
    }
    for row in events.claims.iter().filter(|row| row.name == *name) {
        println!("    at the end: {} attempt {} {:?}", row.status, row.attempt, row.response);
    }
    for told in &events.audit {
        if told.tenant == name.tenant && told.tool == name.tool && told.key.as_ref() == Some(&name.key) {
            let (decision, reason, executed) = (&told.decision, &told.reason, &told.executed);
            println!(
                "    audit: {decision} {reason} {executed} trace {} attempt {}",
                told.trace, told.attempt
            );
        }
    }
}
