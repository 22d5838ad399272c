//! Spans, as the steps of a call have them.
//!
//! Promises: a span that nobody wants is nothing: making it, setting its attributes and ending it does no work. Texts in
//! attributes are cut, since clients write them.

use std::ops::Deref;
use std::sync::Arc;

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};

use super::{On, Tracer};

/// The longest text of an attribute, in characters.
const LONGEST: usize = 256;

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request that came in.
    Server,
    /// One that went out.
    Client,
    /// Work of the gate itself.
    Internal,
}

/// Another program's span.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// 32 hexadecimal digits.
    pub trace_id: &'a str,
    /// 16.
    pub span_id: &'a str,
    /// Whether its trace is told.
    pub sampled: bool,
    /// What vendors say beside it.
    pub state: Option<&'a str>,
}

impl Remote<'_> {
    fn context(self) -> Option<SpanContext> {
        let (trace, span) = (TraceId::from_hex(self.trace_id).ok()?, SpanId::from_hex(self.span_id).ok()?);
        let flags = if self.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let state = self.state.and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
        Some(SpanContext::new(trace, span, flags, true, state)).filter(SpanContext::is_valid)
    }
}

/// A span, or none. Cheap to clone; it ends with [`Span::end`], or with the last clone.
#[derive(Clone, Debug, Default)]
pub struct Span(Option<Arc<Live>>);

struct Live {
    on: Arc<On>,
    context: Context,
    recording: bool,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.context.fmt(f)
    }
}

/// A step of a call: a span that ends when this is dropped.
#[derive(Debug, Default)]
pub struct Step(Span);

impl Tracer {
    /// The span of a request that came in; beneath that of whoever sent it, if it says so.
    pub fn request(&self, name: &'static str, parent: Option<Remote<'_>>) -> Span {
        let Some(on) = &self.0 else { return Span::default() };
        let parent = parent.and_then(Remote::context);
        let under =
            parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        Span::begin(on, name, Kind::Server, &under)
    }
}

impl Span {
    fn begin(on: &Arc<On>, name: &'static str, kind: Kind, under: &Context) -> Self {
        let kind = match kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        };
        let builder = on.tracer.span_builder(name).with_kind(kind);
        let context = Context::new().with_span(on.tracer.build_with_context(builder, under));
        let recording = context.span().is_recording();
        Self(Some(Arc::new(Live { on: Arc::clone(on), context, recording })))
    }

    /// The span, where somebody wants what it says.
    fn recording(&self) -> Option<&Live> {
        self.0.as_deref().filter(|live| live.recording)
    }

    /// Whether somebody wants what it says.
    pub fn is_recording(&self) -> bool {
        self.recording().is_some()
    }

    /// A span beneath this one, where this one is told.
    #[must_use]
    pub fn under(&self, name: &'static str, kind: Kind) -> Self {
        self.recording().map(|live| Self::begin(&live.on, name, kind, &live.context)).unwrap_or_default()
    }

    /// The span of a message that stands beneath another program's, and came with the request of this one.
    #[must_use]
    pub fn message(&self, name: &'static str, parent: Remote<'_>) -> Self {
        let (Some(live), Some(parent)) = (&self.0, parent.context()) else { return Self::default() };
        let under = Context::new().with_remote_span_context(parent);
        let message = Self::begin(&live.on, name, Kind::Server, &under);
        if let Some(message) = message.recording() {
            message.context.span().add_link(live.context.span().span_context().clone(), Vec::new());
        }
        message
    }

    /// A step beneath this span.
    pub fn step(&self, name: &'static str) -> Step {
        Step(self.under(name, Kind::Internal))
    }

    /// The step beneath this span that asks the store.
    pub fn store(&self, operation: &'static str) -> Step {
        let step = Step(self.under("store", Kind::Client));
        if let Some(live) = step.recording() {
            step.set("db.system.name", live.on.store);
            step.set("db.operation.name", operation);
            step.name(format!("store {operation}"));
        }
        step
    }

    /// Says something.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(live) = self.recording() {
            live.context.span().set_attribute(KeyValue::new(key, value.into()));
        }
    }

    /// Says something in a text that somebody else wrote.
    pub fn set_text(&self, key: &'static str, text: &str) {
        if self.is_recording() {
            self.set(key, text.chars().take(LONGEST).collect::<String>());
        }
    }

    /// Has another name from now on.
    pub fn name(&self, name: String) {
        if let Some(live) = self.recording() {
            live.context.span().update_name(name);
        }
    }

    /// What it is about went wrong: in this way.
    pub fn failed(&self, kind: &str) {
        if let Some(live) = self.recording() {
            live.context.span().set_attribute(KeyValue::new("error.type", kind.to_owned()));
            live.context.span().set_status(Status::error(""));
        }
    }

    /// Belongs together with an earlier span of another trace.
    pub fn link(&self, other: Remote<'_>) {
        if let (Some(live), Some(other)) = (self.recording(), other.context()) {
            live.context.span().add_link(other, Vec::new());
        }
    }

    /// Is over.
    pub fn end(&self) {
        if let Some(live) = &self.0 {
            live.context.span().end();
        }
    }

    /// Trace and span as W3C writes them, and the trace's id; none where there is no tracer.
    pub fn ids(&self) -> Option<(String, String)> {
        let live = self.0.as_ref()?;
        let span = live.context.span();
        let ids = span.span_context();
        let (trace, flags) = (ids.trace_id().to_string(), u8::from(ids.is_sampled()));
        Some((format!("00-{trace}-{}-{flags:02x}", ids.span_id()), trace))
    }

    /// The span's own id, where it is told.
    pub fn own_id(&self) -> Option<String> {
        self.recording().map(|live| live.context.span().span_context().span_id().to_string())
    }
}

impl Deref for Step {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.0
    }
}

impl From<Span> for Step {
    fn from(span: Span) -> Self {
        Self(span)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.end();
    }
}
