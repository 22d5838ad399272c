//! What the fixture offers, read from `tests/conformance/fixture`, and the words that its answers hold.
//!
//! Promises: the server knows behaviours (`does`), and no tool, prompt or resource by its name.
//!
//! Absent on purpose: the protocol. That is the SDK's, or this would test the fixture against itself.

use std::collections::BTreeMap;
use std::error::Error;

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/fixture");

/// By name.
pub(crate) type Words = BTreeMap<String, String>;

/// Requests to the client, by name.
pub(crate) type Asks = Map<String, Value>;

/// What a tool does when it is called, or a prompt when it is got.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Does {
    pub(crate) answer: Option<Value>,
    #[serde(rename = "isError")]
    pub(crate) is_error: bool,
    pub(crate) logs: Vec<String>,
    pub(crate) progress: Vec<f64>,
    pub(crate) asks: Option<Value>,
    pub(crate) rounds: Vec<Asks>,
    pub(crate) state: bool,
    pub(crate) needs: Option<String>,
    pub(crate) changes: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) seconds: Option<f64>,
    pub(crate) error: Option<Value>,
    pub(crate) wants: Asks,
}

/// Everything, as it is listed and as it behaves.
pub(crate) struct Fixture {
    pub(crate) tools: Vec<(Tool, Does)>,
    pub(crate) prompts: Vec<(Prompt, Does, Value)>,
    pub(crate) resources: Vec<(Resource, Map<String, Value>)>,
    pub(crate) templates: Vec<(ResourceTemplate, String)>,
}

impl Fixture {
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let mut fixture =
            Self { tools: Vec::new(), prompts: Vec::new(), resources: Vec::new(), templates: Vec::new() };
        for part in ["tools", "rounds", "tasks"] {
            for mut tool in file::<Vec<Map<String, Value>>>(part)? {
                // A tool that says nothing about its arguments takes none.
                let nothing = || json!({"type": "object", "additionalProperties": false});
                tool.entry("inputSchema").or_insert_with(nothing);
                let does = take(&mut tool, "does")?;
                fixture.tools.push((whole(tool)?, does));
            }
        }
        for mut prompt in file::<Vec<Map<String, Value>>>("prompts")? {
            let does = if prompt.contains_key("does") { take(&mut prompt, "does")? } else { Does::default() };
            let messages = take(&mut prompt, "messages")?;
            fixture.prompts.push((whole(prompt)?, does, messages));
        }
        let mut rest = file::<Map<String, Value>>("resources")?;
        for mut resource in take::<Vec<Map<String, Value>>>(&mut rest, "resources")? {
            let content = take(&mut resource, "content")?;
            fixture.resources.push((whole(resource)?, content));
        }
        for mut template in take::<Vec<Map<String, Value>>>(&mut rest, "templates")? {
            let record = take(&mut template, "record")?;
            fixture.templates.push((whole(template)?, record));
        }
        Ok(fixture)
    }
}

fn file<T: DeserializeOwned>(name: &str) -> Result<T, Box<dyn Error>> {
    Ok(serde_json::from_slice(&std::fs::read(format!("{FOLDER}/{name}.json"))?)?)
}

fn take<T: DeserializeOwned>(entry: &mut Map<String, Value>, name: &str) -> serde_json::Result<T> {
    serde_json::from_value(entry.remove(name).unwrap_or_default())
}

fn whole<T: DeserializeOwned>(entry: Map<String, Value>) -> serde_json::Result<T> {
    serde_json::from_value(Value::Object(entry))
}

/// The value with `{name}` replaced by what `words` has for it, in every string that it holds.
pub(crate) fn filled(value: &Value, words: &Words) -> Value {
    match value {
        Value::String(text) => {
            let fill =
                |text: String, (name, word): (&String, &String)| text.replace(&format!("{{{name}}}"), word);
            Value::String(words.iter().fold(text.clone(), fill))
        }
        Value::Array(items) => items.iter().map(|item| filled(item, words)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, item)| (name.clone(), filled(item, words))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Inputs under their own names, each as the plainest word in it: what the user or the model said.
pub(crate) fn words_of<'a>(inputs: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Words {
    let plainest = |input: &Value| {
        let content = input.get("content").and_then(Value::as_object);
        let word = content.and_then(|content| content.get("text").or_else(|| content.values().next()));
        plain(word.unwrap_or(input))
    };
    inputs.into_iter().map(|(name, input)| (name.clone(), plainest(input))).collect()
}

/// Arguments as words.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether the answer is one to this request: of its kind, and with what the request calls required.
pub(crate) fn answers(ask: &Value, answer: Option<&Value>) -> bool {
    let Some(answer) = answer.and_then(Value::as_object) else { return false };
    match ask.get("method").and_then(Value::as_str) {
        Some("roots/list") => answer.get("roots").is_some_and(Value::is_array),
        Some("sampling/createMessage") => answer.contains_key("content"),
        _ => match answer.get("action").and_then(Value::as_str) {
            Some("accept") => holds_all(ask, answer.get("content")),
            Some("decline" | "cancel") => true,
            _ => false,
        },
    }
}

fn holds_all(ask: &Value, content: Option<&Value>) -> bool {
    let schema = ask.pointer("/params/requestedSchema");
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str).all(|name| {
        let kind = schema.and_then(|schema| schema.pointer(&format!("/properties/{name}/type")));
        let given = content.and_then(|content| content.get(name));
        match kind.and_then(Value::as_str) {
            Some("boolean") => given.is_some_and(Value::is_boolean),
            _ => given.is_some_and(Value::is_string),
        }
    })
}
