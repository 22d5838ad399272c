//! Traces: a call is told as spans, under its caller's and over its upstream's, and nothing in them is anybody's secret.

use std::fs;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::collector::{Collector, names};
use crate::egress::scene::Plan;
use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era};
use crate::harness::eventually;
use crate::harness::gate::{Gate, WORKER_TOKEN};
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

async fn traced(home: Home) -> (Upstream, Collector, Gate) {
    let (upstream, collector) = (Upstream::start().await, Collector::start().await);
    let gate = Gate::start(Setup::new(home, &upstream.url()).set("traces.otlp_url", collector.url())).await;
    (upstream, collector, gate)
}

#[tokio::test]
async fn a_mutation_is_told_step_by_step_between_its_callers_span_and_its_upstreams() {
    on_every_store(async |home| {
        for era in Era::ALL {
            let (upstream, collector, mut gate) = traced(home).await;
            let refund =
                gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("the-key");
            let asked = refund.header("traceparent", &parent("01")).header("tracestate", "vendor=1");
            assert_eq!(asked.send().await.met(), "first");
            let audit = gate.audit(1).await;
            gate.stop().await;

            let call = collector.span("tools/call refund_order");
            assert_eq!(
                (call.trace.as_str(), call.parent.as_str(), call.kind),
                (TRACE, SPAN, SpanKind::Server)
            );
            assert_eq!(audit[0]["trace_id"], TRACE);
            let version = era.version();
            call.says(&[
                ("http.request.method", "POST"),
                ("http.response.status_code", "200"),
                ("network.protocol.name", "http"),
                ("network.protocol.version", "1.1"),
                ("network.transport", "tcp"),
                ("mcp.method.name", "tools/call"),
                ("mcp.protocol.version", version),
                ("jsonrpc.request.id", "1"),
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "refund_order"),
                ("oncegate.service", "billing"),
                ("oncegate.operation", "refund_order"),
                ("oncegate.decision", "allowed"),
                ("oncegate.executed", "yes"),
                ("oncegate.replayed", "false"),
                ("oncegate.attempt_id", audit[0]["attempt_id"].as_str().expect("an attempt")),
                ("oncegate.policy.version", audit[0]["policy_version"].as_str().expect("a version")),
            ]);
            let steps = ["authenticate", "queue", "parse", "authorize", "claim", "forward", "settle"];
            assert_eq!(collector.beneath(&call), steps);
            assert_eq!(collector.beneath(&collector.span("claim")), ["store claim"]);
            assert_eq!(collector.beneath(&collector.span("settle")), ["store settle"]);
            let system = if home == Home::Sqlite { "sqlite" } else { "postgresql" };
            collector.span("store claim").says(&[("db.system.name", system), ("db.operation.name", "claim")]);
            let forward = collector.span("forward");
            assert_eq!(forward.kind, SpanKind::Client);
            forward.says(&[("http.response.status_code", "200"), ("server.address", "127.0.0.1")]);

            let heard = &upstream.calls("refund_order")[0].http;
            assert_eq!(heard.header("traceparent"), Some(format!("00-{TRACE}-{}-01", forward.id).as_str()));
            assert_eq!(heard.header("tracestate"), Some("vendor=1"));
            let resource = collector.resource();
            assert_eq!(resource["service.name"], "oncegate-billing");
            assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
            // Nobody's, in none of them.
            let all = format!("{:?}", collector.spans());
            for secret in ["the-key", "ord_9f2", "acme", "u1", "eyJ"] {
                assert!(!all.contains(&format!("\"{secret}")), "{secret} is in {all}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_replay_points_to_the_first_call_and_a_refusal_says_why() {
    let (_upstream, collector, mut gate) = traced(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    let refund = |key: &str| client.tool("refund_order", &json!({ "order_id": "a" })).key(key);
    assert_eq!(refund("k1").send().await.met(), "first");
    assert_eq!(refund("k1").header("traceparent", &parent("01")).send().await.met(), "replay");
    assert_eq!(client.tool("run_sql", &json!({})).send().await.met(), "operation_not_allowed");
    assert_eq!(client.tool("Ignore_all", &json!({})).send().await.met(), "operation_not_allowed");
    let nobody = Client::new(gate.address(), Era::Modern);
    assert_eq!(nobody.tool("refund_order", &json!({})).send().await.status(), 401);
    assert_eq!(client.tool("get_invoice", &json!({})).send().await.met(), "first");
    gate.stop().await;

    let spans = collector.spans();
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Server).collect();
    let [first, replay, denied, unnamed, stranger, read] = calls[..] else { panic!("{:?}", names(&spans)) };
    assert_eq!((replay.trace.as_str(), replay.parent.as_str()), (TRACE, SPAN));
    assert_eq!(replay.links, [(first.trace.clone(), first.id.clone())]);
    replay.says(&[("oncegate.decision", "replayed"), ("oncegate.replayed", "true")]);
    assert_eq!(collector.beneath(replay), ["authenticate", "queue", "parse", "authorize", "claim"]);
    denied.says(&[
        ("oncegate.decision", "denied"),
        ("oncegate.reason", "denied_by_policy"),
        ("oncegate.executed", "no"),
        ("error.type", "operation_not_allowed"),
    ]);
    assert!(denied.failed && !replay.failed && !first.failed);
    // What the policy does not name, names nothing.
    assert_eq!(unnamed.name, "POST");
    unnamed.says(&[("oncegate.operation", "other"), ("gen_ai.tool.name", "Ignore_all")]);
    stranger.says(&[("oncegate.reason", "unauthenticated"), ("http.response.status_code", "401")]);
    assert_eq!(read.name, "tools/call get_invoice");
    read.says(&[("oncegate.decision", "allowed"), ("oncegate.executed", "yes")]);
}

#[tokio::test]
async fn the_context_in_a_message_is_nearer_to_its_sender_than_that_of_its_request() {
    let (upstream, collector, mut gate) = traced(Home::Sqlite).await;
    let other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let meta = |body: &mut Value| body["params"]["_meta"]["traceparent"] = other.into();
    let client = gate.client(Era::Modern);
    let asked =
        client.tool("refund_order", &json!({})).key("k1").header("traceparent", &parent("01")).with(meta);
    assert_eq!(asked.send().await.met(), "first");
    let audit = gate.audit(1).await;
    gate.stop().await;
    let (request, call) = (collector.span("POST"), collector.span("tools/call refund_order"));
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, SPAN));
    assert_eq!(call.trace, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(call.parent, "b7ad6b7169203331");
    assert_eq!(call.links, [(request.trace.clone(), request.id.clone())]);
    assert_eq!(audit[0]["trace_id"], call.trace.as_str());
    let heard = &upstream.calls("refund_order")[0];
    let own = format!("00-{}-{}-01", call.trace, collector.span("forward").id);
    assert_eq!(heard.http.header("traceparent"), Some(own.as_str()));
    assert_eq!(heard.json["params"]["_meta"]["traceparent"], own.as_str());
}

#[tokio::test]
async fn a_message_keeps_its_own_context_where_no_traces_are_told() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let meta = |body: &mut Value| body["params"]["_meta"]["traceparent"] = parent("01").into();
    let asked = gate.client(Era::Legacy).tool("get_invoice", &json!({})).with(meta);
    assert_eq!(asked.send().await.met(), "first");
    assert_eq!(gate.audit(1).await[0]["trace_id"], TRACE);
    let heard = &upstream.calls("get_invoice")[0];
    assert_eq!(heard.json["params"]["_meta"]["traceparent"], parent("01"));
    assert_eq!(heard.http.header("traceparent"), Some(parent("01").as_str()));
}

#[tokio::test]
async fn whoever_does_not_sample_is_not_told_of_and_its_upstream_hears_that() {
    let (upstream, collector) = (Upstream::start().await, Collector::start().await);
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("traces.otlp_url", collector.url());
    let mut gate = Gate::start(setup.set("traces.sample_ratio", 0.0)).await;
    let client = gate.client(Era::Modern);
    let read = || client.tool("get_invoice", &json!({}));
    assert_eq!(read().header("traceparent", &parent("00")).send().await.met(), "first");
    assert_eq!(read().send().await.met(), "first");
    assert_eq!(read().header("traceparent", &parent("01")).send().await.met(), "first");
    gate.stop().await;
    assert_eq!(names(&collector.spans()).iter().filter(|name| *name == "tools/call get_invoice").count(), 1);
    let heard: Vec<_> = upstream.calls("get_invoice");
    let flags = |at: usize| heard[at].http.header("traceparent").expect("a parent")[53..].to_owned();
    assert_eq!([flags(0), flags(1), flags(2)], ["00", "00", "01"]);
}

#[tokio::test]
async fn plain_requests_go_by_their_routes_and_a_provider_hears_of_no_trace() {
    let collector = Collector::start().await;
    let plan = Plan::new(Home::Sqlite).await.set("traces.otlp_url", collector.url());
    let mut scene = plan.start().await;
    let sent =
        scene.form("POST /v1/refunds", "k1", "amount=5").header("traceparent", &parent("01")).send().await;
    assert_eq!(sent.status(), 200, "{sent:?}");
    scene.gate.stop().await;
    let call = collector.span("POST /v1/refunds");
    assert_eq!(call.trace, TRACE);
    call.says(&[
        ("http.route", "/v1/refunds"),
        ("oncegate.operation", "create_refund"),
        ("oncegate.service", "billing:stripe"),
        ("oncegate.decision", "allowed"),
    ]);
    assert_eq!(scene.provider.received()[0].http.header("traceparent"), None);
}

#[tokio::test]
async fn a_workers_requests_are_told() {
    let (upstream, collector) = (Upstream::start().await, Collector::start().await);
    let mut setup = Setup::new(Home::Sqlite, &upstream.url()).set("traces.otlp_url", collector.url());
    setup.policy.push_str("[jobs.settle_refund]\neffect = \"mutation\"\nscopes = [\"jobs:refund\"]\n");
    let setup = setup
        .set("admin_token_file", "admin")
        .set("service_tokens.worker.token_file", "worker")
        .set("service_tokens.worker.scopes", vec!["jobs:refund"])
        .set("service_tokens.worker.tenants", vec!["acme"]);
    let mut gate = Gate::start(setup).await;
    let asked = json!({ "tenant": "acme", "job": "settle_refund", "key": "k1", "arguments": {} });
    let worker = Client::new(gate.admin_address(), Era::Legacy).bearing(WORKER_TOKEN);
    let ask = worker.plain("POST /gate/claims").json(&asked).header("traceparent", &parent("01"));
    let reply = ask.header("Content-Type", "application/json").send().await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    gate.stop().await;
    let call = collector.span("POST /gate/claims");
    assert_eq!((call.trace.as_str(), call.parent.as_str()), (TRACE, SPAN));
    call.says(&[("oncegate.operation", "settle_refund"), ("http.route", "/gate/claims")]);
    assert!(
        gate.logged().contains("\"way\":\"/gate/claims\",\"tool\":\"settle_refund\""),
        "{}",
        gate.logged()
    );
}

#[tokio::test]
async fn what_a_collector_wants_to_see_is_sent_along_and_stands_in_no_log() {
    let (upstream, collector) = (Upstream::start().await, Collector::start().await);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("headers");
    fs::write(&file, "Authorization: Bearer the-collectors-own\nX-Team: billing\n").expect("the file");
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("traces.otlp_url", collector.url());
    let mut gate = Gate::start(setup.set("traces.headers_file", file.to_str().expect("a plain name"))).await;
    assert_eq!(gate.client(Era::Modern).tool("get_invoice", &json!({})).send().await.met(), "first");
    gate.stop().await;
    assert_eq!(collector.header("authorization").as_deref(), Some("Bearer the-collectors-own"));
    assert_eq!(collector.header("x-team").as_deref(), Some("billing"));
    assert_eq!(collector.header("content-type").as_deref(), Some("application/x-protobuf"));
    assert!(!gate.logged().contains("the-collectors-own"));
}

#[tokio::test]
async fn a_collector_that_is_away_or_hostile_costs_spans_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hostile = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut some = [0; 1024];
                let _read = socket.read(&mut some).await;
                let _sent =
                    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n").await;
                while socket.write_all(&[b'x'; 8192]).await.is_ok() {}
            });
        }
    });
    for address in ["127.0.0.1:1".to_owned(), hostile.to_string()] {
        let upstream = Upstream::start().await;
        let setup = Setup::new(Home::Sqlite, &upstream.url());
        let mut gate = Gate::start(setup.set("traces.otlp_url", format!("http://{address}"))).await;
        let client = gate.client(Era::Modern);
        for n in 0..20 {
            let asked = client.tool("refund_order", &json!({ "order_id": n })).key(&format!("k{n}"));
            assert_eq!(asked.send().await.met(), "first");
        }
        eventually("spans to be counted as lost", async || {
            (gate.count(r#"oncegate_spans_total{result="lost"}"#).await > 0).then_some(())
        })
        .await;
        assert_eq!(client.tool("get_invoice", &json!({})).send().await.met(), "first");
        assert_eq!(gate.stop().await, Some(0));
        let told = gate.logged().matches("The collector does not take spans").count();
        assert_eq!(told, 1, "{address}: {}", gate.logged());
    }
}

#[tokio::test]
async fn an_outcome_that_is_unknown_is_told_as_that() {
    let (upstream, collector, mut gate) = traced(Home::Sqlite).await;
    upstream.script("refund_order", [Answer::reset()]);
    let asked = gate.client(Era::Modern).tool("refund_order", &json!({})).key("k1");
    assert_eq!(asked.send().await.met(), "outcome_unknown");
    gate.stop().await;
    let call = collector.span("tools/call refund_order");
    call.says(&[
        ("oncegate.decision", "allowed"),
        ("oncegate.reason", "outcome_unknown"),
        ("oncegate.executed", "maybe"),
        ("error.type", "outcome_unknown"),
    ]);
    let forward = collector.span("forward");
    forward.says(&[("error.type", "lost")]);
    assert!(call.failed && forward.failed);
}
