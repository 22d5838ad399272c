//! Everything that the files say, read anew.
//!
//! Promises: it is read by what a start reads it with, so what one takes the other takes; every mistake in any of it is
//! told, those of one kind at once.

use std::path::Path;
use std::sync::Arc;

use crate::app::policies::Policies;
use crate::app::tokens::token_settings;
use crate::auth::{Newer, Verifier};
use crate::config::{ConfigFlags, Fixed, Layers, NamedFiles, ServeConfig};
use crate::domain::chain::Chain;
use crate::domain::mistake::{Mistake, Mistakes, Place};
use crate::tls::Trust;

/// What they say.
pub(super) struct Read {
    pub(super) config: Config,
    /// What of it the next start only can take.
    pub(super) fixed: Fixed,
    pub(super) policies: Policies,
    /// Whom the gate trusts to be the app.
    pub(super) app: Trust,
    /// Whom each listener trusts to be its provider, by the listener's name.
    pub(super) providers: Vec<(String, Trust)>,
    /// How tokens are judged, where that is not how they are.
    pub(super) auth: Option<Newer>,
}

/// What is taken of the configuration itself.
pub(super) type Config = Box<ServeConfig>;

/// Reads it, in a thread that may wait. Which files are named is known too where there is a mistake in them, unless the
/// configuration itself cannot be read.
pub(super) async fn read(
    flags: &ConfigFlags,
    verifier: &Arc<Verifier>,
) -> (Option<NamedFiles>, Result<Read, Mistakes>) {
    let flags = flags.clone();
    let reading = tokio::task::spawn_blocking(move || read_now(&flags)).await;
    let (named, read) = reading.unwrap_or_else(|_| {
        (None, Err(Mistake::new(Place::Settings, "reading them ended without a word").into()))
    });
    match read {
        Ok(read) => (named.clone(), with_keys(read, verifier, named.as_ref()).await),
        Err(mistakes) => (named, Err(mistakes)),
    }
}

fn read_now(flags: &ConfigFlags) -> (Option<NamedFiles>, Result<Read, Mistakes>) {
    let layers = match Layers::load(flags) {
        Ok(layers) => layers,
        Err(mistakes) => return (None, Err(mistakes)),
    };
    (Some(layers.named()), read_layers(&layers))
}

fn read_layers(layers: &Layers) -> Result<Read, Mistakes> {
    let mut config = Box::new(layers.serve()?);
    let fixed = config.fixed();
    let app = trust(config.upstream.ca_file.as_deref());
    let providers: Vec<_> = config
        .listeners
        .iter()
        .map(|listener| Ok((listener.name.clone(), trust(listener.provider.ca_file.as_deref())?)))
        .collect();
    let policies = Policies::load(&mut config);
    let mut mistakes: Vec<Mistake> = policies.as_ref().err().into_iter().flatten().cloned().collect();
    mistakes.extend(app.as_ref().err().cloned());
    mistakes.extend(providers.iter().filter_map(|read: &Result<_, Mistake>| read.as_ref().err().cloned()));
    Mistakes::none_in(mistakes)?;
    let providers = providers.into_iter().collect::<Result<_, _>>()?;
    Ok(Read { config, fixed, policies: policies?, app: app?, providers, auth: None })
}

/// The same, with the keys that tokens are checked with.
async fn with_keys(
    mut read: Read,
    verifier: &Verifier,
    named: Option<&NamedFiles>,
) -> Result<Read, Mistakes> {
    let settings = token_settings(read.config.auth.clone());
    read.auth = verifier.prepare(settings).await.map_err(|fault| {
        let message = format!("tokens could not be checked: {}", Chain(&fault));
        match named.and_then(|named| named.keys.as_deref()) {
            Some(path) => Mistake::in_file(path, message),
            None => Mistake::new(Place::Settings, message),
        }
    })?;
    Ok(read)
}

fn trust(ca_file: Option<&Path>) -> Result<Trust, Mistake> {
    Trust::read(ca_file).map_err(|fault| match ca_file {
        Some(path) => Mistake::in_file(path, Chain(&fault).to_string()),
        None => Mistake::new(Place::Settings, Chain(&fault).to_string()),
    })
}
