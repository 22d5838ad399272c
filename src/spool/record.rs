//! What waits in the spool: an audit row, or what came of an attempt.
//!
//! Promises: a record that was written is read as it was. It holds what a table would hold, and nothing that was not
//! redacted for it.

use serde::{Deserialize, Serialize};

use crate::domain::audit::AuditEvent;
use crate::domain::ledger::{Attempt, Came, Claim, ClaimId, Draft, Expect, Terms};

/// What waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A row that goes with no claim.
    Row(Box<AuditEvent>),
    /// What came of an attempt.
    Settlement(Box<Settlement>),
}

/// What came of an attempt, and all that is needed to decide what may be written of it: anew at each try, by the row
/// that stands there then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The claim's name.
    pub id: ClaimId,
    /// The attempt.
    pub attempt: Attempt,
    /// Its claim, as its owner knows it.
    pub known: Known,
    /// What it came to.
    pub came: Came,
    /// By which terms.
    pub terms: Terms,
    /// Its row.
    pub event: AuditEvent,
    /// Whether it was certainly never sent: then it has no answer that could be late.
    pub unsent: bool,
}

/// What an owner knows of its claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It is committed, and this is the row.
    Claimed(Box<Claim>),
    /// It was sent, and not confirmed.
    Unsure {
        /// What it was to find.
        expect: Expect,
        /// What it was to write.
        draft: Box<Draft>,
    },
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        // None of these types has a key that is no text, or a number that JSON lacks: it does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use uuid::Uuid;

    use super::{Known, Record, Settlement};
    use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
    use crate::domain::ledger::{
        Attempt, AttemptKind, Came, ClaimId, Downstream, Draft, Expect, Expects, Round, RoundId, Status,
        Terms,
    };
    use crate::domain::time::{Timestamp, When};

    fn event() -> AuditEvent {
        AuditEvent {
            id: Uuid::now_v7(),
            facts: Facts {
                tenant_id: "acme".to_owned(),
                args: Some("{\"a\":\"\u{0}é\"}".to_owned()),
                ..Facts::default()
            },
            decision: Decision::Allowed,
            reason: Some("late_answer".to_owned()),
            result_summary: None,
            duration_ms: Some(12),
            executed: Executed::Maybe,
            upstream_status: Some(200),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = |text: &str| text.to_owned();
        let draft = Draft {
            user: text("u1"),
            args_hash: text("k1:aa"),
            status: Status::InFlight,
            attempt_id: Uuid::new_v4(),
            facts: event().facts,
            round: Round {
                id: RoundId::from_hex("ab"),
                expects: Some(Expects { state: text("cd"), inputs: true }),
            },
            lease_until: When::In(Duration::from_micros(1_500_001)),
            attempt_until: When::At(Timestamp::from_micros(-5)),
            first_sent_at: When::NOW,
            response: Some(Bytes::from_static(b"\x00\xff\n")),
            created_at: None,
            settled_at: When::Never,
            expires_at: When::Never,
        };
        let claim = draft.at(Timestamp::from_micros(7), Expect::Absent);
        let terms = Terms {
            ttl: Duration::from_hours(24),
            lease: Duration::from_mins(1),
            upstream_timeout: Duration::from_millis(1_500),
            downstream: Downstream::Idempotent { retention: Duration::from_hours(1) },
            shared_within_tenant: true,
        };
        let continued =
            AttemptKind::Continuation { round: draft.round.clone(), response: draft.response.clone() };
        let cames = [
            Came::Completed { response: None, doubtful_in_rerun: true },
            Came::NotRun,
            Came::Unknown,
            Came::AwaitingInput {
                response: Some(Bytes::from_static(b"{}")),
                expects: Expects { state: String::new(), inputs: false },
            },
        ];
        let mut records = vec![Record::Row(Box::new(event()))];
        for came in cames {
            for known in [
                Known::Claimed(Box::new(claim.clone())),
                Known::Unsure { expect: Expect::Revision(9), draft: Box::new(draft.clone()) },
            ] {
                for kind in [AttemptKind::First, AttemptKind::Rerun, continued.clone()] {
                    let id =
                        ClaimId { tenant: text("a"), service: text("b"), tool: text("c"), key: text("d") };
                    records.push(Record::Settlement(Box::new(Settlement {
                        id,
                        attempt: Attempt { id: draft.attempt_id, kind },
                        known: known.clone(),
                        came: came.clone(),
                        terms,
                        event: event(),
                        unsent: false,
                    })));
                }
            }
        }
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(b"{}"), None);
    }
}
