//! `oncegate policy check|test`: whether a policy can be used, and whether it does what its cases say.
//!
//! Promises: `check` accepts what `serve` accepts, and nothing else; `test` decides its cases as calls are decided,
//! and a folder without cases proves nothing and fails.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::screen::{plain, show, tell};
use crate::config::{ConfigFlags, Layers, load_policy, read_cases_dir};
use crate::domain::policy::{Case, Kind, Policy};

/// Checks a policy, and runs the cases beside it.
#[derive(Subcommand)]
pub(super) enum PolicyCommand {
    /// Read every *.toml of a folder as the gate would, and tell every mistake
    Check(Folder),
    /// Run every *.cases.toml of a folder against the policy beside it
    Test(Folder),
}

#[derive(Args)]
pub(super) struct Folder {
    /// The folder; policy.dir of the configuration where none is named
    dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
}

impl PolicyCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Check(folder) => check(&folder),
            Self::Test(folder) => test(&folder),
        }
    }
}

impl Folder {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.dir {
            Some(dir) => Ok(dir.clone()),
            None => {
                Layers::load(&self.config).and_then(|layers| layers.policy_dir()).map_err(Failure::config)
            }
        }
    }
}

/// The policy of a folder; what it warns of is told.
fn read(dir: &Path) -> Result<Policy, Failure> {
    let (policy, warnings) = load_policy(dir).map_err(Failure::config)?;
    for warning in warnings {
        tell(&warning.to_string());
    }
    Ok(policy)
}

fn check(folder: &Folder) -> Result<(), Failure> {
    let dir = folder.path()?;
    let policy = read(&dir)?;
    let count = |kind| policy.operations().filter(|operation| operation.kind() == kind).count();
    let counts = [Kind::Tool, Kind::Method, Kind::Route, Kind::Job]
        .map(|kind| format!("{} {}", kind.table(), count(kind)));
    let line = format!("{}: {}, version {}", dir.display(), counts.join(", "), policy.version());
    Ok(show(&(plain(&line) + "\n"))?)
}

fn test(folder: &Folder) -> Result<(), Failure> {
    let dir = folder.path()?;
    let policy = read(&dir)?;
    let cases =
        read_cases_dir(&dir).and_then(|sources| Case::from_sources(&sources)).map_err(Failure::config)?;
    if cases.is_empty() {
        return Err(Failure::failed(format!("{}: there are no cases (*.cases.toml)", dir.display())));
    }
    let mut failed = 0;
    for case in &cases {
        let (found, expected) = (case.run(&policy), case.expected());
        let line = if found == *expected {
            format!("holds  {}: {expected}", case.name())
        } else {
            failed += 1;
            format!("FAILS  {}: expected {expected}, found {found}, at {}", case.name(), case.place())
        };
        show(&(plain(&line) + "\n"))?;
    }
    let count = format!("cases: {}, failed: {failed}", cases.len());
    if failed > 0 {
        return Err(Failure::failed(count));
    }
    Ok(show(&(count + "\n"))?)
}
