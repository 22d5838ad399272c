//! The gates' own ends.
//!
//! Promises: no gate ends by itself; one that said it was drained has left nothing in flight.

use std::collections::HashMap;

use super::Verdict;
use crate::history::{Call, Events, How};

pub(super) fn check(events: &Events, verdict: &mut Verdict) {
    if !events.ended {
        return;
    }
    for death in events.deaths.iter().filter(|death| death.how == How::Itself) {
        // A gate cannot come up on a full disk.
        let full = events.faults.iter().any(|fault| fault.kind == "disk full" && fault.from <= death.at);
        if !full {
            verdict.add("no gate ends by itself", None, format!("gate {} at {:?}", death.gate, death.at));
        }
    }
    let calls: HashMap<&str, &Call> = events.calls.iter().map(|call| (call.trace.as_str(), call)).collect();
    // A replay's row names the attempt whose answer it gave.
    let attempts = events.audit.iter().filter(|told| told.decision == "allowed");
    let of_attempt: HashMap<&str, &str> =
        attempts.map(|told| (told.attempt.as_str(), told.trace.as_str())).collect();
    let in_flight = || events.samples.iter().filter(|sample| sample.row.status == "in_flight");
    // What a link held back until its gate's next process took it was not in the gate that drained.
    let mut begun = HashMap::new();
    for sample in in_flight() {
        let first = begun.entry(sample.row.attempt.as_str()).or_insert(sample.at);
        *first = sample.at.min(*first);
    }
    for sample in in_flight() {
        let attempt = sample.row.attempt.as_str();
        let Some(call) = of_attempt.get(attempt).and_then(|trace| calls.get(trace)) else { continue };
        let own = events.deaths.iter().filter(|death| death.gate == call.gate && death.at >= call.sent);
        let Some(death) = own.min_by_key(|death| death.at) else { continue };
        let was_inside = begun.get(attempt).is_some_and(|first| *first <= death.at);
        if death.how == How::Drained && was_inside && sample.asked > death.at {
            let says = format!(
                "{attempt} is in flight at {:?}, its gate {} ended at {:?}",
                sample.at, death.gate, death.at
            );
            verdict.add("a drained gate leaves nothing in flight", Some(&sample.row.name), says);
        }
    }
}
