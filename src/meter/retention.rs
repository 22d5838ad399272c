//! What is counted of what is deleted. Only the gate that leads counts: the sum over all gates is the whole.

use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts of what is deleted.
#[derive(Debug, Default)]
pub struct Retention {
    claims: Counter,
    rows: Counter,
    partitions: Counter,
    leads: Gauge,
    last_run: Gauge<f64, AtomicU64>,
}

impl Retention {
    /// Puts them where they are read.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("pruned_claims", "Expired claims that this gate deleted", self.claims.clone());
        registry.register(
            "pruned_audit_rows",
            "Audit rows that this gate deleted, one by one or, as the server estimates them, by the week",
            self.rows.clone(),
        );
        registry.register(
            "dropped_audit_partitions",
            "Weeks of the audit that this gate dropped",
            self.partitions.clone(),
        );
        registry.register(
            "retention_leader",
            "Whether this gate deletes what is too old, for all that share the store",
            self.leads.clone(),
        );
        registry.register(
            "retention_last_run_timestamp_seconds",
            "When this gate last went through all that may be deleted; 0: never",
            self.last_run.clone(),
        );
    }

    /// Counts claims that were deleted.
    pub fn claims(&self, claims: u64) {
        self.claims.inc_by(claims);
    }

    /// Counts audit rows that went, and the partition that they went with.
    pub fn audit(&self, rows: u64, partition: bool) {
        self.rows.inc_by(rows);
        self.partitions.inc_by(u64::from(partition));
    }

    /// Says whether this gate leads.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Notes that it went through all that may go.
    #[expect(
        clippy::disallowed_methods,
        reason = "it is for whoever watches gates, by the clock of what scrapes them"
    )]
    pub fn ran(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_run.set(now.as_secs_f64());
    }
}
