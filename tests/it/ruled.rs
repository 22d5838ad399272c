//! Argument rules in a running gate: each way in asks them, about what goes on, and says nothing of them to the client.

use serde_json::{Value, json};

use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::{Gate, WORKER_TOKEN};
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const POLICY: &str = r#"
[tools.pay_out]
effect = "mutation"
scopes = ["billing:refund"]
allow = "args.amount_cents <= 50000 || 'billing:refund:large' in actor.scopes"
forward_argument = true

[tools.get_account]
effect = "read"
scopes = ["billing:read"]
allow = "args.account == actor.tenant"

[tools.watched]
effect = "mutation"
scopes = ["billing:refund"]
allow = "args.amount_cents <= 50000"
mode = "observe"

[tools.execute_tools]
runs = "tools"

[methods."prompts/get"]
effect = "read"
allow = "args.name in ['greeting']"

[routes.transfer]
method = "POST"
path = "/api/accounts/{account}/transfers"
effect = "mutation"
scopes = ["billing:refund"]
allow = "args.path.account.startsWith('a') && int(args.body.amount) <= 500 && !has(args.query.amount)"

[routes.statements]
method = "GET"
path = "/api/statements"
effect = "read"
scopes = ["billing:read"]
allow = "int(args.query.year) >= 2020"

[routes.search]
method = "POST"
path = "/api/search"
effect = "read"
scopes = ["billing:read"]
allow = "size(args.body.words) <= 2"

[jobs.payout]
effect = "mutation"
scopes = ["jobs:refund"]
allow = "args.amount <= 100"

[tools.run_sql]"#;

fn setup(home: Home, upstream: &Upstream) -> Setup {
    let setup = Setup::new(home, &upstream.url()).set("admin_token_file", "admin");
    let of = |key: &str| format!("service_tokens.worker.{key}");
    let setup = setup.set(&of("token_file"), "worker").set(&of("scopes"), vec!["jobs:refund"]);
    setup.set(&of("tenants"), vec!["acme"]).policy("[tools.run_sql]", POLICY)
}

async fn started(home: Home) -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(home, &upstream)).await;
    (upstream, gate)
}

fn pay(client: &Client, amount: &Value) -> Ask {
    client.tool("pay_out", &json!({ "amount_cents": amount, "tenant_id": "globex" }))
}

/// The reasons of the rows so far, oldest first.
async fn reasons(gate: &Gate, count: usize) -> Vec<String> {
    let rows = gate.audit(count).await;
    rows.iter().map(|row| row["reason"].as_str().unwrap_or("-").to_owned()).collect()
}

#[tokio::test]
async fn a_call_that_its_rule_does_not_allow_is_refused_and_hears_nothing_of_the_rule() {
    on_every_store(async |home| {
        let (upstream, gate) = started(home).await;
        for (n, era) in Era::ALL.into_iter().enumerate() {
            let client = gate.client(era);
            let reply = pay(&client, &json!(50_001)).key(&format!("no{n}")).send().await;
            let refusal = reply.refusal();
            assert_eq!(
                (&refusal["code"], &refusal["executed"], &refusal["retry"]),
                (&json!("operation_not_allowed"), &json!("no"), &json!("no"))
            );
            let text = reply.json().to_string();
            assert!(text.contains("This may not be called with these arguments"), "{text}");
            assert!(!text.contains("50000") && !text.contains("large"), "{text}");
            assert_eq!(pay(&client, &json!(50_000)).key(&format!("yes{n}")).send().await.met(), "first");
            let rich = json!({ "scope": "billing:refund billing:refund:large" });
            let rich = gate.client_with(era, &rich);
            assert_eq!(pay(&rich, &json!(50_001)).key(&format!("rich{n}")).send().await.met(), "first");
        }
        let rows = gate.audit(6).await;
        assert_eq!((&rows[0]["decision"], &rows[0]["reason"]), (&json!("denied"), &json!("argument_rule")));
        assert_eq!(rows[0]["executed"], "no");
        assert_eq!(upstream.calls("pay_out").len(), 4);
        assert_eq!(gate.claims().await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn numbers_that_no_rule_can_weigh_are_refused() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    for amount in ["50000.00000001", "1e999", "5.00001e4", "99999999999999999999999999", "\"1\"", "null"] {
        let body = pay(&client, &json!(0))
            .key("k")
            .text()
            .replace("\"amount_cents\":0", &format!("\"amount_cents\":{amount}"));
        let reply = pay(&client, &json!(0)).key("k").body(body).send().await;
        assert_eq!(reply.met(), "operation_not_allowed", "{amount}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_replay_is_asked_about_again() {
    on_every_store(async |home| {
        let (upstream, mut gate) = started(home).await;
        let ask = |gate: &Gate| pay(&gate.client(Era::Modern), &json!(40_000)).key("k1");
        assert_eq!(ask(&gate).send().await.met(), "first");
        assert_eq!(ask(&gate).send().await.met(), "replay");
        gate.stop().await;
        gate.set_policy("<= 50000 ||", "<= 30000 ||");
        gate.restart().await;
        assert_eq!(ask(&gate).send().await.met(), "operation_not_allowed");
        assert_eq!(upstream.calls("pay_out").len(), 1);
        assert_eq!(reasons(&gate, 3).await, ["-", "-", "argument_rule"]);
    })
    .await;
}

#[tokio::test]
async fn reads_methods_and_calls_inside_are_asked_about() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    let account = |of: &str| client.tool("get_account", &json!({ "account": of }));
    assert_eq!(account("acme").send().await.met(), "first");
    assert_eq!(account("globex").send().await.met(), "operation_not_allowed");
    let lookalike = client.tool("get_account", &json!({ "account": "acme", "Account": "globex" }));
    assert_eq!(lookalike.send().await.met(), "operation_not_allowed");
    let prompt = |name: &str| client.rpc("prompts/get", &json!({ "name": name }));
    assert_eq!(prompt("greeting").send().await.status(), 200);
    let refused = prompt("other").send().await.json();
    assert_eq!(refused["error"]["data"]["oncegate/refusal"]["code"], "operation_not_allowed", "{refused}");
    let inside = |of: &str| {
        let call = json!({ "name": "get_account", "arguments": { "account": of } });
        client.tool("execute_tools", &json!({ "calls": [call] }))
    };
    assert_eq!(inside("globex").send().await.met(), "operation_not_allowed");
    assert!(upstream.calls("execute_tools").is_empty());
    assert_eq!(inside("acme").send().await.met(), "first");
    let listed = client.rpc("tools/list", &json!({})).send().await.json().to_string();
    assert!(!listed.contains("50000"), "{listed}");
}

#[tokio::test]
async fn what_is_only_observed_goes_on_and_its_row_says_what_would_have_been() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let watched = |amount: u32| {
        gate.client(Era::Modern)
            .tool("watched", &json!({ "amount_cents": amount }))
            .key(&format!("k{amount}"))
    };
    assert_eq!(watched(60_000).send().await.met(), "first");
    assert_eq!(watched(10).send().await.met(), "first");
    assert_eq!(upstream.calls("watched").len(), 2);
    assert_eq!(reasons(&gate, 2).await, ["would_argument_rule", "-"]);
}

#[tokio::test]
async fn plain_requests_are_asked_about_by_path_query_and_body() {
    let (upstream, gate) = started(Home::Sqlite).await;
    let client = gate.client(Era::Modern);
    let mut key = 0;
    let mut transfer = |target: &str, media: &str, body: &str| {
        key += 1;
        let ask = client.plain(&format!("POST {target}")).header("Idempotency-Key", &format!("k{key}"));
        ask.header("Content-Type", media).body(body.to_owned())
    };
    let path = "/api/accounts/a1/transfers";
    let form = "application/x-www-form-urlencoded";
    for (target, media, body, expected) in [
        (path, "application/json", r#"{"amount": 500}"#, 200),
        (path, "application/json", r#"{"amount": 501}"#, 403),
        ("/api/accounts/b1/transfers", "application/json", r#"{"amount": 500}"#, 403),
        (path, form, "amount=500", 200),
        (path, form, "amount=501", 403),
        (path, form, "amount=5&amount=900", 403),
        (path, form, "amount=5&amount[]=900", 403),
        (path, form, "amount=5&%41mount=900", 403),
        (path, form, "amount=5;x=1", 403),
        (path, form, "other=5", 403),
        (path, "application/json", r#"{"amount": 5, "Amount": 900}"#, 403),
        ("/api/accounts/a1/transfers?amount=900", "application/json", r#"{"amount": 500}"#, 403),
        ("/api/accounts/a1/transfers?amount%5B%5D=900", "application/json", r#"{"amount": 500}"#, 403),
        ("/api/accounts/a1/transfers?page=2", "application/json", r#"{"amount": 500}"#, 200),
        (path, "text/plain", "amount=5", 403),
    ] {
        let reply = transfer(target, media, body).send().await;
        assert_eq!(reply.status(), expected, "{target} {body}: {}", reply.json());
        if expected == 403 {
            assert_eq!(reply.json()["code"], "operation_not_allowed");
        }
    }
    let statements = |query: &str| client.plain(&format!("GET /api/statements{query}"));
    assert_eq!(statements("?year=2021").send().await.status(), 200);
    for query in ["", "?year=2019", "?year=2021&year=2019", "?year=2021&Year=2019", "?year=2021%00"] {
        assert_eq!(statements(query).send().await.status(), 403, "{query}");
    }
    let search = |body: &str| {
        client.plain("POST /api/search").header("Content-Type", "application/json").body(body.to_owned())
    };
    assert_eq!(search(r#"{"words": ["a"]}"#).send().await.status(), 200);
    assert_eq!(search(r#"{"words": ["a", "b", "c"]}"#).send().await.status(), 403);
    assert_eq!(upstream.received().len(), 5);
}

#[tokio::test]
async fn a_job_is_asked_about_by_its_arguments() {
    let (_upstream, gate) = started(Home::Sqlite).await;
    let claim = async |amount: u32, key: &str| {
        let job = json!({ "tenant": "acme", "job": "payout", "key": key, "arguments": { "amount": amount } });
        let ask =
            Client::new(gate.admin_address(), Era::Legacy).bearing(WORKER_TOKEN).plain("POST /gate/claims");
        ask.header("Content-Type", "application/json").body(job.to_string()).send().await
    };
    assert_eq!(claim(100, "k1").await.json()["outcome"], "fresh");
    let refused = claim(101, "k2").await;
    assert_eq!((refused.status(), &refused.json()["code"]), (403, &json!("operation_not_allowed")));
    assert_eq!(reasons(&gate, 1).await.pop().as_deref(), Some("argument_rule"));
}
