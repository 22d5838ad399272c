//! What may happen next in a schedule, and by what a world is known that was seen before.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use oncegate::domain::ledger::{Claim, Expect, Status};
use oncegate::store::Swap;
use uuid::Uuid;

use super::run::Run;
use super::world::{Heard, What};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Call(usize),
    Commit(usize),
    Answer(usize),
    Effect(usize),
    Reply(usize),
    // From here on something goes wrong.
    Unheard(usize),
    Strand(usize),
    Refuse(usize),
    Lose(usize),
    TurnAway(usize),
    HangUp(usize),
    Crash(usize),
    Wait,
}

impl Run {
    /// All of it.
    pub(super) fn events(&self) -> Vec<Event> {
        let state = self.world.state();
        let mut events = Vec::new();
        for (who, caller) in self.callers.iter().enumerate() {
            if caller.called.is_none() && !caller.gone && self.is_alive(caller.gate) {
                events.push(Event::Call(who));
            }
        }
        for (nth, op) in state.ops.iter().enumerate() {
            events.push(if op.done.is_some() { Event::Answer(nth) } else { Event::Commit(nth) });
        }
        for (nth, sent) in state.sent.iter().enumerate() {
            if !sent.ran && state.now < sent.until {
                events.push(Event::Effect(nth));
            } else if sent.ran && sent.is_awaited() {
                events.push(Event::Reply(nth));
            }
        }
        if self.waits > 0 {
            events.push(Event::Wait);
        }
        if self.faults == 0 {
            return events;
        }
        for (nth, op) in state.ops.iter().enumerate().filter(|(_, op)| op.is_awaited()) {
            match (&op.what, &op.done) {
                (What::Swap(_), Some(_)) => events.push(Event::Unheard(nth)),
                (What::Swap(_), None) => events.extend([Event::Strand(nth), Event::Refuse(nth)]),
                (What::Read | What::Append(_), None) => events.push(Event::Refuse(nth)),
                (What::Read | What::Append(_), Some(_)) => {}
            }
        }
        for (nth, sent) in state.sent.iter().enumerate().filter(|(_, sent)| sent.is_awaited()) {
            events.push(Event::Lose(nth));
            if !sent.ran {
                events.push(Event::TurnAway(nth));
            }
        }
        for (who, caller) in self.callers.iter().enumerate() {
            if caller.called.is_some() && caller.told.is_none() && !caller.gone && self.is_alive(caller.gate)
            {
                events.push(Event::HangUp(who));
            }
        }
        events.extend((0..self.gates.len()).filter(|gate| self.is_alive(*gate)).map(Event::Crash));
        events
    }

    /// A name for all that decides what may come.
    pub(super) fn name(&self) -> u64 {
        let state = self.world.state();
        let mut ids: Vec<Uuid> = Vec::new();
        let mut nth = |id: Uuid| {
            ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            })
        };
        let mut said: Vec<String> = Vec::new();
        let secs = |at: i64| (at - state.now).div_euclid(2_000_000);
        if let Some(Claim { status, attempt_id, lease_until, attempt_until, .. }) = &state.row {
            let until = [lease_until, attempt_until].map(|at| at.map(|at| secs(at.as_micros()).max(-1)));
            said.push(format!("{status:?} {} {until:?};", nth(*attempt_id)));
        }
        let stands = state.row.as_ref().map_or(0, |row| row.revision);
        for op in &state.ops {
            let what = match &op.what {
                What::Swap(write) => {
                    let fits = matches!(write.expect, Expect::Revision(at) if at == stands);
                    format!("{:?} {} {fits}", write.next.status, nth(write.next.attempt_id))
                }
                What::Read => "read".to_owned(),
                What::Append(event) => format!("{:?} {:?}", event.decision, event.reason),
            };
            let done = op.done.as_ref().map(word);
            said.push(format!("{} {what} {done:?} {};", op.gate, op.is_awaited()));
        }
        for sent in &state.sent {
            let (left, waits) = (secs(sent.until).max(-1), sent.is_awaited());
            said.push(format!("{} {} {left} {waits};", nth(sent.attempt), sent.ran));
        }
        for (_, words) in &state.heard {
            said.push(format!("{words},"));
        }
        for event in &state.events {
            said.push(format!("{:?} {:?};", event.decision, event.reason));
        }
        for caller in &self.callers {
            let (called, told) = (caller.called.is_some(), caller.told.is_some());
            said.push(format!("{called} {told} {} {};", caller.gone, self.is_alive(caller.gate)));
        }
        said.push(format!("{} {} {}", self.faults, self.waits, state.effects.len()));
        let mut hasher = DefaultHasher::new();
        said.hash(&mut hasher);
        hasher.finish()
    }
}

pub(super) fn is_fault(event: Event) -> bool {
    match event {
        Event::Call(_)
        | Event::Commit(_)
        | Event::Answer(_)
        | Event::Effect(_)
        | Event::Reply(_)
        | Event::Wait => false,
        Event::Unheard(_)
        | Event::Strand(_)
        | Event::Refuse(_)
        | Event::Lose(_)
        | Event::TurnAway(_)
        | Event::HangUp(_)
        | Event::Crash(_) => true,
    }
}

/// What an asker has heard.
pub(super) fn word(heard: &Heard) -> &'static str {
    match heard {
        Heard::Swap(Swap::Applied { .. }) => "a",
        Heard::Swap(Swap::Mismatch { row, .. }) => match row.as_ref().map(|row| row.status) {
            None => "m",
            Some(Status::InFlight) => "i",
            Some(Status::AwaitingInput) => "w",
            Some(Status::Completed) => "c",
            Some(Status::Failed) => "f",
            Some(Status::Unknown) => "u",
        },
        Heard::Read(_) => "r",
        Heard::Append => "e",
    }
}
