//! The counts: what is in them, that Prometheus can read them, and that nobody outside can make them many.

use serde_json::json;

use super::prometheus::{pleased, promtool};
use crate::egress::scene::scene;
use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// The values of the series that begin so.
fn values(scrape: &str, begin: &str) -> Vec<f64> {
    let of_this = scrape.lines().filter(|line| line.starts_with(begin));
    of_this.map(|line| line.rsplit(' ').next().expect("a value").parse().expect("a number")).collect()
}

#[tokio::test]
async fn calls_the_upstream_and_the_store_are_timed_and_open_claims_counted() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let mut gate = Gate::start(Setup::new(home, &upstream.url())).await;
        let client = gate.client(Era::Modern);
        let refund = |key: &str| client.tool("refund_order", &json!({ "order_id": "a" })).key(key);
        assert_eq!(refund("k1").send().await.met(), "first");
        assert_eq!(refund("k1").send().await.met(), "replay");
        assert_eq!(client.tool("get_invoice", &json!({})).send().await.met(), "first");
        assert_eq!(client.tool("no_such_tool", &json!({})).send().await.met(), "operation_not_allowed");
        upstream.script("refund_order", [Answer::reset()]);
        assert_eq!(refund("k2").send().await.met(), "outcome_unknown");
        // A call is timed when nothing of it runs any more, which is a moment after its answer.
        let scrape = eventually("three refunds to be timed", async || {
            let scrape = gate.scrape().await;
            let timed = values(&scrape, r#"oncegate_call_seconds_count{tool="refund_order"}"#);
            (timed == [3.0]).then_some(scrape)
        })
        .await;
        for (series, least) in [
            (r#"oncegate_call_seconds_count{tool="get_invoice"}"#, 1.0),
            (r#"oncegate_upstream_seconds_count{tool="refund_order"}"#, 2.0),
            (r#"oncegate_upstream_seconds_count{tool="get_invoice"}"#, 1.0),
            (r#"oncegate_store_seconds_count{operation="claim"}"#, 2.0),
            (r#"oncegate_store_seconds_count{operation="settle"}"#, 2.0),
            (r#"oncegate_store_seconds_count{operation="append"}"#, 2.0),
            (r#"oncegate_store_seconds_count{operation="look"}"#, 1.0),
            ("oncegate_places ", 1024.0),
            ("oncegate_queue_places ", 1.0),
        ] {
            let found = values(&scrape, series);
            assert!(found.len() == 1 && found[0] >= least, "{series} is {found:?}\n{scrape}");
        }
        for nought in ["oncegate_calls_running ", "oncegate_calls_queued ", "oncegate_store_away "] {
            assert_eq!(values(&scrape, nought), [0.0], "{nought}");
        }
        // They are counted at the start, and every so often.
        gate.stop().await;
        gate.restart().await;
        let unknown = r#"oncegate_claims{status="unknown"}"#;
        let scrape = eventually("open claims to be counted", async || {
            Some(gate.scrape().await).filter(|scrape| scrape.contains(unknown))
        })
        .await;
        assert_eq!(values(&scrape, unknown), [1.0]);
        assert_eq!(values(&scrape, r#"oncegate_claims{status="in_flight"}"#), [0.0]);
        let oldest = values(&scrape, r#"oncegate_claims_oldest_seconds{status="unknown"}"#);
        assert!(oldest[0] > 0.0 && oldest[0] < 600.0, "{oldest:?}");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(values(&scrape, &format!(r#"oncegate_build_info{{version="{version}"}}"#)), [1.0]);
    })
    .await;
}

#[tokio::test]
async fn operations_of_a_listener_are_told_from_the_gates_own_of_the_same_name() {
    let scene = scene(Home::Sqlite).await;
    let sent = scene.form("POST /v1/refunds", "k1", "amount=5").send().await;
    assert_eq!(sent.status(), 200, "{sent:?}");
    let of_listener = r#"{tool="create_refund",decision="allowed",reason="",listener="stripe"}"#;
    eventually("the call to be counted", async || {
        let counted = scene.gate.count(&format!("oncegate_calls_total{of_listener}")).await;
        (counted == 1).then_some(())
    })
    .await;
    let scrape = scene.gate.scrape().await;
    for series in [
        r#"oncegate_upstream_seconds_count{tool="create_refund",listener="stripe"} 1"#,
        r#"oncegate_places{listener="stripe"} 1024"#,
        "oncegate_places 1024",
    ] {
        assert!(scrape.lines().any(|line| line == series), "{series} is not in\n{scrape}");
    }
}

#[tokio::test]
async fn promtool_has_nothing_to_say_about_a_scrape() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let client = gate.client(Era::Legacy);
    for (tool, key) in [("refund_order", "k1"), ("refund_order", "k1"), ("get_invoice", "-"), ("other", "-")]
    {
        client.tool(tool, &json!({})).key(key).send().await;
    }
    assert_eq!(client.rpc("tools/list", &json!({})).send().await.word(), "ok");
    let scrape = gate.scrape().await;
    let said = promtool(&["check", "metrics"], &scrape);
    pleased(&said);
    assert!(said.stdout.is_empty() && said.stderr.is_empty(), "{said:?}");
    for tenants in ["acme", "u1", "k1"] {
        assert!(!scrape.contains(&format!("\"{tenants}\"")), "{tenants} is in\n{scrape}");
    }
}

#[tokio::test]
async fn whoever_asks_for_openmetrics_gets_it() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let ask = Client::new(gate.health_address(), Era::Legacy).plain("GET /metrics");
    let reply = ask.header("Accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1").send().await;
    let kind = reply.http.header("content-type").expect("a media type");
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = String::from_utf8(reply.http.body.to_vec()).expect("UTF-8");
    assert!(text.ends_with("# EOF\n") && text.contains("# TYPE oncegate_build info\n"), "{text}");
}
