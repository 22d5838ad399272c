//! Traces, as they are configured.
//!
//! Promises: where none are wanted, nothing is begun.

use std::sync::Arc;

use tracing::info;

use crate::config::TracesConfig;
use crate::meter::Meter;
use crate::traces::{Sending, Settings, Tracer, TracesFault};

/// Begins to tell of calls, where somebody is to hear of them.
pub(super) fn begin(
    config: Option<TracesConfig>,
    service: &str,
    store_url: &str,
    meter: &Arc<Meter>,
) -> Result<(Tracer, Sending), TracesFault> {
    let Some(TracesConfig { url, headers, ca_file, sample_ratio, .. }) = config else {
        return Ok((Tracer::default(), Sending::default()));
    };
    info!(%url, sample_ratio, "Traces are told.");
    let store = if store_url.starts_with("sqlite:") { "sqlite" } else { "postgresql" };
    let service = service.to_owned();
    Tracer::begin(Settings { url, headers, ca_file, sample_ratio, service, store }, Arc::clone(meter))
}
