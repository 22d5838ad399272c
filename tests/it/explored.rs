//! The ledger's state machine, explored whole: every order of calls, writes, losses, crashes, lapses and resolutions that
//! a few callers of one key can come to.
//!
//! `ledger/schedules.rs` draws long schedules at random; here nothing is drawn, and everything is short.

mod key;
mod promises;
mod rules;
mod search;
mod steps;
mod world;

use std::time::Duration;

use oncegate::domain::audit::Facts;
use oncegate::domain::ledger::{Ask, AskedRound, Downstream, RoundId, Terms};
use oncegate::domain::time::Timestamp;
use uuid::Uuid;

use self::rules::{Real, Rules, broken};
use self::search::explore;
use self::world::{Moods, Powers, Scene};

const T0: Timestamp = Timestamp::from_micros(1_000_000_000_000);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Seconds stand for what the terms are to each other: an attempt outlives its lease, and is remembered for longer.
const TERMS: Terms = Terms {
    ttl: secs(2),
    lease: secs(1),
    upstream_timeout: secs(2),
    downstream: Downstream::Unsafe,
    shared_within_tenant: false,
};

fn idempotent() -> Terms {
    Terms { ttl: secs(5), downstream: Downstream::Idempotent { retention: secs(5) }, ..TERMS }
}

fn ask(user: &str, args: &str) -> Ask {
    Ask {
        args_hash: args.to_owned(),
        accepted_hashes: vec![args.to_owned()],
        round: AskedRound::default(),
        attempt_id: Uuid::nil(),
        facts: Facts {
            user_id: user.to_owned(),
            forwarded_key: Some("acme/charge/k".to_owned()),
            ..Facts::default()
        },
    }
}

/// The second round, with the inputs that the first one's answer asks for.
fn second_round() -> Ask {
    let round = AskedRound { id: RoundId::from_hex("1"), state: "aa".into(), inputs: true };
    Ask { round, ..ask("u", "a") }
}

/// All that may go wrong.
const ALL: Powers = Powers { renews: true, loses_answers: true, strands: true };

/// Writes strand, and calls end before their leases do.
const STRANDED: Powers = Powers { renews: false, loses_answers: false, ..ALL };

/// Answers get lost, and calls end before their leases do.
const UNHEARD: Powers = Powers { renews: false, strands: false, ..ALL };

/// Whoever asks the store hears what it did.
const CLEAR: Powers = Powers { renews: true, loses_answers: false, strands: false };

fn scene(terms: Terms, powers: Powers, asks: Vec<Ask>) -> Scene {
    let moods = Moods::default();
    Scene { terms, asks, calls: 1, moods, powers, are_twins: false, slow_hands: false }
}

/// Two callers of the same.
fn twins(terms: Terms, powers: Powers) -> Scene {
    Scene { are_twins: true, ..scene(terms, powers, vec![ask("u", "a"), ask("u", "a")]) }
}

/// One caller and its retries, while the janitor and a person take their time.
fn retries(terms: Terms) -> Scene {
    Scene { slow_hands: true, calls: 3, ..scene(terms, ALL, vec![ask("u", "a")]) }
}

/// The same, before a backend that honours the key.
fn reruns() -> Scene {
    let moods = Moods { asks: false, doubts: true };
    Scene { moods, calls: 2, ..retries(idempotent()) }
}

/// A caller of the first round, and one that brings what it asks for.
fn two_rounds() -> Scene {
    let moods = Moods { asks: true, doubts: false };
    let powers = Powers { renews: false, ..CLEAR };
    Scene { moods, ..scene(TERMS, powers, vec![ask("u", "a"), second_round()]) }
}

/// All of `scene`, and that every promise holds in it.
fn check(scene: &Scene) {
    match explore(&Real, scene) {
        Ok(all) => println!("{} worlds, {} steps, {:.1?}", all.worlds, all.steps, all.took),
        Err(broken) => panic!("{}, by {:?}", broken.fault, broken.way),
    }
}

/// Rules that are broken are found to be.
fn check_broken(rules: &dyn Rules, scene: &Scene, fault: &str) {
    match explore(rules, scene) {
        Ok(all) => panic!("nothing was found in {} worlds", all.worlds),
        Err(broken) => {
            println!("{}, by {:?}", broken.fault, broken.way);
            assert!(broken.fault.contains(fault), "{}, by {:?}", broken.fault, broken.way);
        }
    }
}

#[test]
fn two_callers_of_one_key_run_it_once_whatever_gets_lost() {
    check(&twins(TERMS, UNHEARD));
}

#[test]
fn two_callers_of_one_key_run_it_once_however_late_a_claim_lands() {
    check(&twins(TERMS, STRANDED));
}

#[test]
fn two_callers_of_one_key_run_it_once_however_leases_are_renewed() {
    check(&twins(TERMS, CLEAR));
}

#[test]
fn a_caller_that_retries_runs_it_once_however_slow_the_janitor_and_the_operator_are() {
    check(&retries(TERMS));
}

#[test]
fn a_backend_that_honours_the_key_is_asked_again_only_while_it_knows_it() {
    check(&reruns());
}

#[test]
fn two_rounds_of_one_call_run_it_once_in_whatever_order_they_come() {
    check(&two_rounds());
}

#[test]
fn another_user_with_other_arguments_never_runs_it_again() {
    check(&scene(TERMS, Powers { renews: false, ..CLEAR }, vec![ask("u", "a"), ask("v", "b")]));
}

const TWICE: &str = "a second time";

#[test]
fn a_store_that_ignores_the_revision_is_found() {
    check_broken(&broken::IgnoresTheRevision, &twins(TERMS, UNHEARD), "");
}

#[test]
fn a_release_on_timeout_is_found() {
    check_broken(&broken::ReleasesOnTimeout, &retries(TERMS), "became failed");
}

#[test]
fn a_lapsed_lease_that_frees_the_key_is_found() {
    check_broken(&broken::TakesALapsedLeaseForFree, &retries(TERMS), "became failed");
}

#[test]
fn a_take_over_by_age_is_found() {
    check_broken(&broken::TakesOverByAge, &twins(TERMS, CLEAR), "");
}

#[test]
fn a_settlement_of_anothers_claim_is_found() {
    check_broken(&broken::SettlesAnothersClaim, &twins(TERMS, UNHEARD), "");
}

#[test]
fn a_re_run_that_is_believed_is_found() {
    check_broken(&broken::BelievesARerun, &reruns(), "became failed");
}

#[test]
fn a_take_over_after_the_retention_is_found() {
    check_broken(&broken::ForgetsTheRetention, &reruns(), TWICE);
}

#[test]
fn a_revision_that_comes_back_is_found() {
    check_broken(&broken::CountsFromOne, &twins(TERMS, UNHEARD), "");
}

#[test]
fn an_attempt_that_is_sent_too_late_is_found() {
    check_broken(&broken::SendsTooLate, &retries(TERMS), "");
}

#[test]
fn an_attempt_that_is_sent_unconfirmed_is_found() {
    check_broken(&broken::SendsUnconfirmed, &twins(TERMS, STRANDED), "");
}

#[test]
fn a_revision_that_is_guessed_is_found() {
    check_broken(&broken::GuessesARevision, &twins(TERMS, STRANDED), "late owner");
}

#[test]
fn a_release_of_what_may_still_run_is_found() {
    check_broken(&broken::ReleasesTooEarly, &retries(TERMS), "became failed");
}

#[test]
fn an_unknown_outcome_that_expires_is_found() {
    check_broken(&broken::LetsTheUnknownExpire, &retries(TERMS), "expires");
}

#[test]
fn a_renewal_of_what_is_settled_is_found() {
    check_broken(&broken::RenewsWhatIsSettled, &twins(TERMS, CLEAR), "");
}

#[test]
fn a_claim_that_is_left_with_its_dead_owner_is_found() {
    check_broken(&broken::LeavesTheDead, &retries(TERMS), "never comes to rest");
}
