//! The examples that are shipped: each can be used as it is, and does what its cases say.

use std::fs;
use std::path::{Path, PathBuf};

use oncegate::config::{load_policy, read_cases_dir, read_policy_dir};
use oncegate::domain::audit::Decision;
use oncegate::domain::policy::{Case, Effect, Policy};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")
}

/// One for each listener: what faces inward, and what faces a provider.
const FOLDERS: [&str; 2] = ["", "stripe"];

fn read(path: PathBuf) -> (PathBuf, String) {
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (path, text)
}

#[test]
fn every_example_is_a_policy_whose_cases_hold() {
    let shipped = FOLDERS.map(|name| read_policy_dir(&folder().join(name)).expect("policies"));
    assert!(
        shipped.iter().flatten().count() >= 5,
        "billing, support, a minimal one, routes, and a provider's"
    );
    for source in shipped.into_iter().flatten() {
        let name = source.0.file_stem().expect("a name").to_string_lossy().into_owned();
        let cases = Case::from_sources(&[read(source.0.with_extension("cases.toml"))]).expect("cases");
        let (policy, warnings) =
            Policy::from_sources(&[source]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert!(warnings.is_empty(), "{warnings:?}");
        assert!(cases.len() >= 3, "{name} has only {} cases", cases.len());
        for case in cases {
            assert_eq!(case.run(&policy), *case.expected(), "{}: {}", case.place(), case.name());
        }
    }
}

#[test]
fn every_mutation_of_every_example_has_a_case_that_denies_it() {
    for name in FOLDERS {
        check_denied(&folder().join(name));
    }
}

fn check_denied(folder: &Path) {
    let (policy, _) = load_policy(folder).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let texts = read_cases_dir(folder).expect("cases");
    let cases = Case::from_sources(&texts).expect("cases");
    let denied = |name: &str| {
        let called = cases
            .iter()
            .filter(|case| case.expected().decision == Decision::Denied)
            .filter_map(|case| case.operation(&policy))
            .any(|operation| operation.name() == name);
        let inside = texts
            .iter()
            .flat_map(|(_, text)| text.split("[[case]]"))
            .any(|case| case.contains(&format!("= \"{name}\"")) && case.contains("expect = \"denied\""));
        called || inside
    };
    let untested: Vec<&str> = policy
        .operations()
        .filter(|operation| operation.effect() == Effect::Mutation && !denied(operation.name()))
        .map(|operation| operation.name())
        .collect();
    assert_eq!(untested, [""; 0]);
}
