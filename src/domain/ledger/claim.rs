//! A claim as it stands in the table, and as a write would leave it.
//!
//! Promises: [`Draft::at`] is what the store does with a draft, so that tests and callers see the same row.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::answer::as_text;
use crate::domain::audit::Facts;
use crate::domain::time::{Timestamp, When};

/// The name of a claim: unique in the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimId {
    /// The actor's tenant.
    pub tenant: String,
    /// The gate's `service`.
    pub service: String,
    /// The operation.
    pub tool: String,
    /// The client's idempotency key.
    pub key: String,
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// An attempt owns it.
    InFlight,
    /// The upstream asked for input; the next round continues it.
    AwaitingInput,
    /// It ran, and its answer (or the fact that none was kept) is here.
    Completed,
    /// It certainly did not run; the key may try again.
    Failed,
    /// It may have run, and no trustworthy answer came.
    Unknown,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::InFlight, Self::AwaitingInput, Self::Completed, Self::Failed, Self::Unknown];

    /// The word in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::AwaitingInput => "awaiting_input",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// The status that the table's word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// Which round of a call this is: a hash of `inputResponses` and `requestState`, empty for the first round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoundId(String);

impl RoundId {
    /// The round whose hash is `hex`. Only hexadecimal digits are kept.
    pub fn from_hex(hex: &str) -> Self {
        Self(hex.chars().filter(char::is_ascii_hexdigit).collect())
    }

    /// Whether this is the first round, in which the client brings no input.
    pub fn is_first(&self) -> bool {
        self.0.is_empty()
    }
}

/// What the upstream asked for when it answered `input_required`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expects {
    /// The hash of the answer's `requestState`; empty where it had none.
    pub state: String,
    /// Whether it asked for inputs.
    pub inputs: bool,
}

/// The round that a claim stands at: the column `round_hash`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The round that was run last.
    pub id: RoundId,
    /// What its answer asked for; only while the claim awaits input.
    pub expects: Option<Expects>,
}

impl Round {
    /// The column's text; `None` for a first round that asked for nothing.
    pub fn to_column(&self) -> Option<String> {
        match &self.expects {
            None if self.id.is_first() => None,
            None => Some(self.id.0.clone()),
            Some(expects) => Some(format!("{}.{}.{}", self.id.0, expects.state, u8::from(expects.inputs))),
        }
    }

    /// The round that the column's text names.
    pub fn from_column(text: Option<&str>) -> Self {
        let mut parts = text.unwrap_or_default().split('.');
        let id = RoundId::from_hex(parts.next().unwrap_or_default());
        let expects =
            parts.next().map(|state| Expects { state: state.to_owned(), inputs: parts.next() == Some("1") });
        Self { id, expects }
    }
}

/// One row of `idempotency_claims`, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The user whose call made it.
    pub user: String,
    /// The fingerprint of the arguments, tagged with its key's id.
    pub args_hash: String,
    /// Where it stands.
    pub status: Status,
    /// Raised by every write.
    pub revision: i64,
    /// The attempt that owns or owned it.
    pub attempt_id: Uuid,
    /// What that attempt's audit row needs.
    pub facts: Facts,
    /// The round it stands at.
    pub round: Round,
    /// Until when the attempt owns it without renewing; of an unknown claim, until when nobody needs to ask the app.
    pub lease_until: Option<Timestamp>,
    /// When the attempt's `upstream.timeout` will have passed: before that, it may still run.
    pub attempt_until: Option<Timestamp>,
    /// When the first attempt that may have run was about to be sent.
    pub first_sent_at: Option<Timestamp>,
    /// The encoded answer; none where it was not kept.
    #[serde(with = "as_text")]
    pub response: Option<Bytes>,
    /// When the claim was made.
    pub created_at: Timestamp,
    /// When it was settled last.
    pub settled_at: Option<Timestamp>,
    /// When it may be claimed anew; in-flight and unknown claims never expire.
    pub expires_at: Option<Timestamp>,
}

/// What a write may find before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// No row.
    Absent,
    /// A row at this revision.
    Revision(i64),
}

impl Expect {
    /// The revision that the row has after a write at `now`. A new row begins at the store's time in microseconds:
    /// a claim that is made again after its old row was pruned never comes back to a revision that somebody who
    /// read the old row still holds.
    pub const fn raised(self, now: Timestamp) -> i64 {
        match self {
            Self::Absent => now.as_micros(),
            Self::Revision(revision) => revision.saturating_add(1),
        }
    }
}

/// A row as a write would leave it: every column but the name and the revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// See [`Claim::user`].
    pub user: String,
    /// See [`Claim::args_hash`].
    pub args_hash: String,
    /// See [`Claim::status`].
    pub status: Status,
    /// See [`Claim::attempt_id`].
    pub attempt_id: Uuid,
    /// See [`Claim::facts`].
    pub facts: Facts,
    /// See [`Claim::round`].
    pub round: Round,
    /// See [`Claim::lease_until`].
    pub lease_until: When,
    /// See [`Claim::attempt_until`].
    pub attempt_until: When,
    /// See [`Claim::first_sent_at`].
    pub first_sent_at: When,
    /// See [`Claim::response`].
    #[serde(with = "as_text")]
    pub response: Option<Bytes>,
    /// See [`Claim::created_at`]; `None` means the store's now.
    pub created_at: Option<Timestamp>,
    /// See [`Claim::settled_at`].
    pub settled_at: When,
    /// See [`Claim::expires_at`].
    pub expires_at: When,
}

impl Draft {
    /// The row that a store whose clock says `now` makes of this draft.
    pub fn at(&self, now: Timestamp, expect: Expect) -> Claim {
        Claim {
            user: self.user.clone(),
            args_hash: self.args_hash.clone(),
            status: self.status,
            revision: expect.raised(now),
            attempt_id: self.attempt_id,
            facts: self.facts.clone(),
            round: self.round.clone(),
            lease_until: self.lease_until.at(now),
            attempt_until: self.attempt_until.at(now),
            first_sent_at: self.first_sent_at.at(now),
            response: self.response.clone(),
            created_at: self.created_at.unwrap_or(now),
            settled_at: self.settled_at.at(now),
            expires_at: self.expires_at.at(now),
        }
    }

    /// Whether `row` is what this draft wrote over `expect`: how a writer knows its own write again when the
    /// answer to it got lost. An attempt's id is random, and one attempt writes one status once per revision; a person
    /// who resolves the claim writes under that id too, and has another answer, or none. Those who look after the claim
    /// of an attempt that is gone tell their writes apart by a time that each sets a little otherwise.
    pub fn is_own(&self, expect: Expect, row: &Claim) -> bool {
        let as_set = |asked: When, stored: Option<Timestamp>| match asked {
            When::In(_) => true,
            When::At(time) => stored == Some(time),
            When::Never => stored.is_none(),
        };
        as_set(self.lease_until, row.lease_until)
            && as_set(self.settled_at, row.settled_at)
            && row.attempt_id == self.attempt_id
            && row.status == self.status
            && row.response == self.response
            && self.at(self.written_at(expect, row), expect).revision == row.revision
    }

    /// When this draft was written over `expect`, by what the row that it wrote says. The row's times, read back
    /// from it by [`Draft::at`], are the same whatever this is for a draft that sets none.
    pub fn written_at(&self, expect: Expect, row: &Claim) -> Timestamp {
        let set = |asked: When, stored: Option<Timestamp>| match asked {
            When::In(delay) => stored.map(|at| at.minus(delay)),
            When::Never | When::At(_) => None,
        };
        let created = self.created_at.is_none().then_some(row.created_at);
        let inserted = (expect == Expect::Absent).then(|| Timestamp::from_micros(row.revision));
        created
            .or_else(|| set(self.settled_at, row.settled_at))
            .or_else(|| set(self.lease_until, row.lease_until))
            .or_else(|| set(self.attempt_until, row.attempt_until))
            .or_else(|| set(self.first_sent_at, row.first_sent_at))
            .or_else(|| set(self.expires_at, row.expires_at))
            .or(inserted)
            .unwrap_or(row.created_at)
    }
}

impl Claim {
    /// A draft that leaves every column as it is.
    pub fn redraft(&self) -> Draft {
        Draft {
            user: self.user.clone(),
            args_hash: self.args_hash.clone(),
            status: self.status,
            attempt_id: self.attempt_id,
            facts: self.facts.clone(),
            round: self.round.clone(),
            lease_until: self.lease_until.into(),
            attempt_until: self.attempt_until.into(),
            first_sent_at: self.first_sent_at.into(),
            response: self.response.clone(),
            created_at: Some(self.created_at),
            settled_at: self.settled_at.into(),
            expires_at: self.expires_at.into(),
        }
    }

    /// Whether it may be claimed anew.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}
