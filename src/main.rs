//! Arguments in, exit code out. Everything between is the library's.

use std::process::ExitCode;

use oncegate::cli::Cli;

fn main() -> ExitCode {
    Cli::read().run()
}
