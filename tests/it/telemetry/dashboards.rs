//! The dashboard and the alerts: each of their expressions is asked of a real Prometheus that scrapes a real gate.
//!
//! Promises: what they name is counted, with the labels that they name; what the calls of the test made has data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::prometheus::{pleased, program, promtool};
use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::gate::{Gate, free_port};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// Panels that stay empty while nothing is wrong, and no collector is named.
const EMPTY: [&str; 1] = ["Spans"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)
}

fn dashboard() -> Value {
    let text = fs::read_to_string(file("grafana/oncegate.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// Title and expressions of each panel that asks something.
fn panels() -> Vec<(String, Vec<String>)> {
    let dashboard = dashboard();
    let panels =
        dashboard["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row");
    let asks = |panel: &Value| {
        let targets = panel["targets"].as_array().expect("targets").iter();
        let expressions = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
        (panel["title"].as_str().expect("a title").to_owned(), expressions.collect())
    };
    panels.map(asks).collect()
}

/// As Grafana fills it in.
fn filled(expression: &str) -> String {
    let variables = [("$job", ".+"), ("$tool", ".+"), ("$__rate_interval", "1m"), ("$__range", "5m")];
    variables.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// The expressions of the alerts.
fn alerts() -> Vec<String> {
    let text = fs::read_to_string(file("prometheus/alerts.yaml")).expect("the rules");
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(expression) = line.trim().strip_prefix("expr:") else { continue };
        let mut expression = expression.trim().trim_start_matches(">-").to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("          ")) {
            expression = format!("{expression} {}", more.trim());
        }
        found.push(expression);
    }
    found
}

/// A Prometheus that scrapes a gate.
struct Prometheus {
    client: Client,
    process: Child,
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _gone = self.process.kill().is_err() || self.process.wait().is_err();
    }
}

impl Prometheus {
    fn of(gate: &Gate) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (address, _lock) = free_port();
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\"]\nscrape_configs:\n\
             - job_name: oncegate-billing\n  static_configs: [{{ targets: [\"{}\"] }}]\n",
            file("prometheus/alerts.yaml").display(),
            gate.health_address()
        );
        fs::write(&config, text).expect("its configuration");
        let mut command = Command::new(program("prometheus"));
        let command = command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().expect("prometheus");
        Self { client: Client::new(address, Era::Legacy), process, _folder: folder }
    }

    /// What it answers to an expression; none while it does not answer at all.
    async fn ask(&self, expression: &str) -> Option<Value> {
        let query = utf8_percent_encode(expression, NON_ALPHANUMERIC);
        let ask = self.client.plain(&format!("GET /api/v1/query?query={query}"));
        let reply = ask.try_send().await?;
        let json = reply.json();
        assert_eq!(json["status"], "success", "{expression}: {json}");
        Some(json["data"]["result"].clone())
    }
}

#[tokio::test]
async fn every_panel_and_every_alert_is_answered_by_a_prometheus_that_scrapes_a_gate() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let prometheus = Prometheus::of(&gate);
    let client = gate.client(Era::Modern);
    let refund = |key: &str| client.tool("refund_order", &json!({ "order_id": "a" })).key(key);
    // The first is lost; the last answer stands for all that follow.
    upstream.script("refund_order", [Answer::reset(), Answer::tool("refunded", &json!({}))]);
    let mut turn = 0;
    // Rates need calls in more than one scrape.
    eventually("each panel to have data", async || {
        turn += 1;
        for key in [format!("k{turn}"), format!("k{turn}"), "k1".to_owned()] {
            refund(&key).send().await;
        }
        client.tool("get_invoice", &json!({})).send().await;
        client.tool("run_sql", &json!({})).send().await;
        for (title, expressions) in panels() {
            for expression in expressions {
                let found = prometheus.ask(&filled(&expression)).await?;
                let is_there = found.as_array().is_some_and(|found| !found.is_empty());
                if !is_there && !EMPTY.contains(&title.as_str()) {
                    eprintln!("{title}: {expression}: nothing yet");
                    return None;
                }
            }
        }
        Some(())
    })
    .await;
    for expression in alerts() {
        assert!(prometheus.ask(&expression).await.is_some(), "{expression}");
    }
}

/// The counts that a text names.
fn named(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in text.split("oncegate_").skip(1) {
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        names.push(format!("oncegate_{name}"));
    }
    names
}

#[tokio::test]
async fn whatever_dashboard_alerts_and_page_name_is_counted() {
    let upstream = Upstream::start().await;
    let mut gate =
        Gate::start(Setup::new(Home::Sqlite, &upstream.url()).set("traces.otlp_url", "http://127.0.0.1:1"))
            .await;
    let client = gate.client(Era::Modern);
    for key in ["k1", "k1"] {
        client.tool("refund_order", &json!({})).key(key).send().await;
    }
    client.rpc("tools/list", &json!({})).send().await;
    let scrape = eventually("spans to be counted", async || {
        Some(gate.scrape().await).filter(|scrape| scrape.contains("oncegate_spans_total"))
    })
    .await;
    gate.stop().await;
    let page = include_str!("../../../docs/telemetry.md");
    let rules = fs::read_to_string(file("prometheus/alerts.yaml")).expect("the rules");
    let all = [dashboard().to_string(), rules, page.to_owned()].concat();
    let missing: Vec<_> = named(&all).into_iter().filter(|name| !scrape.contains(name.as_str())).collect();
    assert_eq!(missing, [""; 0], "named, and not counted:\n{scrape}");
    // And the other way round: the page says what each count means.
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let untold: Vec<_> = types.filter(|name| !page.contains(&format!("`{name}"))).collect();
    assert_eq!(untold, [""; 0], "counted, and not on the page");
}

#[test]
fn the_rules_are_sound_and_fire_when_they_should() {
    for (command, name) in [("check", "alerts.yaml"), ("test", "alerts_test.yaml")] {
        let path = file(&format!("prometheus/{name}"));
        pleased(&promtool(&[command, "rules", path.to_str().expect("a plain name")], ""));
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    let dashboard = dashboard();
    assert!(dashboard["id"].is_null(), "an id belongs to one Grafana");
    assert_eq!(dashboard["uid"], "oncegate");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    assert_eq!(variables[0]["type"], "datasource", "nobody's own datasource is named");
    let (mut ids, mut taken) = (Vec::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        ids.push(panel["id"].as_u64().expect("an id"));
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{panel} is wider than the page");
        let place = (at("x"), at("y"), at("w"), at("h"));
        let covers = |&(x, y, w, h): &(u64, u64, u64, u64)| {
            x < place.0 + place.2 && place.0 < x + w && y < place.1 + place.3 && place.1 < y + h
        };
        assert!(!taken.iter().any(covers), "{} lies over another", panel["title"]);
        taken.push(place);
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            assert!(panel["description"].as_str().is_some_and(|text| text.len() > 10), "{}", panel["title"]);
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "two panels have the same id");
}
