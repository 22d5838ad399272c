//! The commands, as an operator types them: the real binary on a SQLite file.

mod claims;
mod follow;
mod forms;
mod house;
mod reasons;
mod rows;
mod settled;
mod shell;
mod story;
mod upkeep;

use base64::Engine as _;
use jsonwebtoken::Algorithm;
use oncegate::auth::{ClaimNames, KeySource, Settings, Verifier};
use serde_json::json;

use house::House;

use crate::harness::setup::{AUDIENCE, ISSUER, JWT_SECRET};

/// The command must end with this code and say this on standard error.
fn check(house: &House, arguments: &[&str], code: i32, says: &str) {
    let output = house.run(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(errors.contains(says), "{arguments:?} said:\n{errors}");
    let mut lines: Vec<_> = errors.lines().filter(|line| !line.is_empty()).collect();
    let said = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), said, "once is enough:\n{errors}");
}

#[tokio::test]
async fn a_wrong_command_line_ends_with_2() {
    let house = House::new().await;
    check(&house, &[], 2, "Usage: oncegate");
    check(&house, &["sell"], 2, "unrecognized subcommand 'sell'");
    check(&house, &["audit", "--decision", "maybe"], 2, "[possible values: allowed, denied, replayed]");
    check(&house, &["audit", "--since", "yesterday"], 2, "\"yesterday\" is neither how long ago");
    check(&house, &["audit", "--arg", "order_id"], 2, "write it as NAME=VALUE");
    check(&house, &["audit", "--id", "k1"], 2, "\"k1\" is no row's id: that is a UUID");
    check(&house, &["audit", "--attempt", "k1"], 2, "\"k1\" is no attempt's id");
    check(&house, &["audit", "--since", "1h", "--until", "2h"], 2, "--since is not before --until");
    check(&house, &["audit", "--follow", "--until", "1h"], 2, "cannot be used with");
    check(&house, &["audit", "--json", "--csv"], 2, "cannot be used with");
    check(&house, &["story"], 2, "<KEY|--key <KEY>>");
    check(&house, &["completions", "powerless"], 2, "[possible values: bash, elvish, fish, powershell, zsh]");
    check(&house, &["audit", "--limit", "0"], 2, "0 is not in 1..");
    check(&house, &["token", "--user", "u1"], 2, "--tenant <TENANT>");
    check(
        &house,
        &["token", "--tenant", "a", "--user", "u", "--scope", "a\"b"],
        2,
        "a scope is empty, or has",
    );
    check(&house, &["token", "--tenant", " a", "--user", "u"], 2, "the tenant has control characters");
    check(&house, &["claims", "show"], 2, "<KEY|--key <KEY>>");
    check(&house, &["claims", "resolve", "k", "--because", "x"], 2, "<--completed|--released>");
    let both = ["claims", "resolve", "k", "--because", "x", "--completed", "--released"];
    check(&house, &both, 2, "cannot be used with");
    check(&house, &["claims", "resolve", "k", "--because", "", "--released"], 2, "say why, in a sentence");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_ends_with_78() {
    let house = House::new().await;
    house.write("oncegate.toml", "service = \"billing\"\n[store]\nulr = \"sqlite:x.db\"\n");
    check(&house, &["audit"], 78, "oncegate.toml:3:1: ");
    house.write("oncegate.toml", "service = \"billing\"\n");
    check(&house, &["audit"], 78, "store.url");
    check(&house, &["audit", "--store-url", "mysql://x"], 78, "--store-url");
    check(&house, &["audit", "--config", "nowhere.toml"], 78, "nowhere.toml");
    let token = ["token", "--tenant", "acme", "--user", "u1", "--scope", "a"];
    check(&house, &token, 78, "auth.issuer");
    let house = House::new().await;
    house.write("jwt", "short");
    check(&house, &token, 78, "jwt");
}

/// The command must end so, with these variables set; what it says on standard error.
fn said(house: &House, arguments: &[&str], variables: &[(&str, &str)], code: i32) -> String {
    let output = house.command(arguments).envs(variables.iter().copied()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {variables:?}: {errors}");
    errors
}

#[tokio::test]
async fn a_log_that_would_tell_nothing_is_refused() {
    let house = House::new().await;
    for wrong in ["x=y=z", "loud", "info,loud", "oncegate,hyper", "inof"] {
        let told = said(&house, &["audit"], &[("ONCEGATE_LOG", wrong)], 78);
        assert!(told.starts_with("ONCEGATE_LOG: "), "{told}");
    }
    let told = said(&house, &["audit"], &[("ONCEGATE_LOG", "info,inof")], 78);
    let way_out =
        "\"inof\" is no level; did you mean \"info\"? One of its own for a part is written oncegate=debug";
    assert!(told.contains(way_out), "{told}");
    for right in [
        "",
        "off",
        "DEBUG",
        "info,oncegate=debug",
        "3",
        "oncegate::store=trace,warn",
        "oncegate",
        "[call]=info",
    ] {
        said(&house, &["audit"], &[("ONCEGATE_LOG", right)], 0);
    }
}

#[tokio::test]
async fn where_there_is_no_file_that_is_said_first() {
    let house = House::new().await;
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let first = |arguments: &[&str]| {
        let told = said(&house, arguments, &[], 78);
        told.lines().next().unwrap_or_default().to_owned()
    };
    assert!(!first(&["audit", "--store-url", "mysql://x"]).contains("no oncegate.toml"));
    std::fs::remove_file(house.path("oncegate.toml")).unwrap();
    let folder = house.path("").canonicalize().unwrap();
    let says = format!("no oncegate.toml in {}; --config FILE names one", folder.display());
    for arguments in [&serve[..], &["audit"], &["policy", "check"]] {
        let line = first(arguments);
        assert!(line.ends_with(&says), "{line}");
    }
    assert_eq!(
        said(&house, &["audit", "--store-url", "sqlite:oncegate.db"], &[], 0),
        "No row was found.\n",
        "no file is needed"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_named_by_its_full_path() {
    let house = House::new().await;
    let folder = house.path("").canonicalize().unwrap();
    let told = said(&house, &["audit", "--store-url-file", "absent/url"], &[], 78);
    let says = format!("absent/url cannot be read ({}): no such file", folder.join("absent/url").display());
    assert!(told.contains(&says), "{told}");
    let told = said(&house, &["audit", "--store-url-file", "/nowhere/url"], &[], 78);
    assert!(told.contains("/nowhere/url cannot be read: no such file"), "{told}");
}

#[tokio::test]
async fn a_store_that_is_not_ready_is_said_to_be_so() {
    let house = House::empty();
    check(&house, &["audit"], 78, "oncegate.db");
    assert!(!house.path("oncegate.db").exists(), "looking makes nothing");
    let output = house.succeeds(&["migrate"]);
    assert!(output.starts_with("The schema is at version "), "{output}");
    assert_eq!(house.succeeds(&["migrate"]), output, "once more changes nothing");
    assert_eq!(house.succeeds(&["audit", "--json"]), "");
}

#[tokio::test]
async fn a_development_token_is_one_that_a_gate_with_this_configuration_takes() {
    let house = House::new().await;
    let arguments =
        ["token", "--tenant", "acme", "--user", "u1", "--scope", "b a", "--scope", "c", "--session", "s1"];
    let token = house.succeeds(&arguments);
    let settings = Settings {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        keys: KeySource::Hs256(JWT_SECRET.as_bytes().to_vec()),
        leeway: std::time::Duration::ZERO,
        max_session_age: std::time::Duration::from_hours(12),
        claims: ClaimNames {
            tenant: "tenant_id".to_owned(),
            user: "sub".to_owned(),
            session: "sid".to_owned(),
            scopes: "scope".to_owned(),
            roles: "roles".to_owned(),
        },
        roles: std::collections::BTreeMap::new(),
    };
    let verifier = Verifier::new(settings).unwrap();
    let caller = verifier.verify(token.trim_end()).await.unwrap();
    let actor = caller.actor();
    assert_eq!((actor.tenant(), actor.user(), actor.session()), ("acme", "u1", Some("s1")));
    assert_eq!(actor.scopes_joined(), "a b c");
    let left = caller.until() - jiff::Timestamp::now().as_second();
    assert!((3500..=3600).contains(&left), "an hour by default, not {left} s");
    let brief = house.succeeds(&["token", "--tenant", "acme", "--user", "u1", "--ttl", "90s"]);
    let caller = verifier.verify(brief.trim_end()).await.unwrap();
    assert!(caller.until() - jiff::Timestamp::now().as_second() <= 90);
    assert!(caller.actor().session().is_some(), "the token's own id");
}

#[tokio::test]
async fn no_development_token_is_made_where_the_keys_are_somebody_elses() {
    let house = House::new().await;
    let signer = crate::auth::issuer::Signer::new(crate::auth::issuer::Kind::P256);
    assert_eq!(signer.algorithm, Algorithm::ES256);
    house.write("key.pem", &signer.public_pem);
    let token = ["token", "--tenant", "acme", "--user", "u1", "--auth-public-key-file", "key.pem"];
    check(&house, &token, 78, "tokens can be made only where `auth.hs256_secret_file` is configured");
}

#[tokio::test]
async fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
    let house = House::new().await;
    let claims = |output: std::process::Output| {
        let token = String::from_utf8(output.stdout).unwrap();
        let mut parts = token.trim_end().split('.');
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(parts.nth(1).unwrap()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&claims).unwrap()
    };
    let token = ["token", "--tenant", "acme", "--user", "u1"];
    let flagged = [&token[..], &["--auth-issuer", "https://flag.example"]].concat();
    let mut with_environment = house.command(&token);
    with_environment.env("ONCEGATE_AUTH__ISSUER", "https://environment.example");
    let mut with_both = house.command(&flagged);
    with_both.env("ONCEGATE_AUTH__ISSUER", "https://environment.example");
    assert_eq!(claims(house.run(&token))["iss"], json!(ISSUER));
    assert_eq!(claims(with_environment.output().unwrap())["iss"], json!("https://environment.example"));
    assert_eq!(claims(with_both.output().unwrap())["iss"], json!("https://flag.example"));
}
