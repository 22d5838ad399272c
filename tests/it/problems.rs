//! Refusals of plain requests: problems by RFC 9457, each as its published schema says, each to be found in the audit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use http_body_util::BodyExt as _;
use oncegate::auth::Resource;
use oncegate::domain::refusal::Refusal;
use oncegate::wire::{Shape, problem, row};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use uuid::Uuid;

use crate::clients::install;
use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{AUDIENCE, Home, Setup, token};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time};
use crate::refusals::every_refusal;

const SCHEMA: &str = include_str!("../../docs/problem.schema.json");

/// Whether a plain request can meet it.
fn is_plain(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::NotJson { .. }
        | Refusal::NotOneMessage { .. }
        | Refusal::VersionMissing
        | Refusal::NoSuchEvent
        | Refusal::HeaderMismatch { .. }
        | Refusal::NoSuchSession
        | Refusal::NoSuchTask
        | Refusal::TasksNotDeclared
        | Refusal::NoSuchMethod
        | Refusal::TaskActLost
        | Refusal::InnerCalls { .. }
        | Refusal::AnswerNotForClient { .. }
        | Refusal::LeaseLost
        | Refusal::AttemptOver
        | Refusal::ReportNotStored => false,
        Refusal::BodyTooLarge { .. }
        | Refusal::UnsupportedMedia { .. }
        | Refusal::BodyCut
        | Refusal::ForeignHost
        | Refusal::ForeignOrigin
        | Refusal::NoToken
        | Refusal::BadToken { .. }
        | Refusal::KeysUnavailable
        | Refusal::UpstreamUnauthorized { .. }
        | Refusal::UpstreamForbidden { .. }
        | Refusal::MissingScope { .. }
        | Refusal::NotInPolicy
        | Refusal::DeniedByPolicy
        | Refusal::ArgumentRule
        | Refusal::PathNotNormal { .. }
        | Refusal::MethodOverride
        | Refusal::ForeignTenant
        | Refusal::CallerUnknown { .. }
        | Refusal::BodyUnreadable { .. }
        | Refusal::NoSuchEndpoint
        | Refusal::MethodNotAllowed { .. }
        | Refusal::KeyRequired { .. }
        | Refusal::KeyInvalid { .. }
        | Refusal::KeyAmbiguous { .. }
        | Refusal::PayloadMismatch { .. }
        | Refusal::KeyOfAnotherUser { .. }
        | Refusal::InFlight { .. }
        | Refusal::OutcomeUnknown { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::ReplayNotRecorded { .. }
        | Refusal::PossibleDuplicate { .. }
        | Refusal::UpstreamUnreachable
        | Refusal::NoGateway
        | Refusal::ExecutionFailed { .. }
        | Refusal::ReadFailed
        | Refusal::StoreUnavailable
        | Refusal::Overloaded
        | Refusal::Draining
        | Refusal::Internal => true,
    }
}

/// Every refusal that a plain request can meet.
pub(crate) fn plain_refusals() -> Vec<Refusal> {
    every_refusal().into_iter().filter(is_plain).collect()
}

/// Holds problems against the schema.
pub(crate) async fn check_schema(problems: &[Value]) {
    install().await;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(root.join(".parts/clients/plain/bin/python"));
    python.arg(root.join("tests/clients/plain/schema.py")).arg(root.join("docs/problem.schema.json"));
    let mut running =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the checker");
    let lines: Vec<_> = problems.iter().map(Value::to_string).collect();
    let mut input = running.stdin.take().expect("it was piped");
    input.write_all(lines.join("\n").as_bytes()).await.expect("it reads");
    drop(input);
    let checked = in_time("the schema's checker", running.wait_with_output()).await.expect("it ends");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// Looks at a refusal as a client sees it, and returns the problem.
#[track_caller]
pub(crate) fn problem_of(reply: &Reply) -> Value {
    assert_eq!(reply.http.header("content-type"), Some("application/problem+json"), "{:?}", reply.http);
    assert_eq!(reply.http.header("cache-control"), Some("no-store"));
    let problem: Value = serde_json::from_slice(&reply.http.body).expect("JSON");
    assert_eq!(problem["status"], reply.status(), "{problem}");
    problem
}

#[tokio::test]
async fn every_refusal_of_a_plain_request_is_a_problem_as_the_schema_says() {
    let resource = Resource::new(AUDIENCE).expect("a URL");
    let mut problems = Vec::new();
    for refusal in plain_refusals() {
        let (row, instance) = (row(&refusal), Uuid::new_v4());
        let response = problem::response(&row, instance, Some(&resource));
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let problem: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(problem["status"], parts.status.as_u16(), "{problem}");
        assert_eq!(problem["type"], format!("urn:oncegate:problem:{}", row.code));
        assert_eq!(problem["instance"], format!("urn:uuid:{instance}"));
        let challenges = matches!(row.shape, Shape::Challenge { .. });
        assert_eq!(parts.headers.contains_key("www-authenticate"), challenges, "{problem}");
        assert_eq!(parts.headers.contains_key("retry-after"), !problem["retry_after_ms"].is_null());
        assert_eq!(parts.headers.contains_key("allow"), parts.status == 405);
        problems.push(problem);
    }
    check_schema(&problems).await;
    let codes: BTreeSet<_> = problems.iter().filter_map(|problem| problem["code"].as_str()).collect();
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let listed = schema["oneOf"].as_array().expect("the codes").iter();
    let listed: BTreeSet<_> = listed.filter_map(|one| one["properties"]["code"]["const"].as_str()).collect();
    assert_eq!(codes, listed, "the schema has every code, and no other");
}

#[test]
fn what_a_plain_client_reads_speaks_of_nothing_that_it_does_not_have() {
    for refusal in plain_refusals() {
        let text = row(&refusal).text;
        for word in ["tool", "JSON-RPC", "the argument", "session"] {
            assert!(!text.contains(word), "{refusal:?}: {text}");
        }
    }
}

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

/// What this problem's audit row says.
async fn row_of(gate: &Gate, problem: &Value) -> Value {
    let instance = problem["instance"].as_str().expect("a URN");
    let output = gate.run(&["audit", "--id", instance, "--json"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("no one row {instance}: {text}"))
}

#[tokio::test]
async fn a_request_off_the_mcp_endpoint_is_refused_as_a_problem_whatever_is_wrong_with_it() {
    let (upstream, gate) = started().await;
    let known = Client::new(gate.address(), Era::Legacy).bearing(&token());
    let stranger = Client::new(gate.address(), Era::Legacy);
    let mut problems = Vec::new();
    for (ask, status, code) in [
        (known.plain("GET /elsewhere"), 404, "no_such_endpoint"),
        (known.plain("POST /elsewhere").body("{}"), 404, "no_such_endpoint"),
        (stranger.plain("GET /elsewhere"), 401, "unauthenticated"),
        (stranger.bearing("x.y.z").plain("POST /elsewhere"), 401, "invalid_token"),
        (known.plain("GET /").without("Host").header("Host", "evil.example"), 403, "host_not_allowed"),
        (known.plain("GET /").header("Origin", "https://evil.example"), 403, "origin_not_allowed"),
    ] {
        let reply = ask.send().await;
        let problem = problem_of(&reply);
        assert_eq!((reply.status(), &problem["code"]), (status, &json!(code)), "{problem}");
        assert_eq!(reply.http.header("www-authenticate").is_some(), status == 401, "{problem}");
        problems.push(problem);
    }
    check_schema(&problems).await;
    let instances: BTreeSet<_> = problems.iter().map(|problem| problem["instance"].to_string()).collect();
    assert_eq!(instances.len(), problems.len(), "each has its own");
    assert_eq!(row_of(&gate, &problems[0]).await["reason"], "no_such_endpoint");
    for stranger in &problems[2..] {
        let id = stranger["instance"].as_str().expect("a URN").trim_start_matches("urn:uuid:");
        assert!(gate.logged().contains(id), "whoever has no row is in the log: {stranger}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn on_the_mcp_endpoint_nothing_is_a_problem() {
    let (_upstream, gate) = started().await;
    let client = gate.client(Era::Legacy);
    for line in ["PUT /mcp", "POST /mcp?x=1"] {
        let reply = client.rpc("ping", &json!({})).line(line).send().await;
        assert_eq!(reply.json()["jsonrpc"], "2.0", "{line}: {:?}", reply.http);
    }
}

#[tokio::test]
async fn whoever_asks_for_a_head_alone_gets_no_body() {
    let (_upstream, gate) = started().await;
    let ask = gate.client(Era::Legacy).plain("HEAD /elsewhere").header("Connection", "close");
    let mut socket = ask.open().await.into_socket();
    let mut bytes = Vec::new();
    in_time("the answer's end", socket.read_to_end(&mut bytes)).await.expect("it closes");
    let text = String::from_utf8(bytes).expect("a head");
    assert!(text.starts_with("HTTP/1.1 404") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(text.contains("content-type: application/problem+json"), "{text}");
    assert!(!text.contains("content-length: 0"), "{text}");
}

/// A gate with one place, before an app that has one thing to give.
async fn narrow() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let mut setup = Setup::new(Home::Sqlite, &upstream.url())
        .set("admin_token_file", "admin")
        .set("limits.concurrent_calls", 1)
        .set("limits.queue_time", "100ms");
    let route = "[routes.get_file]\nmethod = \"GET\"\npath = \"/api/file\"\neffect = \"read\"\nscopes = [\"billing:read\"]\n";
    setup.policy.push_str(route);
    let gate = Gate::start(setup).await;
    (upstream, gate)
}

#[tokio::test]
async fn a_plain_read_holds_a_place_to_the_end_of_its_answer_and_a_full_gate_says_so_in_a_problem() {
    let (upstream, gate) = narrow().await;
    let hold = Hold::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000\r\n\r\n";
    let begun = Step::Send(format!("{head}{}", "x".repeat(50_000)).into());
    let ended = Step::Send("x".repeat(50_000).into());
    upstream.script("GET /api/file", [Answer::raw(vec![begun, Step::Hold(hold.clone()), ended])]);
    let client = gate.client(Era::Legacy);
    let first = client.plain("GET /api/file").open().await;
    first.peek().await;
    let mut problems = Vec::new();
    for line in ["GET /api/file", "POST /elsewhere"] {
        let problem = problem_of(&client.plain(line).send().await);
        assert_eq!((&problem["code"], &problem["status"]), (&json!("overloaded"), &json!(503)), "{line}");
        assert_eq!(problem["executed"], "no");
        problems.push(problem);
    }
    assert_eq!(upstream.plain("GET /api/file").len(), 1);
    let draining = gate.run(&["drain", "--settle", "10ms", "--wait", "20s"]);
    let closed = async {
        let refused = eventually("a gate that takes no calls", async || {
            let problem = problem_of(&client.plain("GET /api/file").send().await);
            let row = row_of(&gate, &problem).await;
            problems.push(problem);
            (row["reason"] == "draining").then_some(())
        });
        refused.await;
        hold.release();
    };
    let (drained, ()) = tokio::join!(draining, closed);
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(first.reply().await.http.body.len(), 100_000, "whoever drains waits for the answer's end");
    check_schema(&problems).await;
}
