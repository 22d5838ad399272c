//! What a gate under test is told: configuration and policy, and tokens that fit them.
//!
//! Promises: whatever a test does not set is what DESIGN's example shows, with limits short enough to be waited for.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The issuer that every gate under test trusts.
pub(crate) const ISSUER: &str = "https://id.example.com";

/// Whom its tokens are for.
pub(crate) const AUDIENCE: &str = "https://api.example.com/mcp";

/// The secret that they are signed with.
pub(crate) const JWT_SECRET: &str = "a-secret-of-the-tests-that-is-long-enough";

/// A policy with one operation of each kind.
pub(crate) const POLICY: &str = r#"
[defaults]
ttl = "24h"
lease = "60s"
tenant_arguments = ["tenant_id"]
key_argument = "idempotency_key"

[tools.get_invoice]
effect = "read"
scopes = ["billing:read"]
reasons = { invoice_not_found = "not_found_or_foreign" }

[tools.refund_order]
effect = "mutation"
scopes = ["billing:refund"]
redact = ["customer.email", "card"]
summary = ["run", "refund.id"]

[tools.charge_card]
effect = "mutation"
scopes = ["billing:refund"]
downstream = "idempotent"
downstream_retention = "24h"
forward_key = "{tenant}/{tool}/{key}"

[tools.send_mail]
effect = "mutation"
scopes = ["accounts:mail"]
deny_as = "tool_error"
on_tool_error = "release"

[tools.send_password_reset]
effect = "mutation"
scopes = ["billing:refund"]
duplicate_window = "5m"

[tools.send_once]
effect = "mutation"
scopes = ["billing:refund"]
duplicate_window = "5m"
duplicate = "refuse"

[tools.run_sql]
effect = "deny"

[methods."resources/read"]
effect = "read"
scopes = ["billing:read"]
"#;

/// Where a gate keeps its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A file of its own.
    Sqlite,
    /// A database of its own, in the run's cluster.
    Postgres,
}

impl Home {
    /// Every home: what matters to the store is tested on each.
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];
}

/// What a gate is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Where its claims live.
    pub(crate) home: Home,
    /// The text of its policy.
    pub(crate) policy: String,
    /// Another build than this run's.
    pub(crate) program: Option<PathBuf>,
    settings: toml::Table,
}

impl Setup {
    /// A gate before this upstream.
    pub(crate) fn new(home: Home, upstream_url: &str) -> Self {
        let setup = Self { home, policy: POLICY.to_owned(), program: None, settings: toml::Table::new() };
        setup
            .set("service", "billing")
            .set("public_url", AUDIENCE)
            .set("upstream.url", upstream_url)
            .set("upstream.mcp_path", "/mcp")
            .set("upstream.timeout", "10s")
            .set("auth.issuer", ISSUER)
            .set("auth.audience", vec![AUDIENCE])
            .set("auth.authorization_servers", vec![ISSUER])
            .set("auth.max_session_age", "12h")
            .set("policy.dir", "policies")
    }

    /// With a key of the configuration set, named as in `upstream.timeout`.
    pub(crate) fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        let mut path: Vec<_> = key.split('.').collect();
        let last = path.pop().expect("a key has a name");
        let mut table = &mut self.settings;
        for section in path {
            let inner = table.entry(section).or_insert_with(|| toml::Table::new().into());
            table = inner.as_table_mut().expect("a section is a table");
        }
        table.insert(last.to_owned(), value.into());
        self
    }

    /// A text that was set, named as in `store.url`.
    pub(crate) fn get(&self, key: &str) -> String {
        let (section, name) = key.split_once('.').expect("a section and a key");
        let value = self.settings.get(section).and_then(|section| section.get(name));
        value.and_then(toml::Value::as_str).expect("it was set").to_owned()
    }

    /// Without a key of the configuration.
    pub(crate) fn unset(mut self, section: &str, key: &str) -> Self {
        let table = self.settings.get_mut(section).and_then(toml::Value::as_table_mut);
        table.and_then(|table| table.remove(key)).expect("it was set");
        self
    }

    /// With a text of the policy replaced; the text must be there.
    pub(crate) fn policy(mut self, old: &str, new: &str) -> Self {
        assert!(self.policy.contains(old), "the policy has no {old:?}");
        self.policy = self.policy.replace(old, new);
        self
    }

    /// The configuration file.
    pub(crate) fn to_toml(&self) -> String {
        self.settings.to_string()
    }
}

/// The claims of a token that the gate takes: user `u1` of tenant `acme`, in session `s1`, with all scopes.
pub(crate) fn claims() -> Value {
    let now = jiff::Timestamp::now().as_second();
    json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + 3600,
        "tenant_id": "acme",
        "sub": "u1",
        "sid": "s1",
        "scope": "billing:read billing:refund accounts:mail",
    })
}

/// The same claims with some of them set; null takes one out.
pub(crate) fn claims_with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().expect("changes are an object") {
        if value.is_null() {
            claims.as_object_mut().expect("claims are an object").remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

/// A token with these claims, signed as the gate expects.
pub(crate) fn sign(claims: &Value) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(JWT_SECRET.as_bytes()).expect("a long secret");
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), claims, &key).expect("claims are JSON")
}

/// A good token.
pub(crate) fn token() -> String {
    sign(&claims())
}
