//! What is counted of reloads.
//!
//! Promises: an alert can be built on the gauges alone: they stand from the start on, whether or not anybody reloads.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    result: &'static str,
}

/// Counts them.
#[derive(Debug, Default)]
pub struct Reloads {
    tried: Family<Of, Counter>,
    good: Gauge,
    good_at: Gauge,
    waits: Gauge,
}

impl Reloads {
    /// None yet: what is in force was read at start.
    pub(super) fn begin(&self, registry: &mut Registry) {
        registry.register("policy_reloads", "Reloads, by their result: ok or failed", self.tried.clone());
        registry.register(
            "policy_last_reload_successful",
            "1 where the policy and the settings in force are those of the files; 0 where the last reload failed",
            self.good.clone(),
        );
        registry.register(
            "policy_last_reload_success_timestamp_seconds",
            "When they were last read without a mistake",
            self.good_at.clone(),
        );
        registry.register(
            "settings_waiting_for_restart",
            "Settings that were changed in the files and take effect with the next start",
            self.waits.clone(),
        );
        // Both are there before the first of their kind: a count that appears out of nothing raises no alert.
        for result in ["ok", "failed"] {
            drop(self.tried.get_or_create(&Of { result }));
        }
        self.stands(true);
    }

    /// One more was told.
    pub fn told(&self, good: bool) {
        self.tried.get_or_create(&Of { result: if good { "ok" } else { "failed" } }).inc();
        self.stands(good);
    }

    /// How many settings wait for a restart.
    pub fn wait(&self, settings: usize) {
        self.waits.set(i64::try_from(settings).unwrap_or(i64::MAX));
    }

    fn stands(&self, good: bool) {
        self.good.set(i64::from(good));
        if good {
            self.good_at.set(jiff::Timestamp::now().as_second());
        }
    }
}
