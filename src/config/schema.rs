//! The JSON Schema of `oncegate.toml`, for editors.
//!
//! Promises: made of the one table of settings; the tables that stand in the file only are listed beside it. What it takes
//! for a wrong key or a wrong type, the reader refuses too.

use serde_json::{Map, Value, json};

use super::settings::{SETTINGS, Setting};

const DURATION: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

/// The keys of `[service_tokens.NAME]`.
const SERVICE_TOKEN: [(&str, &str, &str); 3] = [
    ("token_file", "FILES", "The token that the service presents, 32 bytes or more; a list: any of them"),
    ("scopes", "TEXTS", "What it may do"),
    ("tenants", "TEXTS", "For whom it may do it; \"*\": for all"),
];
/// The keys of `[[listener]]`, and of its tables.
const LISTENER: [(&str, &str, &str); 3] = [
    ("name", "NAME", "What its claims and rows are told by"),
    ("listen", "ADDRESS", "Where the app's own requests come in"),
    ("allowed_hosts", "TEXTS", "Other hosts by which it may be called"),
];
const PROVIDER: [(&str, &str, &str); 6] = [
    ("url", "URL", "The provider: scheme, host and port"),
    ("timeout", "DURATION", "A request's whole time"),
    ("connect_timeout", "DURATION", "Until a connection stands"),
    ("max_idle", "DURATION", "The idlest connection that a mutation goes out on"),
    ("ca_file", "FILE", "Certificates (PEM) that may sign the provider's"),
    ("forward_traceparent", "BOOL", "Pass the trace on"),
];
const IDENTITY: [(&str, &str, &str); 4] = [
    ("tenant", "TEXT", "Whose all requests are"),
    ("tenants", "TEXTS", "Whose they may be"),
    ("user", "TEXT", "Who asks"),
    ("scopes", "TEXTS", "What he may do"),
];

/// The schema.
pub fn config_schema() -> Value {
    let mut root = Map::new();
    for setting in &SETTINGS {
        let mut at = &mut root;
        let mut names = setting.key.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                at.insert(name.to_owned(), of(setting.value, setting.many, setting.help));
                break;
            }
            let table = at.entry(name).or_insert_with(|| table(&Map::new()));
            let Some(inner) = table.get_mut("properties").and_then(Value::as_object_mut) else { break };
            at = inner;
        }
    }
    root.insert(
        "service_tokens".to_owned(),
        json!({ "type": "object", "description": "Services that call in their own names", "additionalProperties": keys(&SERVICE_TOKEN, &[]) }),
    );
    let policy = SETTINGS
        .iter()
        .find(|setting| setting.key == "policy.dir")
        .map_or("", |setting: &Setting| setting.help);
    let listener = keys(
        &LISTENER,
        &[
            ("upstream", keys(&PROVIDER, &[])),
            ("policy", keys(&[("dir", "DIR", policy)], &[])),
            ("identity", keys(&IDENTITY, &[])),
        ],
    );
    root.insert(
        "listener".to_owned(),
        json!({ "type": "array", "description": "Ways out, towards somebody else's API", "items": listener }),
    );
    let mut schema = table(&root);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".to_owned(), json!("The configuration of Oncegate"));
    }
    schema
}

fn table(properties: &Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn keys(keys: &[(&str, &str, &str)], tables: &[(&str, Value)]) -> Value {
    let own = keys.iter().map(|(name, value, help)| {
        ((*name).to_owned(), of(value, matches!(*value, "FILES" | "TEXTS"), help))
    });
    let inner = tables.iter().map(|(name, table)| ((*name).to_owned(), table.clone()));
    table(&own.chain(inner).collect())
}

/// A value, by the word that stands for it in the help.
fn of(value: &str, many: bool, help: &str) -> Value {
    let mut schema = match value {
        "DURATION" if help.contains("or forever") => {
            json!({ "type": "string", "pattern": format!("{DURATION}|^forever$") })
        }
        "DURATION" => json!({ "type": "string", "pattern": DURATION }),
        "RATIO" => json!({ "type": ["number", "string"] }),
        "WORD" if help.contains("refuse; or spool") => json!({ "enum": ["refuse", "spool"] }),
        "SIZE" | "NUMBER" => json!({ "type": ["integer", "string"] }),
        "BOOL" => json!({ "type": ["boolean", "string"] }),
        "MODE" => json!({ "enum": ["enforce", "observe"] }),
        "TABLE" => json!({ "type": "object" }),
        _ if many => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
        _ => json!({ "type": "string" }),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), json!(help));
    }
    schema
}
