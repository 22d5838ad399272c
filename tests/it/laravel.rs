//! A Laravel app behind the gate, with PHP running: who its code hears is asking.
//!
//! Promises: the app is the one of `deploy/laravel`.
//!
//! Absent on purpose: Octane and Horizon, which cannot be had where these tests run; php-fpm.

mod app;

use std::process::Command;

use serde_json::json;

use app::{App, package};

use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};

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
async fn a_tool_hears_the_actor_of_the_token_and_nobody_else() {
    let app = App::start().await;
    let mut setup = Setup::new(Home::Sqlite, &app.url());
    "[tools.whoami]\neffect = \"read\"\n".clone_into(&mut setup.policy);
    let gate = Gate::start(setup).await;
    let ask = gate.client(Era::Modern).tool("whoami", &json!({ "tenant_id": "globex" }));
    let reply = CLAIMS.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).send().await;
    let told = reply.result()["content"][0]["text"].as_str().map(str::to_owned);
    let told: serde_json::Value = serde_json::from_str(&told.expect("a text")).expect("JSON");
    assert_eq!(told, whoami("/mcp"));
}

/// What the app must have heard of the tests' token, at this path.
fn whoami(path: &str) -> serde_json::Value {
    json!({
        "tenant": "acme",
        "user": "u1",
        "session": "s1",
        "scopes": ["accounts:mail", "billing:read", "billing:refund"],
        "url": format!("https://api.example.com{path}"),
        "client": "127.0.0.1",
    })
}
