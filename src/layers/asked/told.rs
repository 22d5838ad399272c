//! What is told of a call when it is over: a line in the log, its time among the counts, its span.
//!
//! Promises: it is told once, when nothing of the call runs any more and whoever hung up; of what its rows say, the last
//! one counts. A line has what a person needs to find the call in the audit, by its trace, and no more.
//!
//! Absent on purpose: keys, users and sessions. The audit has them.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::Method;
use tracing::info;
use uuid::Uuid;

use crate::domain::actor::Actor;
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::policy::{Operation, Policy};
use crate::layers::authorize::short;
use crate::layers::observe::{Post, Trace};
use crate::mcp::message::Request;
use crate::traces::Span;

const TOOL_CALL: &str = "tools/call";

/// What is known of it so far.
#[derive(Debug)]
pub(super) struct Told {
    /// Where it is told; none for a call that stands inside another, of which only its span is.
    pub(super) post: Option<Post>,
    /// The request's method.
    pub(super) method: Method,
    /// The trace by which it came, as its request says.
    pub(super) trace: Trace,
    /// The same as its message says, which is nearer to whoever made it.
    pub(super) message: OnceLock<Trace>,
    /// The way to its operation: the message's method, or the template of its route.
    way: OnceLock<String>,
    /// When its answer was there, in nanoseconds since it began, and its HTTP status; nought before.
    answered: (AtomicU64, AtomicU16),
    came: Mutex<Option<Came>>,
}

/// What came of it, by its row.
#[derive(Debug)]
struct Came {
    decision: Decision,
    reason: Option<String>,
    executed: Executed,
    attempt: Option<Uuid>,
}

impl Told {
    pub(super) fn new(post: Option<Post>, method: Method, trace: Trace) -> Self {
        let (message, way, came) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { post, method, trace, message, way, answered: Default::default(), came }
    }

    /// Its trace.
    pub(super) fn trace(&self) -> &Trace {
        self.message.get().unwrap_or(&self.trace)
    }

    /// Its span.
    pub(super) fn span(&self) -> &Span {
        &self.trace().span
    }

    /// Its answer is there.
    pub(super) fn answered(&self, after: Duration, status: Option<u16>) {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.answered.0.store(nanos, Ordering::Relaxed);
        if let Some(status) = status {
            self.answered.1.store(status, Ordering::Relaxed);
        }
    }

    /// Its row says this.
    pub(super) fn came_to(&self, event: &AuditEvent) {
        self.came(event.decision, event.reason.clone(), event.executed, event.facts.attempt_id);
    }

    /// It was refused without a row.
    pub(super) fn refused(&self, reason: &str) {
        self.came(Decision::Denied, Some(reason.to_owned()), Executed::No, None);
    }

    fn came(&self, decision: Decision, reason: Option<String>, executed: Executed, attempt: Option<Uuid>) {
        let came = Came { decision, reason, executed, attempt };
        *self.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
    }

    /// It stands inside a tool call, and is one itself.
    pub(super) fn is_tool_call(&self) {
        self.way.get_or_init(|| TOOL_CALL.to_owned());
    }

    /// It is this message.
    pub(super) fn is_message(&self, request: &Request, version: Option<&str>) {
        self.way.get_or_init(|| short(&request.method));
        let span = self.span();
        if !span.is_recording() {
            return;
        }
        span.set_text("mcp.method.name", &short(&request.method));
        if let Some(version) = version {
            span.set_text("mcp.protocol.version", &short(version));
        }
        if let Some(id) = &request.id {
            let text = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            span.set_text("jsonrpc.request.id", &short(&text));
        }
    }

    /// It is a call of this operation, if the policy has it. Other names come from outside: nothing is named by them.
    pub(super) fn is_call(&self, policy: &Policy, facts: &Facts, operation: Option<&Operation>) {
        let template = operation.and_then(Operation::route).map(|route| route.template().as_str());
        if let Some(template) = template {
            self.way.get_or_init(|| template.to_owned());
        }
        let span = self.span();
        if !span.is_recording() {
            return;
        }
        let method = self.way.get().map_or("", String::as_str);
        match (operation, template) {
            (_, Some(template)) => {
                span.set_text("http.route", template);
                span.name(format!("{} {template}", self.method));
            }
            (Some(operation), None) => span.name(format!("{method} {}", operation.name())),
            (None, None) => {}
        }
        span.set_text("oncegate.operation", operation.map_or("other", Operation::name));
        if method == TOOL_CALL {
            span.set("gen_ai.operation.name", "execute_tool");
            span.set_text("gen_ai.tool.name", &facts.tool);
        }
        span.set_text("oncegate.policy.version", policy.version());
    }

    /// It is over: says what came of it.
    pub(super) fn end(&mut self, began: Duration, facts: Option<&Facts>, actor: Option<&Actor>) {
        let (nanos, status) = (*self.answered.0.get_mut(), Some(*self.answered.1.get_mut()));
        let status = status.filter(|status| *status != 0);
        let took = if nanos == 0 { began } else { Duration::from_nanos(nanos) };
        let came = self.came.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.end_span(status, came.as_ref());
        let Some(post) = &self.post else { return };
        if let Some(facts) = facts {
            post.meter.call_took(&post.service, &facts.tool, took);
        }
        info!(
            method = %self.method,
            way = self.way.get().map(String::as_str),
            tool = facts.map(|facts| facts.tool.as_str()),
            decision = came.as_ref().map(|came| came.decision.as_str()),
            reason = came.as_ref().and_then(|came| came.reason.as_deref()),
            executed = came.as_ref().map(|came| came.executed.as_str()),
            status,
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            tenant = actor.map(Actor::tenant),
            service = %post.service,
            trace_id = self.trace().id,
            "{}",
            if status.is_some() { "Answered." } else { "Not answered: its client had gone." }
        );
    }

    fn end_span(&self, status: Option<u16>, came: Option<&Came>) {
        let span = self.span();
        if let (true, Some(came)) = (span.is_recording(), came) {
            span.set("oncegate.decision", came.decision.as_str());
            span.set("oncegate.executed", came.executed.as_str());
            span.set("oncegate.replayed", came.decision == Decision::Replayed);
            if let Some(reason) = &came.reason {
                span.set_text("oncegate.reason", reason);
            }
            if let Some(attempt) = came.attempt {
                span.set("oncegate.attempt_id", attempt.to_string());
            }
        }
        if let Some(status) = status {
            self.trace.span.set("http.response.status_code", i64::from(status));
            if status >= 500 {
                self.trace.span.failed(&status.to_string());
            }
        }
        span.end();
        self.trace.span.end();
    }
}
