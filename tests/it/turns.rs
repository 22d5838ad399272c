//! What the order of waiting calls promises, tried with any sequence of arrivals, departures and hang-ups.

use std::collections::HashMap;

use oncegate::domain::turns::{Entry, SHARE, Ticket, Turn, Turns};
use proptest::prelude::*;

const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(usize),
    ComeBack(usize),
    Withdraw(usize),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..TENANTS.len()).prop_map(Step::Enter),
        1 => (0..TENANTS.len()).prop_map(Step::ComeBack),
        1 => (0..100usize).prop_map(Step::Withdraw),
        3 => (0..100usize).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..200)
}

/// The calls as an onlooker counts them.
#[derive(Default)]
struct Seen {
    running: Vec<&'static str>,
    waiting: Vec<(Ticket, &'static str, bool)>,
    /// The tenants that wait, in the order of their turns.
    round: Vec<&'static str>,
}

impl Seen {
    fn runs(&self, tenant: &str) -> usize {
        self.running.iter().filter(|one| **one == tenant).count()
    }

    fn newcomers(&self, tenant: &str) -> usize {
        self.waiting.iter().filter(|(_, one, new)| *one == tenant && *new).count()
    }

    fn wait(&mut self, ticket: Ticket, tenant: &'static str, new: bool) {
        if !self.round.contains(&tenant) {
            self.round.push(tenant);
        }
        self.waiting.push((ticket, tenant, new));
    }

    fn take(&mut self, ticket: Ticket) -> &'static str {
        let at = self.waiting.iter().position(|(one, ..)| *one == ticket).expect("it waits");
        let (_, tenant, _) = self.waiting.remove(at);
        if !self.waiting.iter().any(|(_, one, _)| *one == tenant) {
            self.round.retain(|one| *one != tenant);
        }
        tenant
    }

    /// Everybody whose turn it is runs; each was the right one.
    fn serve(&mut self, turns: &mut Turns) {
        while let Some(Turn { tenant, ticket }) = turns.next() {
            let fewest = self.waiting.iter().map(|(_, tenant, _)| self.runs(tenant)).min();
            assert_eq!(Some(self.runs(&tenant)), fewest, "whose tenant runs the fewest is next");
            let first = self.round.iter().find(|one| Some(self.runs(one)) == fewest);
            assert_eq!(first, Some(&&*tenant), "of those, whose turn it is");
            let own = self.waiting.iter().filter(|(_, one, _)| *one == &*tenant);
            assert_eq!(own.map(|(ticket, ..)| *ticket).min(), Some(ticket), "its oldest");
            let name = self.take(ticket);
            if let Some(at) = self.round.iter().position(|one| *one == name) {
                let last = self.round.remove(at);
                self.round.push(last);
            }
            self.running.push(name);
        }
    }

    fn check(&self, turns: &Turns, places: usize, queue: usize) {
        assert_eq!(turns.running(), self.running.len(), "no place is lost");
        assert!(self.running.len() <= places);
        assert!(self.waiting.iter().filter(|(.., new)| *new).count() <= queue);
        let free = places - self.running.len();
        for (_, tenant, _) in &self.waiting {
            assert!(self.runs(tenant) >= SHARE * free, "{tenant} waits though it may run");
        }
    }
}

fn enter(seen: &mut Seen, turns: &mut Turns, tenant: &'static str, queue: usize) {
    match turns.enter(tenant) {
        Entry::Runs => seen.running.push(tenant),
        Entry::Waits { ticket, instead_of } => {
            let full = seen.waiting.iter().filter(|(.., new)| *new).count() >= queue;
            assert_eq!(instead_of.is_some(), full, "somebody is sent away only where the queue is full");
            if let Some(other) = instead_of {
                let most = TENANTS.iter().map(|tenant| seen.newcomers(tenant)).max().expect("tenants");
                let crowded = seen.take(other);
                assert_eq!(seen.newcomers(crowded) + 1, most, "it was of the tenant with most waiting");
                assert!(seen.newcomers(tenant) < most);
                let newest = seen.waiting.iter().filter(|(_, one, new)| *one == crowded && *new).max();
                assert!(newest.is_none_or(|(ticket, ..)| *ticket < other), "its newest");
            }
            seen.wait(ticket, tenant, true);
        }
        Entry::Full => {
            let most = TENANTS.iter().map(|tenant| seen.newcomers(tenant)).max().expect("tenants");
            assert!(seen.newcomers(tenant) >= most, "it could have taken another's place");
        }
    }
}

proptest! {
    #[test]
    fn places_are_bounded_none_is_lost_and_the_next_is_always_the_right_one(
        places in 1..12usize, queue in 1..12usize, steps in steps(),
    ) {
        let (mut turns, mut seen) = (Turns::new(places, queue), Seen::default());
        for step in steps {
            match step {
                Step::Enter(who) => enter(&mut seen, &mut turns, TENANTS[who], queue),
                Step::ComeBack(who) => match turns.come_back(TENANTS[who]) {
                    Entry::Runs => seen.running.push(TENANTS[who]),
                    Entry::Waits { ticket, instead_of: None } => seen.wait(ticket, TENANTS[who], false),
                    other @ (Entry::Waits { .. } | Entry::Full) => panic!("whoever is inside always finds a place in the queue: {other:?}"),
                },
                Step::Withdraw(at) if !seen.waiting.is_empty() => {
                    let (ticket, tenant, _) = seen.waiting[at % seen.waiting.len()];
                    seen.take(ticket);
                    prop_assert!(turns.withdraw(tenant, ticket));
                    prop_assert!(!turns.withdraw(tenant, ticket), "once");
                }
                Step::Leave(at) if !seen.running.is_empty() => {
                    let tenant = seen.running.swap_remove(at % seen.running.len());
                    turns.leave(tenant);
                }
                Step::Withdraw(_) | Step::Leave(_) => {}
            }
            seen.serve(&mut turns);
            seen.check(&turns, places, queue);
        }
        // No starvation: whoever waits runs in the end, if whoever runs ends.
        while !seen.running.is_empty() {
            turns.leave(seen.running.remove(0));
            seen.serve(&mut turns);
        }
        prop_assert!(seen.waiting.is_empty(), "{:?}", seen.waiting);
    }
}

#[test]
fn a_quiet_tenants_first_call_runs_beside_any_number_of_a_noisy_ones() {
    let mut turns = Turns::new(1024, 1024);
    let noisy = (0..4000).filter(|_| turns.enter("noisy") == Entry::Runs).count();
    assert_eq!(noisy, 911, "eight ninths, and no more");
    assert_eq!(turns.enter("quiet"), Entry::Runs);
    let loud = (0..4000).filter(|_| turns.enter("loud") == Entry::Runs).count();
    assert!(loud > 90 && turns.enter("third") == Entry::Runs, "{loud}");
}

#[test]
fn places_that_come_free_go_to_both_alike() {
    let mut turns = Turns::new(90, 1024);
    let mut runs: HashMap<&str, usize> = HashMap::new();
    for _ in 0..400 {
        if turns.enter("noisy") == Entry::Runs {
            *runs.entry("noisy").or_default() += 1;
        }
    }
    for _ in 0..200 {
        if turns.enter("quiet") == Entry::Runs {
            *runs.entry("quiet").or_default() += 1;
        }
    }
    // The noisy one's calls end, one after the other, and others of its own wait since long before.
    for _ in 0..60 {
        let oldest = if runs["noisy"] >= runs["quiet"] { "noisy" } else { "quiet" };
        turns.leave(oldest);
        *runs.get_mut(oldest).expect("it runs") -= 1;
        while let Some(turn) = turns.next() {
            let name = if &*turn.tenant == "quiet" { "quiet" } else { "noisy" };
            *runs.get_mut(name).expect("it runs") += 1;
        }
    }
    assert!(runs["noisy"].abs_diff(runs["quiet"]) <= 1, "{runs:?}");
}

#[test]
fn a_full_queue_makes_room_for_whoever_has_fewer_waiting() {
    let mut turns = Turns::new(1, 2);
    assert_eq!(turns.enter("noisy"), Entry::Runs);
    let Entry::Waits { ticket: first, .. } = turns.enter("noisy") else { panic!("it waits") };
    let Entry::Waits { ticket: second, .. } = turns.enter("noisy") else { panic!("it waits") };
    assert_eq!(turns.enter("noisy"), Entry::Full);
    let Entry::Waits { ticket, instead_of } = turns.enter("quiet") else { panic!("it waits") };
    assert_eq!(instead_of, Some(second));
    assert_eq!(turns.enter("quiet"), Entry::Full, "one each: nobody has fewer");
    turns.leave("noisy");
    assert_eq!(turns.next().map(|turn| turn.ticket), Some(first), "both run none; it was there first");
    turns.leave("noisy");
    assert_eq!(turns.next().map(|turn| turn.ticket), Some(ticket));
}

#[test]
fn where_all_run_alike_each_tenant_has_its_turn() {
    let mut turns = Turns::new(1, 1024);
    assert_eq!(turns.enter("noisy"), Entry::Runs);
    for _ in 0..100 {
        assert!(matches!(turns.enter("noisy"), Entry::Waits { .. }));
    }
    let Entry::Waits { ticket, .. } = turns.enter("quiet") else { panic!("it waits") };
    turns.leave("noisy");
    assert_eq!(turns.next().map(|turn| turn.tenant.to_string()).as_deref(), Some("noisy"));
    turns.leave("noisy");
    assert_eq!(turns.next().map(|turn| turn.ticket), Some(ticket), "not behind all the hundred");
}
