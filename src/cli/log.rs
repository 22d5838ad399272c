//! What the program tells about its own doings, on standard error.
//!
//! `ONCEGATE_LOG` says what (`info`, `oncegate=debug,warn`), `ONCEGATE_LOG_FORMAT` how: `json` or `text`. Without it,
//! a terminal gets text, and a collector JSON.

use std::env;
use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use super::failure::Failure;

/// Begins; `usual` is what is told where the environment does not say.
pub(super) fn begin(usual: &str) -> Result<(), Failure> {
    let wanted = env::var("ONCEGATE_LOG").unwrap_or_else(|_| usual.to_owned());
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
    let begun =
        if json { log.json().flatten_event(true).with_span_list(false).try_init() } else { log.try_init() };
    begun.map_err(Failure::failed)
}
