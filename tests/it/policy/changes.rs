//! `oncegate policy diff`: what a change opens, and what it closes.

use std::fs;

use serde_json::Value;

use crate::harness::gate::binary;
use oncegate::domain::policy::{Change, ChangeKind, diff};

use super::policy;

const PAY: &str = "[tools.pay]\neffect = \"mutation\"\nscopes = [\"pay\", \"money\"]\nredact = [\"card\", \"iban\"]\nttl = \"24h\"\n";

fn changes(old: &str, new: &str) -> Vec<Change> {
    diff(&policy(old), &policy(new))
}

/// From the first to the second, this opens (or closes, the other way round).
#[track_caller]
fn check(closed: &str, open: &str, kind: ChangeKind, what: &str) {
    let opened = changes(closed, open);
    let found = opened.iter().any(|change| change.kind == kind && change.what.contains(what));
    assert!(found, "no \"{what}\" in {opened:#?}");
    assert!(kind.opens());
    let back = changes(open, closed);
    assert!(back.iter().any(|change| change.kind == ChangeKind::Closes), "{back:#?}");
    assert!(changes(open, open).is_empty() && changes(closed, closed).is_empty());
}

#[test]
fn whatever_opens_is_told_and_closes_the_other_way_round() {
    use ChangeKind::{OpensArguments, OpensCall, OpensTerms, OpensToMore, OpensUnguarded};
    let with = |line: &str| format!("{PAY}{line}\n");
    let less = |from: &str, to: &str| PAY.replace(from, to);
    for (closed, open, kind, what) in [
        (
            String::new(),
            PAY.to_owned(),
            OpensCall,
            "can be called now: a mutation, by who holds money and pay",
        ),
        ("[tools.pay]\neffect = \"deny\"\n".to_owned(), PAY.to_owned(), OpensCall, "was denied"),
        (PAY.to_owned(), with("mode = \"observe\""), OpensCall, "only observed now"),
        (
            PAY.to_owned(),
            less("\"pay\", \"money\"", "\"pay\""),
            OpensToMore,
            "no longer needs money: by who holds pay",
        ),
        (
            PAY.to_owned(),
            with("tenant_arguments = []"),
            OpensToMore,
            "lets the caller name a tenant in tenant_id",
        ),
        (PAY.to_owned(), with("shared_within_tenant = true"), OpensToMore, "every user of the tenant"),
        (
            PAY.to_owned(),
            "[tools.pay]\neffect = \"read\"\nscopes = [\"pay\", \"money\"]\nredact = [\"card\", \"iban\"]\n"
                .to_owned(),
            OpensUnguarded,
            "was a mutation, and is a read now",
        ),
        (
            with("allow = \"args.a == 1\""),
            PAY.to_owned(),
            OpensArguments,
            "takes any arguments now; its rule was: args.a == 1",
        ),
        (PAY.to_owned(), less("\"card\", \"iban\"", "\"card\""), OpensTerms, "does not mask iban any more"),
        (PAY.to_owned(), less("24h", "1h"), OpensTerms, "forgets a key after 1h"),
        (PAY.to_owned(), with("on_tool_error = \"release\""), OpensTerms, "its key may run again"),
        (
            with("duplicate_window = \"5m\""),
            PAY.to_owned(),
            OpensTerms,
            "possible duplicates are not looked for",
        ),
    ] {
        check(&closed, &open, kind, what);
    }
}

#[test]
fn a_rule_that_became_another_one_opens() {
    let with = |rule: &str| format!("{PAY}allow = \"{rule}\"\n");
    let found = changes(&with("args.a <= 5"), &with("args.a <= 4"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].kind == ChangeKind::OpensArguments
            && found[0].what.contains("args.a <= 4; it was: args.a <= 5")
    );
}

#[test]
fn the_most_dangerous_comes_first() {
    let new =
        format!("{}[tools.new]\neffect = \"read\"\n", PAY.replace("24h", "1h").replace(", \"money\"", ""));
    let kinds: Vec<_> = changes(PAY, &new).into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::OpensCall, ChangeKind::OpensToMore, ChangeKind::OpensTerms]);
}

#[test]
fn the_exit_code_says_whether_something_opens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in [("old", PAY.to_owned()), ("new", PAY.replace("24h", "1h"))] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("p.toml"), text).expect("a policy");
    }
    let run = |arguments: &[&str]| {
        let mut command = binary();
        command.args(["policy", "diff"]).args(arguments).current_dir(folder.path());
        command.output().expect("the binary")
    };
    let output = run(&["old", "new"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("opens:\n  tools.pay forgets a key after 1h, which was 1d: then it runs again\n"),
        "{text}"
    );
    assert_eq!(run(&["new", "old"]).status.code(), Some(0));
    assert_eq!(run(&["new", "none"]).status.code(), Some(78));
    let told: Value = serde_json::from_slice(&run(&["old", "new", "--json"]).stdout).expect("JSON");
    assert_eq!(told["opens"][0]["operation"], "tools.pay", "{told}");
}
