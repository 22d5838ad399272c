//! Arguments in, exit code out. Everything between is the library's.

use std::process::ExitCode;

use clap::Parser as _;
use oncegate::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
