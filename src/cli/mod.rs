//! The commands: what the operator types, and what comes of it.
//!
//! Promises: exit codes 0, 1 (it failed), 2 (a wrong command line), 78 (a configuration that cannot be used); results
//! on standard output, everything else on standard error; what is shown cannot write to the terminal.
//!
//! Absent on purpose: decisions. A command reads the configuration, calls what decides, and shows what came of it.

mod audit;
mod bar;
mod claims;
mod config;
mod drain;
mod failure;
mod log;
mod open;
mod operator;
mod page;
mod policy;
mod resolve;
mod rows;
mod screen;
mod serve;
mod shape;
mod shell;
mod story;
mod token;
mod upkeep;
mod when;

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser, Subcommand};

use failure::Failure;

/// Every mutation once, for one verified actor, if policy allows it, and every attempt written down.
#[derive(Parser)]
#[command(name = "oncegate", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Drain(drain::Drain),
    Token(token::Token),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[command(subcommand)]
    Claims(claims::Claims),
    Audit(audit::Audit),
    Story(story::Tell),
    Migrate(upkeep::Migrate),
    Prune(upkeep::Prune),
    Completions(shell::Completions),
    Man(shell::Manual),
}

impl Cli {
    /// Reads the command line; ends the process where it cannot be understood, or where a help was asked for.
    pub fn read() -> Self {
        let matches = shape::shaped().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Does what was asked.
    pub fn run(self) -> ExitCode {
        let serves = matches!(self.command, Command::Serve(_));
        let usually = if serves { "info" } else { "warn" };
        match log::begin(usually).and_then(|()| self.command.run()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) if serves && log::is_json_wanted() => failure.report_in_json(),
            Err(failure) => failure.report(),
        }
    }
}

impl Command {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Drain(drain) => alone(drain.run()),
            Self::Token(token) => token.run(),
            Self::Policy(policy) => policy.run(),
            Self::Config(config) => config.run(),
            Self::Claims(claims) => alone(claims.run()),
            Self::Audit(audit) => alone(audit.run()),
            Self::Story(story) => alone(story.run()),
            Self::Migrate(migrate) => alone(migrate.run()),
            Self::Prune(prune) => alone(prune.run()),
            Self::Completions(completions) => completions.run(),
            Self::Man(manual) => manual.run(),
        }
    }
}

/// Runs one command's work to its end.
fn alone(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
