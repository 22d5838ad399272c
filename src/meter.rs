//! What is counted, for whoever watches many gates.
//!
//! Promises: every audit row is counted once, when it is decided, and so is a refusal that nobody known asked for; no
//! client and no upstream can make the labels many: a tool that the policy does not name is `other`, and of hidden
//! tools only the first [`MOST_HIDDEN`] have their own name.
//!
//! Absent on purpose: tenants, users and keys as labels. There is no end to them, and the audit has them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::domain::audit::{AuditEvent, Decision};
use crate::domain::policy::Policy;

/// The media type of [`Meter::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many hidden tools are counted by their own names.
pub const MOST_HIDDEN: usize = 256;

/// The label of what has no name of its own.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    tool: String,
    decision: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTool {
    tool: String,
}

/// Counts.
#[derive(Debug)]
pub struct Meter {
    registry: Registry,
    calls: Family<OfCall, Counter>,
    hidden: Family<OfTool, Counter>,
    waiting: Gauge,
    spooled: Gauge,
    /// The operations that have a name of their own.
    known: ArcSwap<HashSet<String>>,
    seen_hidden: Mutex<HashSet<String>>,
}

impl Meter {
    /// All counts at nought, for operations of this policy.
    pub fn new(policy: &Policy) -> Self {
        Self::of([policy])
    }

    /// All counts at nought, for operations of these policies.
    pub fn of<'p>(policies: impl IntoIterator<Item = &'p Policy>) -> Self {
        let mut registry = Registry::with_prefix("oncegate");
        let (calls, hidden, spooled) = (Family::default(), Family::default(), Gauge::default());
        registry.register("calls", "Calls, by what the audit says of them", calls.clone());
        registry.register(
            "hidden_tools",
            "Listings of a tool that the upstream has and the policy does not name",
            hidden.clone(),
        );
        let waiting = Gauge::default();
        registry.register(
            "calls_waiting",
            "Calls that wait for the running call with their key",
            waiting.clone(),
        );
        registry.register(
            "audit_spooled",
            "Rows and settlements that wait in the spool for the store",
            spooled.clone(),
        );
        let known = policies.into_iter().flat_map(Policy::operations);
        let known = known.map(|operation| operation.name().to_owned()).collect();
        Self {
            registry,
            calls,
            hidden,
            waiting,
            spooled,
            known: ArcSwap::from_pointee(known),
            seen_hidden: Mutex::default(),
        }
    }

    /// Counts a row that was decided.
    pub fn row(&self, event: &AuditEvent) {
        self.call(&event.facts.tool, event.decision, event.reason.as_deref());
    }

    /// Counts a call that was refused before anybody was known to ask.
    pub fn stranger(&self, tool: Option<&str>, reason: &str) {
        self.call(tool.unwrap_or_default(), Decision::Denied, Some(reason));
    }

    fn call(&self, tool: &str, decision: Decision, reason: Option<&str>) {
        let tool = if self.known.load().contains(tool) { tool } else { OTHER };
        let labels = OfCall {
            tool: tool.to_owned(),
            decision: decision.as_str(),
            reason: reason.unwrap_or_default().to_owned(),
        };
        self.calls.get_or_create(&labels).inc();
    }

    /// Counts a listed tool that the policy does not name. Says whether it is the first time that this name is met,
    /// as far as names are remembered.
    pub fn hidden(&self, tool: &str) -> bool {
        let mut seen = self.seen_hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = seen.len() < MOST_HIDDEN && !seen.contains(tool) && seen.insert(tool.to_owned());
        let tool = if seen.contains(tool) { tool } else { OTHER };
        self.hidden.get_or_create(&OfTool { tool: tool.to_owned() }).inc();
        is_new
    }

    /// Counts a call as waiting, until what this returns is dropped.
    pub fn waiting(&self) -> Waiting {
        self.waiting.inc();
        Waiting(self.waiting.clone())
    }

    /// Says how much waits in the spool.
    pub fn spooled(&self, records: usize) {
        self.spooled.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// How many records wait in the spool.
    pub fn spooled_now(&self) -> u64 {
        u64::try_from(self.spooled.get()).unwrap_or(0)
    }

    /// Every count, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A String takes whatever is written to it.
        let _whole = encode(&mut text, &self.registry).is_ok();
        text
    }
}

/// A call that waits.
#[derive(Debug)]
pub struct Waiting(Gauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}
