//! `oncegate serve`: the gate itself.

use clap::Args;

use super::failure::Failure;
use crate::app::{self, AppFault};
use crate::config::{ConfigFlags, Layers};
use crate::store::StoreError;

/// Runs the gate until it is told to stop (SIGTERM, SIGINT).
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigFlags,
}

impl Serve {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let config = Layers::load(&self.config).and_then(|layers| layers.serve()).map_err(Failure::config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(app::serve(config, self.config.clone())).map_err(|fault| {
            let unfit = matches!(fault, AppFault::Store(StoreError::Unfit(_)));
            if unfit || fault.is_configuration() { Failure::config(fault) } else { Failure::failed(fault) }
        })
    }
}
