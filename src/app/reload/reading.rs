//! Everything that the files say, read anew.
//!
//! Promises: it is read by what a start reads it with, so what one takes the other takes; every mistake in any of it is
//! told at once.

use crate::app::policies::Policies;
use crate::config::{ConfigFlags, Fixed, Layers, NamedFiles, ServeConfig};
use crate::domain::mistake::{Mistake, Mistakes, Place};

/// What they say.
pub(super) struct Read {
    pub(super) config: ServeConfig,
    /// What of it the next start only can take.
    pub(super) fixed: Fixed,
    pub(super) policies: Policies,
}

/// Reads it, in a thread that may wait. Which files are named is known too where there is a mistake in them, unless the
/// configuration itself cannot be read.
pub(super) async fn read(flags: &ConfigFlags) -> (Option<NamedFiles>, Result<Read, Mistakes>) {
    let flags = flags.clone();
    let reading = tokio::task::spawn_blocking(move || read_now(&flags)).await;
    reading.unwrap_or_else(|_| {
        (None, Err(Mistake::new(Place::Settings, "reading them ended without a word").into()))
    })
}

fn read_now(flags: &ConfigFlags) -> (Option<NamedFiles>, Result<Read, Mistakes>) {
    let layers = match Layers::load(flags) {
        Ok(layers) => layers,
        Err(mistakes) => return (None, Err(mistakes)),
    };
    (Some(layers.named()), read_layers(&layers))
}

fn read_layers(layers: &Layers) -> Result<Read, Mistakes> {
    let mut config = layers.serve()?;
    let fixed = config.fixed();
    let policies = Policies::load(&mut config)?;
    Ok(Read { config, fixed, policies })
}
