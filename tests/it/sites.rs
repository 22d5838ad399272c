//! Which requests are for this gate, and from whom: by their host and their origin, rule by rule and over the wire.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use oncegate::domain::refusal::Refusal;
use oncegate::domain::site::{HostRule, OriginRule, Sites};
use serde_json::json;

use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::Gate;
use crate::harness::h2::{H2, json_of};
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

fn sites() -> Sites {
    let hosts = ["gate.svc.cluster.local", "edge.example.com:8443", "plain.example.com:80"];
    let origins = ["https://app.example.com", "http://intranet:8080", "tauri://desk"];
    sites_of(&hosts, &origins)
}

fn sites_of(hosts: &[&str], origins: &[&str]) -> Sites {
    let hosts = hosts.iter().map(|text| HostRule::parse(text).expect("a host")).collect();
    let origins = origins.iter().map(|text| OriginRule::parse(text).expect("an origin")).collect();
    Sites::new("https://api.example.com/mcp", hosts, origins).expect("a public URL")
}

#[track_caller]
fn check_host(sites: &Sites, target: Option<&str>, headers: &[&str], taken: bool) {
    let met = sites.check_host(target, headers.iter().map(|text| text.as_bytes()));
    let expected = if taken { Ok(()) } else { Err(Refusal::ForeignHost) };
    assert_eq!(met, expected, "{target:?} {headers:?}");
}

#[track_caller]
fn check_origin(sites: &Sites, headers: &[&str], taken: bool) {
    let met = sites.check_origin(headers.iter().map(|text| text.as_bytes()));
    let expected = if taken { Ok(()) } else { Err(Refusal::ForeignOrigin) };
    assert_eq!(met, expected, "{headers:?}");
}

#[test]
fn a_host_is_the_public_one_a_loopback_name_or_one_that_is_listed() {
    let sites = sites();
    for host in [
        "api.example.com",
        "API.Example.Com",
        "api.example.com.",
        "api.example.com:8443",
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:65535",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:8080",
        "gate.svc.cluster.local",
        "gate.svc.cluster.local:8080",
        "edge.example.com:8443",
        "plain.example.com",
        "plain.example.com:80",
    ] {
        check_host(&sites, None, &[host], true);
        check_host(&sites, Some(host), &[], true);
        check_host(&sites, Some(host), &[host], true);
    }
}

#[test]
fn every_other_host_is_somebody_elses() {
    let sites = sites();
    for host in [
        "",
        "evil.example.com",
        "example.com",
        "api.example.com.evil.com",
        "xapi.example.com",
        "localhost.evil.com",
        "evil.com#api.example.com",
        "api.example.com@evil.com",
        "evil@api.example.com",
        "api.example.com/",
        "api.example.com:",
        "api.example.com:x",
        "api.example.com:+80",
        "api.example.com:65536",
        "api.example.com:80:80",
        "api.example.com..",
        " api.example.com",
        "api.example.com, evil.com",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "[::2]",
        "[::1",
        "::1",
        "[::1]x",
        "[::ffff:127.0.0.1]",
        "edge.example.com",
        "edge.example.com:443",
        "plain.example.com:81",
        "api.ex\u{e4}mple.com",
        "*",
    ] {
        check_host(&sites, None, &[host], false);
        check_host(&sites, Some(host), &[], false);
    }
}

#[test]
fn a_request_names_one_host() {
    let sites = sites();
    check_host(&sites, None, &[], false);
    check_host(&sites, None, &["api.example.com", "api.example.com"], false);
    check_host(&sites, None, &["api.example.com", "evil.com"], false);
    check_host(&sites, Some("api.example.com"), &["localhost"], false);
    check_host(&sites, Some("evil.com"), &["api.example.com"], false);
    check_host(&sites, Some("api.example.com"), &["evil.com"], false);
    check_host(&sites, Some("api.example.com"), &["api.example.com", "api.example.com"], false);
}

#[test]
fn an_origin_is_the_public_one_a_loopback_one_or_one_that_is_listed() {
    let sites = sites();
    check_origin(&sites, &[], true);
    for origin in [
        "https://api.example.com",
        "https://api.example.com:443",
        "HTTPS://API.example.com",
        "http://localhost",
        "http://localhost:5173",
        "https://127.0.0.1:8443",
        "http://[::1]:3000",
        "https://app.example.com",
        "http://intranet:8080",
        "tauri://desk",
    ] {
        check_origin(&sites, &[origin], true);
        check_origin(&sites, &[origin, origin], false);
    }
}

#[test]
fn every_other_origin_is_refused() {
    let sites = sites_of(&["*"], &["https://app.example.com"]);
    for origin in [
        "null",
        "",
        "*",
        "https://evil.com",
        "http://api.example.com",
        "https://api.example.com:8443",
        "https://api.example.com.evil.com",
        "https://api.example.com/",
        "https://localhost.evil.com",
        "http://localhost@evil.com",
        "file://localhost",
        "api.example.com",
        "//api.example.com",
        "://api.example.com",
        "http://app.example.com",
        "https://app.example.com:444",
        "https://app.example.com https://evil.com",
        "https://app.example.com, https://evil.com",
        "javascript:alert(1)",
    ] {
        check_origin(&sites, &[origin], false);
    }
}

#[test]
fn a_star_takes_whatever_is_one() {
    let sites = sites_of(&["*"], &["*"]);
    check_host(&sites, None, &["10.1.2.3:8080"], true);
    check_host(&sites, None, &["a", "a"], false);
    check_host(&sites, None, &["a b"], false);
    check_origin(&sites, &["https://evil.com"], true);
    check_origin(&sites, &["null"], false);
}

#[test]
fn an_entry_that_is_none_is_not_taken_for_one() {
    for text in ["", "https://api.example.com", "api.example.com/mcp", "*.example.com", "a b"] {
        assert_eq!(HostRule::parse(text), None, "{text}");
    }
    for text in ["", "null", "api.example.com", "https://app.example.com/", "https://*.example.com"] {
        assert_eq!(OriginRule::parse(text), None, "{text}");
    }
}

async fn started(setup: impl FnOnce(Setup) -> Setup) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(Setup::new(Home::Sqlite, &upstream.url()))).await;
    (upstream, gate)
}

/// Refused as nobody's business: no challenge, no id, nothing of the body read, no row.
async fn check_refused(gate: &Gate, ask: Ask, setting: &str) {
    let lines = gate.logged().matches(setting).count();
    let reply = ask.clone().send().await;
    let json = reply.json();
    assert_eq!((reply.status(), reply.http.header("content-type")), (403, Some("application/json")));
    assert!(reply.http.header("www-authenticate").is_none(), "{reply:?}");
    assert!(json["error"]["code"].is_i64() && json.get("id").is_none(), "{json}");
    assert_eq!(json["error"]["data"]["oncegate/refusal"]["executed"], "no", "{json}");
    assert_eq!(gate.logged().matches(setting).count(), lines + 1, "the log names the setting to change");
}

#[tokio::test]
async fn a_page_that_rebinds_a_name_or_is_somebody_elses_gets_nowhere() {
    let (upstream, gate) = started(|setup| setup).await;
    for era in Era::ALL {
        for client in [gate.client(era), Client::new(gate.address(), era)] {
            let ask = || client.tool("get_invoice", &json!({ "order_id": "o" }));
            let host = |host: &str| ask().without("Host").header("Host", host);
            check_refused(&gate, host("evil.example.com"), "allowed_hosts").await;
            check_refused(&gate, host("localhost").header("Host", "localhost"), "allowed_hosts").await;
            check_refused(&gate, ask().without("Host"), "allowed_hosts").await;
            check_refused(&gate, ask().line("POST http://evil.example.com/mcp"), "allowed_hosts").await;
            check_refused(&gate, ask().header("Origin", "https://evil.example.com"), "allowed_origins").await;
            check_refused(&gate, ask().header("Origin", "null"), "allowed_origins").await;
            let two = ask().header("Origin", "http://localhost").header("Origin", "http://localhost");
            check_refused(&gate, two, "allowed_origins").await;
            // A body that is no message makes no difference: it is not looked at.
            check_refused(&gate, host("evil.example.com").body("{"), "allowed_hosts").await;
        }
    }
    assert!(upstream.received().is_empty());
    assert!(gate.audit(0).await.is_empty(), "nobody is known to have asked");
}

#[tokio::test]
async fn what_is_configured_may_call_and_keeps_its_host() {
    let (upstream, gate) = started(|setup| {
        setup
            .set("allowed_hosts", vec!["gate.svc:8080"])
            .set("allowed_origins", vec!["https://app.example.com", "app://desk"])
    })
    .await;
    let ask = |host: &str, origin: &str| {
        let ask = gate.client(Era::Modern).tool("get_invoice", &json!({ "order_id": "o" }));
        ask.without("Host").header("Host", host).header("Origin", origin)
    };
    for (host, origin) in [
        ("gate.svc:8080", "https://app.example.com"),
        ("api.example.com", "https://api.example.com"),
        ("localhost:80", "http://127.0.0.1:3000"),
        ("[::1]", "app://desk"),
    ] {
        assert_eq!(ask(host, origin).send().await.met(), "first", "{host} {origin}");
        let calls = upstream.calls("get_invoice");
        assert_eq!(calls.last().expect("a call").http.header("host"), Some(host));
    }
    assert_eq!(ask("gate.svc:8081", "https://app.example.com").send().await.status(), 403);
}

#[tokio::test]
async fn the_metadata_document_is_there_for_everybody() {
    let (_upstream, gate) = started(|setup| setup).await;
    let ask = Client::new(gate.address(), Era::Modern).rpc("ping", &json!({}));
    let ask = ask.line("GET /.well-known/oauth-protected-resource/mcp").without("Host");
    let reply = ask.header("Host", "elsewhere").header("Origin", "https://page.example").send().await;
    assert_eq!((reply.status(), &reply.json()["resource"]), (200, &json!("https://api.example.com/mcp")));
}

#[tokio::test]
async fn over_http_2_the_authority_is_the_host() {
    let (upstream, gate) = started(|setup| setup).await;
    let mut client = H2::to(gate.address()).await;
    for (authority, host, status) in [
        ("api.example.com", None, 200),
        ("evil.example.com", None, 403),
        ("evil.example.com", Some("api.example.com"), 403),
        ("api.example.com", Some("evil.example.com"), 403),
        ("api.example.com", Some("api.example.com"), 200),
    ] {
        let params = json!({ "name": "get_invoice", "arguments": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let mut request = Request::post(format!("http://{authority}/mcp"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", token()));
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).expect("a request");
        let response = client.send_any(request).await;
        assert_eq!(response.status(), status, "{authority} {host:?}");
        let json = json_of(response).await;
        assert_eq!(json.get("error").is_some(), status == 403, "{json}");
    }
    assert_eq!(upstream.calls("get_invoice").len(), 2);
    client.close().await;
}
