//! Asking the app what became of a call whose outcome is unknown, and writing down what it proves.
//!
//! Promises: an unknown claim is resolved only by what the policy takes for proof, as the ledger allows it, with a row of
//! its own in the same transaction; everything else leaves it as it is. "It did not run" counts only if the question was
//! asked after the attempt's whole time had passed. What is kept as the call's answer was masked and looked through like
//! any other. Questions are few: about one claim as the policy says, in this process as [`Pace`] says.
//!
//! Absent on purpose: asking about a call that is only observed, and any mutation.

mod pace;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::info;
use uuid::Uuid;

pub use self::pace::Pace;
use super::keep;
use crate::domain::actor::Actor;
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::ledger::{self, Claim, ClaimId, Resolution, ResolveFault};
use crate::domain::policy::{
    About, Mutation, Operation, Policy, Proven, Question, Reconcile, Told, Unaskable,
};
use crate::domain::redact::Redactor;
use crate::domain::time::Timestamp;
use crate::layers::authorize::Court;
use crate::layers::forward::Road;
use crate::layers::forward::question::Answered;
use crate::mcp::errors::code_of;
use crate::mcp::judge::is_tool_error;
use crate::meter::Meter;
use crate::store::{Seen, Store, StoreError, Swap, Write, event_id};

/// How many questions may be on their way at once.
const AT_ONCE: usize = 4;

/// How long a retry waits for its turn to ask. After that it hears what is known.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks.
pub struct Reconciler {
    /// The ledger's home.
    store: Arc<dyn Store>,
    /// The way to the app.
    road: Arc<Road>,
    /// Has the policy.
    court: Arc<Court>,
    /// Counts the rows that are written.
    meter: Arc<Meter>,
    /// The largest answer that is kept, in bytes.
    stored_response: usize,
    places: Semaphore,
    pace: Pace,
}

/// Why somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A call met the claim, and waits.
    Retry,
    /// The janitor came by, and its turn to ask has come.
    Round,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The claim as it stands now, resolved or not.
    Row(Box<Seen>),
    /// Nobody was asked: it is too soon, or the app may not be asked about this claim.
    NotNow,
    /// Nobody was asked: this process asks enough already.
    Busy,
}

/// What the answer to one question proves, and what of it is kept.
struct Found {
    resolution: Resolution,
    status: u16,
    summary: Option<String>,
    took: Duration,
}

impl Reconciler {
    /// One that asks at the usual pace.
    pub fn new(
        store: Arc<dyn Store>,
        road: Arc<Road>,
        court: Arc<Court>,
        meter: Arc<Meter>,
        stored_response: usize,
    ) -> Self {
        let (places, pace) = (Semaphore::new(AT_ONCE), Pace::default());
        Self { store, road, court, meter, stored_response, places, pace }
    }

    /// The operations that the app is asked about, and how soon it may be asked again at the earliest.
    pub fn operations(&self) -> (Vec<String>, Option<Duration>) {
        let policy = self.court.policy.load();
        let asked = policy.operations().filter_map(|operation| Some((operation, asks(operation)?.1)));
        let asked: Vec<_> =
            asked.map(|(operation, how)| (operation.name().to_owned(), how.every())).collect();
        let every = asked.iter().map(|(_, every)| *every).min();
        (asked.into_iter().map(|(name, _)| name).collect(), every)
    }

    /// Asks about a claim, if it is time to, and resolves it by what that proves.
    pub async fn ask(
        &self,
        id: &ClaimId,
        claim: &Claim,
        now: Timestamp,
        occasion: Occasion,
    ) -> Result<Asked, StoreError> {
        let policy = self.court.policy.load_full();
        let Some(operation) = policy.of_name(&id.tool) else { return Ok(Asked::NotNow) };
        let Some((terms, how)) = asks(operation) else { return Ok(Asked::NotNow) };
        let too_soon = occasion == Occasion::Retry
            && ledger::may_ask_in(claim, now, how.every()).is_none_or(|wait| !wait.is_zero());
        let Some((expect, draft)) = ledger::take_turn(claim, now, how.every(), apart()).filter(|_| !too_soon)
        else {
            return Ok(Asked::NotNow);
        };
        let Some(_place) = self.place(occasion).await else { return Ok(Asked::Busy) };
        let turn = Write { id: id.clone(), expect, next: draft.clone(), event: None };
        let asked_at = match self.store.swap(turn).await? {
            Swap::Applied { now } => now,
            Swap::Mismatch { row, now } => {
                return Ok(Asked::Row(Box::new(Seen { row: row.map(|row| *row), now })));
            }
        };
        let claim = draft.at(asked_at, expect);
        let Some(found) = self.find_out(&policy, operation, how, id, &claim).await else {
            return Ok(Asked::Row(Box::new(Seen { row: Some(claim), now: asked_at })));
        };
        // Measured from before the question: what ran on while it was answered is not overlooked.
        let ttl = terms.terms(Duration::ZERO).ttl;
        let (expect, next) = match ledger::resolve(&claim, &found.resolution, asked_at, ttl) {
            Ok(write) => write,
            Err(
                fault @ (ResolveFault::MayStillRun(_)
                | ResolveFault::NotUnknown(_)
                | ResolveFault::StillOwned(_)),
            ) => {
                info!(tenant = id.tenant, tool = id.tool, key = id.key, reason = %fault, "The app does not know of a call, which proves nothing yet.");
                return Ok(Asked::Row(Box::new(Seen { row: Some(claim), now: asked_at })));
            }
        };
        let event = event(&policy, how, &claim.facts, &found);
        let write = Write { id: id.clone(), expect, next: next.clone(), event: Some(event.clone()) };
        Ok(Asked::Row(Box::new(match self.store.swap(write).await? {
            Swap::Applied { now } => {
                self.meter.row(&event);
                info!(tenant = id.tenant, tool = id.tool, key = id.key, attempt = %claim.attempt_id, reason = event.reason, "The app said what became of a call.");
                Seen { row: Some(next.at(now, expect)), now }
            }
            // The attempt's own answer came, or somebody else resolved it: that stands.
            Swap::Mismatch { row, now } => Seen { row: row.map(|row| *row), now },
        })))
    }

    /// The right to ask one question now.
    async fn place(&self, occasion: Occasion) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let patience = if occasion == Occasion::Retry { PATIENCE } else { Duration::ZERO };
        let place = timeout(patience, self.places.acquire()).await.ok()?.ok()?;
        self.pace.take(Instant::now()).then_some(place)
    }

    /// Asks, and says what the answer proves; none where it proves nothing.
    async fn find_out(
        &self,
        policy: &Policy,
        operation: &Operation,
        how: &Reconcile,
        id: &ClaimId,
        claim: &Claim,
    ) -> Option<Found> {
        let says = |reason: &str| {
            info!(
                tenant = id.tenant,
                tool = id.tool,
                key = id.key,
                asked = how.asked(),
                reason,
                "Nobody knows yet what became of a call."
            );
        };
        let question = question(how, id, claim).inspect_err(|fault| says(&fault.to_string())).ok()?;
        let asks = how.tool().and_then(|tool| policy.of_name(tool));
        let scopes = operation.scopes().iter().chain(asks.iter().flat_map(|asks| asks.scopes()));
        let facts = &claim.facts;
        let actor = Actor::new(&id.tenant, &claim.user, facts.session_id.as_deref(), scopes.cloned());
        let actor = actor.inspect_err(|fault| says(&fault.to_string())).ok()?;
        let began = Instant::now();
        let answered = match timeout(how.timeout(), self.road.question(&question, &actor, facts)).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(fault)) => {
                says(&Chain(&fault).to_string());
                return None;
            }
            Err(_elapsed) => {
                says("the app did not answer in time");
                return None;
            }
        };
        let reader = asks.map(|asks| asks.redactor());
        let (proven, status, result) = judge(how, reader, answered);
        let resolution = match proven {
            Proven::Completed => {
                let kept = result.map(|result| keep::found(operation, result, self.stored_response));
                let (response, summary) = kept.unwrap_or_default();
                return Some(Found {
                    resolution: Resolution::Completed { response },
                    status,
                    summary,
                    took: began.elapsed(),
                });
            }
            Proven::Absent => Resolution::Released { force: false },
            Proven::Nothing => {
                says("its answer proves nothing");
                return None;
            }
        };
        Some(Found { resolution, status, summary: None, took: began.elapsed() })
    }
}

/// A random time that nobody notices, by which two that write the same at the same time are told apart.
pub fn apart() -> Duration {
    let (random, _) = Uuid::new_v4().as_u64_pair();
    Duration::from_micros(random >> 47)
}

/// What the policy says about asking, where it does, and is carried out.
fn asks(operation: &Operation) -> Option<(&Mutation, &Reconcile)> {
    let terms = operation.mutation().filter(|_| !operation.is_observed())?;
    Some((terms, terms.reconcile()?))
}

/// How long until a call that meets this row may hear more than that nobody knows; none where the app cannot be asked.
pub(super) fn hears_more_in(id: &ClaimId, operation: &Operation, seen: &Seen) -> Option<Duration> {
    let ((_, how), row) = (asks(operation)?, seen.row.as_ref()?);
    question(how, id, row).ok()?;
    ledger::may_ask_in(row, seen.now, how.every())
}

/// The question about a claim, where it can be asked.
fn question(how: &Reconcile, id: &ClaimId, claim: &Claim) -> Result<Question, Unaskable> {
    // What the app heard then, whatever the policy says now. A call that went as its client sent it is not asked about.
    let unheard = || Unaskable::NotThere("forwarded_key".to_owned());
    let forwarded_key = claim.facts.forwarded_key.as_deref().ok_or_else(unheard)?;
    how.question(&About { key: &id.key, forwarded_key, facts: &claim.facts })
}

/// What an answer proves, its status, and the call's own result in it, masked as whoever was asked masks it.
fn judge(how: &Reconcile, reader: Option<&Redactor>, answered: Answered) -> (Proven, u16, Option<Json>) {
    match answered {
        Answered::Http(status, body) => {
            let proven = how.proven(Told::Http(status, body.as_ref()));
            let result = body.as_ref().and_then(|body| how.result(body, body)).cloned();
            (proven, status, result)
        }
        Answered::Tool(result) if is_tool_error(&result) => {
            (how.proven(Told::ToolError(code_of(&result).as_deref())), 200, None)
        }
        Answered::Tool(result) => {
            let mut whole = Json::Object(result);
            let proven =
                content(&whole).map_or(Proven::Nothing, |content| how.proven(Told::Answer(&content)));
            if let Some(reader) = reader {
                reader.mask_result(&mut whole);
            }
            let masked = content(&whole).unwrap_or(Json::Null);
            let result = how.result(&masked, &whole).cloned();
            (proven, 200, result)
        }
    }
}

/// What a tool's result says: its structured content, or the first text that is a JSON object.
fn content(result: &Json) -> Option<Json> {
    if let Some(structured) = result.get("structuredContent").filter(|content| content.as_object().is_some())
    {
        return Some(structured.clone());
    }
    let mut texts = result.get("content")?.as_array()?.iter().filter_map(|part| part.get("text")?.as_str());
    texts.find_map(|text| {
        Json::parse(text.as_bytes(), MAX_DEPTH).ok().filter(|json| json.as_object().is_some())
    })
}

/// The row of what was found out. Its arguments say who was asked.
fn event(policy: &Policy, how: &Reconcile, facts: &Facts, found: &Found) -> AuditEvent {
    let (reason, executed) = match found.resolution {
        Resolution::Completed { .. } => ("reconciled_completed", Executed::Yes),
        Resolution::Released { .. } => ("reconciled_released", Executed::No),
    };
    let asked = Json::object([("asked", Json::from(how.asked()))]);
    AuditEvent {
        id: event_id(),
        facts: Facts {
            args: Some(Redactor::default().audit_arguments(&asked)),
            policy_version: Some(policy.version().to_owned()),
            client: Some(concat!("oncegate/", env!("CARGO_PKG_VERSION")).to_owned()),
            ..facts.clone()
        },
        decision: Decision::Allowed,
        reason: Some(reason.to_owned()),
        result_summary: found.summary.clone(),
        duration_ms: i64::try_from(found.took.as_millis()).ok(),
        executed,
        upstream_status: Some(found.status),
    }
}
