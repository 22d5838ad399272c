//! The conventions of this house, held by a machine.
//!
//! Promises: what is checked here is checked in every file, with no list of exceptions.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that people write; what tools put beside them is not the house's.
const ROOMS: [&str; 7] = ["src", "tests", "examples", "policies", "deploy", "docs", ".ci"];

/// What a tool put there, not a person.
const NOT_OURS: [&str; 3] = ["node_modules", "target", "__pycache__"];

const MOST_LINES: usize = 400;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under the rooms and on the top level, with its path from the root and its text.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).expect("the crate's own folder").flatten() {
        if entry.path().is_file() && entry.file_name() != ".git" {
            found.push(entry.path());
        }
    }
    for room in ROOMS {
        walk(&root().join(room), &mut found);
    }
    let named = |path: PathBuf| {
        let text = fs::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
        let name = path.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
        Some((name, text))
    };
    found.into_iter().filter_map(named).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() {
            found.push(path);
        } else if !NOT_OURS.contains(&name.as_str()) && !name.starts_with(".venv") {
            walk(&path, found);
        }
    }
}

fn rust_files() -> Vec<(String, String)> {
    let rust = |(name, _): &(String, String)| Path::new(name).extension().is_some_and(|end| end == "rs");
    let found: Vec<_> = files().into_iter().filter(rust).collect();
    assert!(found.len() > 20, "only {} Rust files found: the walk is broken", found.len());
    found
}

/// Fails with every line that `fault` says something about.
fn check(files: &[(String, String)], fault: impl Fn(&str, &str) -> Vec<String>) {
    let faults: Vec<_> = files
        .iter()
        .flat_map(|(name, text)| fault(name, text).into_iter().map(move |fault| format!("{name}: {fault}")))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The ranks, from the table in the crate's own documentation: the higher the line, the more it may import.
fn ranks() -> HashMap<String, usize> {
    let map = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let table =
        map.split("# Who may import whom").nth(1).expect("lib.rs has the table of who may import whom");
    let table = table.split("```").nth(1).expect("the table is fenced");
    let mut ranks = HashMap::new();
    for (rank, line) in table.lines().skip(1).enumerate() {
        let line = line.trim_start_matches("//!").trim();
        // Names stand before the first wide gap that is followed by prose; the prose has words that are no modules.
        let names = line.split("   ").next().unwrap_or_default();
        ranks.extend(names.split_whitespace().map(|name| (name.to_owned(), usize::MAX - rank)));
    }
    ranks
}

/// The top-level modules that a line of code names by `crate::…`.
fn named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for after in code.split("crate::").skip(1) {
        let group = after.strip_prefix('{').map(|inside| inside.split('}').next().unwrap_or_default());
        for path in group.unwrap_or(after).split(',').take(if group.is_some() { usize::MAX } else { 1 }) {
            let name: String = path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            names.push(name);
        }
    }
    names
}

#[test]
fn imports_run_strictly_downward() {
    let ranks = ranks();
    let sources =
        rust_files().into_iter().filter(|(name, _)| name.starts_with("src/") && name != "src/lib.rs");
    check(&sources.collect::<Vec<_>>(), |name, text| {
        let module = name.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default();
        let Some(own) = ranks.get(module) else { return vec![format!("{module} is not in lib.rs's table")] };
        let code = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" ");
        let code = code.replace("oncegate::", "crate::");
        let upward = |name: &String| name != module && ranks.get(name).is_some_and(|rank| rank >= own);
        named(&code).into_iter().filter(upward).map(|name| format!("{module} imports {name}")).collect()
    });
}

#[test]
fn every_module_stands_in_the_table() {
    let ranks = ranks();
    let map = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let modules = map.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let missing: Vec<_> = modules.filter(|module| !ranks.contains_key(*module)).collect();
    assert!(missing.is_empty(), "not in the table of who may import whom: {missing:?}");
}

#[test]
fn every_file_opens_with_what_it_is() {
    check(&rust_files(), |_, text| {
        let opens = text.starts_with("//! ") && text.lines().next().is_some_and(|line| line.len() > 10);
        if opens { vec![] } else { vec!["does not open with `//!` and a sentence".to_owned()] }
    });
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    check(&rust_files(), |_, text| {
        let lines = text.lines().count();
        if lines > MOST_LINES { vec![format!("{lines} lines; split it by room")] } else { vec![] }
    });
}

#[test]
fn no_lint_is_silenced_without_a_reason() {
    let bare = [concat!("#[", "allow("), concat!("#![", "allow("), concat!("cfg_attr(test, ", "allow(")];
    check(&rust_files(), |_, text| {
        text.lines().filter(|line| bare.iter().any(|bare| line.contains(bare))).map(str::to_owned).collect()
    });
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let places =
        [concat!("/wo", "rk/"), concat!("/tmp", "/wt"), concat!("/ro", "ot/"), concat!("../", "shared")];
    check(&files(), |_, text| {
        let told = |line: &&str| places.iter().any(|place| line.contains(place));
        text.lines().filter(told).map(|line| line.trim().to_owned()).collect()
    });
}

#[test]
fn nothing_is_left_for_later() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    check(&rust_files(), |_, text| {
        let marked = |line: &&str| marks.iter().any(|mark| line.contains(mark));
        text.lines().filter(marked).map(|line| line.trim().to_owned()).collect()
    });
}
