//! Claims for work that runs elsewhere: a worker asks before it begins, and reports what came of it.
//!
//! Promises: a claim is committed before its worker hears of it; what a worker never heard of is given back, since nobody
//! can have begun it; the first worker's result is given to later ones after their row is committed. Nothing of an
//! attempt waits in this process: any gate of the service takes its reports.
//!
//! The fingerprint is taken of the arguments as they are. In a call's arguments a model may have put a tenant; a job's are
//! the app's own, the tenant stands beside them, and what they name is what the job is about.
//!
//! Absent on purpose: choices, which are the ledger's; waiting (a queue sends a job again by itself); the flights of
//! [`super::flights`], since what runs elsewhere has no answer that could be passed on here.

mod report;

pub use self::report::{Reported, Told, Work};

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};
use uuid::Uuid;

use super::exchange::COME_BACK;
use super::pause::Pause;
use super::{Clerk, storing};
use crate::domain::actor::Actor;
use crate::domain::answer::Kept;
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::key::Key;
use crate::domain::ledger::{
    self, Admission, Ask, AskedRound, Attempt, AttemptKind, Came, ClaimId, Conflict, Draft, Expect, Terms,
};
use crate::domain::policy::{Arguments, Forwarded, Kind, Mutation, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::authorize::short;
use crate::spool::{Known, Settlement};
use crate::store::{Seen, StoreError, Swap, Write, event_id};

/// How often a claim is decided anew because its row changed in between.
const MAX_TURNS: u32 = 16;

/// What the rows of jobs say their protocol is.
const PROTOCOL: &str = "jobs/1";

/// A job that a worker wants to begin.
#[derive(Clone, Debug)]
pub struct JobAsk {
    /// For whom: the tenant, and the service that the worker belongs to.
    pub actor: Actor,
    /// The operation's name.
    pub job: String,
    /// Its key.
    pub key: Key,
    /// What it is about.
    pub arguments: Json,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// What the worker calls itself.
    pub client: Option<String>,
}

/// What a worker hears that may go on.
#[derive(Debug)]
pub enum Handed {
    /// The job is its own.
    Fresh(Box<Fresh>),
    /// It was done before, with this result.
    Replay(Json),
}

/// A job that its worker owns.
#[derive(Debug)]
pub struct Fresh {
    /// By which it reports.
    pub attempt: Uuid,
    /// How long it owns the job without a sign of life.
    pub lease: Duration,
    /// How long it may take, whole.
    pub timeout: Duration,
    /// The value of the `Idempotency-Key` header that it sends on.
    pub forward_key: String,
    /// The earlier key of a job with the same arguments.
    pub twin: Option<String>,
    /// How it is given back.
    unheard: Settlement,
}

/// The terms of a job's claims: an attempt's time is the job's own.
fn terms(rule: &Mutation, clerk: &Clerk) -> Terms {
    rule.terms(rule.timeout().unwrap_or(clerk.upstream_timeout))
}

impl Clerk {
    /// What a row says of a worker's request, whatever it is; names come from the worker.
    pub fn job_facts(&self, policy: &Policy, actor: &Actor, job: &str, key: Option<&Key>) -> Facts {
        Facts {
            tenant_id: actor.tenant().to_owned(),
            service: self.service.clone(),
            user_id: actor.user().to_owned(),
            tool: short(job),
            idempotency_key: key.map(|key| key.as_str().to_owned()),
            policy_version: Some(policy.version().to_owned()),
            protocol: Some(PROTOCOL.to_owned()),
            ..Facts::default()
        }
    }

    /// The same of a report about an attempt.
    pub fn work_facts(&self, policy: &Policy, work: &Work) -> Facts {
        let facts = self.job_facts(policy, &work.actor, &work.job, Some(&work.key));
        Facts { attempt_id: Some(work.attempt), ..facts }
    }

    /// The same of a job that is to begin, arguments and all.
    pub fn ask_facts(&self, policy: &Policy, ask: &JobAsk) -> Facts {
        let redacted =
            policy.named(Kind::Job, &ask.job).map(|rule| rule.redactor().clone()).unwrap_or_default();
        Facts {
            args_hash: Some(self.court.fingerprinter.of(Some(&ask.arguments)).signed),
            args: Some(redacted.audit_arguments(&ask.arguments)),
            trace_id: ask.trace_id.clone(),
            client: ask.client.as_deref().map(short),
            ..self.job_facts(policy, &ask.actor, &ask.job, Some(&ask.key))
        }
    }

    /// Claims a job for a worker, as this policy and the ledger allow it.
    pub async fn hand_out(self: &Arc<Self>, policy: &Policy, ask: &JobAsk) -> Result<Handed, Refusal> {
        let arguments = Arguments::Given(Some(&ask.arguments));
        let operation = policy.decide(&ask.actor, Kind::Job, &ask.job, arguments)?;
        let rule = operation.mutation().ok_or(Refusal::NotInPolicy)?;
        Claiming::new(self, policy, ask, operation, rule).run().await
    }

    /// Takes a job back that its worker did not hear of.
    pub fn take_back(self: &Arc<Self>, fresh: Fresh) {
        info!(attempt = %fresh.attempt, "A worker hung up before it heard of its job, which is given back.");
        self.give_back(fresh.unheard);
    }

    /// Settles an attempt that nobody began, once the store takes it.
    fn give_back(self: &Arc<Self>, settlement: Settlement) {
        let clerk = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut pause = Pause::of_storing();
            while let Err(fault) = storing::store(&*clerk.store, clerk.journal.meter(), &settlement).await {
                warn!(error = %Chain(&fault), "A job that nobody began waits for the store to be given back.");
                if clerk.journal.keep(&settlement).await {
                    return;
                }
                pause.over().await;
            }
        });
    }
}

/// One claim on its way.
struct Claiming<'a> {
    clerk: &'a Arc<Clerk>,
    operation: &'a Operation,
    rule: &'a Mutation,
    terms: Terms,
    id: ClaimId,
    ask: Ask,
}

impl<'a> Claiming<'a> {
    fn new(
        clerk: &'a Arc<Clerk>,
        policy: &Policy,
        job: &JobAsk,
        operation: &'a Operation,
        rule: &'a Mutation,
    ) -> Self {
        let id = ClaimId {
            tenant: job.actor.tenant().to_owned(),
            service: clerk.service.clone(),
            tool: operation.name().to_owned(),
            key: job.key.as_str().to_owned(),
        };
        let prints = clerk.court.fingerprinter.of(Some(&job.arguments));
        let attempt_id = Uuid::new_v4();
        let facts = Facts {
            attempt_id: Some(attempt_id),
            forwarded_key: Some(rule.forward_key().render(parts(&id))),
            ..clerk.ask_facts(policy, job)
        };
        let ask = Ask {
            args_hash: prints.signed,
            accepted_hashes: prints.accepted,
            round: AskedRound::default(),
            attempt_id,
            facts,
        };
        Self { clerk, operation, rule, terms: terms(rule, clerk), id, ask }
    }

    async fn run(self) -> Result<Handed, Refusal> {
        // Most jobs are new: the first write tries its luck without reading. A look-out for twins must know first.
        let mut seen = if self.rule.twin().is_some() {
            self.clerk.store.read(&self.id).await.map_err(|fault| unavailable(&fault, None))?
        } else {
            Seen { row: None, now: Timestamp::from_micros(0) }
        };
        for _ in 0..MAX_TURNS {
            let earlier = seen.row.as_ref().map(|row| row.created_at);
            let first_seen = earlier.unwrap_or(seen.now);
            seen = match ledger::admit(seen.row.as_ref(), &self.ask, seen.now, &self.terms) {
                Admission::Run { expect, draft, attempt } => {
                    let none_ran = attempt.kind == AttemptKind::First;
                    let twin = if none_ran {
                        self.clerk.look_out(&self.id, &self.ask, self.rule).await?
                    } else {
                        None
                    };
                    let draft = ledger::hand_out(*draft, &attempt, twin.clone());
                    let unheard = self.unheard(expect, &draft, attempt.clone());
                    match self.swap(expect, draft, None).await {
                        Ok(Swap::Applied { .. }) => return Ok(self.fresh(unheard, twin)),
                        // Somebody else moved it on before this process heard of it: it is not handed out.
                        Ok(Swap::Mismatch { row: Some(row), .. }) if row.attempt_id == attempt.id => {
                            self.clerk.give_back(unconfirmed(unheard));
                            return Err(Refusal::StoreUnavailable);
                        }
                        Ok(Swap::Mismatch { row, now }) => Seen { row: row.map(|row| *row), now },
                        Err(fault) => {
                            if matches!(fault, StoreError::Uncertain(_)) {
                                self.clerk.give_back(unconfirmed(unheard));
                            }
                            return Err(unavailable(&fault, earlier.filter(|_| !none_ran)));
                        }
                    }
                }
                Admission::Abandon { expect, draft } => {
                    let event = AuditEvent::abandoned(event_id(), draft.facts.clone());
                    let swap = self.swap(expect, (*draft).clone(), Some(event)).await;
                    match swap.map_err(|fault| unavailable(&fault, earlier))? {
                        Swap::Applied { now } => Seen { row: Some(draft.at(now, expect)), now },
                        Swap::Mismatch { row, now } => Seen { row: row.map(|row| *row), now },
                    }
                }
                Admission::Replay => return self.replay(&seen).await,
                Admission::Conflict(Conflict::OtherArguments) => {
                    return Err(Refusal::PayloadMismatch { first_seen });
                }
                Admission::Conflict(Conflict::OtherUser) => {
                    return Err(Refusal::KeyOfAnotherUser { first_seen });
                }
                // Whoever works renews; a queue that came every other second would learn nothing sooner.
                Admission::InFlight { lease_left } => {
                    return Err(Refusal::InFlight { first_seen, retry_after: lease_left.max(COME_BACK) });
                }
                Admission::Unknown { take_over_in } => {
                    let first_seen = Some(first_seen);
                    return Err(Refusal::OutcomeUnknown { first_seen, retry_after: take_over_in });
                }
            };
        }
        let first_seen = seen.row.as_ref().map_or(seen.now, |row| row.created_at);
        Err(Refusal::InFlight { first_seen, retry_after: COME_BACK })
    }

    fn fresh(&self, unheard: Settlement, twin: Option<String>) -> Handed {
        Handed::Fresh(Box::new(Fresh {
            attempt: self.ask.attempt_id,
            lease: self.terms.lease,
            timeout: self.terms.upstream_timeout,
            forward_key: self.rule.forward_key().header_value(parts(&self.id)),
            twin,
            unheard,
        }))
    }

    /// What is stored where nobody heard of the attempt: that it certainly did not run.
    fn unheard(&self, expect: Expect, draft: &Draft, attempt: Attempt) -> Settlement {
        Settlement {
            id: self.id.clone(),
            attempt,
            known: Known::Unsure { expect, draft: Box::new(draft.clone()) },
            came: Came::NotRun,
            terms: self.terms,
            event: AuditEvent {
                id: event_id(),
                facts: self.ask.facts.clone(),
                decision: Decision::Allowed,
                reason: Some("client_gone".to_owned()),
                result_summary: None,
                duration_ms: None,
                executed: Executed::No,
                upstream_status: None,
            },
            unsent: true,
        }
    }

    /// The first result again, after its row is committed.
    async fn replay(&self, seen: &Seen) -> Result<Handed, Refusal> {
        let row = seen.row.as_ref();
        let first_seen = row.map_or(seen.now, |row| row.created_at);
        let kept = row.and_then(|row| Kept::decode(row.response.as_ref()?).ok());
        let result = kept.and_then(|kept| Json::parse(&kept.body, MAX_DEPTH).ok());
        let result = result.ok_or(Refusal::AnswerNotKept { first_seen })?;
        let event = AuditEvent {
            id: event_id(),
            facts: Facts { attempt_id: row.map(|row| row.attempt_id), ..self.ask.facts.clone() },
            decision: Decision::Replayed,
            reason: None,
            result_summary: self.operation.summary_of(&result),
            duration_ms: None,
            executed: Executed::Yes,
            upstream_status: None,
        };
        self.clerk.append(event).await.map_err(|fault| unavailable(&fault, Some(first_seen)))?;
        Ok(Handed::Replay(result))
    }

    async fn swap(&self, expect: Expect, next: Draft, event: Option<AuditEvent>) -> Result<Swap, StoreError> {
        self.clerk.swap(Write { id: self.id.clone(), expect, next, event }).await
    }
}

/// An attempt that was not handed out, since its claim was not confirmed.
fn unconfirmed(mut unheard: Settlement) -> Settlement {
    unheard.event.reason = Some("store_unavailable".to_owned());
    unheard
}

fn parts(id: &ClaimId) -> Forwarded<'_> {
    Forwarded { service: &id.service, tenant: &id.tenant, tool: &id.tool, key: &id.key }
}

/// The store failed: nothing was begun by this request. Of an earlier attempt, where one was seen, that is not said.
fn unavailable(fault: &StoreError, earlier: Option<Timestamp>) -> Refusal {
    error!(error = %Chain(fault), "The store failed.");
    earlier.map_or(Refusal::StoreUnavailable, |first_seen| Refusal::ReplayNotRecorded { first_seen })
}
