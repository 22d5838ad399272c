//! What clients heard.
//!
//! Promises: an answer is one that the upstream gave for that very key, arguments and user; every recorded answer of a
//! key is the same; once one was heard, nobody hears anything else.

use std::collections::{BTreeMap, HashMap};

use super::Verdict;
use super::effects::name_of;
use crate::history::{Call, Came, Deed, Events, Name, Time};
use crate::intents::{READ, is_resolved};

/// Refusals that say nothing about the claim.
const NOTHING_ABOUT_IT: [&str; 2] = ["store_unavailable", "overloaded"];

pub(super) fn check(events: &Events, verdict: &mut Verdict) {
    let mut runs: HashMap<&str, Vec<&Deed>> = HashMap::new();
    for deed in &events.deeds {
        runs.entry(&deed.run).or_default().push(deed);
    }
    let mut answers: BTreeMap<Name, Vec<&Call>> = BTreeMap::new();
    for call in &events.calls {
        let name = call.name();
        match &call.came {
            // Of a read everything passes as it came.
            Came::Garbled(_) if call.tool == READ => {}
            Came::Garbled(text) => {
                verdict.add("a whole response is an answer or a refusal", name.as_ref(), text.clone());
            }
            Came::Answer { .. } if call.tool == READ && call.scoped => {}
            Came::Answer { run, .. } => match name {
                Some(name) if call.scoped => {
                    of_its_own(call, &name, run, &runs, verdict);
                    answers.entry(name).or_default().push(call);
                }
                name => verdict.add("what is not allowed is not answered", name.as_ref(), call.trace.clone()),
            },
            Came::Refusal { code, .. } => refused(call, code, verdict),
            Came::Nothing(_) => {}
        }
    }
    for (name, answers) in &answers {
        alike(name, answers, verdict);
    }
    nothing_else(events, &answers, verdict);
}

/// The answer is the upstream's, to this key, these arguments, this user; a new one is this call's own.
fn of_its_own(call: &Call, name: &Name, run: &str, runs: &HashMap<&str, Vec<&Deed>>, verdict: &mut Verdict) {
    let deeds = runs.get(run).map(Vec::as_slice).unwrap_or_default();
    let own = |deed: &&&Deed| name_of(deed) == *name && deed.order == call.order && deed.user == call.user;
    if !deeds.iter().any(|deed| own(&deed)) {
        let says = format!("{} (order {}, {}) heard {run}", call.trace, call.order, call.user);
        verdict.add("an answer is to this key, these arguments, this user", Some(name), says);
    }
    let fresh = matches!(call.came, Came::Answer { replayed: false, .. });
    if fresh && !deeds.iter().any(|deed| deed.trace == call.trace) {
        let says = format!("{} heard {run} without a mark", call.trace);
        verdict.add("an answer that is not the call's own is marked as replayed", Some(name), says);
    }
}

fn refused(call: &Call, code: &str, verdict: &mut Verdict) {
    let expected = match (&call.key, call.scoped) {
        (_, false) => "forbidden",
        (None, true) if call.tool != READ => "idempotency_key_required",
        (None | Some(_), true) => return,
    };
    if code != expected && !NOTHING_ABOUT_IT.contains(&code) {
        let says = format!("{} heard {code}, not {expected}", call.trace);
        verdict.add("what is not allowed is refused as such", call.name().as_ref(), says);
    }
}

/// A backend may be asked again where the first answer was lost before it was recorded, and may say the same in other
/// words.
fn alike(name: &Name, answers: &[&Call], verdict: &mut Verdict) {
    let mut first: Option<(&str, &str)> = None;
    for call in answers {
        let Came::Answer { body, recorded, .. } = &call.came else { continue };
        if !recorded && is_resolved(&name.tool) {
            continue;
        }
        match first {
            Some((trace, first)) if first != body => {
                let says = format!("{trace} heard {first}, {} heard {body}", call.trace);
                verdict.add("every answer of a key is the same", Some(name), says);
            }
            Some(_) => {}
            None => first = Some((&call.trace, body)),
        }
    }
}

/// Since when the claim of an answer must stand: the answer was heard, and it was recorded.
pub(super) fn heard_at(answers: &[&Call]) -> Option<Time> {
    let recorded = |call: &&&Call| matches!(call.came, Came::Answer { recorded: true, .. });
    answers.iter().filter(recorded).map(|call| call.heard).min()
}

/// Whoever asks after a recorded answer was heard hears it, or nothing about it.
fn nothing_else(events: &Events, answers: &BTreeMap<Name, Vec<&Call>>, verdict: &mut Verdict) {
    let bound: HashMap<&Name, (Time, &Call)> = answers
        .iter()
        .filter_map(|(name, answers)| Some((name, (heard_at(answers)?, *answers.first()?))))
        .collect();
    for call in &events.calls {
        let Came::Refusal { code, .. } = &call.came else { continue };
        let Some((name, (heard, first))) = call.name().and_then(|name| bound.get_key_value(&name)) else {
            continue;
        };
        // A gate whose own claim another took over says for a moment that it runs, as far as it knows.
        let taken_over = code == "request_in_flight" && is_resolved(&name.tool);
        let same = call.order == first.order && call.user == first.user && call.scoped;
        if same && !taken_over && call.sent > *heard && !NOTHING_ABOUT_IT.contains(&code.as_str()) {
            let says = format!("{} heard {code} after the answer was heard", call.trace);
            verdict.add("once an answer was heard, nobody hears anything else", Some(name), says);
        }
    }
}

/// The recorded answers by name.
pub(super) fn recorded(events: &Events) -> BTreeMap<Name, Time> {
    let mut heard: BTreeMap<Name, Time> = BTreeMap::new();
    for call in events.calls.iter().filter(|call| call.tool != READ) {
        if let (Some(name), Some(at)) = (call.name(), heard_at(&[call])) {
            let first = heard.entry(name).or_insert(at);
            *first = at.min(*first);
        }
    }
    heard
}
