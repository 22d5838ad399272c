//! What happened at one moment of a key's life: from its row, and what the other rows say of it.
//!
//! Promises: pure; a refusal for other arguments, or of another user, says what differs from the call whose key it is, as
//! far as the audit knows it.

use super::reasons::{let_go, refused};
use super::words::{about, short};
use super::{Moment, RecordedEvent};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::ledger::Claim;
use crate::domain::mode::{REPLAY, WOULD};
use crate::domain::time::Timestamp;

/// How many differences are told.
const MOST_DIFFERENCES: usize = 4;

/// How long a value in a sentence may be, in characters.
const LONGEST_VALUE: usize = 60;

/// Rows that are a look at the claim, and no call of a client's.
const LOOKS: [&str; 4] =
    ["resolved_completed", "resolved_released", "reconciled_completed", "reconciled_released"];

/// Every row with its sentence.
pub(super) fn moments(rows: Vec<RecordedEvent>, claim: Option<&Claim>) -> Vec<Moment> {
    let sentences: Vec<String> = (0..rows.len()).filter_map(|at| sentence(&rows, at, claim)).collect();
    rows.into_iter().zip(sentences).map(|(row, sentence)| Moment { row, sentence }).collect()
}

fn sentence(rows: &[RecordedEvent], at: usize, claim: Option<&Claim>) -> Option<String> {
    let row = rows.get(at)?;
    let event = &row.event;
    let reason = event.reason.as_deref();
    if let Some(would) = reason.and_then(|reason| reason.strip_prefix(WOULD)) {
        return Some(observed(would, event));
    }
    let told = match (event.decision, reason) {
        (Decision::Denied, Some(reason)) => {
            let said = refused(reason).map_or_else(|| format!("Refused: {reason}."), str::to_owned);
            said + &compared(rows, row, claim, reason)
        }
        (Decision::Denied, None) => "Refused.".to_owned(),
        (Decision::Replayed, _) => {
            format!("A retry got the first answer again{}. Nothing ran.", elsewhere(rows, row, claim))
        }
        (Decision::Allowed, Some(reason)) => allowed(reason, event),
        (Decision::Allowed, None) => format!("{}{}", again(rows.get(..at)?, event), ran(event)),
    };
    Some(told)
}

/// What was only observed: the call went on as it came.
fn observed(would: &str, event: &AuditEvent) -> String {
    let would = if would == REPLAY {
        "A retry, which would have got the first answer again".to_owned()
    } else {
        let said = refused(would).and_then(|said| said.strip_prefix("Refused: "));
        let why = said.and_then(|said| said.split(['.', ';']).next()).unwrap_or(would);
        format!("It would have been refused: {why}")
    };
    format!("{would}. The gate only observes, so it went on as it came: {}", ran(event))
}

/// A call that was let go, and a word about it.
fn allowed(reason: &str, event: &AuditEvent) -> String {
    let args = args(&event.facts);
    let text = |name: &str| args.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let signed = |outcome: &str| {
        let who = text("operator").unwrap_or_else(|| "A person".to_owned());
        let because = text("because").map(|because| format!(", because: {because}")).unwrap_or_default();
        let forced = args.as_ref().and_then(|args| args.get("forced")).is_some();
        let forced = if forced { " This was forced while it might still have been running." } else { "" };
        format!(
            "{who} said that it {outcome}{because}{}{forced}",
            if because.ends_with('.') { "" } else { "." }
        )
    };
    let asked = || text("asked").map(|asked| format!(" ({asked})")).unwrap_or_default();
    match reason {
        "resolved_completed" => signed("ran"),
        "resolved_released" => signed("did not run") + " The key was free to try again.",
        "reconciled_completed" => format!("The app was asked{}, and said that it ran.", asked()),
        "reconciled_released" => {
            format!(
                "The app was asked{}, and said that it did not run. The key was free to try again.",
                asked()
            )
        }
        "late_answer" | "possible_duplicate" | "unkeyed" | "client_gone" => {
            let said = let_go(reason).unwrap_or_default();
            format!("{said} {}", ran(event))
        }
        _ => match let_go(reason) {
            Some(said) => said.to_owned() + &with_status(event),
            // A word of the policy's own.
            None => format!("{} The policy's word for its answer is {reason}.", ran(event)),
        },
    }
}

/// What an attempt came to.
fn ran(event: &AuditEvent) -> String {
    let took = event.duration_ms.and_then(|ms| u64::try_from(ms).ok()).map(took).unwrap_or_default();
    let status = event.upstream_status.map(|status| format!(" HTTP {status}")).unwrap_or_default();
    match event.executed {
        Executed::Yes => format!("It ran: the app answered{status}{took}."),
        Executed::No if status.is_empty() => format!("It did not run{took}."),
        Executed::No => format!("The app answered{status}{took}, and did not run it."),
        Executed::Maybe if status.is_empty() => format!("Whether it ran is not known{took}."),
        Executed::Maybe => format!("The app answered{status}{took}; whether it ran is not known."),
    }
}

fn with_status(event: &AuditEvent) -> String {
    event.upstream_status.map(|status| format!(" The app answered HTTP {status}.")).unwrap_or_default()
}

fn took(ms: u64) -> String {
    match ms {
        0..10_000 => format!(" after {ms} ms"),
        ms => format!(" after {}", about(std::time::Duration::from_millis(ms))),
    }
}

/// What is said first of an attempt that is not the key's first.
fn again(before: &[RecordedEvent], event: &AuditEvent) -> &'static str {
    let is_attempt = |row: &&RecordedEvent| {
        let reason = row.event.reason.as_deref();
        row.event.decision == Decision::Allowed
            && row.event.facts.attempt_id != event.facts.attempt_id
            && !reason.is_some_and(|reason| reason.starts_with(WOULD))
            && reason != Some("unkeyed")
    };
    let Some(last) = before.iter().rev().find(is_attempt) else { return "" };
    match (last.event.reason.as_deref(), last.event.executed) {
        (Some("input_required"), _) => "The caller answered, and the call went on. ",
        (_, Executed::No) => "The same key tried again. ",
        (_, Executed::Maybe) => "The app honours the key, so that a retry ran it again. ",
        (_, Executed::Yes) => "What was remembered had expired, and the key was claimed anew. ",
    }
}

/// The row of the call whose key it was when this row was written: the newest attempt that had begun.
fn owner<'a>(rows: &'a [RecordedEvent], of: &RecordedEvent) -> Option<&'a Facts> {
    let began = |row: &RecordedEvent| match row.event.duration_ms.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => row.at.minus(std::time::Duration::from_millis(ms)),
        None => row.at,
    };
    let calls = || {
        rows.iter().filter(|row| {
            let reason = row.event.reason.as_deref();
            row.event.decision == Decision::Allowed
                && row.event.facts.attempt_id.is_some()
                && !reason.is_some_and(|reason| LOOKS.contains(&reason))
        })
    };
    let newest = calls().filter(|row| began(row) <= of.at).max_by_key(|row| began(row));
    newest.or_else(|| calls().next()).map(|row| &row.event.facts)
}

/// What differs from the call whose key it is.
fn compared(rows: &[RecordedEvent], row: &RecordedEvent, claim: Option<&Claim>, reason: &str) -> String {
    let own = &row.event.facts;
    let Some(first) = owner(rows, row).or(claim.map(|claim| &claim.facts)) else { return String::new() };
    match reason {
        "idempotency_key_of_another_user" => format!(" It is {}'s; this was {}.", first.user_id, own.user_id),
        "idempotency_payload_mismatch" => {
            let differs = differences(args(first).as_ref(), args(own).as_ref());
            let told = if differs.is_empty() {
                " What differs is not in the audit (masked, or cut).".to_owned()
            } else {
                format!(" {}.", differs.join("; "))
            };
            told + &other_user(first, own)
        }
        _ => other_user(first, own),
    }
}

fn other_user(first: &Facts, own: &Facts) -> String {
    if first.user_id == own.user_id {
        return String::new();
    }
    format!(" The key was first used by {}; this was {}.", first.user_id, own.user_id)
}

/// Where a retry came from, if not from where the first call did.
fn elsewhere(rows: &[RecordedEvent], row: &RecordedEvent, claim: Option<&Claim>) -> String {
    let own = &row.event.facts;
    let Some(first) = owner(rows, row).or(claim.map(|claim| &claim.facts)) else { return String::new() };
    if first.user_id != own.user_id {
        return format!(", and came from another user ({}, not {})", own.user_id, first.user_id);
    }
    if first.session_id != own.session_id {
        return ", and came from another session".to_owned();
    }
    String::new()
}

/// The leaves in which two arguments differ.
fn differences(first: Option<&Json>, own: Option<&Json>) -> Vec<String> {
    let (first, own) = (leaves(first), leaves(own));
    let name = |(path, _): &&(String, String)| path.clone();
    let find = |leaves: &[(String, String)], path: &str| {
        leaves.iter().find(|(own, _)| own == path).map(|(_, value)| value.clone())
    };
    let mut paths: Vec<String> = first.iter().chain(&own).map(|leaf| name(&leaf)).collect();
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let mut told: Vec<String> = paths
        .iter()
        .filter_map(|path| match (find(&first, path), find(&own, path)) {
            (Some(was), Some(is)) if was == is => None,
            (Some(was), Some(is)) => Some(format!("{path} was {was}, here it is {is}")),
            (Some(was), None) => Some(format!("{path} was {was}, here it is missing")),
            (None, Some(is)) => Some(format!("{path} was missing, here it is {is}")),
            (None, None) => None,
        })
        .collect();
    let more = told.len().saturating_sub(MOST_DIFFERENCES);
    told.truncate(MOST_DIFFERENCES);
    if more > 0 {
        told.push(format!("{more} more differ"));
    }
    told
}

/// Every value that is none of others, by its path.
fn leaves(value: Option<&Json>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(value) = value {
        gather(value, String::new(), &mut found);
    }
    found
}

fn gather(value: &Json, path: String, found: &mut Vec<(String, String)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Json::Object(members) if !members.is_empty() => {
            for (name, member) in members.iter() {
                gather(member, below(name), found);
            }
        }
        Json::Array(elements) if !elements.is_empty() => {
            for (at, element) in elements.iter().enumerate() {
                gather(element, below(&at.to_string()), found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            found.push((path, short(&value.to_string(), LONGEST_VALUE)));
        }
    }
}

fn args(facts: &Facts) -> Option<Json> {
    Json::parse(facts.args.as_deref()?.as_bytes(), MAX_DEPTH).ok()
}

/// Who it was.
pub(super) fn who(facts: &Facts) -> String {
    let mut who = format!("{} of {}", or_nobody(&facts.user_id), or_nobody(&facts.tenant_id));
    for (before, part) in
        [(", session ", &facts.session_id), (", by ", &facts.client), (", over ", &facts.protocol)]
    {
        if let Some(part) = part {
            who.extend([before, part]);
        }
    }
    who
}

fn or_nobody(name: &str) -> &str {
    if name.is_empty() { "nobody known" } else { name }
}

/// When the newest of these rows was written.
pub(super) fn newest(moments: &[Moment]) -> Option<Timestamp> {
    moments.last().map(|moment| moment.row.at)
}
