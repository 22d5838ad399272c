//! The console: who is let in, what every answer carries, what its pages say.
//!
//! Promises tested: `oncegate::admin::console`, over real sockets; in a real browser by [`browser`].

mod browser;
mod shop;

use serde_json::json;

use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era, Reply};
use crate::harness::gate::{ADMIN_TOKEN, Gate};
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store};

fn setup(home: Home, upstream: &str) -> Setup {
    Setup::new(home, upstream).set("admin_token_file", "admin")
}

/// A gate with a console, before an app that is not there.
async fn gate() -> Gate {
    Gate::start(setup(Home::Sqlite, "http://127.0.0.1:9")).await
}

/// Where its console is.
fn place(gate: &Gate) -> String {
    format!("http://{}", gate.admin_address())
}

fn stranger(gate: &Gate) -> Client {
    Client::new(gate.admin_address(), Era::Legacy)
}

/// A page, as the token opens it.
async fn page(gate: &Gate, line: &str) -> String {
    let reply = gate.admin().plain(line).send().await;
    assert_eq!(reply.status(), 200, "{line}: {reply:?}");
    text(&reply)
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.http.body.to_vec()).expect("UTF-8")
}

/// Where the first row of a key is shown.
async fn a_row(gate: &Gate, key: &str) -> String {
    let found = page(gate, &format!("GET /console/search?key={key}&since=all")).await;
    let link = found.split("href=\"/console/rows/").nth(1).expect("a row");
    format!("/console/rows/{}", link.split('"').next().expect("its link").replace("&amp;", "&"))
}

/// Signs in as the page's form does; the cookie, where one came.
async fn sign_in(gate: &Gate, token: &str) -> (u16, Option<String>) {
    let reply = stranger(gate)
        .plain("POST /console/sign-in")
        .header("Origin", &place(gate))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&to=%2F"))
        .send()
        .await;
    let cookie =
        reply.http.header("set-cookie").map(|cookie| cookie.split(';').next().unwrap_or_default().to_owned());
    (reply.status(), cookie)
}

#[tokio::test]
async fn a_stranger_learns_nothing_not_even_which_pages_there_are() {
    let gate = gate().await;
    for path in [
        "/",
        "/console/search?q=x",
        "/console/policy",
        "/console/nothing",
        "/nothing",
        "/drain",
        "/console/rows/1",
    ] {
        let program = stranger(&gate).plain(&format!("GET {path}")).send().await;
        assert_eq!(
            (program.status(), program.http.header("www-authenticate")),
            (401, Some("Bearer")),
            "{path}"
        );
        let browser =
            stranger(&gate).plain(&format!("GET {path}")).header("Accept", "text/html,*/*").send().await;
        assert_eq!(browser.status(), 303, "{path}");
        let to = browser.http.header("location").expect("a place");
        assert!(to.starts_with("/console/sign-in"), "{path}: {to}");
        assert!(browser.http.body.is_empty());
    }
    let form = text(&stranger(&gate).plain("GET /console/sign-in").send().await);
    assert!(form.contains("Admin token") && !form.contains("billing"), "{form}");
    let admin = |line: &str| gate.admin().plain(line);
    assert_eq!(admin("GET /").send().await.status(), 200);
    assert_eq!(admin("GET /console/nothing").send().await.status(), 404);
    assert_eq!(admin("GET /nothing").send().await.status(), 404);
}

#[tokio::test]
async fn a_session_opens_pages_that_are_read_and_nothing_else() {
    let gate = gate().await;
    let (status, cookie) = sign_in(&gate, ADMIN_TOKEN).await;
    let cookie = cookie.expect("a cookie");
    assert_eq!(status, 303);
    let with = |line: &str| stranger(&gate).plain(line).header("Cookie", &cookie);
    assert_eq!(with("GET /").send().await.status(), 200);
    assert_eq!(with("GET /console/policy").send().await.status(), 200);
    for line in [
        "POST /drain",
        "GET /drain",
        "GET /policy",
        "POST /drain?settle=5s",
        "POST /gate/claims",
        "GET /gate/openapi.json",
    ] {
        let own_page = with(line).header("Origin", &place(&gate)).header("Sec-Fetch-Site", "same-origin");
        assert_eq!(own_page.send().await.status(), 401, "{line}");
    }
    for line in ["POST /", "PUT /", "DELETE /console/policy"] {
        let own_page = with(line).header("Origin", &place(&gate));
        assert_eq!(own_page.send().await.status(), 405, "{line}");
    }
    assert_eq!(gate.healthy("GET /readyz").await, 200);
    // A wrong bearer token is not made good by a session.
    assert_eq!(with("GET /").header("Authorization", "Bearer nonsense").send().await.status(), 401);
    let forged = cookie.replace(&cookie[cookie.len() - 4..], "0000");
    assert_eq!(stranger(&gate).plain("GET /").header("Cookie", &forged).send().await.status(), 401);
}

#[tokio::test]
async fn forms_of_other_pages_and_other_names_of_this_address_are_refused() {
    let gate = gate().await;
    let post = |origin: Option<&str>, site: Option<&str>| {
        let ask = stranger(&gate).plain("POST /console/sign-in").body(format!("token={ADMIN_TOKEN}"));
        let ask = origin.map_or_else(|| ask.clone(), |origin| ask.clone().header("Origin", origin));
        site.map_or_else(|| ask.clone(), |site| ask.clone().header("Sec-Fetch-Site", site)).send()
    };
    let own = place(&gate);
    for (origin, site) in [
        (None, None),
        (Some("null"), None),
        (Some("https://evil.example"), Some("cross-site")),
        (Some("http://127.0.0.1:1"), Some("same-site")),
        (Some(own.as_str()), Some("cross-site")),
    ] {
        assert_eq!(post(origin, site).await.status(), 403, "{origin:?} {site:?}");
    }
    assert_eq!(post(Some(&own), Some("same-origin")).await.status(), 303);
    let rebound = |host: &str| gate.admin().plain("GET /").without("Host").header("Host", host).send();
    for (host, status) in [
        ("evil.example", 421),
        ("evil.example:80", 421),
        ("localhost", 200),
        ("10.2.3.4:9090", 200),
        ("api.example.com", 200),
    ] {
        assert_eq!(rebound(host).await.status(), status, "{host}");
    }
}

#[tokio::test]
async fn guesses_at_the_form_run_out_while_the_token_itself_still_opens() {
    let gate = gate().await;
    for _ in 0..10 {
        assert_eq!(sign_in(&gate, "wrong").await, (401, None));
    }
    let (status, cookie) = sign_in(&gate, ADMIN_TOKEN).await;
    assert_eq!((status, cookie), (429, None));
    assert_eq!(gate.admin().plain("GET /").send().await.status(), 200);
    assert!(gate.logged().contains("Too many wrong tokens were tried"));
}

#[tokio::test]
async fn every_answer_forbids_what_no_page_needs() {
    let gate = gate().await;
    for line in [
        "GET /",
        "GET /console/search",
        "GET /console/policy",
        "GET /console/nothing",
        "GET /console/sign-in",
    ] {
        let reply = gate.admin().plain(line).send().await;
        let header = |name: &str| reply.http.header(name).unwrap_or_default().to_owned();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "style-src 'sha256-",
        ] {
            assert!(policy.contains(part), "{line}: {policy}");
        }
        assert!(
            !policy.contains("script") && !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert!(!text(&reply).contains("<script"), "{line}");
    }
}

#[tokio::test]
async fn what_calls_came_to_is_seen_on_either_store() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(setup(home, &upstream.url())).await;
        let refund = |key: &str| {
            gate.client(Era::Modern)
                .tool("refund_order", &json!({ "order_id": "ord_9f2", "card": "secret" }))
                .key(key)
        };
        assert_eq!(refund("seen-1").send().await.met(), "first");
        assert_eq!(refund("seen-1").send().await.met(), "replay");
        upstream.script("refund_order", vec![Answer::http(500, "text/plain", "no")]);
        assert_eq!(refund("lost-1").send().await.word(), "outcome_unknown");
        gate.audit(3).await;
        let overview = eventually("the unknown claim", async || {
            let overview = page(&gate, "GET /").await;
            overview.contains("lost-1").then_some(overview)
        })
        .await;
        for part in [
            "outcome unknown <strong>1</strong>",
            "allowed <strong>1</strong>",
            "replayed <strong>1</strong>",
            "claims resolve",
        ] {
            assert!(overview.contains(part), "{part} is not in {overview}");
        }
        for search in [
            "q=ord_9f2",
            "q=order_id%3Dord_9f2",
            "q=user%3Du1",
            "arg=order_id%3Dord_9f2&tenant=acme",
            "q=seen-1",
        ] {
            let found = page(&gate, &format!("GET /console/search?{search}")).await;
            assert!(found.contains("seen-1") && found.contains("u1"), "{search}: {found}");
        }
        let story = page(&gate, "GET /console/story?key=seen-1&tenant=acme&tool=refund_order").await;
        assert!(story.contains("An answer is stored") && story.contains("replayed"), "{story}");
        assert!(
            !story.contains("isError") && !story.contains("structuredContent"),
            "the answer itself: {story}"
        );
        let row = page(&gate, &format!("GET {}", a_row(&gate, "seen-1").await)).await;
        assert!(row.contains("seen-1") && !row.contains("secret"), "{row}");
        let policy = page(&gate, "GET /console/policy").await;
        assert!(
            policy.contains("run_sql")
                && policy.contains("denied to everyone")
                && policy.contains("billing:refund")
        );
    })
    .await;
}
