//! One schedule: a few callers, their gates, and at each point one of the things that may happen next.
//!
//! Promises: given the same choices it goes the same way; at its end a new gate comes, and the call is made once more.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use oncegate::domain::json::Json;
use oncegate::layers::forward::Forwarded;
use oncegate::mcp::judge::{Reply, Verdict};
use oncegate::store::StoreError;
use tokio::task::JoinHandle;

use super::event::{Event, is_fault, word};
use super::gate::{Ear, Gate, Told};
use super::holds;
use super::world::{Op, Sabotage, Sent, What, World};

/// What stays the same through all schedules of one search.
#[derive(Clone, Copy)]
pub(super) struct Scene {
    pub(super) sabotage: Sabotage,
    /// Each caller's gate, and what it asks for.
    pub(super) callers: &'static [(usize, &'static str)],
    /// Whether a duplicate waits for the call that runs.
    pub(super) patient: bool,
    /// How many things may go wrong.
    pub(super) faults: u8,
    /// How often a long time may pass.
    pub(super) waits: u8,
}

/// Chooses what happens next.
pub(super) trait Chooser {
    /// One of so many; none where this schedule need not be followed any further. `here` names the world as it stands.
    fn choose(&mut self, among: usize, here: u64) -> Option<usize>;
}

/// Longer than half a lease, and than a third of an attempt.
const LONG: Duration = Duration::from_secs(35);

pub(super) struct Caller {
    pub(super) gate: usize,
    args: &'static str,
    pub(super) called: Option<(JoinHandle<()>, Ear)>,
    pub(super) gone: bool,
    pub(super) told: Option<Told>,
}

pub(super) struct Run {
    scene: Scene,
    pub(super) world: World,
    pub(super) gates: Vec<Option<Gate>>,
    pub(super) callers: Vec<Caller>,
    pub(super) faults: u8,
    pub(super) waits: u8,
    way: String,
}

/// What came of a schedule.
pub(super) enum Outcome {
    /// Everything held.
    Held,
    /// The chooser had seen enough.
    Cut,
    /// A promise was broken, on this way.
    Broken(String),
}

pub(super) fn run(scene: &Scene, chooser: &mut dyn Chooser) -> Outcome {
    let world = World::new(scene.sabotage);
    let gates = scene.callers.iter().map(|(gate, _)| gate + 1).max().unwrap_or(1);
    let gates = (0..gates).map(|gate| Some(Gate::start(&world, gate, scene.patient))).collect();
    let caller = |(gate, args): &(usize, &'static str)| Caller {
        gate: *gate,
        args,
        called: None,
        gone: false,
        told: None,
    };
    let callers = scene.callers.iter().map(caller).collect();
    let (faults, waits) = (scene.faults, scene.waits);
    Run { scene: *scene, world, gates, callers, faults, waits, way: String::new() }.go(chooser)
}

impl Run {
    fn go(mut self, chooser: &mut dyn Chooser) -> Outcome {
        let mut idle = 0;
        loop {
            let events = self.events();
            let waits_only = events.iter().all(|event| *event == Event::Wait || is_fault(*event));
            if waits_only && self.is_over() {
                break;
            }
            // Somebody pauses before it tries again.
            if events.is_empty() || (waits_only && !self.is_pending()) {
                idle += 1;
                if idle > 200 {
                    return self.broken("a call comes to no end");
                }
                self.pass(Duration::from_secs(1));
            } else {
                let Some(chosen) = chooser.choose(events.len(), self.name()) else { return Outcome::Cut };
                let event = events[chosen];
                let _written = write!(self.way, "{event:?} ");
                self.happen(event);
            }
            if let Err(fault) = self.check() {
                return self.broken(&fault);
            }
        }
        match self.afterwards() {
            Ok(()) => Outcome::Held,
            Err(fault) => self.broken(&fault),
        }
    }

    fn broken(&self, fault: &str) -> Outcome {
        Outcome::Broken(format!("{fault}, by {}", self.way))
    }

    pub(super) fn is_alive(&self, gate: usize) -> bool {
        self.gates.get(gate).is_some_and(Option::is_some)
    }

    /// Whether every caller has its answer, or none to hope for, and nothing is under way.
    fn is_over(&self) -> bool {
        let ended = |caller: &Caller| caller.told.is_some() || caller.gone || !self.is_alive(caller.gate);
        self.callers.iter().all(ended) && !self.is_pending()
    }

    /// Whether the world has something in hand.
    fn is_pending(&self) -> bool {
        let state = self.world.state();
        state.ops.iter().any(Op::is_awaited) || state.sent.iter().any(Sent::is_awaited)
    }

    fn happen(&mut self, event: Event) {
        if is_fault(event) {
            self.faults -= 1;
        }
        match event {
            Event::Call(who) => {
                let caller = &mut self.callers[who];
                let gate = self.gates[caller.gate].as_ref().expect("it is alive");
                caller.called = Some(gate.call(who, caller.args));
            }
            Event::Commit(nth) => self.commit(nth),
            Event::Answer(nth) => self.answer(nth),
            Event::Unheard(nth) | Event::Strand(nth) => self.leave_unheard(nth),
            Event::Refuse(nth) => self.refuse(nth),
            Event::Effect(nth) => self.world.state().run(nth),
            Event::Reply(nth) => self.reply(nth, Some(ran(nth))),
            Event::Lose(nth) => self.reply(nth, None),
            Event::TurnAway(nth) => {
                self.reply(nth, Some(Forwarded::NotSent));
                self.world.state().sent.remove(nth);
            }
            Event::HangUp(who) => {
                self.callers[who].gone = true;
                if let Some((calling, _)) = &self.callers[who].called {
                    calling.abort();
                }
            }
            Event::Crash(gate) => {
                drop(self.gates[gate].take());
                self.world.state().bury(gate);
            }
            Event::Wait => self.waits -= 1,
        }
        self.pass(if event == Event::Wait { LONG } else { Duration::from_millis(1) });
    }

    /// The store carries a write out; what is only read or appended is answered at once.
    fn commit(&mut self, nth: usize) {
        self.world.state().carry_out(nth);
        let (is_swap, is_awaited) = {
            let state = self.world.state();
            let op = &state.ops[nth];
            (matches!(op.what, What::Swap(_)), op.is_awaited())
        };
        if !is_awaited {
            self.world.state().ops.remove(nth);
        } else if !is_swap {
            self.answer(nth);
        }
    }

    fn answer(&mut self, nth: usize) {
        let mut state = self.world.state();
        let op = state.ops.remove(nth);
        let heard = op.done.expect("it was carried out");
        state.note(op.asker, word(&heard));
        if let Some(answer) = op.answer {
            let _gone = answer.send(Ok(heard));
        }
    }

    fn leave_unheard(&mut self, nth: usize) {
        let mut state = self.world.state();
        let asker = state.ops[nth].asker;
        state.note(asker, "?");
        let answer = state.ops[nth].answer.take();
        if state.ops[nth].done.is_some() {
            state.ops.remove(nth);
        }
        if let Some(answer) = answer {
            let _gone = answer.send(Err(StoreError::Uncertain(Box::new(io::Error::other("lost")))));
        }
    }

    fn refuse(&mut self, nth: usize) {
        let mut state = self.world.state();
        let op = state.ops.remove(nth);
        state.note(op.asker, "-");
        if let Some(answer) = op.answer {
            let _gone = answer.send(Err(StoreError::Unavailable(Box::new(io::Error::other("away")))));
        }
    }

    /// The gate hears from the upstream, or loses it.
    fn reply(&mut self, nth: usize, forwarded: Option<Forwarded>) {
        let answer = self.world.state().sent[nth].answer.take();
        if let (Some(answer), Some(forwarded)) = (answer, forwarded) {
            let _gone = answer.send(forwarded);
        }
    }

    fn pass(&mut self, time: Duration) {
        for gate in self.gates.iter().flatten() {
            gate.settle_down(time);
        }
        self.world.state().now += i64::try_from(time.as_micros()).expect("a short time");
    }

    /// Looks at what the callers heard.
    fn check(&mut self) -> Result<(), String> {
        for (who, caller) in self.callers.iter_mut().enumerate() {
            let Some((_, ear)) = caller.called.as_ref().filter(|_| caller.told.is_none() && !caller.gone)
            else {
                continue;
            };
            caller.told = ear.lock().expect("nobody panics with it").clone();
            if let Some(told) = &caller.told {
                holds::told(&self.world.state(), who, told)?;
            }
        }
        self.world.state().faults.pop().map_or(Ok(()), Err)
    }

    /// Nothing goes wrong any more: what is under way ends, leases lapse, and somebody calls once more, at a new gate.
    fn afterwards(&mut self) -> Result<(), String> {
        self.way.push_str("| ");
        for _ in 0..4 {
            self.let_go_on()?;
            self.pass(LONG);
        }
        self.let_go_on()?;
        holds::rows(&self.world.state(), &self.answered())?;
        let gate = self.gates.len();
        self.gates.push(Some(Gate::start(&self.world, gate, self.scene.patient)));
        let mut asks: Vec<_> = self.callers.iter().map(|caller| caller.args).collect();
        asks.dedup();
        // Of callers with other arguments one has the key; it need not be the first.
        let mut ended = Ok(());
        for args in asks {
            ended = self.call_at_last(gate, args);
            if ended.is_ok() {
                break;
            }
        }
        ended
    }

    fn call_at_last(&mut self, gate: usize, args: &'static str) -> Result<(), String> {
        let who = self.callers.len();
        let called = self.gates[gate].as_ref().map(|fresh| fresh.call(who, args));
        self.callers.push(Caller { gate, args, called, gone: false, told: None });
        self.pass(Duration::from_millis(1));
        self.let_go_on()?;
        let told = self.callers[who].told.clone().ok_or("the last call has no answer")?;
        holds::at_last(&self.world.state(), &told)
    }

    /// Whoever was answered by a gate that lives.
    fn answered(&self) -> Vec<usize> {
        let told = |(who, caller): (usize, &Caller)| {
            (caller.told.is_some() && self.is_alive(caller.gate)).then_some(who)
        };
        self.callers.iter().enumerate().filter_map(told).collect()
    }

    fn let_go_on(&mut self) -> Result<(), String> {
        for _ in 0..200 {
            let next = self.events().into_iter().find(|event| !is_fault(*event) && *event != Event::Wait);
            match next.filter(|event| !matches!(event, Event::Call(_))) {
                Some(event) => self.happen(event),
                None => return self.check(),
            }
            self.check()?;
        }
        Err("it goes on for ever".to_owned())
    }
}

/// The upstream's answer, which tells which request it answers.
fn ran(nth: usize) -> Forwarded {
    let text = format!(r#"{{"content":[],"structuredContent":{{"run":{nth}}}}}"#);
    let Ok(Json::Object(result)) = Json::parse(text.as_bytes(), 16) else { panic!("it is an object") };
    let verdict = Verdict::Answered { reply: Reply::Result(result), doubtful_in_rerun: false };
    Forwarded::Judged { status: 200, headers: Vec::new(), challenged: None, verdict }
}
