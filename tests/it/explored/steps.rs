//! What each step does, and what must hold of it.
//!
//! Promises: every rule is asked of [`Rules`], never repeated; every promise of the ledger is checked at the step that
//! could break it, against what really happened at the upstream.
#![expect(clippy::wildcard_enum_match_arm, reason = "most steps are of no account here")]

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use oncegate::domain::ledger::{
    Admission, Ask, Attempt, AttemptKind, Came, Claim, Downstream, Expects, Held, Resolution, Settling,
    Status,
};
use uuid::Uuid;

use super::promises::{lawful, may_begin};
use super::rules::Rules;
use super::world::{At, By, Owning, Pending, Scene, Sent, Step, Truth, World};

/// One step into `Some` world, or `None` where it cannot happen; an error where it breaks a promise.
pub(super) type Taken = Result<Option<World>, String>;

/// What the store says of a write.
enum Landed {
    Applied(Rc<Claim>),
    Other(Option<Rc<Claim>>),
}

pub(super) struct Laws<'a> {
    pub(super) rules: &'a dyn Rules,
    pub(super) scene: &'a Scene,
}

impl Laws<'_> {
    pub(super) fn take(&self, world: &World, step: Step) -> Taken {
        if !may_begin(world, step) {
            return Ok(None);
        }
        let mut next = world.clone();
        let happened = match step {
            Step::Call(who) => self.call(&mut next, who),
            Step::Commit(who) => self.commit(&mut next, who, true)?,
            Step::CommitUnheard(who) => self.commit(&mut next, who, false)?,
            Step::Strand(who) => self.strand(&mut next, who),
            Step::Confirm(who) => self.confirm(&mut next, who),
            Step::Send(who) => self.send(&mut next, who),
            Step::RunsOutUnsent(who) => self.runs_out(&mut next, who),
            Step::Renew(who) => self.renew(&mut next, who)?,
            Step::RenewLate(who) => self.renew_late(&mut next, who),
            Step::Crash(who) => crash(&mut next, who),
            Step::Effect(nth) => self.effect(&mut next, nth)?,
            Step::Answer(who) | Step::Doubt(who) | Step::Ask(who) | Step::Refuse(who) | Step::Lose(who) => {
                self.hear(&mut next, who, step)
            }
            Step::Land => match next.late.take() {
                Some(pending) => {
                    self.land(&mut next, &pending)?;
                    true
                }
                None => false,
            },
            Step::Vanish => next.late.take().is_some(),
            Step::JanitorLooks => {
                let looked = self.janitor_looks(&mut next);
                if let Some(pending) = next.janitor.take_if(|_| !self.scene.slow_hands) {
                    self.land(&mut next, &pending)?;
                }
                looked
            }
            Step::OperatorLooks => {
                let looked = self.operator_looks(&mut next);
                if let Some(pending) = next.operator.take_if(|_| !self.scene.slow_hands) {
                    self.land(&mut next, &pending)?;
                }
                looked
            }
            Step::JanitorWrites => match next.janitor.take() {
                Some(pending) => self.land(&mut next, &pending).map(|_| true)?,
                None => false,
            },
            Step::OperatorWrites => match next.operator.take() {
                Some(pending) => self.land(&mut next, &pending).map(|_| true)?,
                None => false,
            },
            Step::Prune => prune(&mut next),
            Step::Tick => {
                next.now = next.now.plus(Duration::from_secs(1));
                true
            }
        };
        next.tidy(self.rules.forgets_no_revision());
        Ok(happened.then_some(next))
    }

    fn ask(&self, world: &World, who: usize) -> Ask {
        Ask { attempt_id: Uuid::from_u128(world.attempts), ..self.scene.asks[who].clone() }
    }

    fn call(&self, world: &mut World, who: usize) -> bool {
        if !matches!(world.callers[who].at, At::Idle) || world.callers[who].calls_left == 0 {
            return false;
        }
        world.callers[who].calls_left -= 1;
        // As the gate does: the first write tries its luck without reading.
        self.meet(world, who, None);
        true
    }

    /// The ledger is asked what a call meets.
    fn meet(&self, world: &mut World, who: usize, seen: Option<&Claim>) {
        world.attempts += 1;
        let ask = self.ask(world, who);
        world.callers[who].at = match self.rules.admit(seen, &ask, world.now, &self.scene.terms) {
            Admission::Run { expect, draft, attempt } => {
                let claims = Some(Rc::new(attempt));
                let deadline = world.now.plus(self.scene.terms.upstream_timeout);
                At::Claiming(Pending { expect, draft: Rc::new(*draft), claims, by: By::Claiming }, deadline)
            }
            Admission::Abandon { expect, draft } => {
                At::Abandoning(Pending { expect, draft: Rc::new(*draft), claims: None, by: By::Abandoning })
            }
            Admission::Replay
            | Admission::Conflict(_)
            | Admission::InFlight { .. }
            | Admission::Unknown { .. } => At::Idle,
        };
    }

    fn commit(&self, world: &mut World, who: usize, heard: bool) -> Result<bool, String> {
        match world.callers[who].at.clone() {
            At::Claiming(pending, deadline) => match self.land(world, &pending)? {
                Landed::Applied(claim) => {
                    let attempt = pending.claims.expect("a claim is an attempt's");
                    world.callers[who].at = if heard {
                        let held = Rc::new(Held { attempt: (*attempt).clone(), claim: (*claim).clone() });
                        At::Owns(Owning { held, deadline, sent: false, window: world.window })
                    } else {
                        At::Unsure { attempt, expect: pending.expect, draft: pending.draft }
                    };
                }
                // Nothing was written: whether its sender hears of that makes no difference to anybody else.
                Landed::Other(_) if !heard => return Ok(false),
                Landed::Other(row) => self.meet(world, who, row.as_deref()),
            },
            At::Abandoning(pending) if heard => match self.land(world, &pending)? {
                Landed::Applied(row) => self.meet(world, who, Some(&row)),
                Landed::Other(row) => self.meet(world, who, row.as_deref()),
            },
            At::Ended { held, came, row } => {
                let settling = self.rules.settle(row.as_deref(), &held, &came, &self.scene.terms);
                let Settling::Write { expect, draft } = settling else {
                    world.callers[who].at = At::Idle;
                    return Ok(heard);
                };
                let pending = Pending { expect, draft: Rc::new(*draft), claims: None, by: By::Settling };
                match self.land(world, &pending)? {
                    Landed::Applied(_) if heard => world.callers[who].at = At::Idle,
                    Landed::Applied(_) => {}
                    Landed::Other(_) if !heard => return Ok(false),
                    Landed::Other(row) => world.callers[who].at = At::Ended { held, came, row },
                }
            }
            At::Abandoning(_) | At::Idle | At::Owns(_) | At::Unsure { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// A write arrives at the store.
    fn land(&self, world: &mut World, pending: &Pending) -> Result<Landed, String> {
        let Pending { expect, draft, by, .. } = pending;
        let old = world.row.clone();
        // A store knows a write again whose answer got lost.
        if let Some(row) = old.as_ref().filter(|row| draft.is_own(*expect, row)) {
            return Ok(Landed::Applied(Rc::clone(row)));
        }
        if !self.rules.applies(old.as_deref(), *expect) {
            return Ok(Landed::Other(old));
        }
        let new = Rc::new(self.rules.row(draft, world.now, *expect));
        lawful(world, old.as_deref(), &new, *by)?;
        if pending.claims.as_ref().is_some_and(|attempt| attempt.kind == AttemptKind::First)
            && old.is_none_or(|row| row.status != Status::Failed && row.is_expired(world.now))
        {
            world.window += 1;
        }
        world.row = Some(Rc::clone(&new));
        Ok(Landed::Applied(new))
    }

    fn send(&self, world: &mut World, who: usize) -> bool {
        let now = world.now;
        let At::Owns(owning) = &mut world.callers[who].at else { return false };
        if owning.sent || !self.rules.sends(now, owning.deadline) {
            return false;
        }
        owning.sent = true;
        // Whoever sends too late runs too late.
        let deadline = owning.deadline.max(now.plus(Duration::from_secs(1)));
        let (attempt, window) = (owning.held.attempt.id, owning.window);
        world.upstream.push(Sent { attempt, window, deadline, ran: false });
        true
    }

    fn runs_out(&self, world: &mut World, who: usize) -> bool {
        let At::Owns(owning) = world.callers[who].at.clone() else { return false };
        if owning.sent || self.rules.sends(world.now, owning.deadline) {
            return false;
        }
        end(world, who, &owning, Came::NotRun);
        true
    }

    fn renew(&self, world: &mut World, who: usize) -> Result<bool, String> {
        let Some((owning, pending)) = self.renewal(world, who) else { return Ok(false) };
        let row = match self.land(world, &pending)? {
            Landed::Applied(row) => Some(row),
            Landed::Other(row) => row,
        };
        if let Some(row) = row {
            let held = Held { attempt: owning.held.attempt.clone(), claim: (*row).clone() };
            world.callers[who].at = At::Owns(Owning { held: Rc::new(held), ..owning });
        }
        Ok(true)
    }

    /// A renewal that its sender hears nothing of, be it that it lands at once.
    fn renew_late(&self, world: &mut World, who: usize) -> bool {
        let Some((_, pending)) = self.renewal(world, who).filter(|_| world.late.is_none()) else {
            return false;
        };
        world.late = Some(pending);
        true
    }

    fn renewal(&self, world: &World, who: usize) -> Option<(Owning, Pending)> {
        let At::Owns(owning) = &world.callers[who].at else { return None };
        let until = world.row.as_ref().and_then(|row| row.lease_until);
        let is_over = |sent: &Sent| sent.attempt == owning.held.attempt.id && sent.deadline <= world.now;
        // Whoever has waited for its whole time renews no more: what it has to say is that nobody knows.
        if !owning.sent
            || world.upstream.iter().any(is_over)
            || until == Some(world.now.plus(self.scene.terms.lease))
        {
            return None;
        }
        let (expect, draft) =
            self.rules.renew(&owning.held.claim, &owning.held.attempt, &self.scene.terms)?;
        let pending = Pending { expect, draft: Rc::new(draft), claims: None, by: By::Renewing };
        Some((owning.clone(), pending))
    }

    /// The promise: one retention window, one effect.
    fn effect(&self, world: &mut World, nth: usize) -> Result<bool, String> {
        let now = world.now;
        let Some(sent) = world.upstream.get_mut(nth).filter(|sent| !sent.ran && now < sent.deadline) else {
            return Ok(false);
        };
        sent.ran = true;
        let (window, attempt) = (sent.window, sent.attempt);
        let Some(truth) = world.truths.iter_mut().find(|truth| truth.window == window) else {
            world.truths.push(Truth { window, first: now, answer: attempt });
            return Ok(true);
        };
        match self.scene.terms.downstream {
            Downstream::Unsafe => Err("the upstream ran it a second time".to_owned()),
            Downstream::Idempotent { retention } if truth.first.plus(retention) <= now => {
                Err("the backend had forgotten the key, and ran it a second time".to_owned())
            }
            Downstream::Idempotent { .. } => Ok(true),
        }
    }

    /// The claim's write is on its way for longer than its sender waits.
    fn strand(&self, world: &mut World, who: usize) -> bool {
        let At::Claiming(pending, deadline) = world.callers[who].at.clone() else { return false };
        let Some(attempt) = pending.claims.clone() else { return false };
        let (expect, draft) = (pending.expect, Rc::clone(&pending.draft));
        world.callers[who].at = if self.rules.sends_unconfirmed() {
            let held = Held { attempt: Attempt::clone(&attempt), claim: draft.at(world.now, expect) };
            At::Owns(Owning { held: Rc::new(held), deadline, sent: false, window: world.window + 1 })
        } else {
            At::Unsure { attempt, expect, draft }
        };
        world.late = Some(pending);
        true
    }

    /// The store answers again: what stands there is what the attempt settles.
    fn confirm(&self, world: &mut World, who: usize) -> bool {
        let At::Unsure { attempt, expect, draft } = world.callers[who].at.clone() else { return false };
        let unwritten = || self.rules.unwritten(draft.at(world.now, expect));
        let claim = world.row.as_deref().cloned().unwrap_or_else(unwritten);
        let row = Some(Rc::new(claim.clone()));
        let held = Rc::new(Held { attempt: Attempt::clone(&attempt), claim });
        world.callers[who].at = At::Ended { held, came: Rc::new(Came::NotRun), row };
        true
    }

    /// An owner hears how its attempt ended.
    fn hear(&self, world: &mut World, who: usize, step: Step) -> bool {
        let At::Owns(owning) = world.callers[who].at.clone() else { return false };
        let Some(nth) = world.upstream.iter().position(|sent| sent.attempt == owning.held.attempt.id) else {
            return false;
        };
        let ran = world.upstream[nth].ran;
        let answer = world.truth(owning.window).map_or(owning.held.attempt.id, |truth| truth.answer);
        let response = Some(Bytes::copy_from_slice(answer.as_bytes()));
        let came = match step {
            Step::Answer(_) if ran => Came::Completed { response, doubtful_in_rerun: false },
            Step::Doubt(_) if !ran && self.scene.moods.doubts => {
                Came::Completed { response: None, doubtful_in_rerun: true }
            }
            Step::Ask(_) if !ran && self.scene.moods.asks => Came::AwaitingInput {
                response: Some(Bytes::from_static(b"?")),
                expects: Expects { state: "aa".into(), inputs: true },
            },
            Step::Refuse(_) if !ran => Came::NotRun,
            Step::Lose(_) => Came::Unknown,
            _ => return false,
        };
        if came != Came::Unknown && !ran {
            // It has answered, and runs no more.
            world.upstream.remove(nth);
        }
        end(world, who, &owning, came);
        true
    }

    fn janitor_looks(&self, world: &mut World) -> bool {
        let seen = world.row.as_ref().filter(|_| world.janitor.is_none());
        let found = seen.and_then(|row| self.rules.abandon(row, world.now, &self.scene.terms));
        let Some((expect, draft)) = found else { return false };
        world.janitor = Some(Pending { expect, draft: Rc::new(draft), claims: None, by: By::Abandoning });
        true
    }

    /// A person looks at the row, then at the upstream's own books.
    fn operator_looks(&self, world: &mut World) -> bool {
        let Some(row) = world.row.clone().filter(|_| world.operator.is_none()) else { return false };
        let resolution = match world.truth(world.window) {
            Some(_) => Resolution::Completed { response: None },
            None => Resolution::Released { force: false },
        };
        let Ok((expect, draft)) = self.rules.resolve(&row, &resolution, world.now, &self.scene.terms) else {
            return false;
        };
        world.operator = Some(Pending { expect, draft: Rc::new(draft), claims: None, by: By::Resolving });
        true
    }
}

fn end(world: &mut World, who: usize, owning: &Owning, came: Came) {
    let row = Some(Rc::new(owning.held.claim.clone()));
    world.callers[who].at = At::Ended { held: Rc::clone(&owning.held), came: Rc::new(came), row };
}

fn crash(world: &mut World, who: usize) -> bool {
    let alive = !matches!(world.callers[who].at, At::Idle);
    world.callers[who].at = At::Idle;
    alive
}

fn prune(world: &mut World) -> bool {
    let prunable = world.row.as_ref().is_some_and(|row| row.is_expired(world.now));
    if prunable {
        world.row = None;
        // With its row the retention window is over.
        world.window += 1;
    }
    prunable
}
