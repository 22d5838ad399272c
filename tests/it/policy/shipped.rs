//! The examples that are shipped: each can be used as it is, and does what its cases say.

use std::fs;
use std::path::{Path, PathBuf};

use oncegate::config::{load_policy, read_cases_dir, read_policy_dir};
use oncegate::domain::policy::{Case, Effect, Policy};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")
}

fn read(name: &str) -> (PathBuf, String) {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (path, text)
}

#[test]
fn every_example_is_a_policy_whose_cases_hold() {
    let shipped = read_policy_dir(&folder()).expect("policies");
    assert!(shipped.len() >= 3, "billing, support, and a minimal one");
    for source in shipped {
        let name = source.0.file_stem().expect("a name").to_string_lossy().into_owned();
        let cases = Case::from_sources(&[read(&format!("{name}.cases.toml"))]).expect("cases");
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
    let (policy, _) = load_policy(&folder()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let texts: Vec<String> =
        read_cases_dir(&folder()).expect("cases").into_iter().map(|(_, text)| text).collect();
    let denied = |name: &str| {
        texts
            .iter()
            .flat_map(|text| text.split("[[case]]"))
            .any(|case| case.contains(&format!("= \"{name}\"")) && case.contains("expect = \"denied\""))
    };
    let untested: Vec<&str> = policy
        .operations()
        .filter(|operation| operation.effect() == Effect::Mutation && !denied(operation.name()))
        .map(|operation| operation.name())
        .collect();
    assert_eq!(untested, [""; 0]);
}
