//! The policy of a listener towards somebody else's API.
//!
//! Promises: it names routes only, and asks nobody what became of a call: what a listener's policy says and its gate
//! would never do is a mistake, told with its place, beside whatever else is wrong.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::files::read_policy_dir;
use crate::domain::mistake::{Mistake, Mistakes, Source};
use crate::domain::policy::{Policy, Warning};

/// The tables that rule what no listener carries, and what one of each is called.
const ELSEWHERE: [(&str, &str); 3] = [("tools", "a tool"), ("methods", "an MCP method"), ("jobs", "a job")];

/// The policy that a listener's folder makes.
pub fn load_listener_policy(dir: &Path) -> Result<(Policy, Vec<Warning>), Mistakes> {
    let sources = read_policy_dir(dir)?;
    let read = Policy::from_sources(&sources);
    let mut mistakes: Vec<Mistake> = sources.iter().flat_map(foreign).collect();
    if let Err(others) = &read {
        mistakes.extend(others.iter().cloned());
    }
    Mistakes::none_in(mistakes)?;
    read
}

/// What one file says that no listener does.
fn foreign((path, text): &(PathBuf, String)) -> Vec<Mistake> {
    let source = Source::new(path, text);
    // What is no TOML is told by whoever reads the policy.
    let Ok(file) = DeTable::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (table, what) in ELSEWHERE {
        for (name, span, _) in inside(file.get_ref(), table) {
            let mistake =
                source.mistake(&span, format!("\"{name}\" is {what}: a listener carries routes only"));
            found.push(mistake.with_help("name it in the policy of policy.dir"));
        }
    }
    for (name, _, route) in inside(file.get_ref(), "routes") {
        let Some(route) = route.as_table() else { continue };
        if let Some((key, _)) = route.get_key_value("reconcile") {
            let message =
                format!("nobody can be asked about \"{name}\": the gate has no access of its own there");
            found.push(source.mistake(&key.span(), message).with_help("take reconcile out"));
        }
    }
    found
}

/// What stands in a table of the file: names, where they stand, and what they say.
fn inside<'a>(
    file: &'a DeTable<'_>,
    table: &str,
) -> impl Iterator<Item = (String, Range<usize>, &'a DeValue<'a>)> {
    let table = file.get(table).and_then(|table| table.get_ref().as_table());
    let entries = table.into_iter().flat_map(|table| table.iter());
    entries.map(|(name, value)| (name.get_ref().to_string(), name.span(), value.get_ref()))
}
