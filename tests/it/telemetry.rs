//! What a gate tells of itself to whoever watches many: counts, traces, log lines.
//!
//! Promises: counts are read by a real promtool and a real Prometheus; spans come over a real socket.

mod collector;
mod dashboards;
mod logs;
mod metrics;
mod prometheus;
mod traces;
