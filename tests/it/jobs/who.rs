//! Who may ask, for whom, and in which words.

use serde_json::json;

use super::{JOBS, Scene, job, question};
use crate::harness::client::{Client, Era};
use crate::harness::gate::{ADMIN_TOKEN, Gate, OTHER_TOKEN, WORKER_TOKEN};
use crate::harness::setup::{Home, Setup, token};
use crate::harness::upstream::Upstream;

const PATHS: [&str; 6] = [
    "POST /gate/claims",
    "POST /gate/claims/renew",
    "POST /gate/claims/complete",
    "POST /gate/claims/fail",
    "GET /gate/openapi.json",
    "POST /gate/elsewhere",
];

#[tokio::test]
async fn nothing_is_told_without_a_services_token_and_that_token_opens_nothing_else() {
    let scene = Scene::on(Home::Sqlite).await;
    let users = token();
    let long = "x".repeat(4000);
    for token in [ADMIN_TOKEN, users.as_str(), "x", &WORKER_TOKEN[1..], long.as_str()] {
        for line in PATHS {
            let told = scene.ask_at(&scene.gate, token, line, &job("settle_refund", "k1")).await;
            assert_eq!(told.refusal(), (401, "invalid_token", "no", "same_key"), "{line} {token}");
            assert_eq!(told.reply.http.header("www-authenticate"), Some("Bearer"));
        }
    }
    for line in PATHS {
        let ask = Client::new(scene.gate.admin_address(), Era::Legacy).plain(line).body("{}");
        let told = scene.told(line, "{}", ask.send().await);
        assert_eq!(told.refusal(), (401, "unauthenticated", "no", "same_key"), "{line}");
    }
    for line in ["POST /drain", "GET /drain", "GET /", "GET /gates"] {
        let reply = question(&scene.gate, WORKER_TOKEN, line).send().await;
        assert_eq!(reply.status(), 401, "{line}");
    }
    assert_eq!(scene.gate.claims().await.len(), 0);
    for secret in [WORKER_TOKEN, OTHER_TOKEN] {
        assert!(!scene.gate.logged().contains(secret));
    }
}

#[tokio::test]
async fn a_gate_whose_jobs_nobody_can_claim_says_so_when_it_starts() {
    let upstream = Upstream::start().await;
    let with_jobs = |setup: Setup| setup.policy("[tools.run_sql]", &format!("{JOBS}\n[tools.run_sql]"));
    let gate = Gate::start(with_jobs(Setup::new(Home::Sqlite, &upstream.url()))).await;
    for missing in ["admin_token_file is not set", "there are no [service_tokens]"] {
        assert!(gate.logged().contains(missing), "{missing}");
    }
    let scene = Scene::on(Home::Sqlite).await;
    assert!(!scene.gate.logged().contains("nobody can claim them"));
}

#[tokio::test]
async fn a_gate_that_observes_answers_workers_as_any_other() {
    let scene = Scene::with(Home::Sqlite, |setup| setup.set("mode", "observe")).await;
    let job = job("settle_refund", "k1");
    let id = scene.begin(&job).await;
    assert_eq!(scene.claim(&job).await.refusal().1, "request_in_flight");
    assert_eq!(scene.complete(&job, &id, json!("done")).await.outcome(), "completed");
    assert_eq!(scene.claim(&job).await.outcome(), "replay");
}

#[tokio::test]
async fn a_service_asks_for_its_tenants_and_as_the_policy_lets_it() {
    let scene = Scene::on(Home::Sqlite).await;
    let mut foreign = job("settle_refund", "k1");
    foreign["tenant"] = json!("initech");
    for path in ["", "/renew", "/complete", "/fail"] {
        let mut body = foreign.clone();
        if !path.is_empty() {
            body = super::attempt(&foreign, &json!(uuid::Uuid::new_v4()), &json!({}));
        }
        if path == "/fail" {
            body["executed"] = json!("no");
        }
        let told = scene.post(path, &body).await;
        assert_eq!(told.refusal(), (403, "foreign_tenant", "no", "no"), "{path}");
    }
    let line = "POST /gate/claims";
    assert_eq!(scene.ask_at(&scene.gate, OTHER_TOKEN, line, &foreign).await.outcome(), "fresh");
    for (name, code, reason) in [
        ("payout", "forbidden", "denied missing_scope no"),
        ("closed", "operation_not_allowed", "denied denied_by_policy no"),
        ("refund_order", "operation_not_allowed", "denied not_in_policy no"),
        ("unheard_of", "operation_not_allowed", "denied not_in_policy no"),
    ] {
        let told = scene.claim(&job(name, name)).await;
        assert_eq!((told.status, told.refusal().1), (403, code), "{name}");
        assert_eq!(scene.rows(name, 1).await, [reason]);
    }
    let told = scene.renew(&job("unheard_of", "k9"), &json!(uuid::Uuid::new_v4())).await;
    assert_eq!(told.refusal().1, "operation_not_allowed");
    assert_eq!(scene.gate.claims().await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_in_one_way_only_is_refused_unread() {
    let scene = Scene::with(Home::Sqlite, |setup| setup.set("limits.request_body", "4KiB")).await;
    let id = uuid::Uuid::new_v4();
    let whole = |path: &str, members: &str| {
        let attempt = if path.is_empty() { String::new() } else { format!(r#","attempt_id":"{id}""#) };
        format!(r#"{{"tenant":"acme","job":"settle_refund","key":"k1"{attempt}{members}}}"#)
    };
    let check = async |path: &str, body: String, status: u16, code: &str| {
        let line = format!("POST /gate/claims{path}");
        let ask = question(&scene.gate, WORKER_TOKEN, &line).body(body.clone());
        let told = scene.told(&line, &body, ask.send().await);
        assert_eq!((told.status, told.refusal().1), (status, code), "{line} {body}");
        told.body["detail"].as_str().expect("a sentence").to_owned()
    };
    for body in ["", "{", "[]", "null", "{}", r#""x""#, r#"{"tenant":"acme"}"#, "\u{feff}{}"] {
        check("", body.to_owned(), 400, "body_unreadable").await;
    }
    for (path, members) in [
        ("", r#","key":"k2""#),
        ("", r#","arguments":{"a":1,"a":2}"#),
        ("", r#","argument":{}"#),
        ("", r#","attempt_id":"x""#),
        ("/renew", r#","result":1"#),
        ("/complete", r#","executed":"no""#),
        ("/fail", r#","executed":"yes""#),
        ("/fail", r#","executed":false"#),
        ("/fail", ""),
        ("/fail", r#","executed":"no","reason":7"#),
    ] {
        check(path, whole(path, members), 400, "body_unreadable").await;
    }
    let told = check("", whole("", r#","argument":{}"#), 400, "body_unreadable").await;
    assert!(told.contains("the member \"argument\" has no meaning here"), "{told}");
    let bad_id = whole("/renew", "").replace(&id.to_string(), "../../x");
    check("/renew", bad_id, 400, "body_unreadable").await;
    for (key, code) in [
        ("", "idempotency_key_required"),
        (" ", "idempotency_key_required"),
        ("é", "idempotency_key_invalid"),
    ] {
        let body = whole("", "").replace("\"k1\"", &format!("\"{key}\""));
        check("", body, 400, code).await;
    }
    check("", whole("", &format!(r#","arguments":"{}""#, "x".repeat(5000))), 413, "body_too_large").await;
    let line = "POST /gate/claims";
    for (name, value) in [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")] {
        let ask = question(&scene.gate, WORKER_TOKEN, line);
        let ask = if name == "Content-Type" { ask.without(name) } else { ask };
        let body = whole("", "");
        let told = scene.told(line, &body, ask.header(name, value).body(body.clone()).send().await);
        assert_eq!(told.refusal().1, "unsupported_media_type", "{name}");
    }
    for line in ["GET /gate/claims", "PUT /gate/claims/fail", "POST /gate/openapi.json"] {
        let told = scene.told(line, "", question(&scene.gate, WORKER_TOKEN, line).send().await);
        assert_eq!((told.status, told.refusal().1), (405, "method_not_allowed"), "{line}");
    }
    let told = scene.ask_at(&scene.gate, WORKER_TOKEN, "POST /gate/claims/", &json!({})).await;
    assert_eq!(told.refusal().1, "no_such_endpoint");
    assert_eq!(scene.gate.claims().await.len(), 0);
}
