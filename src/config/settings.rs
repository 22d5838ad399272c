//! Every setting there is, with its flag and what it means: one table.
//!
//! Promises: each key of the file has exactly one flag and one variable, and both follow from the key:
//! `store.url` is `--store-url` and `ONCEGATE_STORE__URL`.
//!
//! Absent on purpose: tables whose entries are named by whoever writes them ([`TABLES`]). They stand in the file only: a
//! flag or a variable for each of their keys could not be listed, and a guard that is half in one place and half in
//! another is read by nobody.

/// The beginning of the name of every variable that is a setting.
pub(super) const PREFIX: &str = "ONCEGATE_";

/// The tables that stand in the file only.
pub(super) const TABLES: [&str; 2] = ["service_tokens", "listener"];

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its path in the file, with dots.
    pub key: &'static str,
    /// Its flag, without the dashes before it.
    pub flag: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// Whether it may be given several times.
    pub many: bool,
    /// What it means.
    pub help: &'static str,
}

impl Setting {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.replace('.', "__").to_ascii_uppercase())
    }
}

const fn one(key: &'static str, flag: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { key, flag, value, many: false, help }
}

const fn many(key: &'static str, flag: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { key, flag, value, many: true, help }
}

/// All of them, in the order of the documentation.
pub const SETTINGS: [Setting; 56] = [
    one("service", "service", "NAME", "The app that this gate guards; several may share one store"),
    one(
        "mode",
        "mode",
        "MODE",
        "enforce; or observe: decide, write down, refuse nothing, change nothing [enforce]",
    ),
    many(
        "secret_file",
        "secret-file",
        "FILE",
        "32 bytes or more, the same in every pod; the first signs, others are accepted",
    ),
    one("listen", "listen", "ADDRESS", "Where calls come in [0.0.0.0:8080]"),
    one("health_listen", "health-listen", "ADDRESS", "Where /livez and /readyz are [0.0.0.0:8081]"),
    one(
        "admin_listen",
        "admin-listen",
        "ADDRESS",
        "Where operators' requests come in, where admin_token_file is set [127.0.0.1:9090]",
    ),
    one(
        "admin_token_file",
        "admin-token-file",
        "FILE",
        "The token that every request there needs: 16 bytes or more; without it nobody listens there",
    ),
    one("public_url", "public-url", "URL", "The MCP endpoint as clients dial it"),
    many(
        "allowed_hosts",
        "allowed-hosts",
        "HOST",
        "Other hosts by which clients may call, each at any port or at one; *: any [that of public_url, loopback]",
    ),
    many(
        "allowed_origins",
        "allowed-origins",
        "ORIGIN",
        "Other web pages that may call; *: any [that of public_url, loopback]",
    ),
    one("upstream.url", "upstream-url", "URL", "The app: scheme, host and port"),
    one("upstream.mcp_path", "upstream-mcp-path", "PATH", "The path of its MCP endpoint [/mcp]"),
    one("upstream.timeout", "upstream-timeout", "DURATION", "A call's whole time upstream [300s]"),
    one("upstream.connect_timeout", "upstream-connect-timeout", "DURATION", "Until a connection stands [5s]"),
    one(
        "upstream.max_idle",
        "upstream-max-idle",
        "DURATION",
        "The idlest connection that a mutation goes out on; 0s: always a new one [1s]",
    ),
    one(
        "upstream.ca_file",
        "upstream-ca-file",
        "FILE",
        "Certificates (PEM) that may sign the app's [the system's]",
    ),
    one(
        "upstream.forward_authorization",
        "upstream-forward-authorization",
        "BOOL",
        "Pass the token on: only where gate and app are one audience [false]",
    ),
    one("auth.issuer", "auth-issuer", "URL", "Whose tokens are taken"),
    many("auth.audience", "auth-audience", "TEXT", "Whom a token must be for: one of these"),
    many(
        "auth.authorization_servers",
        "auth-authorization-servers",
        "URL",
        "Where clients get tokens [the issuer]",
    ),
    one(
        "auth.hs256_secret_file",
        "auth-hs256-secret-file",
        "FILE",
        "The secret that tokens are signed with (HS256)",
    ),
    one(
        "auth.public_key_file",
        "auth-public-key-file",
        "FILE",
        "The public key (PEM) that tokens are checked with",
    ),
    one(
        "auth.jwks_file",
        "auth-jwks-file",
        "FILE",
        "The key set that tokens are checked with; read again when it changes",
    ),
    one("auth.jwks_url", "auth-jwks-url", "URL", "Where that key set is fetched: https only"),
    one(
        "auth.jwks_ca_file",
        "auth-jwks-ca-file",
        "FILE",
        "Certificates (PEM) that may sign the key server's [the system's]",
    ),
    one("auth.leeway", "auth-leeway", "DURATION", "How far the issuer's clock may be off [30s]"),
    one(
        "auth.max_session_age",
        "auth-max-session-age",
        "DURATION",
        "How long after sign-in a token is taken",
    ),
    one("auth.claims.tenant", "auth-claims-tenant", "NAME", "The claim with the tenant [tenant_id]"),
    one("auth.claims.user", "auth-claims-user", "NAME", "The claim with the user [sub]"),
    one("auth.claims.session", "auth-claims-session", "NAME", "The claim with the session [sid]"),
    one("auth.claims.scopes", "auth-claims-scopes", "NAME", "The claim with the scopes [scope]"),
    one("auth.claims.roles", "auth-claims-roles", "NAME", "The claim with the roles [roles]"),
    one("auth.roles", "auth-roles", "TABLE", "The scopes that each role brings: { \"role\" = [\"scope\"] }"),
    one("store.url", "store-url", "URL", "Where claims and audit rows are: postgres://… or sqlite:FILE"),
    one(
        "store.url_file",
        "store-url-file",
        "FILE",
        "A file that holds that URL, since it may hold a password",
    ),
    one("store.connections", "store-connections", "NUMBER", "Connections to Postgres [2]"),
    one(
        "herd.redis_url",
        "herd-redis-url",
        "URL",
        "A Redis by which the gates of a service spare the store duplicates: redis://… or rediss://… [none]",
    ),
    one(
        "herd.redis_url_file",
        "herd-redis-url-file",
        "FILE",
        "A file that holds that URL, since it may hold a password",
    ),
    one(
        "audit.when_store_down",
        "audit-when-store-down",
        "WORD",
        "Reads while the store is away: refuse; or spool: serve them, their rows wait in the file [refuse]",
    ),
    one(
        "audit.spool_file",
        "audit-spool-file",
        "FILE",
        "Keeps what the store could not take, until it does, through restarts too [memory only]",
    ),
    one("audit.spool_limit", "audit-spool-limit", "SIZE", "The largest that this file becomes [64MiB]"),
    one(
        "audit.keep",
        "audit-keep",
        "DURATION",
        "How long audit rows are kept: 7d or more, or forever; on Postgres no less than the owner's floor [400d]",
    ),
    one(
        "retention.every",
        "retention-every",
        "DURATION",
        "How often the leading gate looks for what has become too old [1m]",
    ),
    one("retention.batch", "retention-batch", "NUMBER", "How many rows it deletes at a time [500]"),
    one("policy.dir", "policy-dir", "DIR", "The policy: every *.toml in it, but *.cases.toml"),
    one("limits.request_body", "limits-request-body", "SIZE", "The largest request body [1MiB]"),
    one(
        "limits.stored_response",
        "limits-stored-response",
        "SIZE",
        "The largest answer that is kept for replays [1MiB]",
    ),
    one(
        "limits.body_time",
        "limits-body-time",
        "DURATION",
        "How long a client may take to send a body; its call holds a place meanwhile [30s]",
    ),
    one(
        "limits.concurrent_calls",
        "limits-concurrent-calls",
        "NUMBER",
        "Calls at one time; one tenant alone gets eight ninths of them [1024]",
    ),
    one("limits.queued_calls", "limits-queued-calls", "NUMBER", "Calls that may wait for a place [1024]"),
    one("limits.queue_time", "limits-queue-time", "DURATION", "How long a call may wait for its place [5s]"),
    one(
        "limits.connections",
        "limits-connections",
        "NUMBER",
        "Connections of clients at one time; others wait to be accepted [8192]",
    ),
    one(
        "traces.otlp_url",
        "traces-otlp-url",
        "URL",
        "A collector that takes traces by OTLP over HTTP: http://collector:4318 [OTEL_EXPORTER_OTLP_ENDPOINT, else none]",
    ),
    one(
        "traces.headers_file",
        "traces-headers-file",
        "FILE",
        "Headers that the collector wants, one to a line, since they may be access",
    ),
    one(
        "traces.ca_file",
        "traces-ca-file",
        "FILE",
        "Certificates (PEM) that may sign the collector's [the system's]",
    ),
    one(
        "traces.sample_ratio",
        "traces-sample-ratio",
        "RATIO",
        "Of traces that begin at the gate, so many are told; whoever calls says it of its own [1]",
    ),
];
