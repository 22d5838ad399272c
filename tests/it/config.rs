//! What the configuration promises: which source counts, what is refused, and how a mistake reads.

mod admin;
mod fixed;
mod herd;
mod listeners;
mod lists;
mod services;
mod spool;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use oncegate::config::{
    ConfigFlags, KeySource, Layers, SETTINGS, ServeConfig, load_policy, read_cases_dir, read_policy_dir,
};
use oncegate::domain::mistake::Mistakes;
use oncegate::domain::mode::Mode;
use tempfile::TempDir;

/// A file with everything that has no default; `{}` stands for the folder of its secrets.
const FILE: &str = r#"
service = "billing"
secret_file = "{}/secret"
public_url = "https://api.example.com/mcp"
[upstream]
url = "http://127.0.0.1:8000"
[auth]
issuer = "https://id.example.com"
audience = ["https://api.example.com/mcp"]
hs256_secret_file = "{}/jwt"
max_session_age = "12h"
[store]
url = "sqlite:oncegate.db"
[policy]
dir = "policies"
"#;

/// A folder with two secrets, for a file, variables and flags.
struct Sources {
    folder: TempDir,
    file: String,
    variables: Vec<(String, String)>,
    flags: Vec<String>,
}

impl Sources {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("secret"), "a-secret-of-thirty-two-characters\n").expect("a secret");
        fs::write(folder.path().join("jwt"), "another-secret-of-enough-characters").expect("a secret");
        let file = FILE.replace("{}", folder.path().to_str().expect("a plain name"));
        Self { folder, file, variables: Vec::new(), flags: Vec::new() }
    }

    /// With a text of the file replaced; the text must be there.
    fn file(mut self, old: &str, new: &str) -> Self {
        assert!(self.file.contains(old), "the file has no {old:?}");
        self.file = self.file.replace(old, new);
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain name").to_owned()
    }

    fn layers(&self) -> Result<Layers, Mistakes> {
        let command = ConfigFlags::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(&self.flags).expect("flags");
        let flags = ConfigFlags::from_arg_matches(&matches).expect("flags");
        let variables =
            self.variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Layers::merge(Some((Path::new("oncegate.toml"), &self.file)), variables, &flags)
    }

    fn serve(&self) -> ServeConfig {
        match self.layers().and_then(|layers| layers.serve()) {
            Ok(config) => config,
            Err(mistakes) => panic!("the configuration has mistakes:\n{mistakes}"),
        }
    }

    /// Every mistake that `serve` meets, with the folder's name taken out.
    fn mistakes(&self) -> Vec<String> {
        let Err(mistakes) = self.layers().and_then(|layers| layers.serve()) else { return Vec::new() };
        let folder = self.path("");
        mistakes.iter().map(|mistake| mistake.to_string().replace(&folder, "")).collect()
    }
}

#[track_caller]
fn check(sources: &Sources, expected: &str) {
    assert_eq!(sources.mistakes(), [expected]);
}

#[test]
fn what_has_a_default_may_be_left_out() {
    let config = Sources::new().serve();
    assert_eq!(config.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(config.health_listen.to_string(), "0.0.0.0:8081");
    assert_eq!(config.mode, Mode::Enforce);
    assert_eq!(config.upstream.mcp_path, "/mcp");
    assert_eq!(config.upstream.timeout, Duration::from_mins(5));
    assert!(!config.upstream.forward_authorization);
    assert_eq!(config.auth.authorization_servers, ["https://id.example.com"]);
    assert_eq!(config.auth.claims.tenant, "tenant_id");
    assert_eq!(config.store.connections, 2);
    assert_eq!(config.limits.request_body, 1 << 20);
}

#[test]
fn a_flag_beats_a_variable_and_a_variable_beats_the_file() {
    let file = Sources::new().file("[store]", "[store]\nconnections = 3");
    assert_eq!(file.serve().store.connections, 3);
    let variable = file.variable("ONCEGATE_STORE__CONNECTIONS", "4");
    assert_eq!(variable.serve().store.connections, 4);
    let flag = variable.flags(&["--store-connections", "5"]);
    assert_eq!(flag.serve().store.connections, 5);
    assert_eq!(flag.serve().store.url, "sqlite:oncegate.db", "its neighbours stay");
}

#[test]
fn a_claim_can_be_renamed_alone() {
    let sources = Sources::new().variable("ONCEGATE_AUTH__CLAIMS__TENANT", "org");
    let claims = sources.serve().auth.claims;
    assert_eq!((claims.tenant.as_str(), claims.user.as_str()), ("org", "sub"));
}

#[test]
fn a_value_of_a_variable_is_taken_as_it_is() {
    let odd = "issuer \"with\" 'quotes' \\ and # more";
    let sources = Sources::new().variable("ONCEGATE_AUTH__ISSUER", odd);
    assert_eq!(sources.serve().auth.issuer, odd);
}

#[test]
fn every_setting_has_the_flag_and_the_variable_that_its_key_tells() {
    for setting in SETTINGS {
        assert_eq!(setting.flag, setting.key.replace(['.', '_'], "-"), "{}", setting.key);
        assert_eq!(setting.variable(), format!("ONCEGATE_{}", setting.key.replace('.', "__").to_uppercase()));
        // A value that no setting takes: a setting that the file did not know would be told as an unknown key.
        let told = Sources::new().variable(&setting.variable(), "{ x = 1979-05-27 }").mistakes();
        assert!(told.iter().all(|line| line.starts_with(&setting.variable())), "{}: {told:?}", setting.key);
        assert!(told.iter().all(|line| !line.contains("unknown key")), "{}: {told:?}", setting.key);
        assert!(!told.is_empty(), "{}", setting.key);
    }
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    check(
        &Sources::new().file("[upstream]\n", "[upstream]\ntimout = \"5s\"\n"),
        "oncegate.toml:6:1: unknown key \"timout\"; did you mean \"timeout\"?",
    );
    for (name, told) in [
        ("ONCEGATE_STORE__ULR", "\"ulr\"; did you mean \"url\"?"),
        ("ONCEGATE_STOER__URL", "\"stoer\"; did you mean \"store\"?"),
        ("ONCEGATE_STORE_URL", "\"store_url\"; did you mean ONCEGATE_STORE__URL?"),
    ] {
        check(&Sources::new().variable(name, "x"), &format!("{name}: unknown key {told}"));
    }
}

#[test]
fn what_kubernetes_sets_for_a_service_of_this_name_is_no_setting() {
    let sources = [
        ("ONCEGATE_SERVICE_HOST", "10.0.0.1"),
        ("ONCEGATE_SERVICE_PORT", "80"),
        ("ONCEGATE_SERVICE_PORT_HTTP", "80"),
        ("ONCEGATE_PORT", "tcp://10.0.0.1:80"),
        ("ONCEGATE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("ONCEGATE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("ONCEGATE_BILLING_SERVICE_HOST", "10.0.0.1"),
        ("ONCEGATE_CONFIG", "elsewhere.toml"),
        ("OTHER", "x"),
    ]
    .into_iter()
    .fold(Sources::new(), |sources, (name, value)| sources.variable(name, value));
    assert_eq!(sources.mistakes(), [""; 0]);
}

#[test]
fn a_mistake_names_its_line_its_variable_or_its_flag() {
    check(
        &Sources::new().file("[upstream]", "[upstream]\ntimeout = \"5\""),
        "oncegate.toml:6:11: \"5\" is not a duration; write it like \"90s\", \"5m\", \"48h\", \"7d\" or \"1h30m\"",
    );
    check(
        &Sources::new().variable("ONCEGATE_LIMITS__REQUEST_BODY", "1MB"),
        "ONCEGATE_LIMITS__REQUEST_BODY: \"1MB\" is not a size; write it like \"512KiB\", \"1MiB\" or \"65536B\"",
    );
    check(
        &Sources::new().flags(&["--listen", "8080"]),
        "--listen: listen = \"8080\" is not an address; write it like \"0.0.0.0:8080\" or \"[::1]:8080\"",
    );
    check(
        &Sources::new().variable("ONCEGATE_MODE", "watch"),
        "ONCEGATE_MODE: unknown value \"watch\"; it may be \"enforce\" or \"observe\"",
    );
    check(
        &Sources::new().variable("ONCEGATE_AUTH__AUDIENCE", "[\"a\""),
        "ONCEGATE_AUTH__AUDIENCE: unclosed array, expected `]`",
    );
    check(
        &Sources::new().flags(&["--upstream-forward-authorization", "maybe"]),
        "--upstream-forward-authorization: invalid value: string \"maybe\", expected true or false",
    );
}

#[test]
fn a_missing_setting_is_told_with_all_that_would_set_it() {
    check(
        &Sources::new().file("url = \"sqlite:oncegate.db\"", ""),
        "settings: store.url or store.url_file is missing; set it in the file, or with --store-url or \
         --store-url-file, or with ONCEGATE_STORE__URL or ONCEGATE_STORE__URL_FILE",
    );
}

#[test]
fn nothing_that_guards_has_a_default() {
    let bare = Sources { file: String::new(), ..Sources::new() };
    let told = bare.mistakes();
    let missing: Vec<&str> =
        told.iter().filter_map(|line| line.strip_prefix("settings: ")?.split(" is missing").next()).collect();
    assert_eq!(
        missing,
        [
            "auth.audience",
            "auth.hs256_secret_file or auth.public_key_file or auth.jwks_file or auth.jwks_url",
            "auth.issuer",
            "auth.max_session_age",
            "policy.dir",
            "public_url",
            "secret_file",
            "service",
            "store.url or store.url_file",
            "upstream.url",
        ]
    );
}

#[test]
fn a_command_needs_only_what_it_uses() {
    let bare = Sources { file: String::new(), ..Sources::new() }.flags(&["--store-url", "sqlite:x.db"]);
    let layers = bare.layers().expect("no mistakes");
    assert_eq!(layers.store().map(|store| store.url).ok().as_deref(), Some("sqlite:x.db"));
    assert!(layers.service().is_ok_and(|service| service.is_none()));
    assert!(layers.auth().is_err());
    assert!(layers.serve().is_err());
}

#[test]
fn a_secret_loses_its_line_end_and_must_be_long() {
    let sources = Sources::new();
    fs::write(sources.path("jwt"), "x".repeat(32) + "\r\n").expect("a secret");
    match sources.serve().auth.keys {
        KeySource::Hs256(secret) => assert_eq!(secret.bytes(), [b'x'; 32]),
        KeySource::Pem(_) | KeySource::JwksFile(_) | KeySource::JwksUrl { .. } => panic!("another source"),
    }
    fs::write(sources.path("jwt"), "x".repeat(31) + "\n").expect("a secret");
    check(&sources, "oncegate.toml:10:21: the secret in jwt has 31 bytes, and needs 32 or more");
}

#[test]
fn a_secret_that_cannot_be_read_is_told_with_its_place() {
    check(
        &Sources::new().file("/secret\"", "/absent\""),
        "oncegate.toml:3:15: absent cannot be read: no such file or directory",
    );
}

#[test]
fn several_secrets_may_be_given() {
    let sources = Sources::new();
    let (one, other) = (sources.path("secret"), sources.path("jwt"));
    let sources = sources.flags(&["--secret-file", &one, "--secret-file", &other]);
    assert_eq!(sources.mistakes(), [""; 0]);
}

#[test]
fn there_is_one_source_of_keys() {
    check(
        &Sources::new().file("[auth]", "[auth]\njwks_url = \"https://id.example.com/keys\""),
        "oncegate.toml:8:12: only one of auth.hs256_secret_file, auth.public_key_file, auth.jwks_file, \
         auth.jwks_url may be set",
    );
    check(
        &Sources::new().variable("ONCEGATE_AUTH__JWKS_URL", "http://id.example.com/keys"),
        "ONCEGATE_AUTH__JWKS_URL: auth.jwks_url must be https: whoever can change the keys can be anyone",
    );
}

#[test]
fn an_upper_source_replaces_the_alternatives_below_it() {
    let sources = Sources::new().variable("ONCEGATE_AUTH__JWKS_URL", "https://id.example.com/keys");
    assert!(matches!(sources.serve().auth.keys, KeySource::JwksUrl { .. }));
    let sources = Sources::new();
    fs::write(sources.path("url"), "postgres://gate:secret@db/x\n").expect("a file");
    let file = sources.path("url");
    let sources = sources.flags(&["--store-url-file", &file]);
    assert_eq!(sources.serve().store.url, "postgres://gate:secret@db/x");
}

#[test]
fn a_store_url_of_no_known_kind_is_refused_without_being_repeated() {
    check(
        &Sources::new().file("sqlite:oncegate.db", "mysql://root:hunter2@db"),
        "oncegate.toml:13:7: the store's URL is of no known kind; it begins with postgres:// or sqlite:",
    );
}

#[test]
fn an_upstream_is_a_host_and_its_path_a_setting_of_its_own() {
    check(
        &Sources::new().file("127.0.0.1:8000", "127.0.0.1:8000/mcp"),
        "oncegate.toml:6:7: upstream.url has a path; the path of the MCP endpoint is upstream.mcp_path",
    );
    check(
        &Sources::new().file("http://127.0.0.1:8000", "127.0.0.1:8000"),
        "oncegate.toml:6:7: \"127.0.0.1:8000\" is not an http or https URL; write it like \
         \"https://api.example.com/mcp\", without a user or a fragment",
    );
}

#[test]
fn bounds_are_told() {
    check(
        &Sources::new().flags(&["--store-connections", "0"]),
        "--store-connections: store.connections = 0 makes no sense; it may be 1 to 64",
    );
    check(
        &Sources::new().flags(&["--upstream-timeout", "0s"]),
        "--upstream-timeout: upstream.timeout = \"0s\" makes no sense; it may be 10ms to 1h",
    );
    check(
        &Sources::new().flags(&["--health-listen", "0.0.0.0:8080"]),
        "--health-listen: health_listen is the address of listen",
    );
}

#[test]
fn keys_of_later_versions_are_refused() {
    check(
        &Sources::new().file("service =", "otel_endpoint = \"127.0.0.1:4317\"\nservice ="),
        "oncegate.toml:2:1: unknown key \"otel_endpoint\"",
    );
}

#[test]
fn a_policy_folder_gives_its_policies_and_its_cases_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("b.toml", "[tools.b]\neffect = \"deny\"\n");
    write("a.toml", "[tools.a]\neffect = \"deny\"\n");
    write("a.cases.toml", "");
    write(".hidden.toml", "no policy");
    write("README.md", "no policy");
    fs::create_dir(folder.path().join("..data")).expect("a folder");
    let names = |files: Result<Vec<(std::path::PathBuf, String)>, Mistakes>| -> Vec<String> {
        let name = |(path, _): (std::path::PathBuf, String)| {
            path.file_name().map(|name| name.to_string_lossy().into_owned())
        };
        files.expect("readable").into_iter().filter_map(name).collect()
    };
    assert_eq!(names(read_policy_dir(folder.path())), ["a.toml", "b.toml"]);
    assert_eq!(names(read_cases_dir(folder.path())), ["a.cases.toml"]);
    let (policy, warnings) = load_policy(folder.path()).expect("a policy");
    assert_eq!((policy.operations().count(), warnings.len()), (2, 0));
}

#[test]
fn a_folder_without_a_policy_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let told = read_policy_dir(folder.path()).expect_err("no policy").to_string();
    assert!(
        told.ends_with(": the folder has no policy in it; a policy is a file that ends in .toml"),
        "{told}"
    );
    let told = read_policy_dir(&folder.path().join("absent")).expect_err("no folder").to_string();
    let says = "absent: the folder of the policy cannot be read: no such file or directory; policy.dir names it, or that of a listener";
    assert!(told.ends_with(says), "{told}");
}
