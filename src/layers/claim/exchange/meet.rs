//! What a call meets in the ledger: it hears that from whoever of this process asks, or asks itself.
//!
//! Promises: only the holder of the pen asks; a caller that waits for another call holds no place meanwhile, waits as long
//! as the policy says and its client is there, and is authorised again each time it wakes.
//!
//! Absent on purpose: choices. [`ledger::admit`] makes them, whoever brought the row.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tower::Service;

use super::ask::{Learned, Unsure};
use super::{COME_BACK, Exchange, Owned, first_seen};
use crate::domain::ledger::{self, Admission, Attempt, AttemptKind, Conflict, Draft, Expect, Terms};
use crate::domain::policy::{InFlight, Mutation as MutationRule};
use crate::domain::refusal::Refusal;
use crate::domain::time::Timestamp;
use crate::layers::claim::Claimed;
use crate::layers::claim::flights::{Pen, Seat, Turn};
use crate::layers::forward::Forwarded;
use crate::meter::Waiting;
use crate::store::Seen;

/// How often whoever waits looks whether its caller is still there.
const LOOK_UP: Duration = Duration::from_secs(1);

/// What a call met in the ledger.
pub(super) enum Met {
    /// It owns the claim.
    Owner(Box<Owned>),
    /// The first answer stands there.
    Answered(Arc<Seen>),
    /// Its claim was not confirmed: it may own it, or not.
    Unsure(Box<Unsure>),
}

/// A caller's patience with a running call.
pub(super) struct Patience {
    until: Instant,
    /// What it is told when that ends, and that it is counted; none until it has to wait.
    waits: Option<(Refusal, Waiting)>,
    /// When the key was first used, where an earlier call with it may have run, for all that was seen.
    earlier: Option<Timestamp>,
}

/// Where a row leads a call.
pub(super) enum Course {
    /// To a write, by which it owns the claim.
    Run { expect: Expect, draft: Box<Draft>, attempt: Attempt },
    /// To a write that declares the owner dead.
    Abandon { expect: Expect, draft: Box<Draft> },
    /// Another call runs: this, unless it waits.
    Wait(Refusal),
    /// To the first answer.
    Replay,
    /// Nowhere.
    Refuse(Refusal),
}

impl<S> Exchange<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + Sync,
    S::Future: Send,
{
    /// What this call meets, once somebody knows.
    pub(super) async fn meet(
        &self,
        rule: &MutationRule,
        terms: &Terms,
        patience: &mut Patience,
    ) -> Result<Met, Refusal> {
        let mut seat = self.clerk.flights.join(&self.id);
        let mut known = None;
        loop {
            match self.turn(&mut seat, patience).await? {
                Turn::Failed => return Err(patience.unavailable()),
                Turn::Told(seen) => {
                    let course = self.course(&seen, terms);
                    patience.note(&course, &seen);
                    match course {
                        Course::Replay => return Ok(Met::Answered(seen)),
                        Course::Refuse(refusal) => return Err(refusal),
                        Course::Wait(refusal) => self.begin_to_wait(patience, refusal)?,
                        // That takes the pen.
                        Course::Run { .. } | Course::Abandon { .. } => {}
                    }
                    known = Some(seen);
                }
                Turn::Asks(pen) => {
                    drop(seat);
                    let learned = self.ask(&pen, known, rule, terms, patience).await;
                    if matches!(learned, Err(Refusal::StoreUnavailable) | Ok(Learned::Unsure(_))) {
                        pen.failed();
                    }
                    let learned = learned.map_err(|refusal| {
                        if refusal == Refusal::StoreUnavailable { patience.unavailable() } else { refusal }
                    });
                    return Ok(match learned? {
                        Learned::Owner { held, deadline, twin, now } => {
                            pen.running(&held.claim, now);
                            Met::Owner(Box::new(Owned { held: *held, deadline, twin, pen }))
                        }
                        Learned::Answered(seen) => Met::Answered(seen),
                        Learned::Unsure(unsure) => Met::Unsure(Box::new(unsure)),
                    });
                }
            }
        }
    }

    /// What is next for this call. Whoever waits for another call does it as long as its patience lasts and its caller
    /// is there.
    async fn turn(&self, seat: &mut Seat, patience: &mut Patience) -> Result<Turn, Refusal> {
        if patience.waits.is_none() {
            let began = Instant::now();
            let turn = seat.turn().await;
            // Whoever has the pen may have asked the app meanwhile.
            if began.elapsed() > LOOK_UP {
                self.clerk.court.still_allows(&self.head, &self.mutation.operation)?;
            }
            return Ok(turn);
        }
        loop {
            let look_up = self.look_up(patience)?;
            tokio::select! {
                turn = seat.turn() => {
                    self.clerk.court.still_allows(&self.head, &self.mutation.operation)?;
                    return Ok(turn);
                }
                () = sleep_until(look_up) => {}
            }
        }
    }

    /// Where a row leads this call.
    pub(super) fn course(&self, seen: &Seen, terms: &Terms) -> Course {
        let first_seen = first_seen(seen);
        match ledger::admit(seen.row.as_ref(), &self.ask, seen.now, terms) {
            Admission::Run { expect, draft, attempt } => Course::Run { expect, draft, attempt },
            Admission::Abandon { expect, draft } => Course::Abandon { expect, draft },
            Admission::InFlight { lease_left } => {
                Course::Wait(Refusal::InFlight { first_seen, retry_after: lease_left.min(COME_BACK) })
            }
            Admission::Replay => Course::Replay,
            Admission::Conflict(Conflict::OtherArguments) => {
                Course::Refuse(Refusal::PayloadMismatch { first_seen })
            }
            Admission::Conflict(Conflict::OtherUser) => {
                Course::Refuse(Refusal::KeyOfAnotherUser { first_seen })
            }
            Admission::Unknown { take_over_in } => Course::Refuse(Refusal::OutcomeUnknown {
                first_seen: Some(first_seen),
                retry_after: take_over_in.or_else(|| self.hears_more_in(seen)),
            }),
        }
    }

    /// Lets this call wait for the running one, if the policy does. It gives up its place among the calls that run.
    pub(super) fn begin_to_wait(&self, patience: &mut Patience, refusal: Refusal) -> Result<(), Refusal> {
        let counted = match patience.waits.take() {
            Some((_, counted)) => counted,
            None if patience.until <= Instant::now() => return Err(refusal),
            None => self.clerk.journal.meter().waiting(),
        };
        self.head.asked.leave_room();
        patience.waits = Some((refusal, counted));
        Ok(())
    }

    /// Until when it waits before it looks up again; its refusal where it waits no longer.
    fn look_up(&self, patience: &Patience) -> Result<Instant, Refusal> {
        let now = Instant::now();
        match &patience.waits {
            Some((refusal, _))
                if now >= patience.until || self.line.is_deserted() || self.head.asked.must_leave() =>
            {
                Err(refusal.clone())
            }
            _ => Ok(patience.until.min(now + LOOK_UP)),
        }
    }

    /// Pauses before the store is asked again about a call that runs elsewhere.
    pub(super) async fn pause(&self, pen: &Pen, patience: &Patience) -> Result<(), Refusal> {
        let asks_at = Instant::now() + pen.pace();
        while Instant::now() < asks_at {
            sleep_until(self.look_up(patience)?.min(asks_at)).await;
        }
        self.clerk.court.still_allows(&self.head, &self.mutation.operation)
    }
}

impl Patience {
    /// None: whoever observes decides at once.
    pub(super) fn none() -> Self {
        Self { until: Instant::now(), waits: None, earlier: None }
    }

    /// Whether it waits, or did.
    pub(super) fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// Remembers what a row says of an earlier call.
    pub(super) fn note(&mut self, course: &Course, seen: &Seen) {
        let none_ran = matches!(course, Course::Run { attempt, .. } if attempt.kind == AttemptKind::First);
        self.earlier = seen.row.as_ref().filter(|_| !none_ran).map(|row| row.created_at);
    }

    /// What is said when the store does not answer: that nothing was run, unless an earlier call may have been.
    pub(super) fn unavailable(&self) -> Refusal {
        self.earlier.map_or(Refusal::StoreUnavailable, |first_seen| Refusal::ReplayNotRecorded { first_seen })
    }

    pub(super) fn of(rule: &MutationRule) -> Self {
        let up_to = match rule.in_flight() {
            InFlight::Refuse => Duration::ZERO,
            InFlight::Wait { up_to } => up_to,
        };
        Self { until: Instant::now() + up_to, waits: None, earlier: None }
    }
}
