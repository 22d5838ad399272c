//! The reference pages say what the code does.
//!
//! Promises: each key that a policy may have, each answer that a refusal is, and each reason that the gate writes stands
//! on its page, as the code has it; and no page has a key or an answer that is none.

use std::collections::BTreeSet;
use std::path::PathBuf;

use oncegate::domain::answer::{KEPT_HEADERS, KEPT_WITH_BYTES};
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::mode::{REPLAY, WOULD};
use oncegate::domain::policy::{Case, GATE_REASONS, Kind, Policy};
use oncegate::wire::{Row, Shape, row};

use crate::problems::plain_refusals;
use crate::refusals::every_refusal;

const POLICY: &str = include_str!("../../docs/policy.md");
const ANSWERS: &str = include_str!("../../docs/answers.md");
const ROUTES: &str = include_str!("../../docs/routes.md");

/// The cells of the lines of a table with this head.
fn table<'a>(page: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'a str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    let table: Vec<_> = rows.map(cells).collect();
    assert!(!table.is_empty(), "there is no table {head}");
    table
}

/// What a cell has between backticks.
fn word(cell: &str) -> &str {
    cell.split('`').nth(1).unwrap_or_else(|| panic!("no word in {cell:?}"))
}

fn keys_table() -> Vec<Vec<&'static str>> {
    table(POLICY, "| key | for | in | values | default | meaning |")
}

/// The keys of one table of the policy files, as their reader has them.
fn keys_of(reader: &str) -> BTreeSet<&'static str> {
    let source = include_str!("../../src/domain/policy/raw.rs");
    let fields = source.split(&format!("struct {reader} {{")).nth(1).expect("the reader's fields");
    let fields = fields.split('}').next().unwrap_or_default().lines();
    let keys: BTreeSet<_> =
        fields.filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next()).collect();
    assert!(keys.len() > 3, "{keys:?}");
    keys
}

/// What is wrong with a policy of one table.
fn mistakes(text: &str) -> String {
    let read = Policy::from_sources(&[(PathBuf::from("p.toml"), text.to_owned())]);
    read.err().map(|mistakes| mistakes.to_string()).unwrap_or_default()
}

/// Something that the key may say.
fn value_of(key: &str) -> &'static str {
    match key {
        "effect" => "\"read\"",
        "runs" => "\"tools\"",
        "allow" => "\"true\"",
        "members" => "{ calls = \"jobs\" }",
        "reconcile" => "{ get = \"/x/{key}\", completed = { a = 1 } }",
        "mode" => "\"observe\"",
        "deny_as" => "\"tool_error\"",
        "scopes" | "redact" | "summary" | "tenant_arguments" => "[\"x\"]",
        "reasons" => "{ a = \"b\" }",
        "key_argument" => "\"k\"",
        "forward_argument" | "forward_key_quoted" | "shared_within_tenant" | "destructive" => "true",
        "ttl" | "lease" | "timeout" | "wait_up_to" | "downstream_retention" | "duplicate_window" => "\"60s\"",
        "method" => "\"POST\"",
        "path" => "\"/x\"",
        "key" => "\"optional\"",
        "completes" => "[\"2xx\"]",
        "releases" => "[\"404\"]",
        "provider" => "\"stripe\"",
        "in_flight" => "\"wait\"",
        "forward_key" => "\"{key}\"",
        "downstream" => "\"idempotent\"",
        "on_tool_error" => "\"release\"",
        "duplicate" => "\"refuse\"",
        other => panic!("a value for {other} is wanted here"),
    }
}

#[test]
fn every_policy_key_is_on_its_page_and_no_other() {
    let rows = keys_table();
    let listed: BTreeSet<_> = rows.iter().map(|cells| word(cells[0])).collect();
    assert_eq!(listed, keys_of("RawOperation"));
    let (_, defaults) = POLICY.split_once("\n`[defaults]` takes ").expect("what the defaults take");
    let defaults = defaults.split('.').next().unwrap_or_default();
    let listed: BTreeSet<_> = defaults.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, keys_of("RawDefaults"));
    let members = rows.iter().find(|cells| word(cells[0]) == "members").expect("members");
    let listed: BTreeSet<_> = members[3].split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, keys_of("RawMembers"));
    let rows = table(POLICY, "| key | default | meaning |");
    let listed: BTreeSet<_> = rows.iter().map(|cells| word(cells[0])).collect();
    assert_eq!(listed, keys_of("RawReconcile"));
}

#[test]
fn every_policy_key_has_a_meaning_for_what_its_page_says() {
    for cells in keys_table() {
        let key = word(cells[0]);
        let line = format!("{key} = {}", value_of(key));
        for (letter, says) in [
            ("R", "effect = \"read\""),
            ("M", "effect = \"mutation\""),
            ("D", "effect = \"deny\""),
            ("T", "runs = \"tools\""),
        ] {
            // The two that say the effect exclude each other.
            let own = if key == says.split(' ').next().unwrap_or_default() { "" } else { says };
            let line = if own.is_empty() { says } else { line.as_str() };
            let told = mistakes(&format!("[tools.t]\n{own}\n{line}\n"));
            let meant = !told.contains("has no meaning") && !told.contains("no effect of its own");
            let listed = cells[1].split(' ').any(|one| one == letter);
            assert_eq!(meant, listed, "{key} with {says}: {told}");
        }
        let runs = key == "runs" || key == "members";
        let says = if runs { "runs = \"tools\"" } else { "effect = \"mutation\"" };
        let line = if key == "effect" || key == "runs" { "" } else { line.as_str() };
        for kind in [Kind::Tool, Kind::Method, Kind::Route, Kind::Job].map(Kind::table) {
            let told = mistakes(&format!("[{kind}.\"a/b\"]\n{says}\n{line}\n"));
            let meant = !told.contains(&format!("\"{key}\" has a meaning for "));
            let listed = cells[2] == "all" || cells[2].split(", ").any(|one| one == kind);
            assert_eq!(meant, listed, "{key} in {kind}: {told}");
        }
    }
}

fn shape(row: &Row) -> String {
    match row.shape {
        Shape::Told { code } => format!("tool error, {code}"),
        Shape::Http { status, code } => format!("HTTP {status}, {code}"),
        Shape::Challenge { status } => format!("challenge {status}, {}", u32::from(status) * 100),
        Shape::Fault => "error, -32603".to_owned(),
    }
}

#[test]
fn the_examples_on_the_policies_page_are_sound() {
    let examples = POLICY.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let examples: Vec<_> = examples.collect();
    let (cases, policies): (Vec<_>, Vec<_>) =
        examples.iter().partition(|example| example.starts_with("[[case]]"));
    for example in policies {
        assert_eq!(mistakes(example), "", "{example}");
    }
    let cases = cases.into_iter().map(|example| (PathBuf::from("c.toml"), (*example).to_owned()));
    assert_eq!(Case::from_sources(&cases.collect::<Vec<_>>()).expect("cases").len(), 1);
    let example = examples.iter().find(|example| example.contains("runs = ")).expect("the page shows one");
    let policy = Policy::from_sources(&[(PathBuf::from("p.toml"), (*example).to_owned())]).expect("sound").0;
    let outer =
        policy.named(Kind::Tool, "execute_tools").and_then(|outer| outer.runs()).expect("it runs others");
    let call = POLICY.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a call");
    let call = Json::parse(call.as_bytes(), MAX_DEPTH).expect("JSON");
    let inner = outer.inner(call.get("arguments").and_then(Json::as_object)).expect("calls");
    let tools: Vec<_> = inner.iter().map(|inner| inner.tool.as_str()).collect();
    assert_eq!(tools, ["get_invoice", "refund_order"]);
}

#[test]
fn every_refusal_there_is_is_looked_at() {
    let source = include_str!("../../src/domain/refusal.rs");
    let variants = source.split("pub enum Refusal {").nth(1).expect("the refusals").lines();
    let name =
        |line: &'static str| line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase));
    let names: BTreeSet<_> =
        variants.filter_map(name).map(|line| line.trim_end_matches([',', '{', ' '])).collect();
    let looked_at: BTreeSet<String> = every_refusal().iter().map(|refusal| format!("{refusal:?}")).collect();
    let looked_at: BTreeSet<_> =
        looked_at.iter().map(|text| text.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(looked_at, names);
}

#[test]
fn every_refusal_is_on_its_page_as_clients_and_the_audit_see_it() {
    let refusals: BTreeSet<String> = every_refusal()
        .iter()
        .map(|refusal| {
            let row = row(refusal);
            let (executed, retry) = (row.executed.as_str(), row.retry.as_str());
            format!("`{}` | {} | {executed} | {retry} | `{}`", row.code, shape(&row), row.reason)
        })
        .collect();
    let rows = table(ANSWERS, "| code | form | executed | retry | audit reason | when |");
    let listed: BTreeSet<String> = rows.iter().map(|cells| cells[..5].join(" | ")).collect();
    let missing: Vec<_> = refusals.difference(&listed).collect();
    let wrong: Vec<_> = listed.difference(&refusals).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:#?}\nno refusal: {wrong:#?}");
    assert!(rows.iter().all(|cells| cells.len() == 6 && !cells[5].is_empty()), "each says when");
}

#[test]
fn every_problem_is_on_its_page_as_clients_see_it() {
    let problems: BTreeSet<String> = plain_refusals()
        .iter()
        .map(|refusal| {
            let row = row(refusal);
            let (executed, retry) = (row.executed.as_str(), row.retry.as_str());
            format!("`{}` | {} | {executed} | {retry}", row.code, row.plain_status())
        })
        .collect();
    let rows = table(ROUTES, "| code | status | executed | retry | what to do |");
    let listed: BTreeSet<String> = rows.iter().map(|cells| cells[..4].join(" | ")).collect();
    let missing: Vec<_> = problems.difference(&listed).collect();
    let wrong: Vec<_> = listed.difference(&problems).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:#?}\nno problem: {wrong:#?}");
}

#[test]
fn the_headers_that_a_replay_has_are_on_the_routes_page() {
    let (_, kept) = ROUTES.split_once("of its headers ").expect("what a replay has");
    let kept = kept.split('.').next().unwrap_or_default();
    let listed: Vec<_> = kept.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, [KEPT_HEADERS.as_slice(), KEPT_WITH_BYTES.as_slice()].concat());
}

#[test]
fn every_reason_that_the_gate_writes_is_on_its_page() {
    let refusals: BTreeSet<_> = every_refusal().iter().map(|refusal| row(refusal).reason).collect();
    let others = table(ANSWERS, "| reason | decision | executed | what it means |");
    let others: BTreeSet<_> =
        others.iter().flat_map(|cells| cells[0].split('`').skip(1).step_by(2)).collect();
    let would = [format!("{WOULD}…"), format!("{WOULD}{REPLAY}")];
    let known: BTreeSet<&str> =
        GATE_REASONS.iter().copied().chain(would.iter().map(String::as_str)).collect();
    let listed: BTreeSet<&str> = refusals.union(&others).copied().collect();
    assert_eq!(listed, known);
}
