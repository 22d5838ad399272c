//! What is counted, for whoever watches many gates.
//!
//! Promises: every audit row is counted once, when it is decided, and so is a refusal that nobody known asked for; no
//! client and no upstream can make the labels many: a tool that the policy does not name is `other`, and of hidden
//! tools and of reasons only the first [`MOST_WORDS`] have their own name. Operations of a listener towards somebody else's
//! API are told from the gate's own by the label `listener`, which those do not have.
//!
//! Absent on purpose: tenants, users and keys as labels. There is no end to them, and the audit has them.

mod format;
mod names;
mod readings;
mod reloads;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use self::format::Format;
use self::names::{Known, OfCall, OfClaims, OfOperation, OfResult, OfTool, Words};
pub use self::readings::Reading;
use self::readings::Readings;
pub use self::reloads::Reloads;
pub use self::retention::Retention;
use crate::domain::audit::{AuditEvent, Decision};
use crate::domain::ledger::Status;
use crate::domain::policy::Policy;

/// How many hidden tools, and how many reasons, are counted by their own names.
pub const MOST_WORDS: usize = 256;

/// The bounds of how long calls take, in seconds: from an answer out of the ledger to an upstream's usual timeout.
const CALL: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0];

/// The same of what the store is asked to do: from a file's commit to the longest outage that is bridged.
const STORE: [f64; 14] =
    [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counts.
#[derive(Debug)]
pub struct Meter {
    registry: Registry,
    known: Known,
    calls: Family<OfCall, Counter>,
    reasons: Words,
    call_seconds: Times<OfTool>,
    upstream_seconds: Times<OfTool>,
    store_seconds: Times<OfOperation>,
    claims: Family<OfClaims, Gauge>,
    oldest: Family<OfClaims, Gauge<f64, std::sync::atomic::AtomicU64>>,
    hidden: Family<OfTool, Counter>,
    hidden_tools: Words,
    waiting: Gauge,
    spooled: Gauge,
    retention: Retention,
    reloads: Reloads,
    spans: Family<OfResult, Counter>,
    readings: Arc<Readings>,
}

/// What became of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spans {
    /// The collector took them.
    Sent,
    /// It did not, or they found no place in the queue.
    Lost,
}

impl Meter {
    /// All counts at nought, of a gate of this service.
    pub fn new(service: &str) -> Self {
        let meter = Self {
            registry: Registry::with_prefix("oncegate"),
            known: Known::at(service),
            calls: Family::default(),
            reasons: Words::up_to(MOST_WORDS),
            call_seconds: Family::new_with_constructor(|| Histogram::new(CALL)),
            upstream_seconds: Family::new_with_constructor(|| Histogram::new(CALL)),
            store_seconds: Family::new_with_constructor(|| Histogram::new(STORE)),
            claims: Family::default(),
            oldest: Family::default(),
            hidden: Family::default(),
            hidden_tools: Words::up_to(MOST_WORDS),
            waiting: Gauge::default(),
            spooled: Gauge::default(),
            retention: Retention::default(),
            reloads: Reloads::default(),
            spans: Family::default(),
            readings: Arc::default(),
        };
        meter.registered()
    }

    fn registered(mut self) -> Self {
        let all = &mut self.registry;
        all.register("calls", "Calls, by what the audit says of them", self.calls.clone());
        all.register(
            "call_seconds",
            "How long calls took, until their answer was there",
            self.call_seconds.clone(),
        );
        all.register("upstream_seconds", "How long the upstream took of that", self.upstream_seconds.clone());
        all.register("store_seconds", "How long the store took, by what it did", self.store_seconds.clone());
        all.register(
            "claims",
            "Claims in flight and unknown in the whole store: every gate of the service says the same",
            self.claims.clone(),
        );
        all.register(
            "claims_oldest_seconds",
            "How old the oldest of these claims is, nought where there is none",
            self.oldest.clone(),
        );
        all.register(
            "hidden_tools",
            "Listings of a tool that the upstream has and the policy does not name",
            self.hidden.clone(),
        );
        all.register(
            "calls_waiting",
            "Calls that wait for the running call with their key",
            self.waiting.clone(),
        );
        all.register(
            "audit_spooled",
            "Rows and settlements that wait in the spool for the store",
            self.spooled.clone(),
        );
        self.reloads.begin(all);
        all.register("spans", "Spans, by whether the collector took them", self.spans.clone());
        self.retention.register(all);
        all.register_collector(Box::new(Arc::clone(&self.readings)));
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.register("build", "Which release this is", build);
        self
    }

    /// The operations of this policy have names of their own from now on. Those of an earlier one keep theirs: calls that
    /// began under it end under it.
    pub fn know(&self, service: &str, policy: &Policy) {
        let names: Vec<_> = policy.operations().map(|operation| operation.name()).collect();
        self.known.add(service, &names);
    }

    /// What is counted of reloads.
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// Counts a row that was decided.
    pub fn row(&self, event: &AuditEvent) {
        let facts = &event.facts;
        self.call(&facts.service, &facts.tool, event.decision, event.reason.as_deref());
    }

    /// Counts a call that was refused before anybody was known to ask.
    pub fn stranger(&self, service: &str, tool: Option<&str>, reason: &str) {
        self.call(service, tool.unwrap_or_default(), Decision::Denied, Some(reason));
    }

    fn call(&self, service: &str, tool: &str, decision: Decision, reason: Option<&str>) {
        let (reason, _) = self.reasons.of(reason.unwrap_or_default());
        let labels = OfCall { tool: self.known.tool(service, tool), decision, reason };
        self.calls.get_or_create(&labels).inc();
    }

    /// How long a call took.
    pub fn call_took(&self, service: &str, tool: &str, time: Duration) {
        self.call_seconds.get_or_create(&self.known.tool(service, tool)).observe(time.as_secs_f64());
    }

    /// How long the upstream took of a call.
    pub fn upstream_took(&self, service: &str, tool: &str, time: Duration) {
        self.upstream_seconds.get_or_create(&self.known.tool(service, tool)).observe(time.as_secs_f64());
    }

    /// How long the store took.
    pub fn store_took(&self, operation: &'static str, time: Duration) {
        self.store_seconds.get_or_create(&OfOperation(operation)).observe(time.as_secs_f64());
    }

    /// So many claims of a service are in this state, and the oldest is so old.
    pub fn claims(&self, service: &str, status: Status, count: u64, oldest: Duration) {
        let labels = OfClaims { listener: self.known.listener(service), status: status.as_str() };
        self.claims.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        self.oldest.get_or_create(&labels).set(oldest.as_secs_f64());
    }

    /// Nobody knows any more how many they are.
    pub fn forget_claims(&self, service: &str, status: Status) {
        let labels = OfClaims { listener: self.known.listener(service), status: status.as_str() };
        self.claims.remove(&labels);
        self.oldest.remove(&labels);
    }

    /// Reads this of a service, whenever somebody asks.
    pub fn read(&self, service: &str, what: Reading, read: impl Fn() -> usize + Send + Sync + 'static) {
        self.readings.add(what, self.known.listener(service), Box::new(read));
    }

    /// Counts a listed tool that the policy does not name. Says whether it is the first time that this name is met,
    /// as far as names are remembered.
    pub fn hidden(&self, tool: &str) -> bool {
        let (tool, is_new) = self.hidden_tools.of(tool);
        self.hidden.get_or_create(&OfTool { listener: names::OfListener::default(), tool }).inc();
        is_new
    }

    /// Counts a call as waiting, until what this returns is dropped.
    pub fn waiting(&self) -> Waiting {
        self.waiting.inc();
        Waiting(self.waiting.clone())
    }

    /// For whoever deletes what is too old.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Says how much waits in the spool.
    pub fn spooled(&self, records: usize) {
        self.spooled.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// How many records wait in the spool.
    pub fn spooled_now(&self) -> u64 {
        u64::try_from(self.spooled.get()).unwrap_or(0)
    }

    /// So many spans came to this.
    pub fn spans(&self, what: Spans, count: u64) {
        let result = match what {
            Spans::Sent => "sent",
            Spans::Lost => "lost",
        };
        self.spans.get_or_create(&OfResult(result)).inc_by(count);
    }

    /// Every count, as Prometheus reads it.
    pub fn text(&self, format: Format) -> String {
        let mut all = String::new();
        // A String takes whatever is written to it.
        let _whole = match format {
            Format::Prometheus => prometheus_text::encode(&mut all, &self.registry).is_ok(),
            Format::OpenMetrics => text::encode(&mut all, &self.registry).is_ok(),
        };
        all
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
