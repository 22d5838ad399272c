//! The gate in a world where everything waits for a schedule: real steps, real claims, a model store and upstream.
//!
//! The scheduler is our own: what a gate waits for is either the store, the upstream or time, so holding those three still
//! and choosing among them is all that it takes, on a runtime whose clock is paused. A simulated network (turmoil, madsim)
//! would add what does not matter here, and could not enumerate.

mod event;
mod gate;
mod holds;
mod run;
mod search;
mod store;
mod world;

use self::run::Scene;
use self::search::{Searched, all, drawn};
use self::world::Sabotage;

/// Two callers of the same in one process, and one thing that goes wrong.
const ONE_GATE: Scene =
    Scene { sabotage: Sabotage::None, callers: &[(0, "a"), (0, "a")], patient: false, faults: 1, waits: 0 };

/// In two processes.
const TWO_GATES: Scene = Scene { callers: &[(0, "a"), (1, "a")], ..ONE_GATE };

/// One caller.
const ALONE: Scene = Scene { callers: &[(0, "a")], ..ONE_GATE };

/// Every schedule of `scene` is followed, and every promise holds in it.
#[track_caller]
fn check(scene: &Scene) {
    let began = std::time::Instant::now();
    match all(scene) {
        Ok(Searched { schedules, whole, worlds }) => {
            println!("{schedules} schedules, {whole} to their end, {worlds} worlds, {:.1?}", began.elapsed());
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// What is broken is found to be.
#[track_caller]
fn check_broken(scene: &Scene, sabotage: Sabotage, fault: &str) {
    match all(&Scene { sabotage, ..*scene }) {
        Ok(searched) => panic!("nothing was found in {} schedules", searched.schedules),
        Err(found) => {
            println!("{found}");
            assert!(found.contains(fault), "{found}");
        }
    }
}

#[test]
fn two_callers_at_one_gate_run_it_once_wherever_it_crashes_or_loses_something() {
    check(&ONE_GATE);
}

#[test]
fn two_callers_at_two_gates_run_it_once_wherever_one_crashes_or_loses_something() {
    check(&TWO_GATES);
}

#[test]
fn a_caller_that_waits_for_another_comes_to_an_end_wherever_that_one_stops() {
    check(&Scene { patient: true, ..ONE_GATE });
}

#[test]
fn of_callers_with_other_arguments_only_the_first_runs_in_whatever_order_they_come() {
    check(&Scene { callers: &[(0, "a"), (1, "b")], faults: 0, waits: 1, ..ONE_GATE });
}

#[test]
fn a_lone_call_survives_any_two_faults_and_hang_ups() {
    check(&Scene { faults: 2, ..ALONE });
}

#[test]
fn a_lone_call_survives_any_fault_however_long_everything_takes() {
    check(&Scene { waits: 2, ..ALONE });
}

#[test]
fn drawn_schedules_with_many_faults_run_it_once() {
    let many = Scene { faults: 4, waits: 3, ..TWO_GATES };
    drawn(&many, 300).unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn a_store_that_ignores_the_revision_is_found() {
    check_broken(&TWO_GATES, Sabotage::IgnoresTheRevision, "a second time");
}

#[test]
fn a_call_that_goes_out_before_its_claim_is_committed_is_found() {
    check_broken(&TWO_GATES, Sabotage::ForwardsBeforeTheCommit, "a second time");
}

#[test]
fn a_lost_call_that_is_released_is_found() {
    check_broken(&ONE_GATE, Sabotage::ReleasesWhatIsLost, "became failed");
}
