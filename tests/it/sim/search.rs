//! Every schedule, one after the other, and random ones that go on for longer.
//!
//! Promises: a search has followed every choice at every point, but where it came to a world that it had been in before.
//! A world is known by all that gates and store have in hand and by what each task has heard, not by each gate's
//! own memory: that follows from these.

use std::collections::HashSet;
use std::time::Instant;

use super::run::{Chooser, Outcome, Scene, run};

/// What a search did.
pub(super) struct Searched {
    /// How many schedules were begun.
    pub(super) schedules: usize,
    /// How many of them were followed to their end, the others being in a world by then that had been seen before.
    pub(super) whole: usize,
    /// How many different worlds something was chosen in.
    pub(super) worlds: usize,
}

/// Goes depth first: the choices that were made, and among how many.
struct Depth {
    made: Vec<(usize, usize)>,
    at: usize,
    been: HashSet<u64>,
}

impl Chooser for Depth {
    fn choose(&mut self, among: usize, here: u64) -> Option<usize> {
        let at = self.at;
        self.at += 1;
        if let Some((chosen, _)) = self.made.get(at) {
            return Some((*chosen).min(among - 1));
        }
        if !self.been.insert(here) {
            return None;
        }
        self.made.push((0, among));
        Some(0)
    }
}

impl Depth {
    /// The next way that was not gone; false where there is none.
    fn turn(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, among)) = self.made.pop() {
            if chosen + 1 < among {
                self.made.push((chosen + 1, among));
                return true;
            }
        }
        false
    }
}

/// Every schedule of `scene`.
pub(super) fn all(scene: &Scene) -> Result<Searched, String> {
    let mut depth = Depth { made: Vec::new(), at: 0, been: HashSet::new() };
    let (mut schedules, mut whole) = (0, 0);
    loop {
        schedules += 1;
        match run(scene, &mut depth) {
            Outcome::Held => whole += 1,
            Outcome::Cut => {}
            Outcome::Broken(fault) => return Err(fault),
        }
        if !depth.turn() {
            return Ok(Searched { schedules, whole, worlds: depth.been.len() });
        }
    }
}

/// Draws from a seed.
struct Dice(u64);

impl Chooser for Dice {
    fn choose(&mut self, among: usize, _: u64) -> Option<usize> {
        // SplitMix64: small, and good enough to draw by.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let among = u64::try_from(among).expect("a small number");
        usize::try_from((mixed ^ (mixed >> 31)) % among).ok()
    }
}

/// Random schedules of `scene`, one for each of so many seeds.
pub(super) fn drawn(scene: &Scene, seeds: u64) -> Result<(), String> {
    let began = Instant::now();
    for seed in 0..seeds {
        if let Outcome::Broken(fault) = run(scene, &mut Dice(seed << 32)) {
            return Err(format!("seed {seed}: {fault}"));
        }
    }
    println!("{seeds} drawn schedules in {:.1?}", began.elapsed());
    Ok(())
}
