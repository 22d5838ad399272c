//! What happened in a storm: everything that the checker may argue from.
//!
//! Promises: entries are appended by whoever saw the thing, in the order in which it was seen, with times from one
//! clock: the time since the storm began.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time since the storm began.
pub(crate) type Time = Duration;

/// The name of an intent's claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) tenant: String,
    pub(crate) tool: String,
    pub(crate) key: String,
}

/// One call of a client, and what it heard.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its trace id: of this call alone.
    pub(crate) trace: String,
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) tool: String,
    pub(crate) key: Option<String>,
    /// Its argument.
    pub(crate) order: String,
    /// Whether its token has the scope.
    pub(crate) scoped: bool,
    pub(crate) gate: usize,
    pub(crate) sent: Time,
    /// When it heard the end, or gave up.
    pub(crate) heard: Time,
    pub(crate) came: Came,
    /// Whether it was sent after the storm, to bring its intent to an end.
    pub(crate) last: bool,
}

/// What a client heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The upstream's answer.
    Answer {
        /// The run that it names.
        run: String,
        /// The whole of it, without the gate's marks.
        body: String,
        replayed: bool,
        /// False where the gate says that it could not record it.
        recorded: bool,
    },
    /// The gate's refusal.
    Refusal { code: String, executed: String, retry_after: Option<Duration> },
    /// Nothing whole, and why.
    Nothing(&'static str),
    /// A whole response that is none of these.
    Garbled(String),
}

/// A request that the upstream decided about, written down before it answered.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) at: Time,
    pub(crate) trace: String,
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) tool: String,
    /// The `Idempotency-Key` that was forwarded.
    pub(crate) forwarded: Option<String>,
    pub(crate) order: String,
    /// What the answer names, if there is one. An idempotent backend names the first run again.
    pub(crate) run: String,
    /// Whether something was done.
    pub(crate) effect: bool,
    /// What became of the request, for the story.
    pub(crate) did: &'static str,
}

/// A row of the claims table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: Name,
    pub(crate) status: String,
    pub(crate) revision: i64,
    pub(crate) attempt: String,
    pub(crate) response: Option<String>,
}

/// A row as it was seen in between: the question was asked at `asked`, and answered at `at`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) asked: Time,
    pub(crate) at: Time,
    pub(crate) row: Row,
}

/// A row of the audit table.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) tenant: String,
    pub(crate) tool: String,
    pub(crate) key: Option<String>,
    pub(crate) trace: String,
    pub(crate) decision: String,
    pub(crate) reason: String,
    pub(crate) executed: String,
    pub(crate) attempt: String,
}

/// Something that the nemesis did.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    /// Only to this gate, or to everything.
    pub(crate) gate: Option<usize>,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// The end of a gate's process.
#[derive(Clone, Debug)]
pub(crate) struct Death {
    pub(crate) gate: usize,
    pub(crate) at: Time,
    pub(crate) how: How,
}

/// How a gate's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By SIGKILL.
    Killed,
    /// By SIGTERM, in its own time.
    Stopped,
    /// By SIGKILL, after it had said that nothing runs in it any more.
    Drained,
    /// By itself.
    Itself,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) intents: usize,
    pub(crate) calls: Vec<Call>,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) deaths: Vec<Death>,
    /// Names of claims that were in flight after the calm, before anybody asked for them again.
    pub(crate) stranded: Vec<Name>,
    /// The claims table; only at the end.
    pub(crate) claims: Vec<Row>,
    /// The audit table.
    pub(crate) audit: Vec<Told>,
    /// Whether the storm is over, all gates have stopped, and the tables are as they will stay.
    pub(crate) ended: bool,
}

/// The history that is being made.
pub(crate) struct History {
    began: Instant,
    events: Mutex<Events>,
}

impl History {
    /// An empty one; its clock starts.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), events: Mutex::new(Events::default()) }
    }

    /// The time since then.
    pub(crate) fn now(&self) -> Time {
        self.began.elapsed()
    }

    /// To write something down, or to look.
    pub(crate) fn open(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what is known so far.
    pub(crate) fn so_far(&self) -> Events {
        self.open().clone()
    }
}

/// The samples by name, each name's in the order in which they were seen.
pub(crate) fn samples_by_name(events: &Events) -> BTreeMap<&Name, Vec<&Sample>> {
    let mut by_name: BTreeMap<&Name, Vec<&Sample>> = BTreeMap::new();
    for sample in &events.samples {
        by_name.entry(&sample.row.name).or_default().push(sample);
    }
    by_name
}

impl Call {
    /// The claim that it is about; none without a key.
    pub(crate) fn name(&self) -> Option<Name> {
        let key = self.key.clone()?;
        Some(Name { tenant: self.tenant.clone(), tool: self.tool.clone(), key })
    }
}
