//! What an operator types for a filter, read, and what to say where it finds nothing.

use uuid::Uuid;

use crate::domain::mistake::nearest;
use crate::domain::mode::{REPLAY, WOULD};
use crate::domain::policy::GATE_REASONS;

/// The hint where no row has a reason that the gate does not write either. Policies may have reasons of their own, so
/// it is a hint and no mistake.
pub(super) fn unknown_reason(reason: &str) -> Option<String> {
    let would = GATE_REASONS.iter().chain([&REPLAY]).map(|known| format!("{WOULD}{known}"));
    let known: Vec<String> = GATE_REASONS.iter().map(|known| (*known).to_owned()).chain(would).collect();
    if known.iter().any(|known| known == reason) {
        return None;
    }
    let words: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = nearest(reason, &words).map(|meant| format!("; {meant}")).unwrap_or_default();
    let end = if meant.is_empty() { "." } else { "" };
    Some(format!(
        "No row was found, and \"{reason}\" is no reason of the gate's own{meant}{end} They are listed in docs/answers.md."
    ))
}

/// `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, as in order_id=o1 or body.order_id=o1".to_owned()),
    }
}

/// A row's id, also as a problem's `instance` writes it.
pub(super) fn row_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        format!(
            "\"{text}\" is no row's id: that is a UUID, as `id` in --json or `instance` in a problem \
             (urn:uuid:…) has it; for anything else there are --key, --trace, --attempt and --arg"
        )
    })
}

/// An attempt's id.
pub(super) fn attempt_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        format!("\"{text}\" is no attempt's id: that is a UUID, as `attempt_id` in --json has it")
    })
}
