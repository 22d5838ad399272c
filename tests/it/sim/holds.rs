//! What must hold of every answer, and at the end.

use oncegate::domain::audit::Decision;
use oncegate::domain::ledger::Status;
use serde_json::Value;

use super::gate::{Told, trace};
use super::world::State;

/// Which run an answer tells of; none where it is a refusal.
fn run_of(told: &Told) -> Option<&Value> {
    told.body["result"]["structuredContent"].get("run")
}

fn is_marked(told: &Told, mark: &str) -> bool {
    told.body["result"]["_meta"][mark] == true
}

fn refusal(told: &Told) -> &Value {
    &told.body["result"]["_meta"]["oncegate/refusal"]
}

fn has_row(state: &State, caller: usize) -> bool {
    let trace = trace(caller);
    state.events.iter().any(|event| event.facts.trace_id.as_deref() == Some(&trace))
}

/// An answer, when it comes.
pub(super) fn told(state: &State, caller: usize, told: &Told) -> Result<(), String> {
    if run_of(told).is_some() {
        let kept = state.row.as_ref().filter(|row| row.status == Status::Completed);
        let recorded = kept.is_some() && has_row(state, caller);
        if !recorded && !is_marked(told, "oncegate/not_recorded") {
            return Err(format!("answered before its row was committed: {}", told.body));
        }
        if is_marked(told, "oncegate/replayed") {
            let trace = trace(caller);
            let replayed = |event: &&oncegate::domain::audit::AuditEvent| {
                event.decision == Decision::Replayed && event.facts.trace_id.as_deref() == Some(&trace)
            };
            state.events.iter().find(replayed).ok_or("a replay without its row")?;
        }
        return Ok(());
    }
    let refusal = refusal(told);
    let Some(executed) = refusal["executed"].as_str() else {
        return Err(format!("neither an answer nor a refusal: {}", told.body));
    };
    let ran = state.effects.iter().any(|(_, who)| *who == caller.to_string());
    let runs = state
        .sent
        .iter()
        .any(|sent| sent.caller == caller.to_string() && !sent.ran && state.now < sent.until);
    if executed == "no" && (ran || runs) {
        return Err(format!("told that it did not run: {}", told.body));
    }
    Ok(())
}

/// Once the store has taken everything: whoever was answered has its row.
pub(super) fn rows(state: &State, answered: &[usize]) -> Result<(), String> {
    match answered.iter().find(|caller| !has_row(state, **caller)) {
        Some(caller) => Err(format!("caller {caller} was answered, and has no row")),
        None => Ok(()),
    }
}

/// The last call, made when all is quiet.
pub(super) fn at_last(state: &State, told: &Told) -> Result<(), String> {
    let status = state.row.as_ref().map(|row| row.status);
    let replayed = is_marked(told, "oncegate/replayed");
    let code = &refusal(told)["code"];
    match (run_of(told), status) {
        (Some(_), Some(Status::Completed)) if replayed || state.effects.len() == 1 => Ok(()),
        (None, Some(Status::Unknown)) if code == "outcome_unknown" => Ok(()),
        _ => Err(format!("in the end the claim is {status:?}, and a retry hears {}", told.body)),
    }
}
