//! What must hold of every write, and which steps are worth a look.

use oncegate::domain::ledger::{Claim, Status};

use super::world::{At, By, Step, World};

/// What must hold of every write.
pub(super) fn lawful(world: &World, old: Option<&Claim>, new: &Claim, by: By) -> Result<(), String> {
    let live = old.filter(|row| !row.is_expired(world.now));
    if let Some(row) = live.filter(|row| row.status == Status::Completed) {
        return Err(format!("a completed claim changed: {row:?} became {new:?}"));
    }
    if old.is_some_and(|row| row.revision >= new.revision) {
        return Err("a write did not raise the revision".to_owned());
    }
    if matches!(new.status, Status::InFlight | Status::Unknown) && new.expires_at.is_some() {
        return Err("a claim that may have run expires".to_owned());
    }
    let settled = |row: &Claim| matches!(row.status, Status::Failed | Status::AwaitingInput);
    let moved = |row: &Claim| row.attempt_id != new.attempt_id || settled(row);
    if matches!(by, By::Settling | By::Renewing) && live.is_some_and(moved) {
        return Err("a late owner changed what was settled, or is another's".to_owned());
    }
    if new.status == Status::Failed && world.may_have_run(world.window, new.attempt_id) {
        return Err("a claim that may have run became failed".to_owned());
    }
    Ok(())
}

/// Whether it is worth a closer look: most steps are not, and a look costs a copy of the world.
pub(super) fn may_begin(world: &World, step: Step) -> bool {
    let at = |who: usize| &world.callers[who].at;
    match step {
        Step::Call(who) => matches!(at(who), At::Idle) && world.callers[who].calls_left > 0,
        Step::Commit(who) => matches!(at(who), At::Claiming(..) | At::Abandoning(_) | At::Ended { .. }),
        Step::CommitUnheard(who) => matches!(at(who), At::Claiming(..) | At::Ended { .. }),
        Step::Strand(who) => matches!(at(who), At::Claiming(..)) && world.late.is_none(),
        Step::Confirm(who) => matches!(at(who), At::Unsure { .. }),
        Step::Send(who) | Step::RunsOutUnsent(who) => matches!(at(who), At::Owns(owning) if !owning.sent),
        Step::Renew(who)
        | Step::RenewLate(who)
        | Step::Answer(who)
        | Step::Doubt(who)
        | Step::Ask(who)
        | Step::Refuse(who)
        | Step::Lose(who) => matches!(at(who), At::Owns(owning) if owning.sent),
        Step::Crash(who) => !matches!(at(who), At::Idle),
        Step::Effect(nth) => world.upstream.get(nth).is_some_and(|sent| !sent.ran),
        Step::Land | Step::Vanish => world.late.is_some(),
        Step::JanitorLooks | Step::OperatorLooks | Step::Prune => world.row.is_some(),
        Step::JanitorWrites => world.janitor.is_some(),
        Step::OperatorWrites => world.operator.is_some(),
        Step::Tick => true,
    }
}
