//! The ways out: calls of the app and its jobs to somebody else's API, over TLS, through a listener of the same gate.

mod callers;
mod commands;
mod ending;
pub(crate) mod scene;

use serde_json::{Value, json};

use self::scene::{Plan, SECRET, Scene, by_shop, is, scene, told};
use crate::harness::answer::{Answer, Step};
use crate::harness::setup::Home;
use crate::harness::tls::Authority;
use crate::harness::upstream::{Received, Upstream};
use crate::harness::{eventually, on_every_store};

const REFUND: &str = "POST /v1/refunds";
const PAYOUT: &str = "POST /v1/payouts";

/// What the provider must hear: its client, its own name, a key; and must not: anything of this house.
fn check_heard(request: &Received, provider: &Upstream, key: &str) {
    let host = provider.url().trim_start_matches("https://").to_owned();
    assert_eq!(request.http.header("host"), Some(host.as_str()));
    assert_eq!(request.http.header("authorization"), Some(SECRET));
    assert_eq!(request.http.header("idempotency-key"), Some(key));
    assert_eq!(request.http.header("content-type"), Some("application/x-www-form-urlencoded"));
    let names = request.http.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    let known =
        ["host", "authorization", "idempotency-key", "content-type", "content-length", "accept-encoding"];
    let others: Vec<_> = names.filter(|name| !known.contains(&name.as_str())).collect();
    assert!(others.is_empty(), "the provider hears of {others:?}");
}

#[tokio::test]
async fn a_provider_that_honours_keys_gets_the_same_key_at_every_try() {
    on_every_store(async |home| {
        let scene = scene(home).await;
        let answer = Answer::http(200, "application/json", "{ \"id\": \"re_1\"}");
        scene.provider.script(REFUND, [Answer::reset(), answer]);
        let send = async || scene.form(REFUND, "k1", "charge=ch_1&amount=500").send().await;
        is(&send().await, 409, "outcome_unknown", "maybe", "same_key");
        let reply = eventually("the retry to run", async || {
            let reply = send().await;
            (reply.status() == 200).then_some(reply)
        })
        .await;
        assert_eq!(&reply.http.body[..], b"{ \"id\": \"re_1\"}");
        let again = send().await;
        assert_eq!(
            (again.http.header("idempotent-replayed"), &again.http.body),
            (Some("true"), &reply.http.body)
        );
        let heard = scene.provider.plain(REFUND);
        assert_eq!(heard.len(), 2, "once more, and never again");
        let key = heard[0].http.header("idempotency-key").expect("a key").to_owned();
        assert!(key != "k1" && key.len() > 20, "{key}");
        for request in &heard {
            check_heard(request, &scene.provider, &key);
            assert_eq!(&request.http.body[..], b"charge=ch_1&amount=500");
        }
        let claims = scene.gate.claims().await;
        let claim = |name: &str| claims[0][name].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (claim("service"), claim("tool"), claim("tenant_id"), claim("user_id"), claim("status")),
            (
                "billing:stripe".into(),
                "create_refund".into(),
                "acme".into(),
                "shop".into(),
                "completed".into()
            )
        );
        assert!(scene.app.received().is_empty(), "the app is somebody else");
    })
    .await;
}

#[tokio::test]
async fn whoever_waited_for_the_whole_timeout_of_a_provider_that_honours_keys_is_told_to_come_again() {
    let scene = scene(Home::Sqlite).await;
    scene.provider.script(REFUND, [Answer::hang(), Answer::http(200, "application/json", "{}")]);
    let send = async || scene.form(REFUND, "k1", "charge=ch_1").send().await;
    is(&send().await, 409, "outcome_unknown", "maybe", "same_key");
    assert_eq!(send().await.status(), 200);
    assert_eq!(scene.provider.plain(REFUND).len(), 2);
}

#[tokio::test]
async fn a_retry_that_the_provider_does_not_let_in_says_nothing_of_the_first_try() {
    let scene = scene(Home::Sqlite).await;
    let answers = [403, 200].map(|status| Answer::http(status, "application/json", "{}"));
    scene.provider.script(REFUND, [Answer::reset()].into_iter().chain(answers));
    let send = async || scene.form(REFUND, "k1", "charge=ch_1&amount=500").send().await;
    is(&send().await, 409, "outcome_unknown", "maybe", "same_key");
    let reply = eventually("a retry to be let in", async || {
        let reply = send().await;
        (reply.status() != 409).then_some(reply)
    })
    .await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert_eq!(scene.provider.plain(REFUND).len(), 3);
}

#[tokio::test]
async fn a_provider_of_which_nothing_is_said_is_called_once_though_its_answer_is_lost() {
    on_every_store(async |home| {
        let scene = scene(home).await;
        scene.provider.script(PAYOUT, [Answer::reset()]);
        for _ in 0..3 {
            is(&scene.form(PAYOUT, "k1", "amount=500").send().await, 409, "outcome_unknown", "maybe", "no");
        }
        assert_eq!(scene.provider.plain(PAYOUT).len(), 1);
        let rows = scene.gate.audit(3).await;
        let unknown = |decision: &'static str| ["billing:stripe", "pay_out", decision, "outcome_unknown"];
        assert_eq!(told(&rows)[..2], [unknown("allowed"), unknown("denied")]);
        // A person says what became of it.
        let resolved = scene.gate.run(&[
            "claims",
            "resolve",
            "k1",
            "--completed",
            "--because",
            "seen",
            "--operator",
            "o",
        ]);
        let resolved = resolved.await;
        assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
        is(&scene.form(PAYOUT, "k1", "amount=500").send().await, 409, "answer_not_kept", "yes", "no");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_sent_to_whoever_cannot_prove_to_be_the_provider() {
    let mut plan = Plan::new(Home::Sqlite).await;
    plan.provider = Upstream::start_tls(Authority::new().acceptor).await;
    let url = format!("[upstream]\nurl = \"{}\"", plan.provider.url());
    let scene = plan.with(&url).start().await;
    for _ in 0..2 {
        is(&scene.form(REFUND, "k1", "a=1").send().await, 502, "upstream_unreachable", "no", "same_key");
    }
    assert!(scene.provider.received().is_empty());
    assert_eq!(scene.gate.claims().await[0]["status"], "failed");
}

#[tokio::test]
async fn what_the_provider_says_to_its_client_passes_and_what_belongs_to_one_connection_stays() {
    let scene = scene(Home::Sqlite).await;
    let answer =
        Answer::http(201, "application/json", "{\"id\":\"re_1\",\"owner\":{\"email\":\"a@example.com\"}}")
            .with_header("location", &format!("{}/v1/refunds/re_1", scene.provider.url()))
            .with_header("request-id", "req_1")
            .with_header("set-cookie", "a=b")
            .with_header("x-oncegate-tenant", "globex")
            .with_header("idempotent-replayed", "true");
    scene.provider.script(REFUND, [answer]);
    let ask = || scene.form(REFUND, "k1", "a=1");
    let first = ask().send().await;
    assert_eq!((first.status(), first.http.header("request-id")), (201, Some("req_1")));
    let location = format!("{}/v1/refunds/re_1", scene.provider.url());
    assert_eq!(first.http.header("location"), Some(location.as_str()), "its own places are the public ones");
    for name in ["set-cookie", "x-oncegate-tenant", "idempotent-replayed"] {
        assert_eq!(first.http.header(name), None, "{name}");
    }
    assert!(
        !first.json()["owner"]["email"].as_str().unwrap_or_default().contains("a@example.com"),
        "{first:?}"
    );
    let replay = ask().send().await;
    assert_eq!((replay.status(), &replay.http.body), (201, &first.http.body));
    assert_eq!(replay.http.header("location"), Some(location.as_str()));
    assert_eq!((replay.http.header("request-id"), replay.http.header("set-cookie")), (None, None));
    let kept = String::from_utf8_lossy(&scene.gate.run(&["claims", "show", "k1", "--json"]).await.stdout)
        .into_owned();
    assert!(kept.contains("re_1") && !kept.contains("a@example.com") && !kept.contains("access"), "{kept}");
    // Whose access it is, the provider judges: what it says of it is for its client.
    let refused =
        Answer::http(401, "application/json", "{\"error\":1}").with_header("www-authenticate", "Bearer");
    scene.provider.script(PAYOUT, [refused]);
    let judged = scene.form(PAYOUT, "k2", "a=1").send().await;
    assert_eq!(
        (judged.status(), judged.http.header("www-authenticate")),
        (401, Some("Bearer")),
        "{judged:?}"
    );
    assert_eq!(scene.gate.claim("k2").await["status"], "failed");
}

#[tokio::test]
async fn reads_pass_and_what_the_client_says_of_this_house_does_not() {
    let scene = scene(Home::Sqlite).await;
    let ask = by_shop(scene.bare("GET /v1/refunds/re_1?expand=charge"))
        .header("Authorization", SECRET)
        .header("Idempotency-Key", "k")
        .header("Accept", "application/json")
        .header("User-Agent", "sdk/1")
        .header("X-Oncegate-User", "u")
        .header("X_Oncegate_Tenant", "t")
        .header("X-Forwarded-For", "10.0.0.1")
        .header("X-Forwarded-Host", "inner")
        .header("Forwarded", "for=10.0.0.1")
        .header("Via", "1.1 inner")
        .header("Cookie", "a=b")
        .header("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("Tracestate", "a=b")
        .header("Baggage", "tenant=acme");
    assert_eq!(ask.clone().send().await.json(), json!({ "run": 1 }));
    let heard = |request: &Received| {
        let mut names: Vec<_> =
            request.http.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names
    };
    let received = scene.provider.received();
    assert_eq!(heard(&received[0]), ["accept", "authorization", "host", "user-agent"]);
    assert_eq!(received[0].http.word(1), "/v1/refunds/re_1?expand=charge");
    let rows = scene.gate.audit(1).await;
    assert_eq!(told(&rows), [["billing:stripe", "show_refund", "allowed", ""]]);
    // A trace goes out where that is wanted.
    let Scene { gate, .. } = scene;
    drop(gate);
    let plan = Plan::new(Home::Sqlite).await.with("[upstream]\nforward_traceparent = true");
    let scene = plan.start().await;
    let traced = by_shop(scene.bare("GET /v1/refunds/re_1"))
        .header("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("Tracestate", "a=b");
    traced.send().await;
    let received = scene.provider.received();
    let trace = received[0].http.header("traceparent").expect("a trace");
    assert!(trace.contains("0af7651916cd43dd8448eb211c80319c"), "{trace}");
    assert_eq!(received[0].http.header("tracestate"), Some("a=b"));
}

#[tokio::test]
async fn a_body_goes_out_as_what_it_was_read_as_whatever_connection_says() {
    let scene = scene(Home::Sqlite).await;
    let ask = by_shop(scene.bare("POST /v1/payouts"))
        .header("Connection", "Content-Type")
        .header("Content-Type", "text/plain")
        .header("Idempotency-Key", "k1");
    assert_eq!(ask.body("_method=DELETE".to_owned()).send().await.status(), 200);
    assert_eq!(scene.provider.received()[0].http.header("content-type"), Some("text/plain"));
}

#[tokio::test]
async fn two_listeners_have_claims_of_their_own_and_so_has_the_gate_before_the_app() {
    on_every_store(async |home| {
        let scene = Plan::new(home).await.listener("stripe-eu").start().await;
        let bodies: Vec<_> = [0, 1].into_iter().map(|at| scene.form_at(at, REFUND, "k1", "a=1")).collect();
        for body in bodies {
            let reply = body.send().await;
            assert_eq!((reply.status(), reply.http.header("idempotent-replayed")), (200, None), "{reply:?}");
        }
        let sent = scene.provider.plain(REFUND);
        let keys: Vec<_> = sent.iter().map(|request| request.http.header("idempotency-key")).collect();
        assert!(keys.len() == 2 && keys[0] != keys[1], "what the provider hears differs too: {keys:?}");
        let claims = scene.gate.claims().await;
        let mut services: Vec<_> = claims.iter().map(|claim| claim["service"].as_str()).collect();
        services.sort_unstable();
        assert_eq!(services, [Some("billing:stripe"), Some("billing:stripe-eu")]);
        let only = |output: std::process::Output| -> Vec<Value> {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
        };
        let eu = only(scene.gate.run(&["claims", "list", "--json", "--service", "billing:stripe-eu"]).await);
        assert_eq!((eu.len(), &eu[0]["service"]), (1, &json!("billing:stripe-eu")));
        let eu = only(scene.gate.run(&["audit", "--json", "--service", "billing:stripe-eu"]).await);
        assert_eq!((eu.len(), &eu[0]["service"]), (1, &json!("billing:stripe-eu")));
        let both = scene.gate.run(&["claims", "show", "k1"]).await;
        let told = String::from_utf8_lossy(&both.stderr).into_owned();
        assert!(
            told.contains("--service=billing:stripe-eu") && told.contains("--service=billing:stripe "),
            "{told}"
        );
        // Without a step between: the raw bytes of an answer.
        scene
            .provider
            .script(PAYOUT, [Answer::raw(vec![Step::Send("HTTP/1.1 204 No Content\r\n\r\n".into())])]);
        for at in [0, 1, 0, 1] {
            assert_eq!(scene.form_at(at, PAYOUT, "k1", "a=1").send().await.status(), 204);
        }
        assert_eq!(scene.provider.plain(PAYOUT).len(), 2);
    })
    .await;
}
