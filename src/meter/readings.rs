//! Counts that are read where they stand, whenever somebody asks.
//!
//! Promises: reading takes no lock that a call waits for longer than for a number, and asks no store and no upstream.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::names::OfListener;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Places for calls that run.
    Places,
    /// Calls that have one.
    Running,
    /// Places for calls that wait for one.
    QueuePlaces,
    /// Calls that wait for one.
    Queued,
    /// Audit rows that wait in memory.
    AuditQueued,
    /// Whether the store is known to be away.
    StoreAway,
}

impl Reading {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Places, Self::Running, Self::QueuePlaces, Self::Queued, Self::AuditQueued, Self::StoreAway];

    const fn name(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Running => "calls_running",
            Self::QueuePlaces => "queue_places",
            Self::Queued => "calls_queued",
            Self::AuditQueued => "audit_queued",
            Self::StoreAway => "store_away",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::Places => "Places for calls that run at one time",
            Self::Running => "Calls that have a place",
            Self::QueuePlaces => "Places for calls that wait for a place to run in",
            Self::Queued => "Calls that wait for a place to run in",
            Self::AuditQueued => "Audit rows of reads that wait in memory for the store",
            Self::StoreAway => "Whether the store is known to be away: 1, or 0",
        }
    }
}

type Read = Box<dyn Fn() -> usize + Send + Sync>;

/// Where it is read.
#[derive(Default)]
pub(super) struct Readings(Mutex<Vec<(Reading, OfListener, Read)>>);

impl Readings {
    /// Reads this, too.
    pub(super) fn add(&self, what: Reading, listener: OfListener, read: Read) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((what, listener, read));
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").finish_non_exhaustive()
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for what in Reading::ALL {
            let mut of_this = readings.iter().filter(|(reading, _, _)| *reading == what).peekable();
            if of_this.peek().is_none() {
                continue;
            }
            let mut metric = encoder.encode_descriptor(what.name(), what.help(), None, MetricType::Gauge)?;
            for (_, listener, read) in of_this {
                let value = i64::try_from(read()).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(listener)?)?;
            }
        }
        Ok(())
    }
}
