//! Every world that can be reached, each once.
//!
//! Promises: nothing is sampled: what is reported as explored is all there is; where a promise breaks, the shortest way
//! there is told; from every world the key comes to rest by steps that happen by themselves.
//!
//! Absent on purpose: a model checker from outside. The state is the ledger's own types, the search is these lines, and
//! what makes it finite (times by their distance from now, see [`super::key`]) would have to be written for one as well.
#![expect(clippy::wildcard_enum_match_arm, reason = "most steps are of no account here")]

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use oncegate::domain::ledger::Status;

use super::T0;
use super::key::{Key, key};
use super::rules::Rules;
use super::steps::Laws;
use super::world::{Scene, Step, World};

/// What came of a search.
pub(super) struct Explored {
    pub(super) worlds: usize,
    pub(super) steps: usize,
    pub(super) took: Duration,
}

/// What was found instead.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) fault: String,
    pub(super) way: Vec<Step>,
}

/// Explores all of `scene` by `rules`.
pub(super) fn explore(rules: &dyn Rules, scene: &Scene) -> Result<Explored, Broken> {
    let began = Instant::now();
    let laws = Laws { rules, scene };
    let key = |world: &World| key(world, scene);
    let mut places: HashMap<Key, u32> = HashMap::new();
    let mut came_from: Vec<(u32, Step)> = Vec::new();
    let mut rests: Vec<bool> = Vec::new();
    let mut onward: Vec<(u32, u32)> = Vec::new();
    let mut steps = 0;
    let mut frontier = VecDeque::new();
    let all = all_steps(scene);
    let first = World::new(scene, T0);
    places.insert(key(&first), 0);
    came_from.push((0, Step::Tick));
    rests.push(true);
    frontier.push_back((0, first));
    while let Some((here, world)) = frontier.pop_front() {
        for step in &all {
            let taken = laws.take(&world, *step);
            let next = match taken {
                Ok(None) => continue,
                Ok(Some(next)) => next,
                Err(fault) => return Err(Broken { fault, way: way(&came_from, here, Some(*step)) }),
            };
            steps += 1;
            let fresh = u32::try_from(came_from.len()).expect("fewer than that");
            let place = *places.entry(key(&next)).or_insert(fresh);
            if step.goes_on() {
                onward.push((place, here));
            }
            if place == fresh {
                came_from.push((here, *step));
                rests.push(is_at_rest(&next));
                frontier.push_back((place, next));
            }
        }
    }
    match restless(&rests, onward) {
        Some(stuck) => {
            Err(Broken { fault: "the key never comes to rest".to_owned(), way: way(&came_from, stuck, None) })
        }
        None => Ok(Explored { worlds: came_from.len(), steps, took: began.elapsed() }),
    }
}

/// Whether the key is settled, or free.
fn is_at_rest(world: &World) -> bool {
    world.row.as_ref().is_none_or(|row| !matches!(row.status, Status::InFlight | Status::Unknown))
}

/// A world from which no rest can be reached.
fn restless(rests: &[bool], mut onward: Vec<(u32, u32)>) -> Option<u32> {
    onward.sort_unstable();
    let mut reached = rests.to_vec();
    let all = 0..u32::try_from(rests.len()).expect("fewer than that");
    let at = |place: u32| usize::try_from(place).expect("it is an index");
    let mut frontier: Vec<u32> = all.clone().filter(|place| rests[at(*place)]).collect();
    while let Some(place) = frontier.pop() {
        let begin = onward.partition_point(|(to, _)| *to < place);
        for (_, from) in onward[begin..].iter().take_while(|(to, _)| *to == place) {
            if !std::mem::replace(&mut reached[at(*from)], true) {
                frontier.push(*from);
            }
        }
    }
    all.into_iter().find(|place| !reached[at(*place)])
}

fn way(came_from: &[(u32, Step)], to: u32, last: Option<Step>) -> Vec<Step> {
    let mut way: Vec<Step> = last.into_iter().collect();
    let mut place = to;
    while place != 0 {
        let (before, step) = came_from[usize::try_from(place).expect("it is an index")];
        way.push(step);
        place = before;
    }
    way.reverse();
    way
}

fn all_steps(scene: &Scene) -> Vec<Step> {
    let callers = scene.asks.len();
    let per_caller: [fn(usize) -> Step; 16] = [
        Step::Call,
        Step::Commit,
        Step::CommitUnheard,
        Step::Strand,
        Step::Confirm,
        Step::Send,
        Step::RunsOutUnsent,
        Step::Renew,
        Step::RenewLate,
        Step::Crash,
        Step::Answer,
        Step::Doubt,
        Step::Ask,
        Step::Refuse,
        Step::Lose,
        Step::Effect,
    ];
    let mut all: Vec<Step> = (0..callers).flat_map(|who| per_caller.map(|step| step(who))).collect();
    // More requests may be under way than there are callers: those of dead ones.
    all.extend((callers..8).map(Step::Effect));
    all.extend([
        Step::Land,
        Step::Vanish,
        Step::JanitorLooks,
        Step::JanitorWrites,
        Step::OperatorLooks,
        Step::OperatorWrites,
        Step::Prune,
        Step::Tick,
    ]);
    all.retain(|step| match step {
        Step::Renew(_) | Step::RenewLate(_) => scene.powers.renews,
        Step::CommitUnheard(_) => scene.powers.loses_answers,
        Step::Strand(_) => scene.powers.strands,
        _ => true,
    });
    all
}
