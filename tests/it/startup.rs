//! Starting: a configuration that cannot hold is refused at once, with the place and a sentence that helps.

use std::fs;
use std::process::Output;

use crate::harness::gate::binary;
use crate::harness::setup::{Home, JWT_SECRET, POLICY, Setup};

/// Runs `oncegate serve` with these files; it must refuse to start.
fn serve(config: &str, policy: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    fs::write(path.join("secret"), "0123456789abcdef0123456789abcdef").expect("the secret");
    fs::write(path.join("jwt"), JWT_SECRET).expect("the tokens' secret");
    fs::create_dir(path.join("policies")).expect("the policies' folder");
    fs::write(path.join("policies/tests.toml"), policy).expect("the policy");
    fs::write(path.join("oncegate.toml"), config).expect("the configuration");
    let output: Output = binary()
        .args(["serve", "--config", "oncegate.toml"])
        .current_dir(path)
        .output()
        .expect("the gate's binary");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn good() -> Setup {
    Setup::new(Home::Sqlite, "http://127.0.0.1:9")
        .set("secret_file", "secret")
        .set("auth.hs256_secret_file", "jwt")
        .set("store.url", "sqlite:oncegate.db")
}

/// The gate exits with 78 and says all of this.
fn check(config: &str, policy: &str, says: &[&str]) {
    let (code, told) = serve(config, policy);
    assert_eq!(code, Some(78), "{told}");
    for text in says {
        assert!(told.contains(text), "{text:?} is not in:\n{told}");
    }
}

/// The line (from 1) of the first line with this text.
fn line_of(text: &str, what: &str) -> usize {
    1 + text.lines().position(|line| line.contains(what)).expect("it is in there")
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_right_one() {
    let config = good().set("upstream.timeuot", "5s").to_toml();
    let place = format!("oncegate.toml:{}:1", line_of(&config, "timeuot"));
    check(&config, POLICY, &[&place, "timeuot", "timeout"]);
}

#[test]
fn a_bad_value_is_named_with_its_place() {
    let config = good().set("upstream.timeout", "five").to_toml();
    check(&config, POLICY, &[&format!("oncegate.toml:{}:", line_of(&config, "five")), "not a duration"]);
}

#[test]
fn broken_toml_is_named_with_its_place() {
    let config = good().to_toml() + "\n[store\n";
    check(
        &config,
        POLICY,
        &[&format!("oncegate.toml:{}:", line_of(&config, "[store\n".trim_end()).max(config.lines().count()))],
    );
}

#[test]
fn a_mistake_in_a_policy_is_named_with_its_place() {
    let policy = POLICY.replace("effect = \"deny\"", "efect = \"deny\"");
    let place = format!("tests.toml:{}:1", line_of(&policy, "efect"));
    check(&good().to_toml(), &policy, &[&place, "efect", "effect"]);
}

#[test]
fn a_missing_secret_is_bad_configuration() {
    let config = good().set("secret_file", "nowhere").to_toml();
    check(
        &config,
        POLICY,
        &[&format!("oncegate.toml:{}:", line_of(&config, "nowhere")), "nowhere", "no such file"],
    );
    check(&good().unset("auth", "hs256_secret_file").to_toml(), POLICY, &["hs256_secret_file"]);
}

#[test]
fn there_is_no_default_store() {
    check(&good().unset("store", "url").to_toml(), POLICY, &["store"]);
}

#[test]
fn a_missing_file_is_bad_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = binary().args(["serve", "--config", "none.toml"]).current_dir(folder.path()).output();
    let output = output.expect("the gate's binary");
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.toml"));
}

#[test]
fn wrong_usage_is_another_exit_code() {
    let output = binary().args(["serve", "--no-such-flag"]).output().expect("the gate's binary");
    assert_eq!(output.status.code(), Some(2));
}

/// The README's block of TOML that opens with this comment.
fn readme(opens_with: &str) -> &'static str {
    let blocks = include_str!("../../README.md").split("```");
    let block =
        blocks.filter_map(|block| block.strip_prefix("toml\n")).find(|block| block.starts_with(opens_with));
    block.expect("the README shows it")
}

#[test]
fn what_the_readme_shows_can_be_used() {
    let policy = readme("# policies/billing.toml");
    let (code, told) = serve(readme("# oncegate.toml"), policy);
    let mistakes: Vec<_> = told.lines().filter(|line| line.contains("oncegate.toml")).collect();
    assert_eq!(code, Some(78), "{told}");
    assert!(
        mistakes.len() == 1 && mistakes[0].contains("/run/secrets/oncegate"),
        "only the secret is missing: {told}"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("billing.toml"), policy).expect("the policy");
    let checked = binary().args(["policy", "check"]).arg(folder.path()).output().expect("the gate's binary");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
