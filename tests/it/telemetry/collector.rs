//! A collector of traces, as the gate meets one: it takes OTLP over HTTP, and keeps what it got.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use tokio::net::TcpListener;

/// A span, in words.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    /// Trace and span.
    pub(super) links: Vec<(String, String)>,
    pub(super) attributes: HashMap<String, String>,
    pub(super) failed: bool,
}

impl Span {
    #[track_caller]
    pub(super) fn says(&self, attributes: &[(&str, &str)]) {
        for (key, value) in attributes {
            let found = self.attributes.get(*key).map(String::as_str);
            assert_eq!(found, Some(*value), "{key} of {self:#?}");
        }
    }
}

#[derive(Default)]
struct Got {
    spans: Vec<Span>,
    resource: HashMap<String, String>,
    headers: HeaderMap,
}

/// The collector.
pub(super) struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Got>>,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let got = Arc::new(Mutex::new(Got::default()));
        let take = async |State(got): State<Arc<Mutex<Got>>>, headers: HeaderMap, body: Bytes| {
            take(&got, headers, &body);
            StatusCode::OK
        };
        let app = Router::new().route("/v1/traces", routing::post(take)).with_state(Arc::clone(&got));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, got }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.got.lock().expect("nobody panicked").spans.clone()
    }

    pub(super) fn resource(&self) -> HashMap<String, String> {
        self.got.lock().expect("nobody panicked").resource.clone()
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let got = self.got.lock().expect("nobody panicked");
        got.headers.get(name).map(|value| value.to_str().expect("a text").to_owned())
    }

    /// The only span of this name.
    #[track_caller]
    pub(super) fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let mut found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name} among {:?}", names(&spans));
        found.remove(0).clone()
    }

    /// The names of what stands right beneath this span, in the order of their ends.
    pub(super) fn beneath(&self, span: &Span) -> Vec<String> {
        let spans = self.spans();
        names(&spans.into_iter().filter(|one| one.parent == span.id).collect::<Vec<_>>())
    }
}

pub(super) fn names(spans: &[Span]) -> Vec<String> {
    spans.iter().map(|span| span.name.clone()).collect()
}

fn take(got: &Mutex<Got>, headers: HeaderMap, body: &[u8]) {
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
    let mut got = got.lock().expect("nobody panicked");
    got.headers = headers;
    for of_resource in request.resource_spans {
        got.resource = words(&of_resource.resource.unwrap_or_default().attributes);
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let ids = |link: &opentelemetry_proto::tonic::trace::v1::span::Link| {
                (hex::encode(&link.trace_id), hex::encode(&link.span_id))
            };
            got.spans.push(Span {
                kind: span.kind(),
                trace: hex::encode(&span.trace_id),
                id: hex::encode(&span.span_id),
                parent: hex::encode(&span.parent_span_id),
                links: span.links.iter().map(ids).collect(),
                attributes: words(&span.attributes),
                failed: span.status.is_some_and(|status| status.code == 2),
                name: span.name,
            });
        }
    }
}

fn words(attributes: &[KeyValue]) -> HashMap<String, String> {
    let word = |attribute: &KeyValue| {
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        let text = match value {
            Some(Any::StringValue(text)) => text.clone(),
            Some(Any::BoolValue(value)) => value.to_string(),
            Some(Any::IntValue(value)) => value.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key.clone(), text)
    };
    attributes.iter().map(word).collect()
}
