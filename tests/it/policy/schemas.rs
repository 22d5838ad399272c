//! The JSON Schemas for editors: what they take, the gate takes, and what is shipped fits them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use oncegate::config::config_schema;
use oncegate::domain::policy::{cases_schema, policy_schema};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::clients::install;
use crate::harness::gate::binary;
use crate::harness::in_time;

const POLICY: &str = "policy.schema.json";
const CASES: &str = "cases.schema.json";
const CONFIG: &str = "oncegate.schema.json";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What of these does not fit the schema; empty where all fit.
async fn faults(schema: &str, texts: &[Value]) -> String {
    install().await;
    let mut python = Command::new(root().join(".parts/clients/plain/bin/python"));
    python.arg(root().join("tests/clients/plain/schema.py")).arg(root().join("docs").join(schema));
    let mut running =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the checker");
    let lines: Vec<_> = texts.iter().map(Value::to_string).collect();
    let mut input = running.stdin.take().expect("it was piped");
    input.write_all(lines.join("\n").as_bytes()).await.expect("it reads");
    drop(input);
    let checked = in_time("the schema's checker", running.wait_with_output()).await.expect("it ends");
    String::from_utf8_lossy(&checked.stdout).into_owned()
}

fn json(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(text).ok()?;
    serde_json::to_value(table).ok()
}

/// Which schema a text is for, by its first keys.
fn schema_of(value: &Value) -> Option<&'static str> {
    let keys: Vec<&String> = value.as_object()?.keys().collect();
    let all = |known: &[&str]| !keys.is_empty() && keys.iter().all(|key| known.contains(&key.as_str()));
    if all(&["defaults", "tools", "methods", "routes", "jobs"]) {
        Some(POLICY)
    } else if all(&["case"]) {
        Some(CASES)
    } else {
        let known = config_schema();
        let known: Vec<&str> = known["properties"].as_object()?.keys().map(String::as_str).collect();
        all(&known).then_some(CONFIG)
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn the_schemas_that_are_shipped_are_those_of_this_program() {
    for (file, schema, arguments) in [
        (POLICY, policy_schema(), vec!["policy", "schema"]),
        (CASES, cases_schema(), vec!["policy", "schema", "--cases"]),
        (CONFIG, config_schema(), vec!["config", "schema"]),
    ] {
        let output = binary().args(&arguments).output().expect("the binary");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(printed, schema);
        let shipped = fs::read_to_string(root().join("docs").join(file)).unwrap_or_default();
        let same = shipped == String::from_utf8_lossy(&output.stdout);
        assert!(same, "make it anew: oncegate {} > docs/{file}", arguments.join(" "));
    }
}

#[test]
fn the_configuration_has_no_key_that_its_schema_lacks() {
    let source = include_str!("../../../src/config/raw.rs");
    let schema = config_schema();
    let root = &schema["properties"];
    let listener = &root["listener"]["items"]["properties"];
    for (reader, place) in [
        ("RawConfig", root),
        ("RawServiceToken", &root["service_tokens"]["additionalProperties"]["properties"]),
        ("RawListener", listener),
        ("RawProvider", &listener["upstream"]["properties"]),
        ("RawIdentity", &listener["identity"]["properties"]),
    ] {
        let fields = source.split(&format!("struct {reader} {{")).nth(1).expect("the reader's fields");
        let lines = fields.split("\n}").next().unwrap_or_default().lines();
        let keys: Vec<&str> =
            lines.filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next()).collect();
        let known = place.as_object().unwrap_or_else(|| panic!("{reader} has no schema"));
        assert!(!keys.is_empty() && keys.len() == known.len(), "{reader}: {keys:?}, {:?}", known.keys());
        assert!(keys.iter().all(|key| known.contains_key(*key)), "{reader}: {keys:?}, {:?}", known.keys());
    }
}

/// A cell of the page, without what is only for pages.
fn bare(cell: &str) -> String {
    let mut text = String::new();
    let mut rest = cell.trim();
    while let Some((before, after)) = rest.split_once('[') {
        let Some((word, link)) = after.split_once("](") else { break };
        text += before;
        text += word;
        rest = link.split_once(')').map_or("", |(_, rest)| rest);
    }
    (text + rest).replace('`', "").replace("\\|", "|")
}

#[test]
fn the_reference_says_of_each_key_what_the_schema_says() {
    let page = fs::read_to_string(root().join("docs/policy.md")).expect("the page");
    let schema = policy_schema();
    let rows = |head: &str| -> Vec<(String, String)> {
        let table = page.split(head).nth(1).expect("the table").lines().skip(2);
        let rows = table.take_while(|line| line.starts_with('|'));
        rows.map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            (bare(cells[0]), bare(cells[cells.len() - 1]))
        })
        .collect()
    };
    let said = |key: &str| {
        let of = |table: &str| {
            schema["properties"][table]["additionalProperties"]["properties"][key]["description"].as_str()
        };
        ["tools", "methods", "routes", "jobs"].into_iter().find_map(of).unwrap_or_default().to_owned()
    };
    for (key, meaning) in rows("| key | for | in | values | default | meaning |") {
        assert_eq!(
            bare(&said(&key)),
            meaning,
            "say it in src/domain/policy/raw.rs and in docs/policy.md, of {key}"
        );
    }
    let reconcile =
        &schema["properties"]["tools"]["additionalProperties"]["properties"]["reconcile"]["properties"];
    for (key, meaning) in rows("| key | default | meaning |") {
        let said = reconcile[&key]["description"].as_str().unwrap_or_default();
        assert_eq!(bare(said), meaning, "reconcile.{key}");
    }
}

#[tokio::test]
async fn every_example_and_every_block_of_the_pages_fits_its_schema() {
    let mut paths = Vec::new();
    for folder in ["policies", "docs", "deploy"] {
        files(&root().join(folder), &mut paths);
    }
    paths.push(root().join("README.md"));
    let mut texts: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let blocks: Vec<&str> = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => vec![&text],
            Some("md") => text
                .split("```toml\n")
                .skip(1)
                .map(|block| block.split("```").next().unwrap_or_default())
                .collect(),
            _ => continue,
        };
        for value in blocks.into_iter().filter_map(json) {
            if let Some(schema) = schema_of(&value) {
                texts.entry(schema).or_default().push(value);
            }
        }
    }
    assert!(
        texts.get(POLICY).map_or(0, Vec::len) >= 10
            && texts.contains_key(CASES)
            && texts.contains_key(CONFIG)
    );
    for (schema, texts) in texts {
        let faults = faults(schema, &texts).await;
        assert!(faults.is_empty(), "{schema}: {faults}");
    }
}

#[tokio::test]
async fn what_the_reader_refuses_for_its_key_or_its_type_no_schema_takes() {
    let op = "[tools.t]\neffect = \"mutation\"\nscopes = [\"a\"]\n";
    for (schema, text) in [
        (POLICY, format!("{op}scope = \"a\"\n")),
        (POLICY, format!("{op}path = \"/x\"\n")),
        (POLICY, format!("{op}ttl = 5\n")),
        (POLICY, format!("{op}ttl = \"5 minutes\"\n")),
        (POLICY, format!("{op}downstream = \"safe\"\n")),
        (POLICY, "[tools.t]\neffect = \"write\"\n".to_owned()),
        (POLICY, "[tools.t]\nscopes = [\"a\"]\n".to_owned()),
        (POLICY, "[tool.t]\neffect = \"read\"\n".to_owned()),
        (POLICY, "[defaults]\nallow = \"true\"\n".to_owned()),
        (CASES, "[[case]]\nname = \"a\"\n".to_owned()),
        (CASES, "[[cases]]\nname = \"a\"\n".to_owned()),
        (CONFIG, "servise = \"a\"\n".to_owned()),
        (CONFIG, "[upstream]\ntimeout = 5\n".to_owned()),
        (CONFIG, "[store]\nurl = [\"a\"]\n".to_owned()),
        (CONFIG, "mode = \"watch\"\n".to_owned()),
    ] {
        let value = json(&text).expect("TOML");
        assert!(!faults(schema, &[value]).await.is_empty(), "{schema} takes {text}");
    }
}
