//! `oncegate policy schema`: what editors need to complete and check policies and their cases.

use clap::Args;

use crate::cli::failure::Failure;
use crate::cli::screen::show;
use crate::domain::policy::{cases_schema, policy_schema};

/// Which one.
#[derive(Args)]
pub(in crate::cli) struct SchemaOf {
    /// That of *.cases.toml
    #[arg(long)]
    cases: bool,
}

impl SchemaOf {
    pub(super) fn run(self) -> Result<(), Failure> {
        let schema = if self.cases { cases_schema() } else { policy_schema() };
        Ok(show(&format!("{schema:#}\n"))?)
    }
}
