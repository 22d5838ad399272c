//! `oncegate config schema`: what editors need to complete and check `oncegate.toml`.

use clap::Subcommand;

use super::failure::Failure;
use super::screen::show;
use crate::config::config_schema;

/// Tells what can stand in the configuration.
#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the JSON Schema of oncegate.toml
    Schema,
}

impl ConfigCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Schema => Ok(show(&format!("{:#}\n", config_schema()))?),
        }
    }
}
