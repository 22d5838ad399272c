//! A Laravel app behind the gate, with PHP running: who its code hears is asking, and jobs whose worker dies.
//!
//! Promises: the app is the one of `deploy/laravel`, and so are the gate's policies, but for times that can be waited
//! for. Workers die by SIGKILL, in the middle of their call to the provider.
//!
//! Absent on purpose: Octane and Horizon, which cannot be had where these tests run; php-fpm.

mod app;
mod killed;
mod scene;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use app::{PROVIDER_SECRET, package};
use scene::Scene;

use crate::harness::client::{Ask, Client, Era};
use crate::harness::gate::{Gate, binary};
use crate::harness::setup::Home;

#[test]
fn the_package_does_what_its_tests_say() {
    let run = Command::new("phpunit").current_dir(package()).output();
    let run = run.expect("phpunit (`tests/parts` installs it)");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("OK ("), "{told}{}", String::from_utf8_lossy(&run.stderr));
}

/// What a client may try to be somebody else: PHP folds all of these into one variable.
const CLAIMS: [(&str, &str); 5] = [
    ("X-Oncegate-Tenant", "globex"),
    ("X_Oncegate_Tenant", "globex"),
    ("x-oncegate_user", "root"),
    ("X-Oncegate-Scopes", "billing:everything"),
    ("X_Oncegate-Session", "s9"),
];

#[tokio::test]
async fn the_app_hears_the_actor_of_the_token_and_nobody_else() {
    let scene = Scene::start(Home::Sqlite, &[]).await;
    let disguised = |ask: Ask| CLAIMS.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).send();
    let client = scene.gate.client(Era::Modern);
    let reply = disguised(client.tool("whoami", &json!({ "tenant_id": "globex" }))).await;
    let told = reply.result()["content"][0]["text"].as_str().map(str::to_owned);
    let told: Value = serde_json::from_str(&told.expect("a text")).expect("JSON");
    assert_eq!(told, whoami("/mcp"));

    let reply = disguised(plain(&scene.gate, "GET /api/whoami")).await;
    assert_eq!((reply.status(), reply.json()), (200, whoami("/api/whoami")), "{reply:?}");
    // Whoever finds another way to the app is nobody there.
    let past = Client::new(scene.app.address(), Era::Modern).rpc("tools/call", &json!({ "name": "whoami" }));
    assert_eq!(past.send().await.status(), 403);
}

#[tokio::test]
async fn a_plain_route_queues_its_refund_once() {
    let scene = Scene::start(Home::Sqlite, &[]).await;
    let refund = || {
        let ask = plain(&scene.gate, "POST /api/orders/ord_1/refunds");
        let ask = ask.header("Content-Type", "application/json").body(r#"{"amount_cents":500}"#);
        ask.header("Idempotency-Key", "k1").send()
    };
    let (first, again) = (refund().await, refund().await);
    assert_eq!((first.status(), first.json()["status"].as_str()), (202, Some("queued")), "{first:?}");
    assert_eq!((again.status(), &again.http.body), (202, &first.http.body), "{again:?}");
    assert_eq!(again.http.header("idempotent-replayed"), Some("true"));
    let _worker = scene.app.worker("one");
    scene.app.says("one", "A refund was paid.").await;
    let [payment] = scene.payments().try_into().expect("one call of the provider");
    assert_eq!(payment.http.header("authorization"), Some(format!("Bearer {PROVIDER_SECRET}").as_str()));
    let ours = payment.http.headers.iter().filter(|(name, _)| name.to_lowercase().contains("oncegate"));
    assert_eq!(ours.count(), 0, "{payment:?}");
}

#[tokio::test]
async fn the_shipped_policies_are_sound_and_so_is_the_configuration() {
    let gate = package().join("gate");
    for (command, folder) in
        [("check", "policies"), ("test", "policies"), ("check", "egress"), ("test", "egress")]
    {
        let run =
            binary().args(["policy", command]).arg(gate.join(folder)).output().expect("the gate's binary");
        let told = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && !told.contains("warning"), "{folder}: {told}");
    }
    // As it is shipped, but for places; one secret is missing, so that it does not begin to serve.
    let files = tempfile::tempdir().expect("a temporary folder");
    let place = |path: &Path| format!("{}/", path.display());
    let shipped = fs::read_to_string(gate.join("oncegate.toml")).expect("the configuration");
    let config =
        shipped.replace("/run/secrets/", &place(files.path())).replace("/etc/oncegate/", &place(&gate));
    for (secret, letter) in [("oncegate-admin", "a"), ("oncegate-worker", "b")] {
        fs::write(files.path().join(secret), letter.repeat(64)).expect("a secret");
    }
    fs::write(files.path().join("oncegate.toml"), config).expect("the configuration");
    let serve = binary().args(["serve", "--config"]).arg(files.path().join("oncegate.toml")).output();
    let serve = serve.expect("the gate's binary");
    let told = String::from_utf8_lossy(&serve.stderr).into_owned();
    let mistakes: Vec<_> = told.lines().filter(|line| line.contains("oncegate.toml:")).collect();
    let only_that = mistakes.len() == 1 && mistakes[0].contains("oncegate cannot be read");
    assert!(serve.status.code() == Some(78) && only_that, "{told}");
}

/// A request without a body, past everything that is MCP's.
fn plain(gate: &Gate, line: &str) -> Ask {
    let ask = gate.client(Era::Legacy).rpc("", &json!({})).line(line).body("");
    ask.without("Content-Type").without("MCP-Protocol-Version").without("Accept")
}

/// What the app must have heard of the tests' token, at this path.
fn whoami(path: &str) -> Value {
    json!({
        "tenant": "acme",
        "user": "u1",
        "session": "s1",
        "scopes": ["accounts:mail", "billing:read", "billing:refund"],
        "url": format!("https://api.example.com{path}"),
        "client": "127.0.0.1",
    })
}
