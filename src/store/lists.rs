//! What people ask a store, and what it lists for them.
//!
//! Promises: plain values. Every filter that is set must hold.

use std::time::Duration;

use uuid::Uuid;

use crate::domain::audit::{AuditEvent, Decision, Executed};
use crate::domain::ledger::{Claim, ClaimId, Status};
use crate::domain::time::Timestamp;

/// Which claims to list. Every filter that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct ClaimFilter {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only this service's, and its listeners': their names begin with its own and a colon.
    pub service: Option<String>,
    /// Only this operation's.
    pub tool: Option<String>,
    /// Only with this key.
    pub key: Option<String>,
    /// Only this user's.
    pub user: Option<String>,
    /// Only in this status.
    pub status: Option<Status>,
    /// Only those that have been in their status for longer than this, by the store's clock.
    pub older_than: Option<Duration>,
    /// The oldest first, rather than the newest.
    pub oldest_first: bool,
    /// How long looking for them may take, where not as long as the store lets a list take.
    pub within: Option<Duration>,
    /// At most so many.
    pub limit: u32,
}

/// Which audit rows to list. Every filter that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only this row.
    pub id: Option<Uuid>,
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only this service's, and its listeners': their names begin with its own and a colon.
    pub service: Option<String>,
    /// Only this operation's.
    pub tool: Option<String>,
    /// Only with this key.
    pub key: Option<String>,
    /// Only this user's.
    pub user: Option<String>,
    /// Only this session's.
    pub session: Option<String>,
    /// Only with this decision.
    pub decision: Option<Decision>,
    /// Only with this reason.
    pub reason: Option<String>,
    /// Only with this word for whether it ran.
    pub executed: Option<Executed>,
    /// Only of this trace.
    pub trace: Option<String>,
    /// Only of this attempt.
    pub attempt: Option<Uuid>,
    /// Only where the arguments (JSON text) hold these members, at any depth, as text: `order_id` or `body.order_id` =
    /// `ord_9f2`.
    pub args: Vec<(String, String)>,
    /// Only where this stands somewhere: in a name, the key, a reason, the arguments or the summary, as a part of it too; or
    /// where the trace begins with it; or where it is an id, whole.
    pub text: Option<String>,
    /// Only rows not older than this, by the store's clock.
    pub since: Option<Duration>,
    /// Only rows older than this, by the store's clock.
    pub until: Option<Duration>,
    /// Only rows of this time and later.
    pub from: Option<Timestamp>,
    /// Only rows before this time.
    pub to: Option<Timestamp>,
    /// Only rows behind this place. Then the limit keeps the oldest of them: whoever goes on from the last of these misses
    /// none that is there.
    pub after: Option<Cursor>,
    /// Only rows that come before this place in the list; with an id of nought, those from before this time.
    pub before: Option<Cursor>,
    /// How long looking for them may take, where not as long as the store lets a list take.
    pub within: Option<Duration>,
    /// At most so many, the newest; they come oldest first.
    pub limit: u32,
}

/// A place among the audit rows, by time and then by id. Not by commit: a row may appear behind this place when others
/// after it are long there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The row's time.
    pub at: Timestamp,
    /// The row's id.
    pub id: Uuid,
}

impl Cursor {
    /// Before every row of this time.
    pub const fn before(at: Timestamp) -> Self {
        Self { at, id: Uuid::nil() }
    }
}

/// A listed claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedClaim {
    /// Its name.
    pub id: ClaimId,
    /// Its row.
    pub claim: Claim,
}

/// An audit row as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// What was written.
    pub event: AuditEvent,
}

impl RecordedEvent {
    /// Its place among the others.
    pub const fn cursor(&self) -> Cursor {
        Cursor { at: self.at, id: self.event.id }
    }
}

/// What is counted of the audit: pieces of time that end with the one that runs.
#[derive(Clone, Debug)]
pub struct TallyOf {
    /// Only this service's rows, and its listeners'.
    pub service: String,
    /// How long a piece is, in whole seconds. Pieces begin at multiples of that since 1970.
    pub step: Duration,
    /// How many pieces.
    pub steps: u32,
    /// How long counting may take.
    pub within: Duration,
}

/// How many rows of one kind were written in one piece of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// When the piece begins.
    pub from: Timestamp,
    /// What the gate did.
    pub decision: Decision,
    /// Whether the call was let go and may have run, and waits for no input either.
    pub is_unclear: bool,
    /// How many.
    pub rows: u64,
}

/// What was counted, and the store's time at which it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The counts that are not nought.
    pub tallies: Vec<Tally>,
    /// The store's time.
    pub now: Timestamp,
}
