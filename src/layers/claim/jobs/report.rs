//! What a worker says of the attempt that it was given: that it lives, and what came of it.
//!
//! Promises: only the attempt that owns a claim settles it; its row is committed with the claim; a report that comes again
//! gets the same answer. A store that is away is said to be, and the report must come again: none waits here.
//!
//! Absent on purpose: scopes. Whoever was allowed to begin tells what came of it, whatever the policy says by now; the
//! attempt's id is the proof. Only where the policy does not know the job any more there are no terms to settle it by.

use tracing::{error, warn};
use uuid::Uuid;

use super::{Clerk, terms};
use crate::domain::actor::Actor;
use crate::domain::answer::{Kept, Kind as KeptKind};
use crate::domain::audit::{AuditEvent, Decision, Executed};
use crate::domain::chain::Chain;
use crate::domain::json::Json;
use crate::domain::key::Key;
use crate::domain::ledger::{self, Came, Claim, ClaimId, Report, Sign, Status, Terms};
use crate::domain::policy::{Kind, Mutation, Operation, Policy};
use crate::domain::redact::{has_secret, short};
use crate::domain::refusal::Refusal;
use crate::layers::claim::keep::OUTCOME_UNKNOWN;
use crate::store::{Seen, StoreError, Swap, Write, event_id};

/// How often a report is decided anew because the row changed in between.
const MAX_TURNS: u32 = 16;

/// The longest reason of a failure that is written down, in characters.
const LONGEST_REASON: usize = 300;

/// Which attempt at what.
#[derive(Clone, Debug)]
pub struct Work {
    /// For whom, and the service that the worker belongs to.
    pub actor: Actor,
    /// The operation's name.
    pub job: String,
    /// The job's key.
    pub key: Key,
    /// The attempt.
    pub attempt: Uuid,
}

/// What a worker tells of the end of its attempt.
#[derive(Clone, Debug)]
pub enum Told {
    /// It is done.
    Completed {
        /// What came of it.
        result: Json,
    },
    /// It is not done.
    Failed {
        /// Whether it may have taken effect all the same.
        maybe: bool,
        /// Why.
        reason: Option<String>,
    },
}

/// What a report left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Where the claim stands by it.
    pub status: Status,
    /// Whether later workers will get the result.
    pub kept: bool,
}

/// A report as the ledger and the audit have it.
struct End {
    came: Came,
    reason: Option<&'static str>,
    executed: Executed,
    summary: Option<String>,
}

impl Clerk {
    /// Prolongs the lease of a worker that lives; says how long it is.
    pub async fn prolong(&self, policy: &Policy, work: &Work) -> Result<std::time::Duration, Refusal> {
        let id = self.id_of(work);
        let lease = rule_of(policy, &work.job)?.1.lease();
        let mut seen = self.seen(&id).await?;
        for _ in 0..MAX_TURNS {
            let (expect, next) = match ledger::sign(seen.row.as_ref(), work.attempt, seen.now, lease) {
                Sign::Write { expect, draft } => (expect, *draft),
                Sign::Lost => return Err(Refusal::LeaseLost),
                Sign::Over => return Err(Refusal::AttemptOver),
            };
            match self.swap(Write { id: id.clone(), expect, next, event: None }).await {
                Ok(Swap::Applied { .. }) => return Ok(lease),
                Ok(Swap::Mismatch { row, now }) => seen = Seen { row: row.map(|row| *row), now },
                Err(fault) => return Err(not_stored(&fault)),
            }
        }
        Err(Refusal::ReportNotStored)
    }

    /// Settles an attempt by what its worker tells.
    pub async fn settle_job(&self, policy: &Policy, work: &Work, told: Told) -> Result<Reported, Refusal> {
        let id = self.id_of(work);
        let (operation, rule) = rule_of(policy, &work.job)?;
        let terms = terms(rule, self);
        let end = end(operation, told, self.stored_response);
        let kept = matches!(&end.came, Came::Completed { response: Some(_), .. });
        let mut seen = self.seen(&id).await?;
        for _ in 0..MAX_TURNS {
            let row = seen.row.as_ref();
            let (expect, next) = match ledger::report(row, work.attempt, &end.came, &terms) {
                Report::Write { expect, draft } => (expect, *draft),
                Report::Again(status) => return Ok(Reported { status, kept }),
                Report::Over => return Err(self.too_late(policy, work, &end, row).await),
            };
            let status = next.status;
            if status == Status::Unknown {
                warn!(tenant = id.tenant, tool = id.tool, key = id.key, attempt = %work.attempt, "A job's outcome is unknown.");
            }
            let event = row.map(|row| event(row, &seen, &end, status, &terms));
            match self.swap(Write { id: id.clone(), expect, next, event }).await {
                Ok(Swap::Applied { .. }) => return Ok(Reported { status, kept }),
                Ok(Swap::Mismatch { row, now }) => seen = Seen { row: row.map(|row| *row), now },
                Err(fault) => return Err(not_stored(&fault)),
            }
        }
        Err(Refusal::ReportNotStored)
    }

    /// The claim had moved on: the attempt's end is only written down.
    async fn too_late(&self, policy: &Policy, work: &Work, end: &End, row: Option<&Claim>) -> Refusal {
        warn!(tool = work.job, attempt = %work.attempt, "The claim had moved on when its worker reported; that is only written down.");
        let own = row.filter(|row| row.attempt_id == work.attempt).map(|row| row.facts.clone());
        let facts = own.unwrap_or_else(|| self.work_facts(policy, work));
        let event = AuditEvent {
            id: event_id(),
            facts,
            decision: Decision::Allowed,
            reason: Some("late_answer".to_owned()),
            result_summary: end.summary.clone(),
            duration_ms: None,
            executed: end.executed,
            upstream_status: None,
        };
        match self.append(event).await {
            Ok(()) => Refusal::AttemptOver,
            Err(fault) => not_stored(&fault),
        }
    }

    async fn seen(&self, id: &ClaimId) -> Result<Seen, Refusal> {
        self.store.read(id).await.map_err(|fault| not_stored(&fault))
    }

    fn id_of(&self, work: &Work) -> ClaimId {
        ClaimId {
            tenant: work.actor.tenant().to_owned(),
            service: self.service.clone(),
            tool: work.job.clone(),
            key: work.key.as_str().to_owned(),
        }
    }
}

fn rule_of<'p>(policy: &'p Policy, job: &str) -> Result<(&'p Operation, &'p Mutation), Refusal> {
    let operation = policy.named(Kind::Job, job).ok_or(Refusal::NotInPolicy)?;
    Ok((operation, operation.mutation().ok_or(Refusal::DeniedByPolicy)?))
}

/// The row of an attempt that settles its claim.
fn event(row: &Claim, seen: &Seen, end: &End, status: Status, terms: &Terms) -> AuditEvent {
    let unknown = status == Status::Unknown;
    let twin = row.facts.handed_out.as_ref().and_then(|handed| handed.twin.as_ref());
    let reason = twin.map(|_| "possible_duplicate").or(end.reason);
    let began = row.attempt_until.map(|until| until.minus(terms.upstream_timeout));
    AuditEvent {
        id: event_id(),
        facts: row.facts.clone(),
        decision: Decision::Allowed,
        reason: if unknown { Some(OUTCOME_UNKNOWN) } else { reason }.map(str::to_owned),
        result_summary: end.summary.clone(),
        duration_ms: began.and_then(|began| i64::try_from(seen.now.since(began).as_millis()).ok()),
        executed: if unknown { Executed::Maybe } else { end.executed },
        upstream_status: None,
    }
}

/// What of a report is kept, and what its row says.
fn end(operation: &Operation, told: Told, limit: usize) -> End {
    match told {
        Told::Completed { mut result } => {
            operation.redactor().mask(&mut result);
            let summary = operation.summary_of(&result);
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let kept = Kept { kind: KeptKind::Result, status: 200, headers, body: result.to_bytes().into() };
            let may_be_kept = kept.body.len() <= limit && !has_secret(&result);
            let response = may_be_kept.then(|| kept.encode());
            let came = Came::Completed { response, doubtful_in_rerun: false };
            End { came, reason: None, executed: Executed::Yes, summary }
        }
        Told::Failed { maybe, reason } => {
            let summary = reason.map(|reason| {
                Json::object([("reason", Json::from(short(&reason, LONGEST_REASON)))]).to_string()
            });
            if maybe {
                let reason = Some(OUTCOME_UNKNOWN);
                End { came: Came::Unknown, reason, executed: Executed::Maybe, summary }
            } else {
                let reason = Some("execution_failed");
                End { came: Came::NotRun, reason, executed: Executed::No, summary }
            }
        }
    }
}

fn not_stored(fault: &StoreError) -> Refusal {
    error!(error = %Chain(fault), "A worker's report was not stored; it must come again.");
    Refusal::ReportNotStored
}
