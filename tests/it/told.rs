//! What the pages tell is done: every fenced block of every page is run, read, or compared with what came.
//!
//! Promises: a block of a kind that nothing here knows fails the run, so that no example slips through. `sh` is run in
//! order, page by page, each page in a fresh folder with real parts. `text` behind it is held against what it printed.
//! `toml`, `json` and `yaml` are read, the first by the gate's own readers. What cannot be run here says why in a comment
//! before it ([`page::Note`]), and where that names a test, there is such a test. Links lead somewhere.
//!
//! Absent on purpose: commands that only the tests know. What a page needs it says itself, to its readers too.

mod ground;
mod links;
mod listed;
mod page;
mod ports;
mod settings;
mod shell;
mod shown;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use crate::clients::install;
use crate::problems::check_schema;
use page::{Block, Kind, Note, Page};

/// How long one block may take.
const LONGEST: Duration = Duration::from_mins(1);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with all of them, one a line.
fn check(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_block_is_of_a_kind_that_is_looked_at() {
    let pages = page::all();
    assert!(pages.len() > 8, "only {} pages found: the walk is broken", pages.len());
    check(&pages.iter().flat_map(Page::faults).collect::<Vec<_>>());
}

#[test]
fn whatever_is_not_run_here_names_tests_and_files_that_there_are() {
    let mut faults = Vec::new();
    for page in page::all() {
        for block in &page.blocks {
            let whys = block.notes.iter().filter_map(|note| match note {
                Note::NotRun(why) | Note::Example(why) => Some(why),
                Note::Terminal | Note::Exits(_) | Note::Drawing | Note::BesideAGate => None,
            });
            for word in whys.flat_map(|why| why.split_whitespace()) {
                let word = word.trim_start_matches('(').trim_end_matches([',', ';', '.', ':', ')']);
                let (file, test) = word.split_once("::").unwrap_or((word, ""));
                if !file.contains('/') {
                    continue;
                }
                let held = fs::read_to_string(root().join(file))
                    .is_ok_and(|source| source.contains(&format!("fn {test}(")));
                if !(held || test.is_empty() && root().join(file).exists()) {
                    faults.push(format!("{}:{}: there is no {word}", page.name, block.line));
                }
            }
        }
    }
    check(&faults);
}

#[tokio::test]
async fn every_command_does_what_its_page_shows() {
    let run: Vec<_> = page::all().into_iter().filter(|page| page.blocks.iter().any(Block::is_run)).collect();
    assert!(!run.is_empty(), "no page has a command: the walk is broken");
    let faults = join_all(run.into_iter().map(shell::run)).await;
    check(&faults.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn every_toml_is_what_the_gate_reads() {
    let mut faults = Vec::new();
    for page in page::all() {
        for block in page.of(&Kind::Toml) {
            faults.extend(
                settings::faults(&block.text).map(|told| format!("{}:{}: {told}", page.name, block.line)),
            );
        }
    }
    check(&faults);
}

#[tokio::test]
async fn every_json_is_json_and_every_problem_is_as_the_schema_says() {
    let (mut faults, mut problems) = (Vec::new(), Vec::new());
    for page in page::all() {
        for block in page.of(&Kind::Json) {
            for value in serde_json::Deserializer::from_str(&block.text).into_iter::<Value>() {
                match value {
                    Ok(value)
                        if value["type"].as_str().is_some_and(|name| name.starts_with("urn:oncegate")) =>
                    {
                        problems.push(value);
                    }
                    Ok(_) => {}
                    Err(error) => faults.push(format!("{}:{}: {error}", page.name, block.line)),
                }
            }
        }
    }
    check(&faults);
    check_schema(&problems).await;
}

#[tokio::test]
async fn every_yaml_is_yaml() {
    install().await;
    for page in page::all() {
        for block in page.of(&Kind::Yaml) {
            let mut python = Command::new(root().join(".parts/clients/openapi/bin/python"));
            python.args(["-c", "import sys, yaml; list(yaml.safe_load_all(sys.stdin))"]);
            let mut reader = python.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python");
            let mut input = reader.stdin.take().expect("it was piped");
            input.write_all(block.text.as_bytes()).expect("it reads");
            drop(input);
            let read = reader.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&read.stderr);
            assert!(read.status.success(), "{}:{}: {told}", page.name, block.line);
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    check(&links::faults(&page::all()));
}

#[test]
fn the_index_leads_to_every_page() {
    check(&links::unlisted(&page::all()));
}
