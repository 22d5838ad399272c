//! Secrets, keys, tokens and authorities that change while the gate runs.

use std::fs;

use serde_json::{Value, json};

use super::{BAD, setup, status, until, until_failed};
use crate::auth::issuer::{EC, ED, jwks};
use crate::egress::scene::{Plan, by_shop};
use crate::harness::client::{Ask, Client, Era};
use crate::harness::eventually;
use crate::harness::gate::{ADMIN_TOKEN, Gate};
use crate::harness::mount::{Mount, text};
use crate::harness::setup::{JWT_SECRET, claims};
use crate::harness::tls::Authority;
use crate::harness::upstream::Upstream;

const OTHER_SECRET: &str = "another-secret-of-the-tests-which-is-long-enough";

fn refund(gate: &Gate, token: &str, key: &str) -> Ask {
    let client = Client::new(gate.address(), Era::Modern).bearing(token);
    client.tool("refund_order", &json!({ "order_id": "o" })).key(key)
}

fn signed_with(secret: &str) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes()).unwrap();
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims(), &key).unwrap()
}

/// Waits until the gate lets this token in.
async fn let_in(gate: &Gate, token: &str) {
    eventually("the token to be good", async || {
        (refund(gate, token, "k").send().await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_secret_of_tokens_is_exchanged_and_who_was_known_by_the_old_one_is_not_any_more() {
    let upstream = Upstream::start().await;
    let secrets = Mount::new(&[("jwt", JWT_SECRET)]);
    let setup = setup(&upstream).set("auth.hs256_secret_file", text(&secrets.file("jwt")));
    let gate = Gate::start_with_keys_of_its_own(setup).await;
    let (old, new) = (signed_with(JWT_SECRET), signed_with(OTHER_SECRET));
    assert_eq!(refund(&gate, &old, "k").send().await.status(), 200);
    assert_eq!(refund(&gate, &new, "k").send().await.status(), 401);
    secrets.swap(&[("jwt", OTHER_SECRET)]);
    let_in(&gate, &new).await;
    assert_eq!(refund(&gate, &old, "k").send().await.status(), 401, "it was remembered");
    // What is no secret changes nothing.
    secrets.swap(&[("jwt", "short")]);
    let failed = until_failed(&gate).await;
    assert!(!failed.to_string().contains(OTHER_SECRET), "{failed}");
    assert_eq!(refund(&gate, &new, "k").send().await.status(), 200);
    secrets.swap(&[("jwt", OTHER_SECRET)]);
    until(&gate, "it to be mended", |status| status["last_attempt"]["result"] == "ok").await;
    assert!(!gate.logged().contains(OTHER_SECRET));
}

#[tokio::test]
async fn a_public_key_and_a_key_set_are_exchanged_and_one_that_is_none_changes_nothing() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let token =
        |signer: &crate::auth::issuer::Signer, kid: &str| signer.token(json!({ "kid": kid }), &claims());
    fs::write(&file, EC.public_pem.as_str()).unwrap();
    let setup = setup(&upstream).set("auth.public_key_file", text(&file));
    let gate = Gate::start_with_keys_of_its_own(setup.clone()).await;
    assert_eq!(refund(&gate, &token(&EC, "e"), "k").send().await.status(), 200);
    fs::write(&file, ED.public_pem.as_str()).unwrap();
    let_in(&gate, &token(&ED, "d")).await;
    assert_eq!(refund(&gate, &token(&EC, "e"), "k").send().await.status(), 401);
    fs::write(&file, "-----BEGIN NONSENSE-----").unwrap();
    let failed = until_failed(&gate).await;
    assert_eq!(failed["last_attempt"]["mistakes"][0]["place"], text(&file), "{failed}");
    assert_eq!(refund(&gate, &token(&ED, "d"), "k").send().await.status(), 200);
    drop(gate);

    fs::write(&file, jwks(&[EC.jwk(json!({ "kid": "e" }))])).unwrap();
    let gate = Gate::start_with_keys_of_its_own(
        setup.unset("auth", "public_key_file").set("auth.jwks_file", text(&file)),
    )
    .await;
    assert_eq!(refund(&gate, &token(&EC, "e"), "k").send().await.status(), 200);
    fs::write(&file, jwks(&[])).unwrap();
    let failed = until_failed(&gate).await;
    assert_eq!(failed["last_attempt"]["mistakes"][0]["place"], text(&file), "{failed}");
    fs::write(&file, jwks(&[ED.jwk(json!({ "kid": "d" }))])).unwrap();
    let_in(&gate, &token(&ED, "d")).await;
    until(&gate, "it to be mended", |status| status["last_attempt"]["result"] == "ok").await;
    eventually("the old key to be gone", async || {
        (refund(&gate, &token(&EC, "e"), "k").send().await.status() == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_is_trusted_to_issue_and_what_roles_bring_is_reloaded() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream)).await;
    let call = async |gate: &Gate| {
        let client = gate.client_with(Era::Modern, &json!({ "scope": null, "roles": ["ops"] }));
        client.tool("refund_order", &json!({ "order_id": "o" })).key("k").send().await
    };
    assert_eq!(call(&gate).await.status(), 403);
    gate.set_value("auth.roles", json_table("ops", "billing:refund"));
    eventually("the role to bring it", async || (call(&gate).await.status() == 200).then_some(())).await;
    assert_eq!(status(&gate).await["waits_for_restart"], json!([]));
    gate.set("auth.issuer", "https://other.example.com");
    eventually("the issuer to be another", async || (call(&gate).await.status() == 401).then_some(())).await;
}

fn json_table(role: &str, scope: &str) -> toml::Value {
    let roles = toml::Table::from_iter([(role.to_owned(), toml::Value::from(vec![scope]))]);
    roles.into()
}

#[tokio::test]
async fn the_secrets_of_fingerprints_rotate_while_claims_are_kept() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream)).await;
    let (one, two) = (text(&gate.file("secret")), text(&gate.file("secret2")));
    fs::write(&two, "fedcba9876543210fedcba9876543210").unwrap();
    let send = async |gate: &Gate, key: &str| {
        gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "o" })).key(key).send().await
    };
    let signer = async |gate: &Gate, key: &str| {
        let rows = gate.audit(1).await;
        let row = rows.iter().find(|row| row["idempotency_key"] == key).unwrap();
        row["args_hash"].as_str().unwrap().split(':').next().unwrap().to_owned()
    };
    let rotated = async |gate: &Gate, times: u64| {
        eventually("the rotation", async || (gate.count(super::GOOD).await == times).then_some(())).await;
    };
    assert_eq!(send(&gate, "k1").await.met(), "first");
    let first = signer(&gate, "k1").await;
    // Every pod comes to know the new one; then it signs; then the old one goes.
    gate.set_value("secret_file", vec![one.clone(), two.clone()].into());
    rotated(&gate, 1).await;
    assert_eq!(
        (send(&gate, "k1").await.met(), send(&gate, "k2").await.met()),
        ("replay".to_owned(), "first".to_owned())
    );
    assert_eq!(signer(&gate, "k2").await, first);
    gate.set_value("secret_file", vec![two.clone(), one].into());
    rotated(&gate, 2).await;
    assert_eq!(
        (send(&gate, "k1").await.met(), send(&gate, "k3").await.met()),
        ("replay".to_owned(), "first".to_owned())
    );
    assert_ne!(signer(&gate, "k3").await, first);
    gate.set_value("secret_file", two.into());
    rotated(&gate, 3).await;
    assert_eq!(send(&gate, "k3").await.met(), "replay");
    assert_eq!(
        send(&gate, "k1").await.word(),
        "idempotency_key_reuse_with_different_args",
        "nothing runs again"
    );
    assert_eq!(upstream.calls("refund_order").len(), 3);
    assert_eq!(gate.count(BAD).await, 0);
}

#[tokio::test]
async fn the_operators_token_is_exchanged() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(setup(&upstream)).await;
    let ask = async |token: &str| {
        Client::new(gate.admin_address(), Era::Legacy)
            .bearing(token)
            .plain("GET /policy")
            .send()
            .await
            .status()
    };
    assert_eq!((ask(ADMIN_TOKEN).await, ask("another-token-of-the-operators").await), (200, 401));
    fs::write(gate.file("admin"), "another-token-of-the-operators").unwrap();
    eventually("the other token", async || {
        (ask("another-token-of-the-operators").await == 200).then_some(())
    })
    .await;
    assert_eq!(ask(ADMIN_TOKEN).await, 401);
}

#[tokio::test]
async fn a_services_token_and_its_scopes_are_exchanged_at_listeners() {
    let scene = Plan::new(crate::harness::setup::Home::Sqlite).await.start().await;
    let read = async || by_shop(scene.bare("GET /v1/refunds/re_1")).send().await.status();
    assert_eq!(read().await, 200);
    fs::write(scene.folder.path().join("token"), "0123456789abcdef0123456789abcdef-else").unwrap();
    // An old token is nobody's.
    eventually("the old token to be refused", async || (read().await == 403).then_some(())).await;
    fs::write(scene.folder.path().join("token"), crate::egress::scene::TOKEN).unwrap();
    eventually("the token to be good again", async || (read().await == 200).then_some(())).await;
}

#[tokio::test]
async fn the_authority_of_a_provider_is_exchanged_and_its_connections_stand() {
    let mut plan = Plan::new(crate::harness::setup::Home::Sqlite).await;
    let other = Authority::new();
    plan.provider = Upstream::start_tls(other.acceptor.clone()).await;
    let url = format!("[upstream]\nurl = \"{}\"", plan.provider.url());
    let scene = plan.with(&url).start().await;
    let send = async |key: &str| scene.form("POST /v1/refunds", key, "a=1").send().await.status();
    assert_eq!(send("k1").await, 502);
    fs::write(scene.folder.path().join("ca.pem"), "no certificate").unwrap();
    eventually("it to be told", async || (scene.gate.count(BAD).await == 1).then_some(())).await;
    fs::write(scene.folder.path().join("ca.pem"), &other.pem).unwrap();
    eventually("the provider to be trusted", async || (send("k1").await == 200).then_some(())).await;
}

#[tokio::test]
async fn the_command_tells_what_is_in_force_and_fails_where_a_reload_did() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(setup(&upstream)).await;
    let version = status(&gate).await["version"].as_str().unwrap().to_owned();
    let ask = async |gate: &Gate, more: &[&str]| {
        let output = gate.run(&[&["policy", "status"], more].concat()).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = ask(&gate, &[]).await;
    assert!(code == Some(0) && out.contains(&version) && err.is_empty(), "{code:?} {out} {err}");
    gate.set("limits.queue_time", "4s");
    until(&gate, "it to wait", |status| status["waits_for_restart"] != json!([])).await;
    let (code, out, _) = ask(&gate, &[]).await;
    assert!(code == Some(0) && out.contains("waits for a restart: limits.queue_time"), "{code:?} {out}");
    fs::write(gate.file("policies/tests.toml"), "[tools.x]\neffect = \"what\"\n").unwrap();
    until_failed(&gate).await;
    let (code, out, err) = ask(&gate, &[]).await;
    assert!(
        code == Some(1) && out.contains("tests.toml:2:10") && err.contains("failed"),
        "{code:?} {out} {err}"
    );
    let (code, out, _) = ask(&gate, &["--json"]).await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, json["last_attempt"]["result"].as_str(), json["version"].as_str()),
        (Some(1), Some("failed"), Some(version.as_str()))
    );
    gate.kill();
    let (code, _, err) = ask(&gate, &[]).await;
    assert!(code == Some(1) && err.contains("admin_listen"), "{code:?} {err}");
}
