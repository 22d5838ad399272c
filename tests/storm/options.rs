//! What can be asked of a storm, and the plan that follows.
//!
//! Promises: without a word it is the short form, which CI runs: a storm on each store, then the first sabotages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::{Fallible, sabotage};

/// Breaks everything around the gate, many times, and checks what came of it.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// Only on this store.
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// How long each storm blows. More than the short form: no sabotages, unless they are asked for.
    #[arg(long)]
    minutes: Option<f64>,
    /// What every choice is drawn from; printed at the start.
    #[arg(long)]
    seed: Option<u64>,
    /// How many clients call at a time.
    #[arg(long, default_value_t = 96)]
    clients: usize,
    /// The gate to try.
    #[arg(long, default_value = "target/debug/oncegate")]
    gate: PathBuf,
    /// Only sabotages, by name, or `all`: each must be found.
    #[arg(long, value_delimiter = ',')]
    sabotages: Vec<String>,
}

/// Where claims live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// A cluster of the storm's own, three gates.
    Postgres,
    /// A file, one gate.
    Sqlite,
}

/// One storm.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) store: Store,
    pub(crate) gates: usize,
    pub(crate) clients: usize,
    pub(crate) blows: Duration,
    pub(crate) seed: u64,
    pub(crate) gate: PathBuf,
    /// Whether the first violation ends it.
    pub(crate) until_found: bool,
}

impl Options {
    /// The storms to blow.
    pub(crate) fn storms(&self) -> Vec<Plan> {
        if !self.sabotages.is_empty() {
            return Vec::new();
        }
        let seed = self.seed();
        let stores = self.store.map_or(vec![Store::Postgres, Store::Sqlite], |store| vec![store]);
        stores.into_iter().map(|store| self.plan(store, seed)).collect()
    }

    /// The sabotages to find.
    pub(crate) fn sabotages(&self) -> Fallible<Vec<String>> {
        let short = self.minutes.is_none() && self.store.is_none();
        match self.sabotages.as_slice() {
            [] if short => Ok(sabotage::SHORT.map(str::to_owned).to_vec()),
            [all] if all == "all" => sabotage::all(),
            named => Ok(named.to_vec()),
        }
    }

    /// A storm on this store.
    pub(crate) fn plan(&self, store: Store, seed: u64) -> Plan {
        let (gates, short) = match store {
            Store::Postgres => (3, Duration::from_secs(40)),
            Store::Sqlite => (1, Duration::from_secs(25)),
        };
        let blows = self.minutes.map_or(short, |minutes| Duration::from_secs_f64(minutes * 60.0));
        let gate = self.gate.clone();
        Plan { store, gates, clients: self.clients, blows, seed, gate, until_found: false }
    }

    /// The seed, or one of the clock's.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000))
    }
}

impl Plan {
    /// Its settings, so that it can be blown again.
    pub(crate) fn headline(&self) -> String {
        let Self { store, gates, clients, blows, seed, gate, .. } = self;
        format!(
            "storm: {store:?}, seed {seed}, {} s, {gates} gate(s) of {}, {clients} clients",
            blows.as_secs(),
            gate.display()
        )
    }
}
