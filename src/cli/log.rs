//! What the program tells about its own doings, on standard error.
//!
//! `ONCEGATE_LOG` says what (`info`, `oncegate=debug,warn`), `ONCEGATE_LOG_FORMAT` how: `json` or `text`. Without it,
//! a terminal gets text, and a collector JSON.
//!
//! Promises: a filter that would let nothing through by mistake is refused. `loud` would be read as the name of a part of
//! the program, which no part has. Where standard error cannot be written (its disk is full, its reader is gone), lines
//! are lost, and nothing else.

use std::env;
use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::domain::mistake::nearest;

/// What a filter, or a part of it, may say by itself.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// This program's own part, which may stand by itself too.
const OWN: &str = "oncegate";

/// Whether somebody asked for JSON, rather than getting it for want of a terminal.
pub(super) fn is_json_wanted() -> bool {
    env::var("ONCEGATE_LOG_FORMAT").is_ok_and(|format| format == "json")
}

/// Begins; `usual` is what is told where the environment does not say.
pub(super) fn begin(usual: &str) -> Result<(), Failure> {
    let wanted = env::var("ONCEGATE_LOG").unwrap_or_else(|_| usual.to_owned());
    if let Some(wrong) = no_level(&wanted) {
        return Err(Failure::config(format!("ONCEGATE_LOG: {wrong}")));
    }
    let filter = EnvFilter::try_new(&wanted)
        .map_err(|error| Failure::config(format!("ONCEGATE_LOG: {wanted} is not a filter: {error}")))?;
    let terminal = io::stderr().is_terminal();
    let json = match env::var("ONCEGATE_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Ok("text") => false,
        Ok(other) => {
            return Err(Failure::config(format!("ONCEGATE_LOG_FORMAT: {other} is neither json nor text")));
        }
        Err(_) => !terminal,
    };
    // https://no-color.org
    let color = terminal && env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(color);
    // It would report lines that cannot be written by `eprintln!`, which panics for the same reason.
    let log = log.log_internal_errors(false);
    let begun =
        if json { log.json().flatten_event(true).with_span_list(false).try_init() } else { log.try_init() };
    begun.map_err(Failure::failed)
}

/// What is wrong with a word that stands in a filter by itself and is no level; none where there is no such word.
fn no_level(filter: &str) -> Option<String> {
    // Names of spans and fields may stand there, which the filter's reader checks.
    if filter.contains(['[', '{']) {
        return None;
    }
    let is_own = |word: &str| word == OWN || word.starts_with("oncegate::");
    let is_level = |word: &str| {
        matches!(word, "0" | "1" | "2" | "3" | "4" | "5")
            || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
    };
    let mut words = filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('='));
    let wrong = words.find(|word| !is_level(word) && !is_own(word))?;
    let meant = nearest(wrong, &LEVELS).unwrap_or_default();
    let end = if meant.ends_with('?') { "" } else { "." };
    Some(format!("\"{wrong}\" is no level; {meant}{end} One of its own for a part is written oncegate=debug"))
}
