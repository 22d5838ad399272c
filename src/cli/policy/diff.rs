//! `oncegate policy diff`: what a change of the policy opens, and what it closes.
//!
//! Promises: the most dangerous first; the exit code is 1 where something opens, so that a pipeline can ask for a second
//! look, and 0 where nothing does.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{Read, pretty, read};
use crate::cli::failure::Failure;
use crate::cli::screen::{plain, show};
use crate::domain::policy::{Change, ChangeKind, diff};

/// The two folders.
#[derive(Args)]
pub(in crate::cli) struct Diff {
    /// The folder of the policy as it is
    old: PathBuf,
    /// The folder of the policy as it is to be
    new: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn run(self) -> Result<(), Failure> {
        let folder = |dir: PathBuf| Read { dir, leads_out: false };
        let (old, new) = (read(&folder(self.old))?, read(&folder(self.new))?);
        let changes = diff(&old, &new);
        let opens: Vec<&Change> = changes.iter().filter(|change| change.kind.opens()).collect();
        let of = |kind| changes.iter().filter(move |change| change.kind == kind).collect::<Vec<_>>();
        let (closes, other) = (of(ChangeKind::Closes), of(ChangeKind::Changes));
        let text = if self.json {
            let listed = |changes: &[&Change]| -> Vec<Value> {
                let one = |change: &&Change| json!({ "operation": change.operation, "what": change.what });
                changes.iter().map(one).collect()
            };
            let told = json!({
                "old_version": old.version(),
                "new_version": new.version(),
                "opens": listed(&opens),
                "closes": listed(&closes),
                "changes": listed(&other),
            });
            pretty(&told)
        } else {
            section("opens", &opens) + &section("closes", &closes) + &section("changes otherwise", &other)
        };
        show(&text)?;
        if opens.is_empty() {
            Ok(())
        } else {
            Err(Failure::failed(format!("changes that open: {}", opens.len())))
        }
    }
}

fn section(head: &str, changes: &[&Change]) -> String {
    if changes.is_empty() {
        return format!("{head}: nothing\n");
    }
    let lines =
        changes.iter().map(|change| format!("  {} {}\n", plain(&change.operation), plain(&change.what)));
    format!("{head}:\n{}", lines.collect::<String>())
}
