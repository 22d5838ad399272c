//! `oncegate migrate` and `oncegate prune`: what an operator does to the database.

use clap::Args;

use super::failure::Failure;
use super::open::{self, Opened};
use super::screen;
use crate::config::ConfigFlags;
use crate::store::PruneOf;

/// Brings the schema up. Safe when many start at once.
#[derive(Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    config: ConfigFlags,
}

/// Deletes expired claims; never those in flight or unknown.
#[derive(Args)]
pub(super) struct Prune {
    /// How many at a time: small batches never block a claim for long
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let store = open::for_migration(&self.config).await?;
        let version = store.migrate().await?;
        store.close().await;
        Ok(screen::show(&format!("The schema is at version {version}.\n"))?)
    }
}

impl Prune {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let mut pruned = 0;
        let mut of = PruneOf { batch: self.batch, from: None };
        loop {
            let batch = opened.store.prune_claims(&of).await?;
            pruned += batch.claims;
            of.from = of.from.max(batch.through);
            if batch.claims == 0 {
                break;
            }
        }
        opened.store.close().await;
        Ok(screen::show(&format!("{pruned} expired claims were deleted.\n"))?)
    }
}
