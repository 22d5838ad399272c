//! The command line as a whole: what its helps, man pages and completions show.
//!
//! Promises: every command takes every setting, and its own help lists those that it looks at. The gate itself looks at all
//! of them, so `oncegate serve --help` is where they all stand.

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use crate::config::{SETTINGS, SETTINGS_HEADING};

/// What a command that is not the gate itself looks at: keys, or beginnings of keys that end in a dot.
const LOOKED_AT: [(&str, &[&str]); 10] = [
    ("audit", &["service", "store."]),
    ("claims", &["service", "store.", "policy."]),
    ("completions", &[]),
    ("drain", &["admin_listen", "admin_token_file"]),
    ("man", &[]),
    ("migrate", &["store."]),
    ("policy", &["policy.", "admin_listen", "admin_token_file"]),
    ("prune", &["service", "store.", "audit."]),
    ("story", &["service", "store.", "policy."]),
    ("token", &["auth."]),
];

const OTHERS: &str = "Every setting is taken; `oncegate serve --help` lists them all.";

/// The command line.
pub(super) fn shaped() -> Command {
    LOOKED_AT.iter().fold(Cli::command(), |cli, (name, keys)| {
        if cli.find_subcommand(name).is_none() || keys.is_empty() {
            return cli;
        }
        cli.mut_subcommand(name, |command| narrowed(command, keys))
    })
}

/// A command, and those below it, whose helps list these settings only.
fn narrowed(command: Command, keys: &[&str]) -> Command {
    let is_looked_at = |key: &str| {
        keys.iter()
            .any(|looked_at| key == *looked_at || looked_at.ends_with('.') && key.starts_with(looked_at))
    };
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |below| narrowed(below, keys)));
    let has_settings = command.get_arguments().any(is_setting);
    let command = command.mut_args(|arg| {
        if is_setting(&arg) && !is_looked_at(arg.get_id().as_str()) { arg.hide(true) } else { arg }
    });
    if !has_settings {
        return command;
    }
    let before = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    command.after_help(format!("{before}{OTHERS}"))
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(SETTINGS_HEADING)
        && SETTINGS.iter().any(|setting| setting.key == arg.get_id().as_str())
}
