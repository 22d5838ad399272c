//! `oncegate policy`: whether a policy can be used (`check`), whether it does what its cases say (`test`), which one is in
//! force (`status`), why a call is allowed (`explain`), what a change opens (`diff`), a first one to edit (`init`), and what
//! editors need (`schema`).
//!
//! Promises: `check` accepts what `serve` accepts, and nothing else; `test` decides its cases as calls are decided,
//! and a folder without cases proves nothing and fails.

mod diff;
mod explain;
mod init;
mod schema;
mod status;

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::alone;
use super::failure::Failure;
use super::screen::{plain, plain_json, show, tell};
use crate::config::{ConfigFlags, Layers, load_listener_policy, load_policy, read_cases_dir};
use crate::domain::policy::{Case, Kind, Policy};

/// Checks a policy, and runs the cases beside it.
#[derive(Subcommand)]
pub(super) enum PolicyCommand {
    /// Read every *.toml of a folder as the gate would, and tell every mistake
    Check(Folder),
    /// Run every *.cases.toml of a folder against the policy beside it
    Test(Folder),
    Status(status::Status),
    /// Say step by step why a call would be allowed, or denied
    Explain(Box<explain::Explain>),
    /// Tell what a change opens and closes, from one folder to another
    Diff(diff::Diff),
    /// Write a first policy to edit, from an MCP server's list of tools
    Init(Box<init::Init>),
    /// Print the JSON Schema of policy files, for editors
    Schema(schema::SchemaOf),
}

#[derive(Args)]
pub(super) struct Folder {
    /// The folder; where none is named, policy.dir of the configuration, and that of each listener
    dir: Option<PathBuf>,
    /// The folder of this listener alone
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    listener: Option<String>,
    #[command(flatten)]
    config: ConfigFlags,
}

impl PolicyCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Check(folder) => folder.each(check),
            Self::Test(folder) => folder.each(test),
            Self::Status(status) => alone(status.run()),
            Self::Explain(explain) => explain.run(),
            Self::Diff(diff) => diff.run(),
            Self::Init(init) => init.run(),
            Self::Schema(schema) => schema.run(),
        }
    }
}

/// A policy's folder, and for what it is read.
struct Read {
    dir: PathBuf,
    /// Whether it is a listener's.
    leads_out: bool,
}

impl Folder {
    /// Does this with every folder that is meant, and says at the end whether all was well.
    fn each(&self, run: fn(&Read) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut first = None;
        for folder in self.folders()? {
            match (run(&folder), &first) {
                (Err(fault), None) => first = Some(fault),
                (Err(fault), Some(_)) => drop(fault.report()),
                (Ok(()), _) => {}
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// The one that is meant where only one can be.
    fn one(&self) -> Result<Read, Failure> {
        let first = self.folders()?.into_iter().next();
        first.ok_or_else(|| Failure::usage("no folder is meant"))
    }

    fn folders(&self) -> Result<Vec<Read>, Failure> {
        if let Some(dir) = &self.dir {
            return Ok(vec![Read { dir: dir.clone(), leads_out: false }]);
        }
        let layers = Layers::load(&self.config).map_err(Failure::config)?;
        let listeners = layers.listener_policies().map_err(Failure::config)?;
        let out = |(_, dir): (String, PathBuf)| Read { dir, leads_out: true };
        if let Some(name) = &self.listener {
            let found = listeners.into_iter().find(|(listener, _)| listener == name);
            let fault = || Failure::usage(format!("there is no listener \"{name}\" in the configuration"));
            return found.map(out).map(|read| vec![read]).ok_or_else(fault);
        }
        let dir = layers.policy_dir().map_err(Failure::config)?;
        let own = Read { dir, leads_out: false };
        Ok(std::iter::once(own).chain(listeners.into_iter().map(out)).collect())
    }
}

/// The policy of a folder; what it warns of is told.
fn read(Read { dir, leads_out }: &Read) -> Result<Policy, Failure> {
    let loaded = if *leads_out { load_listener_policy(dir) } else { load_policy(dir) };
    let (policy, warnings) = loaded.map_err(Failure::config)?;
    for warning in warnings {
        tell(&warning.to_string());
    }
    Ok(policy)
}

fn check(folder: &Read) -> Result<(), Failure> {
    let (dir, policy) = (&folder.dir, read(folder)?);
    let count = |kind| policy.operations().filter(|operation| operation.kind() == kind).count();
    let counts = [Kind::Tool, Kind::Method, Kind::Route, Kind::Job]
        .map(|kind| format!("{} {}", kind.table(), count(kind)));
    let line = format!("{}: {}, version {}", dir.display(), counts.join(", "), policy.version());
    Ok(show(&(plain(&line) + "\n"))?)
}

fn test(folder: &Read) -> Result<(), Failure> {
    let (dir, policy) = (&folder.dir, read(folder)?);
    let cases =
        read_cases_dir(dir).and_then(|sources| Case::from_sources(&sources)).map_err(Failure::config)?;
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

/// What was typed, or what stands in the file behind an `@`, or comes in on `-`.
fn text_of(typed: &str, flag: &str) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("{flag}: {error}"));
    match typed.strip_prefix('@') {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{flag}: {path}: {error}")))
        }
        None if typed == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
            Ok(text)
        }
        None => Ok(typed.to_owned()),
    }
}

/// A JSON text for people and programs: a terminal shows it as it is.
fn pretty(told: &serde_json::Value) -> String {
    format!("{told:#}").lines().map(|line| plain_json(line) + "\n").collect()
}
