//! What was done, by the upstream's own record.
//!
//! Promises: an intent has one effect at most, whatever was forwarded for it; what was said about whether a call ran is
//! held against whether it did.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verdict;
use crate::history::{Came, Deed, Events, Name};
use crate::intents::{READ, forwarded, is_read, key_of_order};

pub(super) fn check(events: &Events, verdict: &mut Verdict) {
    let mut effects: BTreeMap<Name, Vec<&Deed>> = BTreeMap::new();
    for deed in events.deeds.iter().filter(|deed| !is_read(&deed.tool)) {
        let name = name_of(deed);
        if deed.forwarded.as_ref() != Some(&forwarded(&name)) {
            let says = format!("{} forwarded {:?}", deed.trace, deed.forwarded);
            verdict.add("all of an intent goes out with its one key", Some(&name), says);
        }
        if deed.effect {
            effects.entry(name).or_default().push(deed);
        }
    }
    for (name, deeds) in effects.iter().filter(|(_, deeds)| deeds.len() > 1) {
        let runs: Vec<_> = deeds.iter().map(|deed| deed.run.as_str()).collect();
        verdict.add("an intent has one effect at most", Some(name), format!("it has {}", runs.join(", ")));
    }
    said(events, &effects, verdict);
}

/// What clients heard about whether their call ran.
fn said(events: &Events, effects: &BTreeMap<Name, Vec<&Deed>>, verdict: &mut Verdict) {
    let did: HashSet<&str> = effects.values().flatten().map(|deed| deed.trace.as_str()).collect();
    let met: HashMap<&str, &Deed> = events.deeds.iter().map(|deed| (deed.trace.as_str(), deed)).collect();
    for call in &events.calls {
        let name = call.name();
        if (!call.scoped || (call.key.is_none() && call.tool != READ))
            && met.contains_key(call.trace.as_str())
        {
            verdict.add("what is not allowed is not forwarded", name.as_ref(), call.trace.clone());
        }
        let Came::Refusal { code, executed, .. } = &call.came else { continue };
        if executed == "no" && did.contains(call.trace.as_str()) {
            let says = format!("{} heard {code}, executed no, and was done", call.trace);
            verdict.add("what did not run was not done", name.as_ref(), says);
        }
        let known = || events.deeds.iter().any(|deed| Some(name_of(deed)) == name);
        if executed == "yes" && !known() {
            let says = format!("{} heard {code}, executed yes", call.trace);
            verdict.add("what ran was done", name.as_ref(), says);
        }
    }
}

/// The intent that a request is of, by its arguments.
pub(super) fn name_of(deed: &Deed) -> Name {
    Name { tenant: deed.tenant.clone(), tool: deed.tool.clone(), key: key_of_order(&deed.order) }
}
