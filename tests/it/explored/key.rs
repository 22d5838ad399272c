//! When two worlds are the same: the same things may happen in both from now on.
//!
//! Promises: times count by their distance from now, as far as any rule looks; attempts and revisions by which of them
//! are the same, and by their order. So a world without an end in time has finitely many states.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;

use oncegate::domain::ledger::{Attempt, AttemptKind, Came, Claim, Downstream, Draft, Expect, Status};
use oncegate::domain::time::Timestamp;
use uuid::Uuid;

use super::world::{At, Caller, Pending, Scene, World};

/// No rule looks further back than this: the longest retention, and a little.
const FAR: i64 = 12;

/// A world's name.
pub(super) type Key = u128;

struct Scribe {
    now: Timestamp,
    bytes: Vec<u8>,
    attempts: Vec<Uuid>,
    revisions: Vec<i64>,
    /// Which retention window it is.
    window: u32,
    /// How far back the first sending counts.
    far: i64,
}

pub(super) fn key(world: &World, scene: &Scene) -> Key {
    let straight = hashed(world, scene, world.callers.iter());
    if !scene.are_twins {
        return straight;
    }
    // Which of two callers is which makes no difference where both ask for the same.
    straight.min(hashed(world, scene, world.callers.iter().rev()))
}

fn hashed<'a>(world: &World, scene: &Scene, callers: impl Iterator<Item = &'a Caller>) -> Key {
    let counts_retention = scene.terms.downstream != Downstream::Unsafe;
    let mut scribe = Scribe {
        now: world.now,
        bytes: Vec::with_capacity(256),
        attempts: Vec::new(),
        revisions: revisions(world),
        window: world.window,
        far: if counts_retention { FAR } else { 0 },
    };
    scribe.option(world.row.as_deref(), Scribe::claim);
    for caller in callers {
        scribe.byte(caller.calls_left);
        scribe.at(&caller.at);
    }
    for pending in [&world.late, &world.janitor, &world.operator] {
        scribe.option(pending.as_ref(), Scribe::pending);
    }
    for sent in &world.upstream {
        scribe.attempt(sent.attempt);
        scribe.age(sent.window);
        scribe.time((!sent.ran).then_some(sent.deadline), 0);
    }
    for truth in &world.truths {
        scribe.age(truth.window);
        let far = scribe.far;
        scribe.time(Some(truth.first), far);
        scribe.attempt(truth.answer);
    }
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(&scribe.bytes);
        u128::from(hasher.finish())
    };
    (half(1) << 64) | half(2)
}

impl Scribe {
    fn age(&mut self, window: u32) {
        self.byte(u8::try_from((self.window.saturating_sub(window)).min(250)).unwrap_or(250));
    }

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Its distance from now; what is past counts up to `back`.
    fn time(&mut self, time: Option<Timestamp>, back: i64) {
        let seconds = |at: Timestamp| (at.as_micros() - self.now.as_micros()).div_euclid(1_000_000);
        let byte = time.map_or(i8::MIN, |at| i8::try_from(seconds(at).max(-back)).unwrap_or(i8::MAX));
        self.byte(byte.to_le_bytes()[0]);
    }

    fn attempt(&mut self, id: Uuid) {
        let place = self.attempts.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.attempts.push(id);
            self.attempts.len() - 1
        });
        self.byte(u8::try_from(place).expect("few attempts"));
    }

    fn revision(&mut self, revision: i64) {
        let place = self.revisions.binary_search(&revision).expect("all were gathered");
        self.byte(u8::try_from(place).expect("few revisions"));
    }

    fn expect(&mut self, expect: Expect) {
        match expect {
            Expect::Absent => self.byte(255),
            Expect::Revision(revision) => self.revision(revision),
        }
    }

    fn claim(&mut self, claim: &Claim) {
        self.revision(claim.revision);
        self.columns(claim);
        self.time(claim.lease_until, 0);
    }

    /// What its owner knows of it. Whatever the owner writes sets the lease anew.
    fn held(&mut self, claim: &Claim) {
        self.revision(claim.revision);
        self.columns(claim);
    }

    fn columns(&mut self, claim: &Claim) {
        self.bytes.extend_from_slice(claim.user.as_bytes());
        self.bytes.extend_from_slice(claim.args_hash.as_bytes());
        self.byte(claim.status as u8);
        self.attempt(claim.attempt_id);
        self.bytes.extend_from_slice(claim.round.to_column().unwrap_or_default().as_bytes());
        // Once it has come to its end, nothing asks how long it may run.
        if !matches!(claim.status, Status::Completed | Status::Failed) {
            self.time(claim.attempt_until, 0);
            self.time(claim.first_sent_at, self.far);
        }
        self.time(claim.expires_at, 0);
        self.response(claim.response.as_deref());
    }

    fn response(&mut self, response: Option<&[u8]>) {
        match response.map(|bytes| (bytes, Uuid::from_slice(bytes))) {
            None => self.byte(0),
            Some((_, Ok(id))) => self.attempt(id),
            Some((bytes, Err(_))) => self.bytes.extend_from_slice(bytes),
        }
    }

    fn draft(&mut self, draft: &Draft, expect: Expect) {
        self.expect(expect);
        self.columns(&draft.at(self.now, expect));
    }

    fn kind(&mut self, attempt: &Attempt) {
        self.attempt(attempt.id);
        match &attempt.kind {
            AttemptKind::First => self.byte(1),
            AttemptKind::Rerun => self.byte(2),
            AttemptKind::Continuation { round, response } => {
                self.bytes.extend_from_slice(round.to_column().unwrap_or_default().as_bytes());
                self.response(response.as_deref());
            }
        }
    }

    fn pending(&mut self, pending: &Pending) {
        self.byte(pending.by as u8);
        self.draft(&pending.draft, pending.expect);
        self.option(pending.claims.as_deref(), Self::kind);
    }

    fn at(&mut self, at: &At) {
        match at {
            At::Idle => self.byte(0),
            At::Claiming(pending, deadline) => {
                self.byte(1);
                self.pending(pending);
                self.time(Some(*deadline), 0);
            }
            At::Abandoning(pending) => {
                self.byte(2);
                self.pending(pending);
            }
            At::Owns(owning) => {
                self.byte(3);
                self.kind(&owning.held.attempt);
                self.held(&owning.held.claim);
                self.time((!owning.sent).then_some(owning.deadline), 0);
                self.age(owning.window);
            }
            At::Ended { held, came, row } => {
                self.byte(4);
                self.kind(&held.attempt);
                self.came(came);
                // What it wrote itself counts only where nothing stands there any more.
                let known = row.as_deref().unwrap_or(&held.claim);
                self.byte(u8::from(row.is_some()));
                self.held(known);
            }
            At::Unsure { attempt, expect, draft } => {
                self.byte(5);
                self.kind(attempt);
                self.draft(draft, *expect);
            }
        }
    }

    fn came(&mut self, came: &Came) {
        match came {
            Came::Completed { response, doubtful_in_rerun } => {
                self.byte(1 + u8::from(*doubtful_in_rerun));
                self.response(response.as_deref());
            }
            Came::NotRun => self.byte(3),
            Came::Unknown => self.byte(4),
            Came::AwaitingInput { .. } => self.byte(5),
        }
    }
}

/// Every revision that is known to anybody.
fn revisions(world: &World) -> Vec<i64> {
    let mut all = Vec::new();
    let mut pending = |pending: &Pending| {
        if let Expect::Revision(revision) = pending.expect {
            all.push(revision);
        }
    };
    for other in [&world.late, &world.janitor, &world.operator].into_iter().flatten() {
        pending(other);
    }
    for caller in &world.callers {
        if let At::Claiming(waiting, _) | At::Abandoning(waiting) = &caller.at {
            pending(waiting);
        }
    }
    for caller in &world.callers {
        match &caller.at {
            At::Owns(owning) => all.push(owning.held.claim.revision),
            At::Ended { held, row, .. } => {
                all.push(held.claim.revision);
                all.extend(row.as_ref().map(|row| row.revision));
            }
            At::Unsure { expect: Expect::Revision(revision), .. } => all.push(*revision),
            At::Idle | At::Claiming(..) | At::Abandoning(_) | At::Unsure { .. } => {}
        }
    }
    all.extend(world.row.as_ref().map(|row| row.revision));
    all.sort_unstable();
    all.dedup();
    all
}
