//! What a gate tells of itself to whoever watches many: counts, traces, log lines.
//!
//! Promises: counts are read by a real promtool and a real Prometheus.

mod metrics;
mod prometheus;
