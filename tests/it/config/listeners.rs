//! The listeners towards somebody else's APIs, as they are configured.

use std::fs;
use std::time::Duration;

use oncegate::config::load_listener_policy;
use oncegate::domain::tenants::Tenants;

use super::{Sources, check};

/// A listener with all that it needs; its lines begin at 17 of the file.
const LISTENER: &str = r#"
[[listener]]
name = "stripe"
listen = "127.0.0.1:8443"
[listener.upstream]
url = "https://api.stripe.com"
[listener.policy]
dir = "policies/stripe"
[listener.identity]
tenant = "acme"
user = "shop"
scopes = ["stripe:write"]
"#;

fn with(listener: &str) -> Sources {
    let sources = Sources::new();
    let file = format!("{}{listener}", sources.file);
    Sources { file, ..sources }
}

/// The listener with a text replaced.
fn but(old: &str, new: &str) -> Sources {
    assert!(LISTENER.contains(old), "the listener has no {old:?}");
    with(&LISTENER.replace(old, new))
}

#[test]
fn a_listener_needs_a_name_an_address_an_upstream_a_policy_and_a_caller() {
    let config = with(LISTENER).serve();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let listener = &config.listeners[0];
    assert_eq!((listener.name.as_str(), listener.listen.to_string().as_str()), ("stripe", "127.0.0.1:8443"));
    assert_eq!(listener.provider.url, "https://api.stripe.com");
    assert_eq!(listener.provider.timeout, Duration::from_mins(5));
    assert_eq!(listener.provider.max_idle, Duration::from_secs(1));
    assert!(!listener.provider.forward_traceparent && listener.provider.ca_file.is_none());
    assert_eq!(listener.policy_dir.to_str(), Some("policies/stripe"));
    let identity = listener.identity.as_ref().expect("the pod's own");
    assert_eq!((&identity.tenants, identity.user.as_str()), (&Tenants::Fixed("acme".to_owned()), "shop"));
    for (line, message) in [
        ("name = \"stripe\"\n", "the key \"name\" is missing"),
        ("listen = \"127.0.0.1:8443\"\n", "the key \"listen\" is missing"),
        ("url = \"https://api.stripe.com\"\n", "the key \"upstream.url\" is missing"),
        ("dir = \"policies/stripe\"\n", "the key \"policy.dir\" is missing"),
    ] {
        check(&but(line, ""), &format!("oncegate.toml:17:1: {message}"));
    }
    for (line, message) in [
        ("user = \"shop\"\n", "the key \"user\" is missing"),
        ("scopes = [\"stripe:write\"]\n", "the key \"scopes\" is missing"),
        (
            "tenant = \"acme\"\n",
            "the key \"tenant\" is missing; or tenants = [..], where each call names its own in X-Oncegate-Tenant",
        ),
    ] {
        check(&but(line, ""), &format!("oncegate.toml:24:1: {message}"));
    }
}

#[test]
fn a_gate_without_listeners_has_none() {
    assert!(Sources::new().serve().listeners.is_empty());
}

#[test]
fn a_listener_that_nobody_may_call_is_a_mistake() {
    let (without, _) = LISTENER.split_once("[listener.identity]").expect("its identity");
    check(
        &with(without),
        "oncegate.toml:17:1: nobody may call this listener; say in [listener.identity] who calls, or let callers show \
         a token of [service_tokens]",
    );
}

#[test]
fn a_listener_may_be_left_to_those_who_show_a_service_token() {
    let (without, _) = LISTENER.split_once("[listener.identity]").expect("its identity");
    let sources = with(without);
    fs::write(sources.path("token"), "0123456789abcdef0123456789abcdef").expect("a token");
    let path = sources.path("token");
    let token =
        format!("\n[service_tokens.shop]\ntoken_file = \"{path}\"\nscopes = [\"a\"]\ntenants = [\"acme\"]\n");
    let sources = Sources { file: format!("{}{token}", sources.file), ..sources };
    assert!(sources.serve().listeners[0].identity.is_none());
}

#[test]
fn the_pod_calls_for_one_tenant_or_for_those_that_its_calls_name() {
    let tenants = |line: &str| {
        let listeners = but("tenant = \"acme\"", line).serve().listeners;
        listeners[0].identity.clone().expect("the pod's own").tenants
    };
    let both = ["acme".to_owned(), "globex".to_owned()];
    assert_eq!(tenants("tenants = [\"acme\", \"globex\"]"), Tenants::of(both));
    assert_eq!(tenants("tenants = [\"*\"]"), Tenants::Any);
    check(
        &but("tenant = \"acme\"", "tenant = \"acme\"\ntenants = [\"acme\"]"),
        "oncegate.toml:26:11: tenant and tenants exclude each other",
    );
    check(
        &but("tenant = \"acme\"", "tenants = []"),
        "oncegate.toml:25:11: tenants is empty, or one of its names is; [\"*\"] is any tenant",
    );
    check(
        &but("\"stripe:write\"", "\"stripe write\""),
        "oncegate.toml:24:1: this can be no caller: a scope is empty, or has a blank or another character that no scope \
         has",
    );
}

#[test]
fn a_name_can_stand_in_a_claim_and_belongs_to_one_listener() {
    for name in ["Stripe", "stripe:eu", "strip\u{e9}", "a b", &"x".repeat(33)] {
        check(
            &but("\"stripe\"", &format!("\"{name}\"")),
            &format!(
                "oncegate.toml:18:8: \"{name}\" cannot name a listener; use 1 to 32 small letters, digits and -"
            ),
        );
    }
    let other = LISTENER.replace("8443", "8444");
    check(
        &with(&format!("{LISTENER}{other}")),
        "oncegate.toml:30:8: two listeners have the name \"stripe\"; its claims stand under its name: each needs its own",
    );
}

#[test]
fn an_address_belongs_to_one_listener() {
    let other = LISTENER.replace("\"stripe\"", "\"stripe-eu\"");
    check(
        &with(&format!("{LISTENER}{other}")),
        "oncegate.toml:31:10: listener.listen is the address of another listener",
    );
    for taken in ["0.0.0.0:8080", "0.0.0.0:8081"] {
        check(
            &but("127.0.0.1:8443", taken),
            "oncegate.toml:19:10: listener.listen is the address of another listener",
        );
    }
    check(
        &but("127.0.0.1:8443", "8443"),
        "oncegate.toml:19:10: listener.listen = \"8443\" is not an address; write it like \"0.0.0.0:8080\" or \
         \"[::1]:8080\"",
    );
}

#[test]
fn calls_that_would_go_out_in_the_open_are_warned_of() {
    let warnings = |url: &str| {
        let warnings = but("https://api.stripe.com", url).serve().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for url in ["https://api.stripe.com", "http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"] {
        assert!(warnings(url).is_empty(), "{url}");
    }
    assert_eq!(
        warnings("http://api.stripe.com"),
        [
            "oncegate.toml:21:7: calls to http://api.stripe.com/ go out without TLS: whoever is on the way reads and \
          changes them; write https://"
        ]
    );
    check(
        &but("https://api.stripe.com", "https://api.stripe.com/v1"),
        "oncegate.toml:21:7: upstream.url has a path; paths go out as they come in: leave it out",
    );
    check(
        &but("[listener.policy]", "connect_timeout = \"20s\"\ntimeout = \"10s\"\n[listener.policy]"),
        "oncegate.toml:22:19: upstream.connect_timeout is longer than upstream.timeout, the call's whole time",
    );
    check(
        &but("[listener.policy]", "mcp_path = \"/mcp\"\n[listener.policy]"),
        "oncegate.toml:22:1: unknown key \"mcp_path\"; it may be \"url\", \"timeout\", \"connect_timeout\", \
         \"max_idle\", \"ca_file\" or \"forward_traceparent\"",
    );
}

#[test]
fn listeners_stand_in_the_file_only() {
    let inline = r#"[{ name = "stripe", listen = "127.0.0.1:1" }]"#;
    check(
        &Sources::new().variable("ONCEGATE_LISTENER", inline),
        "ONCEGATE_LISTENER: listener cannot be set by a variable; its tables stand in the file only",
    );
}

#[test]
fn a_listeners_policy_names_routes_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |text: &str| fs::write(folder.path().join("p.toml"), text).expect("a policy");
    let told = || match load_listener_policy(folder.path()) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            mistakes.iter().map(|mistake| mistake.to_string().replace(&place(&folder), "")).collect()
        }
    };
    write("[tools.refund]\neffect = \"deny\"\n[methods.\"a/b\"]\neffect = \"deny\"\n");
    assert_eq!(
        told(),
        [
            "p.toml:1:8: \"refund\" is a tool: a listener carries routes only; name it in the policy of policy.dir",
            "p.toml:3:10: \"a/b\" is an MCP method: a listener carries routes only; name it in the policy of policy.dir",
        ]
    );
}

fn place(folder: &tempfile::TempDir) -> String {
    format!("{}/", folder.path().display())
}

const PAGE: &str = include_str!("../../../docs/egress.md");

#[test]
fn the_example_on_the_page_of_listeners_can_be_used() {
    let example =
        PAGE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let sources = with("");
    fs::write(sources.path("token"), "0123456789abcdef0123456789abcdef").expect("a token");
    let example = example.replace("/run/secrets/horizon", &sources.path("token"));
    let config = Sources { file: format!("{}{example}", sources.file), ..sources }.serve();
    let listeners: Vec<_> =
        config.listeners.iter().map(|one| (one.name.as_str(), one.identity.is_some())).collect();
    assert_eq!(listeners, [("stripe", false), ("mail", true)]);
}

#[test]
fn the_page_of_listeners_has_every_key() {
    let source = include_str!("../../../src/config/raw.rs");
    let keys = |reader: &str, prefix: &str| -> Vec<String> {
        let fields = source.split(&format!("struct {reader} {{")).nth(1).expect("the reader's fields");
        let fields = fields.split('}').next().unwrap_or_default().lines();
        let names = fields.filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next());
        names.map(|name| format!("{prefix}{name}")).collect()
    };
    let tables = ["upstream", "policy", "identity"];
    let mut known: Vec<_> =
        keys("RawListener", "").into_iter().filter(|key| !tables.contains(&&**key)).collect();
    known.extend(keys("RawProvider", "upstream.").into_iter().chain(keys("RawIdentity", "identity.")));
    known.extend(keys("RawPolicy", "policy."));
    let rows = PAGE.lines().skip_while(|line| *line != "| key | default | meaning |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let mut listed: Vec<_> = rows.filter_map(|line| Some(line.split('`').nth(1)?.to_owned())).collect();
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known);
}
