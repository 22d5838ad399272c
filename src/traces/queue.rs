//! Where spans wait until they are sent, many at once.
//!
//! Promises: whoever ends a span waits for nothing; no more than [`PLACES`] wait; each is counted as sent or as lost. A
//! collector that takes none is told of once, and tried again after a pause that grows; so is the end of that.
//!
//! Absent on purpose: sending again. A span that a collector did not take is lost.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::collector::Why;
use crate::meter::{Meter, Spans};

/// How many spans may wait.
const PLACES: usize = 4096;

/// How many are sent at once.
const AT_ONCE: usize = 512;

/// How long a span waits for company.
const EVERY: Duration = Duration::from_secs(2);

/// How long is waited after a failure: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The queue's inlet.
#[derive(Debug)]
pub(super) struct Queue {
    inlet: mpsc::Sender<SpanData>,
    meter: Arc<Meter>,
}

impl Queue {
    /// An empty one, and its outlet.
    pub(super) fn new(meter: Arc<Meter>) -> (Self, mpsc::Receiver<SpanData>) {
        let (inlet, outlet) = mpsc::channel(PLACES);
        (Self { inlet, meter }, outlet)
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.inlet.try_send(span).is_err() {
            self.meter.spans(Spans::Lost, 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends spans as they come, until this is cancelled; then what still waits.
pub(super) async fn send<E: SpanExporter>(
    exporter: E,
    why: Why,
    mut outlet: mpsc::Receiver<SpanData>,
    meter: Arc<Meter>,
    stop: CancellationToken,
) {
    let mut batch = Vec::with_capacity(AT_ONCE);
    let mut pause = None;
    loop {
        gather(&mut outlet, &mut batch, &stop).await;
        if batch.is_empty() {
            return;
        }
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        if exporter.export(std::mem::take(&mut batch)).await.is_ok() {
            meter.spans(Spans::Sent, spans);
            if pause.take().is_some() {
                info!("The collector takes spans again.");
            }
            continue;
        }
        meter.spans(Spans::Lost, spans);
        let wait = pause.map_or(PAUSES.0, |last: Duration| (last * 2).min(PAUSES.1));
        if pause.replace(wait).is_none() {
            let why = why.lock().unwrap_or_else(PoisonError::into_inner).clone();
            warn!(why, "The collector does not take spans; they are dropped, and counted, until it does.");
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Waits for a span, and a little for others. Leaves the batch empty once it is over.
async fn gather(outlet: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>, stop: &CancellationToken) {
    tokio::select! {
        _first = outlet.recv_many(batch, AT_ONCE) => {}
        () = stop.cancelled() => {
            outlet.close();
            outlet.recv_many(batch, AT_ONCE).await;
            return;
        }
    }
    let due = Instant::now() + EVERY;
    while !batch.is_empty() && batch.len() < AT_ONCE {
        let room = AT_ONCE - batch.len();
        tokio::select! {
            more = timeout_at(due, outlet.recv_many(batch, room)) => {
                if !matches!(more, Ok(1..)) {
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
    }
}
