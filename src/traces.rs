//! Traces: what a call went through, told to whoever follows it through many programs, by OTLP over HTTP.
//!
//! Promises: where no collector is configured nothing is made, and a span of a trace that is not sampled costs no more than
//! its ids. Where one is, a collector that is away, slow or hostile costs spans and nothing else: they wait in a queue that
//! has an end, what finds no place is dropped and counted, and it is told once. What waits is sent before the gate ends.
//!
//! Absent on purpose: arguments, results, keys, tokens, sessions, tenants and users, and paths as clients write them.
//! Collectors are many hands; the audit has all of it, by the trace's id.

mod collector;
mod queue;
mod span;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use self::collector::Collector;
use self::queue::Queue;
pub use self::span::{Kind, Remote, Span, Step};
use crate::meter::Meter;
use crate::tls::{TlsFault, Trust};

/// Where spans go, and how many.
pub struct Settings {
    /// The collector's address for traces, path and all.
    pub url: Uri,
    /// What every request there carries besides: access, say.
    pub headers: HeaderMap,
    /// Certificates (PEM) that may sign the collector's, where not the system's.
    pub ca_file: Option<PathBuf>,
    /// Of traces that begin here, so many are told: 1 is all. Whoever calls says it of its own.
    pub sample_ratio: f64,
    /// The gate's `service`.
    pub service: String,
    /// What the store is, as the conventions call it.
    pub store: &'static str,
}

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TracesFault {
    /// The collector's certificates.
    #[error("the collector cannot be trusted")]
    Tls(#[source] TlsFault),
    /// The exporter refuses its settings.
    #[error("spans cannot be sent")]
    Exporter(#[source] ExporterBuildError),
}

/// Makes spans, where that is wanted. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<On>>);

/// A tracer that is on.
struct On {
    tracer: SdkTracer,
    store: &'static str,
    /// Spans end with it.
    _provider: SdkTracerProvider,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tracer(on)" } else { "Tracer(off)" })
    }
}

/// The way out of spans.
#[derive(Default)]
pub struct Sending(Option<(CancellationToken, JoinHandle<()>)>);

impl Tracer {
    /// One that makes spans, and the way on which they leave.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn begin(settings: Settings, meter: Arc<Meter>) -> Result<(Self, Sending), TracesFault> {
        let trust = Trust::read(settings.ca_file.as_deref()).map_err(TracesFault::Tls)?;
        let collector = Collector::new(trust.client(), settings.headers);
        let why = collector.why();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(settings.url.to_string());
        let mut exporter = exporter.build().map_err(TracesFault::Exporter)?;
        let resource = resource(&settings.service);
        opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &resource);
        let (queue, outlet) = Queue::new(Arc::clone(&meter));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample_ratio))))
            .with_resource(resource)
            .build();
        let stop = CancellationToken::new();
        let sending = tokio::spawn(queue::send(exporter, why, outlet, meter, stop.clone()));
        let on = On { tracer: provider.tracer("oncegate"), store: settings.store, _provider: provider };
        Ok((Self(Some(Arc::new(on))), Sending(Some((stop, sending)))))
    }
}

impl Sending {
    /// Sends what waits, and waits for that a little.
    pub async fn end(self, patience: Duration) {
        let Some((stop, sending)) = self.0 else { return };
        stop.cancel();
        if timeout(patience, sending).await.is_err() {
            warn!("Some spans were not sent.");
        }
    }
}

/// What all spans say of this process. The environment may say otherwise, by the variables that every program knows.
fn resource(service: &str) -> Resource {
    let named = std::env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty())
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|all| all.contains("service.name="));
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name(format!("oncegate-{service}")) };
    resource
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", Uuid::new_v4().to_string()),
            KeyValue::new("oncegate.service", service.to_owned()),
        ])
        .build()
}
