//! The claims table, as it was seen again and again, and as it stays.
//!
//! Promises: a row moves only along the arrows, its revision only rises, and what was completed stays as it is; what is
//! failed was not done; nothing stays in flight for ever, and every key can be brought to an end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::Verdict;
use super::answers::recorded;
use super::effects::name_of;
use crate::history::{Call, Came, Events, Name, Row, Sample, Time, samples_by_name};
use crate::intents::{ASKED_ABOUT, is_idempotent, is_read, is_resolved};

pub(super) fn check(events: &Events, verdict: &mut Verdict) {
    let heard = recorded(events);
    let mut done: HashMap<Name, Time> = HashMap::new();
    let mut runs: HashSet<(Name, &str)> = HashSet::new();
    for deed in &events.deeds {
        let name = name_of(deed);
        if deed.effect {
            let first = done.entry(name.clone()).or_insert(deed.at);
            *first = deed.at.min(*first);
        }
        runs.insert((name, &deed.run));
    }
    for (name, samples) in samples_by_name(events) {
        for pair in samples.windows(2) {
            if let [before, after] = pair {
                moved(name, &before.row, &after.row, verdict);
            }
        }
        for sample in &samples {
            seen(sample, heard.get(name), done.get(name), verdict);
        }
    }
    if events.ended {
        ended(events, &heard, &done, &runs, verdict);
    }
}

/// From one look to the next. Each write raises the revision by one: so many arrows lie between, and no others.
fn moved(name: &Name, before: &Row, after: &Row, verdict: &mut Verdict) {
    if after.revision <= before.revision {
        let says =
            format!("from {} ({}) to {} ({})", before.revision, before.status, after.revision, after.status);
        verdict.add("a row that changes has a higher revision", Some(name), says);
        return;
    }
    let writes = after.revision.abs_diff(before.revision);
    let end = (after.status.as_str(), before.attempt != after.attempt);
    if !ends_of(&before.status, writes, &name.tool).contains(&end) {
        let says = format!(
            "from {} (attempt {}) to {} (attempt {}) by {writes} write(s)",
            before.status, before.attempt, after.status, after.attempt
        );
        verdict.add("a claim moves only along the arrows", Some(name), says);
    }
}

/// Where so many arrows may lead, and whether to another attempt.
fn ends_of<'a>(status: &'a str, writes: u64, tool: &str) -> BTreeSet<(&'a str, bool)> {
    let mut ends = BTreeSet::from([(status, false)]);
    // Later nothing new can be reached.
    for _ in 0..writes.min(12) {
        ends = ends
            .into_iter()
            .flat_map(|(status, other)| {
                let own: &[&str] = match status {
                    // A lease is renewed, or the attempt ends.
                    "in_flight" => &["in_flight", "completed", "failed", "unknown"],
                    // Each question that the gate asks about it is noted first.
                    "unknown" if tool == ASKED_ABOUT => &["completed", "failed", "unknown"],
                    // The attempt came back after all: with an answer, or knowing that nothing was done.
                    // Whoever may have claimed it anew, and was not told, shuts that write out by one that changes
                    // nothing.
                    "unknown" if is_idempotent(tool) => &["completed", "failed", "unknown"],
                    "failed" => &["failed"],
                    "unknown" => &["completed", "failed"],
                    _ => &[],
                };
                let own = own.iter().map(move |status| (*status, other));
                let anew = status == "failed" || (status == "unknown" && is_idempotent(tool));
                own.chain(anew.then_some(("in_flight", true)))
            })
            .collect();
    }
    ends
}

/// What a row must be by what was known when it was asked for.
fn seen(sample: &Sample, heard: Option<&Time>, done: Option<&Time>, verdict: &mut Verdict) {
    let Row { name, status, .. } = &sample.row;
    if heard.is_some_and(|heard| *heard < sample.asked) && status != "completed" {
        let says = format!("it is {status} at {:?}", sample.at);
        verdict.add("the answer is stored before the client hears it", Some(name), says);
    }
    if done.is_some_and(|done| *done < sample.asked) && status == "failed" {
        verdict.add("what is failed was not done", Some(name), format!("it is failed at {:?}", sample.at));
    }
}

/// As it stays.
fn ended(
    events: &Events,
    heard: &BTreeMap<Name, Time>,
    done: &HashMap<Name, Time>,
    runs: &HashSet<(Name, &str)>,
    verdict: &mut Verdict,
) {
    let rows: HashMap<&Name, &Row> = events.claims.iter().map(|row| (&row.name, row)).collect();
    let last: HashMap<&Name, &Sample> =
        samples_by_name(events).into_iter().filter_map(|(name, all)| Some((name, *all.last()?))).collect();
    for (name, sample) in &last {
        match rows.get(*name) {
            None => verdict.add("no claim goes away", Some(name), format!("it was {}", sample.row.status)),
            Some(row) if **row != sample.row => moved(name, &sample.row, row, verdict),
            Some(_) => {}
        }
    }
    for name in heard.keys() {
        if rows.get(name).is_none_or(|row| row.status != "completed") {
            verdict.add(
                "the answer is stored before the client hears it",
                Some(name),
                "it is not, at the end",
            );
        }
    }
    for call in events.calls.iter().filter(|call| !is_read(&call.tool) && !is_resolved(&call.tool)) {
        let (Some(name), Came::Answer { run, .. }) = (call.name(), &call.came) else { continue };
        let stored = rows.get(&name).and_then(|row| run_in(row.response.as_deref()?));
        if stored != Some(run) {
            let says = format!("{} heard {run}, and at the end there is {stored:?}", call.trace);
            verdict.add("what was answered is stored in the end", Some(&name), says);
        }
    }
    for row in &events.claims {
        let name = Some(&row.name);
        let run = row.response.as_deref().and_then(run_in).unwrap_or("none");
        match row.status.as_str() {
            "in_flight" => verdict.add("nothing stays in flight for ever", name, row.attempt.clone()),
            "completed" if !runs.contains(&(row.name.clone(), run)) => {
                verdict.add(
                    "a stored answer is the upstream's, to that key",
                    name,
                    format!("it holds {run}"),
                );
            }
            _ => {}
        }
        if row.status == "failed" && done.contains_key(&row.name) {
            verdict.add("what is failed was not done", name, "it is failed at the end");
        }
    }
    for name in &events.stranded {
        verdict.add(
            "nothing stays in flight for ever",
            Some(name),
            "it was, when all was calm and nobody asked",
        );
    }
    brought_to_an_end(events, verdict);
}

/// The run that a stored answer names.
fn run_in(response: &str) -> Option<&str> {
    let from = response.find("run-")?;
    response.get(from..)?.split('"').next()
}

fn brought_to_an_end(events: &Events, verdict: &mut Verdict) {
    let last = events.calls.iter().filter(|call| call.last);
    let by_name: BTreeMap<Name, &Call> = last.filter_map(|call| Some((call.name()?, call))).collect();
    for (name, call) in by_name {
        let ends = match &call.came {
            Came::Answer { .. } | Came::Garbled(_) => true,
            Came::Refusal { code, .. } if code == "outcome_unknown" => !is_resolved(&name.tool),
            Came::Refusal { code, .. } => code == "idempotency_key_reuse_with_different_args",
            Came::Nothing(_) => false,
        };
        if !ends {
            let says = format!("{} heard {:?}", call.trace, call.came);
            verdict.add("every key can be brought to an end", Some(&name), says);
        }
    }
}
