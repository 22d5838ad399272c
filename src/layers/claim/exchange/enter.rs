//! The way in: the ledger is asked until the call owns its claim, or is answered, or refused.
//!
//! Promises: the claim is committed before this returns an owner; a claim whose commit stays uncertain is not
//! forwarded, and is settled as failed once the store answers; a caller that waited is authorised again.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower::Service;
use tracing::{error, info, warn};

use super::{COME_BACK, Exchange, FIRST_PAUSE, LONGEST_PAUSE, Owned, first_seen, unavailable};
use crate::domain::answer::{Kept, Kind};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::ledger::{
    self, Admission, Attempt, AttemptKind, Conflict, Draft, Expect, Held, Status, Terms,
};
use crate::domain::policy::{Duplicate, InFlight, Mutation as MutationRule};
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::Answer;
use crate::layers::claim::Claimed;
use crate::layers::claim::keep::End;
use crate::layers::forward::Forwarded;
use crate::mcp::takes::takes;
use crate::store::{Seen, StoreError, Swap, TwinOf};
use crate::wire::envelope::Marks;

/// How often a claim is decided anew because its row changed in between, before the caller is asked to come back.
const MAX_TURNS: u32 = 16;

/// The longest pause of a caller that waits for a running call.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How a call goes on once the ledger was asked.
pub(super) enum Entry {
    /// It owns the claim.
    Owner(Box<Owned>),
    /// It is answered with the first call's answer.
    Replay(Answer),
}

/// What a call met in the ledger.
pub(super) enum Met {
    /// It owns the claim.
    Owner(Box<Owned>),
    /// The first answer stands there.
    Answered(Box<Seen>),
    /// Its claim was not confirmed: it may own it, or not.
    Unsure(Box<Unsure>),
}

/// A claim whose commit was not confirmed.
pub(super) struct Unsure {
    attempt: Attempt,
    expect: Expect,
    draft: Box<Draft>,
}

/// A caller's patience with a running call.
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    pub(super) async fn enter(&mut self, rule: &MutationRule, terms: &Terms) -> Result<Entry, Refusal> {
        match self.meet(rule, terms, Patience::of(rule)).await? {
            Met::Owner(owned) => Ok(Entry::Owner(owned)),
            Met::Answered(seen) => self.replay(&seen).await.map(Entry::Replay),
            Met::Unsure(unsure) => {
                self.head.asked.mark_audited();
                self.tell(Err(Refusal::StoreUnavailable));
                // Nothing was forwarded, and nothing will be.
                let held = self.confirmed(*unsure).await;
                let end = End::not_run(Refusal::StoreUnavailable, None);
                self.settle(&held, end, terms, None).await;
                Err(Refusal::StoreUnavailable)
            }
        }
    }

    /// Asks the ledger until it says what this call is.
    pub(super) async fn meet(
        &self,
        rule: &MutationRule,
        terms: &Terms,
        mut patience: Patience,
    ) -> Result<Met, Refusal> {
        let mut twin = None;
        // Most calls are new: the first write tries its luck without reading. A look-out for twins must know first.
        let mut seen = match rule.twin() {
            Some(_) => self.read().await?,
            None => Seen { row: None, now: Timestamp::from_micros(0) },
        };
        let mut turns = 0;
        while turns < MAX_TURNS {
            turns += 1;
            seen = match ledger::admit(seen.row.as_ref(), &self.ask, seen.now, terms) {
                Admission::Run { expect, draft, attempt } => {
                    if attempt.kind == AttemptKind::First && twin.is_none() {
                        twin = self.look_out(rule).await?;
                    }
                    match self.claim(expect, draft, attempt, terms).await? {
                        Claiming::Done { held, deadline } => {
                            return Ok(Met::Owner(Box::new(Owned { held, deadline, twin })));
                        }
                        Claiming::Unsure(unsure) => return Ok(Met::Unsure(Box::new(unsure))),
                        Claiming::Other(other) => other,
                    }
                }
                Admission::Abandon { expect, draft } => self.abandon(expect, &draft).await?,
                Admission::InFlight { lease_left } => {
                    let refusal = Refusal::InFlight {
                        first_seen: first_seen(&seen),
                        retry_after: lease_left.min(COME_BACK),
                    };
                    turns = 0;
                    self.wait(&mut patience, refusal).await?
                }
                Admission::Replay => return Ok(Met::Answered(Box::new(seen))),
                Admission::Conflict(Conflict::OtherArguments) => {
                    return Err(Refusal::PayloadMismatch { first_seen: first_seen(&seen) });
                }
                Admission::Conflict(Conflict::OtherUser) => {
                    return Err(Refusal::KeyOfAnotherUser { first_seen: first_seen(&seen) });
                }
                Admission::Unknown { take_over_in } => {
                    let first_seen = Some(first_seen(&seen));
                    return Err(Refusal::OutcomeUnknown { first_seen, retry_after: take_over_in });
                }
            };
        }
        // Others keep changing the row: they are running it.
        Err(Refusal::InFlight { first_seen: first_seen(&seen), retry_after: COME_BACK })
    }

    /// Tries to commit the claim.
    async fn claim(
        &self,
        expect: Expect,
        draft: Box<Draft>,
        attempt: Attempt,
        terms: &Terms,
    ) -> Result<Claiming, Refusal> {
        // Taken before the store's own now, so that the attempt never outlives what the row says of it.
        let deadline = Instant::now() + terms.upstream_timeout;
        match self.swap(expect, &draft, None).await {
            Ok(Swap::Applied { now }) => {
                Ok(Claiming::Done { held: Held { attempt, claim: draft.at(now, expect) }, deadline })
            }
            Ok(Swap::Mismatch { row, now }) => Ok(Claiming::Other(Seen { row: row.map(|row| *row), now })),
            Err(fault @ StoreError::Uncertain(_)) => {
                error!(error = %Chain(&fault), "A claim was not confirmed.");
                Ok(Claiming::Unsure(Unsure { attempt, expect, draft }))
            }
            Err(fault) => Err(unavailable(&fault)),
        }
    }

    /// The claim of an attempt that was not confirmed, once the store answers: as it stands there, or as it would have
    /// been written.
    pub(super) async fn confirmed(&self, unsure: Unsure) -> Held {
        let Unsure { attempt, expect, draft } = unsure;
        let mut pause = FIRST_PAUSE;
        let seen = loop {
            match self.clerk.store.read(&self.id).await {
                Ok(seen) => break seen,
                Err(fault) => {
                    warn!(error = %Chain(&fault), "An unconfirmed claim waits for the store.");
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        Held { attempt, claim: seen.row.unwrap_or_else(|| draft.at(seen.now, expect)) }
    }

    /// Declares a dead owner's claim unknown, with the row that the owner could not write.
    async fn abandon(&self, expect: Expect, draft: &Draft) -> Result<Seen, Refusal> {
        info!(attempt = %draft.attempt_id, "A claim's owner is gone; its outcome is unknown.");
        let event = AuditEvent {
            facts: draft.facts.clone(),
            duration_ms: None,
            executed: Executed::Maybe,
            ..self.event(Some("abandoned".to_owned()))
        };
        let swap = self.swap(expect, draft, Some(event)).await.map_err(|fault| unavailable(&fault))?;
        Ok(match swap {
            Swap::Applied { now } => Seen { row: Some(draft.at(now, expect)), now },
            Swap::Mismatch { row, now } => Seen { row: row.map(|row| *row), now },
        })
    }

    /// Waits a little for a running call, if the policy lets callers wait and this one is still there.
    async fn wait(&self, patience: &mut Patience, refusal: Refusal) -> Result<Seen, Refusal> {
        if self.line.is_deserted() || Instant::now() + patience.pause > patience.until {
            return Err(refusal);
        }
        sleep(patience.pause).await;
        patience.pause = (patience.pause * 2).min(LONGEST_WAIT);
        self.clerk.court.still_allows(&self.head.caller, &self.mutation.operation)?;
        self.read().await
    }

    /// The earlier key of a twin, where the policy looks out for one.
    async fn look_out(&self, rule: &MutationRule) -> Result<Option<String>, Refusal> {
        let Some(twin) = rule.twin() else {
            return Ok(None);
        };
        let of = TwinOf {
            id: self.id.clone(),
            user: self.ask.facts.user_id.clone(),
            args_hashes: self.ask.accepted_hashes.clone(),
            window: twin.window,
        };
        let found = self.clerk.store.twin(&of).await.map_err(|fault| unavailable(&fault))?;
        match (found, twin.then) {
            (None, _) => Ok(None),
            (Some(earlier), Duplicate::Flag) => Ok(Some(earlier.key)),
            (Some(earlier), Duplicate::Refuse) => {
                Err(Refusal::PossibleDuplicate { earlier_key: earlier.key, first_seen: earlier.created_at })
            }
        }
    }

    /// The first answer, if it is at hand and of a kind that this client can take.
    pub(super) fn stored(&self, seen: &Seen) -> Result<(Kept, Json), Refusal> {
        let first_seen = first_seen(seen);
        let row = seen.row.as_ref();
        let completed = row.is_some_and(|row| row.status == Status::Completed);
        // A question that was not kept is no answer: nobody has carried the call out yet.
        let not_kept = || {
            let unknown = Refusal::OutcomeUnknown { first_seen: Some(first_seen), retry_after: None };
            if completed { Refusal::AnswerNotKept { first_seen } } else { unknown }
        };
        let response = row.and_then(|row| row.response.as_ref()).ok_or_else(not_kept)?;
        let kept = Kept::decode(response).map_err(|fault| {
            error!(error = %Chain(&fault), "A stored answer cannot be read.");
            not_kept()
        })?;
        let json = Json::parse(&kept.body, MAX_DEPTH).unwrap_or(Json::Null);
        if kept.kind == Kind::Result && !takes(&self.mutation.request, self.head.era, &json) {
            return Err(Refusal::AnswerNotForClient { first_seen });
        }
        Ok((kept, json))
    }

    /// The first answer again, after its row is committed.
    async fn replay(&self, seen: &Seen) -> Result<Answer, Refusal> {
        let (kept, json) = self.stored(seen)?;
        let (row, first_seen) = (seen.row.as_ref(), first_seen(seen));
        let completed = row.is_some_and(|row| row.status == Status::Completed);
        let event = AuditEvent {
            facts: Facts { attempt_id: row.map(|row| row.attempt_id), ..self.ask.facts.clone() },
            decision: Decision::Replayed,
            result_summary: self.mutation.operation.summary_of(&json),
            executed: if completed { Executed::Yes } else { Executed::Maybe },
            upstream_status: Some(kept.status),
            ..self.event(None)
        };
        self.clerk.append(event).await.map_err(|fault| {
            error!(error = %Chain(&fault), "A replay was not written down, and so not given.");
            Refusal::ReplayNotRecorded { first_seen }
        })?;
        Ok(Answer::Claimed { kept, marks: Marks { replayed: true, ..Marks::default() } })
    }
}

/// What came of the try to commit a claim.
enum Claiming {
    /// It is committed.
    Done {
        held: Held,
        /// The end of the attempt's time.
        deadline: Instant,
    },
    /// Somebody else was first: the row as it stands.
    Other(Seen),
    /// Nobody knows.
    Unsure(Unsure),
}

impl Patience {
    /// None: whoever observes decides at once.
    pub(super) fn none() -> Self {
        Self { until: Instant::now(), pause: FIRST_PAUSE }
    }

    fn of(rule: &MutationRule) -> Self {
        let up_to = match rule.in_flight() {
            InFlight::Refuse => Duration::ZERO,
            InFlight::Wait { up_to } => up_to,
        };
        Self { until: Instant::now() + up_to, pause: FIRST_PAUSE }
    }
}
