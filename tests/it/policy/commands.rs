//! `oncegate policy check|test`, as a pipeline runs them: exit codes and lines.

use std::fs;
use std::process::Output;

use tempfile::TempDir;

use crate::harness::gate::binary;

const POLICY: &str = "[tools.pay]\neffect = \"mutation\"\nscopes = [\"pay\"]\n";

const CASE: &str = "[[case]]\nname = \"a payer pays\"\ncall = { tool = \"pay\", key = \"k\" }\nexpect = \"allowed\"\n\
                    actor = { tenant = \"t\", user = \"u\", scopes = [\"pay\"] }\n";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = binary();
    command.arg("policy").args(arguments).current_dir(folder.path());
    command.output().expect("the binary")
}

/// The command, in a folder with these files, ends with this code and prints these lines.
#[track_caller]
fn check(files: &[(&str, &str)], arguments: &[&str], code: i32, printed: &str, told: &str) {
    let output = run(&folder(files), arguments);
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), told, "{arguments:?}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
}

#[test]
fn a_policy_that_can_be_used_is_counted() {
    check(
        &[("p.toml", POLICY)],
        &["check", "."],
        0,
        ".: tools 1, methods 0, routes 0, jobs 0, version 78ddc29ba1d9\n",
        "",
    );
}

#[test]
fn the_folder_may_come_from_the_configuration() {
    let files = [("p.toml", POLICY), ("oncegate.toml.conf", "[policy]\ndir = \".\"\n")];
    let line = ".: tools 1, methods 0, routes 0, jobs 0, version 78ddc29ba1d9\n";
    check(&files, &["check", "--config", "oncegate.toml.conf"], 0, line, "");
    check(&files, &["check", "--policy-dir", "."], 0, line, "");
}

#[test]
fn a_policy_with_mistakes_ends_with_78() {
    let text = "[tools.pay]\neffect = \"mutate\"\n[tools.look]\neffect = \"read\"\nscope = [\"a\"]\n";
    let told = "./p.toml:2:10: unknown value \"mutate\"; did you mean \"mutation\"?\n\
                ./p.toml:5:1: unknown key \"scope\"; did you mean \"scopes\"?\n";
    check(&[("p.toml", text)], &["check", "."], 78, "", told);
    check(&[("p.toml", text)], &["test", "."], 78, "", told);
}

#[test]
fn a_policy_that_may_not_be_meant_is_told_and_used() {
    let told = "settings: the policy names no operation, so every call will be denied (warning)\n";
    check(
        &[("p.toml", "")],
        &["check", "."],
        0,
        ".: tools 0, methods 0, routes 0, jobs 0, version 5df6e0e27613\n",
        told,
    );
}

#[test]
fn cases_that_hold_end_with_0() {
    let files = [("p.toml", POLICY), ("p.cases.toml", CASE)];
    check(&files, &["test", "."], 0, "holds  a payer pays: allowed\ncases: 1, failed: 0\n", "");
}

#[test]
fn a_case_that_does_not_hold_ends_with_1() {
    let files = [("p.toml", &*POLICY.replace("[\"pay\"]", "[\"admin\"]")), ("p.cases.toml", CASE)];
    let line = "FAILS  a payer pays: expected allowed, found denied (missing_scope), at ./p.cases.toml:1:1\n";
    check(&files, &["test", "."], 1, line, "cases: 1, failed: 1\n");
}

#[test]
fn a_folder_without_cases_proves_nothing() {
    check(&[("p.toml", POLICY)], &["test", "."], 1, "", ".: there are no cases (*.cases.toml)\n");
}

#[test]
fn a_file_of_cases_with_mistakes_ends_with_78() {
    let files = [("p.toml", POLICY), ("p.cases.toml", &*CASE.replace("expect", "expects"))];
    let told = "./p.cases.toml:4:1: unknown key \"expects\"; did you mean \"expect\"?\n";
    check(&files, &["test", "."], 78, "", told);
}
