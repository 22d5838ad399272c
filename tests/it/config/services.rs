//! The services that call in their own names, as they are configured.

use std::fs;

use oncegate::config::ServiceToken;
use oncegate::domain::tenants::Tenants;

use super::{Sources, check};

/// A file with one service, whose table has these lines.
fn with(lines: &str) -> Sources {
    let sources = Sources::new();
    for (name, text) in [("worker", 'w'), ("other", 'o')] {
        fs::write(sources.path(name), format!("{}\n", text.to_string().repeat(32))).expect("a token");
    }
    fs::write(sources.path("short"), "x".repeat(31)).expect("a token");
    fs::write(sources.path("words"), "two words that are long enough to be one").expect("a token");
    let lines = lines.replace("{}", sources.path("").trim_end_matches('/'));
    sources.file("[store]", &format!("[service_tokens.worker]\n{lines}\n[store]"))
}

const TOKEN: &str = "token_file = \"{}/worker\"";
const SCOPES: &str = "scopes = [\"jobs:refund\"]";
const TENANTS: &str = "tenants = [\"acme\"]";

fn sound(lines: [&str; 3]) -> Sources {
    with(&lines.join("\n"))
}

#[test]
fn a_service_has_tokens_scopes_and_tenants() {
    let services = sound([TOKEN, SCOPES, TENANTS]).serve().service_tokens;
    let [worker] = services.as_slice() else { panic!("one service") };
    assert_eq!((worker.name.as_str(), worker.scopes.as_slice()), ("worker", &["jobs:refund".to_owned()][..]));
    assert_eq!(worker.tokens.iter().map(ServiceToken::text).collect::<Vec<_>>(), ["w".repeat(32)]);
    assert_eq!(worker.tenants, Tenants::of(["acme".to_owned()]));
    let every = sound(["token_file = [\"{}/other\", \"{}/worker\"]", SCOPES, "tenants = [\"*\"]"]).serve();
    let [worker] = every.service_tokens.as_slice() else { panic!("one service") };
    assert_eq!((worker.tokens.len(), &worker.tenants), (2, &Tenants::Any));
    assert!(Sources::new().serve().service_tokens.is_empty());
}

#[test]
fn a_service_of_which_something_is_missing_is_told_at_its_table() {
    for (lines, missing) in [
        ([SCOPES, TENANTS, ""], "token_file"),
        ([TOKEN, TENANTS, ""], "scopes"),
        ([TOKEN, SCOPES, ""], "tenants"),
    ] {
        check(&sound(lines), &format!("oncegate.toml:12:1: service_tokens.worker.{missing} is missing"));
    }
    for (lines, empty, place) in [
        (["token_file = []", SCOPES, TENANTS], "token_file", "13:14"),
        ([TOKEN, "scopes = []", TENANTS], "scopes", "14:10"),
        ([TOKEN, SCOPES, "tenants = []"], "tenants", "15:11"),
    ] {
        check(&sound(lines), &format!("oncegate.toml:{place}: service_tokens.worker.{empty} is empty"));
    }
}

#[test]
fn a_token_that_could_be_guessed_or_is_another_s_too_is_refused() {
    for (file, told) in [
        ("short", "the token in short has 31 bytes, and needs 32 or more"),
        ("words", "the token in words is not one word of printable ASCII, as a header wants it"),
        ("absent", "absent cannot be read: no such file or directory"),
    ] {
        let line = format!("token_file = \"{{}}/{file}\"");
        check(&sound([&line, SCOPES, TENANTS]), &format!("oncegate.toml:13:14: {told}"));
    }
    let way_out = "make one for each: openssl rand -hex 32";
    let second = format!("{TENANTS}\n[service_tokens.zebra]\n{TOKEN}\n{SCOPES}\n{TENANTS}");
    check(
        &sound([TOKEN, SCOPES, &second]),
        &format!(
            "oncegate.toml:17:14: the token of service_tokens.zebra is that of service_tokens.worker too; {way_out}"
        ),
    );
    check(
        &sound(["token_file = [\"{}/worker\", \"{}/worker\"]", SCOPES, TENANTS]),
        &format!("oncegate.toml:13:14: service_tokens.worker names the same token twice; {way_out}"),
    );
    let operators = sound([TOKEN, SCOPES, TENANTS]);
    let file = operators.path("worker");
    check(
        &operators.flags(&["--admin-token-file", &file]),
        &format!(
            "oncegate.toml:13:14: the token of service_tokens.worker is that of admin_token_file too; {way_out}"
        ),
    );
}

#[test]
fn scopes_tenants_and_names_that_no_actor_has_are_refused() {
    check(
        &sound([TOKEN, "scopes = [\"a b\"]", TENANTS]),
        "oncegate.toml:14:10: \"a b\" is not a scope; a scope is printable ASCII without blanks, \" and \\",
    );
    check(
        &sound([TOKEN, SCOPES, "tenants = [\"*\", \"acme\"]"]),
        "oncegate.toml:15:11: service_tokens.worker.tenants names \"*\" and others; \"*\" alone is every tenant",
    );
    check(
        &sound([TOKEN, SCOPES, "tenants = [\" acme\"]"]),
        "oncegate.toml:15:11: \" acme\" in service_tokens.worker.tenants can be no tenant: the tenant has control \
         characters or blanks around it",
    );
    check(
        &sound([TOKEN, SCOPES, TENANTS]).file("service_tokens.worker", "service_tokens.\"a b\""),
        "oncegate.toml:12:1: \"a b\" cannot name a service; use up to 64 letters, digits, - _ and .",
    );
}

#[test]
fn what_is_unknown_is_refused_and_no_variable_names_a_service() {
    check(
        &sound([TOKEN, SCOPES, "tenant = [\"acme\"]"]),
        "oncegate.toml:15:1: unknown key \"tenant\"; did you mean \"tenants\"?",
    );
    let variable = "ONCEGATE_SERVICE_TOKENS__WORKER__TENANTS";
    check(
        &sound([TOKEN, SCOPES, TENANTS]).variable(variable, "[\"*\"]"),
        &format!("{variable}: service_tokens cannot be set by a variable; its tables stand in the file only"),
    );
}
