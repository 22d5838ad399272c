//! JSON Schemas of the policy's files, for editors.
//!
//! Promises: made of the types that read the files, and of the table of keys that have a meaning: what a schema takes for
//! a wrong key or a wrong type, the reader refuses too. It says less than `oncegate policy check`, which looks at all
//! files together.

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::build::kinds_of;
use super::cases::RawFile as Cases;
use super::operation::Kind;
use super::raw::{RawDefaults, RawOperation};

/// The schema of a policy file.
pub fn policy_schema() -> Value {
    let mut generator = generator();
    let operation = inlined(&mut generator, SchemaGenerator::root_schema_for::<RawOperation>);
    let defaults = inlined(&mut generator, SchemaGenerator::root_schema_for::<RawDefaults>);
    let mut properties = Map::new();
    properties.insert(
        "defaults".to_owned(),
        described(defaults, "What holds for the operations of this file that say nothing else."),
    );
    for (kind, what) in [
        (Kind::Tool, "Tools, called by tools/call, by their names."),
        (Kind::Method, "Other MCP methods, by their names."),
        (Kind::Route, "Plain HTTP requests, by method and path, under names for the audit."),
        (Kind::Job, "Jobs, which claim before they work, by their names."),
    ] {
        let named = json!({ "type": "object", "description": what, "additionalProperties": of_kind(&operation, kind) });
        properties.insert(kind.table().to_owned(), named);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A policy of Oncegate",
        "description": "Which operations exist, who may call them, and on what terms. What no file names is denied.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The schema of a file of cases.
pub fn cases_schema() -> Value {
    let mut schema = inlined(&mut generator(), SchemaGenerator::root_schema_for::<Cases>);
    schema.insert("title".to_owned(), json!("Cases of a policy of Oncegate"));
    Value::Object(schema)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator()
}

fn inlined(
    generator: &mut SchemaGenerator,
    make: impl Fn(&mut SchemaGenerator) -> Schema,
) -> Map<String, Value> {
    let mut schema = make(generator).as_object().cloned().unwrap_or_default();
    schema.values_mut().for_each(in_one_line);
    schema
}

/// Descriptions are broken where the source's lines end; an editor breaks them itself.
fn in_one_line(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace('\n', " "),
        Value::Array(elements) => elements.iter_mut().for_each(in_one_line),
        Value::Object(members) => members.values_mut().for_each(in_one_line),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn described(mut schema: Map<String, Value>, what: &str) -> Value {
    for name in ["$schema", "title"] {
        schema.remove(name);
    }
    schema.insert("description".to_owned(), json!(what));
    Value::Object(schema)
}

/// An operation's schema with the keys that have a meaning for its kind.
fn of_kind(operation: &Map<String, Value>, kind: Kind) -> Value {
    let mut schema = operation.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|key, _| kinds_of(key).contains(&kind));
    }
    let mut required = vec![json!({ "required": ["effect"] })];
    if kind == Kind::Tool {
        required.push(json!({ "required": ["runs"] }));
    }
    schema.insert("oneOf".to_owned(), Value::Array(required));
    let what = format!("One of the {}.", kind.table());
    described(schema, &what)
}
