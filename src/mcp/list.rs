//! `tools/list` as one actor may see it.
//!
//! Promises: a tool that the actor may not call is not listed; a mutation asks for its key in a way that a model
//! understands; arguments that would name a tenant are not offered; the annotations say of a tool what the policy says
//! of it; the list is marked as this actor's own. A tool that is only observed is listed for everybody, as it came.
//! Everything else, the order of tools and members too, output schemas and the cursor of the next page, is as the
//! upstream wrote it.
//!
//! Absent on purpose: reading of annotations. What a tool is, the policy says. Input schemas are changed at their top
//! level only, and left alone where they are no objects: the key can come in other places then.

use super::mirrors::Mirror;
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Object};
use crate::domain::key::MAX_KEY_BYTES;
use crate::domain::policy::{Arguments, Kind, Mutation, Operation, Policy};

/// What a model reads about the key.
const KEY_DESCRIPTION: &str = "Identifies one intended action, so that it runs only once. \
Choose one new unique value (for example a UUID) for each action you intend. \
On every retry of that action, after an error, a timeout or a missing answer, send exactly the same value again. \
Choose another value only for another action.";

/// What a list taught about the upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The tools that the policy does not name.
    pub unnamed: Vec<String>,
    /// Of each tool that it does name, the headers that mirror arguments which do not go on.
    pub mirrors: Vec<(String, Vec<Mirror>)>,
}

/// Rewrites the result of a `tools/list` for this actor. `modern` says that the protocol is 2026-07-28 or later, where
/// results say who may cache them; what an older result says about that is made private too.
pub fn rewrite(result: &mut Object, policy: &Policy, actor: &Actor, modern: bool) -> Learned {
    let mut learned = Learned::default();
    if let Some(tools) = result.get_mut("tools") {
        let listed = std::mem::replace(tools, Json::Null);
        let listed = if let Json::Array(listed) = listed { listed } else { Vec::new() };
        for tool in &listed {
            let Some(name) = tool.get("name").and_then(Json::as_str) else { continue };
            match policy.named(Kind::Tool, name) {
                Some(operation) => learned.mirrors.push((name.to_owned(), mirrors(tool, operation))),
                None => learned.unnamed.push(name.to_owned()),
            }
        }
        let seen = listed.into_iter().filter_map(|tool| rewritten(tool, policy, actor)).collect();
        *tools = Json::Array(seen);
    }
    if modern || result.contains("cacheScope") {
        result.insert("cacheScope", "private");
    }
    learned
}

/// The headers by which clients mirror what the gate takes out of this tool's arguments.
fn mirrors(tool: &Json, operation: &Operation) -> Vec<Mirror> {
    let header = |argument: &str| {
        let name = tool.path(&["inputSchema", "properties", argument, "x-mcp-header"])?.as_str()?;
        Mirror::new(name, argument)
    };
    operation.taken_arguments().filter_map(header).collect()
}

/// The tool as this actor sees it, if it does.
fn rewritten(mut tool: Json, policy: &Policy, actor: &Actor) -> Option<Json> {
    let operation = policy.admit(actor, Kind::Tool, tool.get("name")?.as_str()?, Arguments::Unasked).ok()?;
    if operation.is_observed() {
        return Some(tool);
    }
    let members = tool.as_object_mut()?;
    let is_mutation = operation.mutation().is_some();
    if is_mutation && !members.contains("inputSchema") {
        members.insert("inputSchema", Json::object([("type", "object".into())]));
    }
    // What such a tool runs it is told in arguments of its own: nothing of them is the gate's to hide.
    if operation.runs().is_some() {
        return Some(tool);
    }
    if let Some(schema) = members.get_mut("inputSchema").and_then(Json::as_object_mut) {
        hide_tenant(schema, operation);
        if is_mutation {
            ask_for_key(schema, operation.key_argument());
        }
        if !operation.mutation().is_some_and(Mutation::forward_argument) {
            unmirror(schema, operation.key_argument());
        }
    }
    annotate(members, operation);
    Some(tool)
}

/// Says what the policy knows. A mutation is idempotent through the gate: its key is one of its arguments, so the same
/// arguments are the same intent, and that runs once. Whether it destroys something, only the policy may say; where it
/// says nothing, the upstream's word stays.
fn annotate(tool: &mut Object, operation: &Operation) {
    if tool.get("annotations").and_then(Json::as_object).is_none() {
        tool.insert("annotations", Object::new());
    }
    let Some(annotations) = tool.get_mut("annotations").and_then(Json::as_object_mut) else { return };
    match operation.mutation() {
        None => {
            annotations.insert("readOnlyHint", true);
            annotations.insert("destructiveHint", false);
        }
        Some(mutation) => {
            annotations.insert("readOnlyHint", false);
            annotations.insert("idempotentHint", true);
            if let Some(destructive) = mutation.destructive() {
                annotations.insert("destructiveHint", destructive);
            }
        }
    }
}

fn hide_tenant(schema: &mut Object, operation: &Operation) {
    let hidden = operation.tenant_arguments();
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        for name in hidden {
            properties.remove(name);
        }
    }
    let Some(required) = schema.get_mut("required").and_then(Json::as_array_mut) else { return };
    let is_hidden = |name: &Json| name.as_str().is_some_and(|name| hidden.iter().any(|own| own == name));
    let before = required.len();
    required.retain(|name| !is_hidden(name));
    // Old dialects of JSON Schema know no empty list here.
    if required.is_empty() && before > 0 {
        schema.remove("required");
    }
}

/// Makes the key a required property. One of the app's own of that name stays as it is.
fn ask_for_key(schema: &mut Object, argument: &str) {
    match schema.get("properties") {
        // PHP writes an empty object as an empty array.
        Some(Json::Array(empty)) if empty.is_empty() => {}
        None | Some(Json::Null | Json::Object(_)) => {}
        // Not a schema that anybody can read.
        Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => return,
    }
    if schema.get("properties").and_then(Json::as_object).is_none() {
        schema.insert("properties", Object::new());
    }
    let properties = schema.get_mut("properties").and_then(Json::as_object_mut);
    if let Some(properties) = properties.filter(|properties| !properties.contains(argument)) {
        properties.insert(argument, key_property());
        if let Some(most) = schema.get("maxProperties").and_then(Json::as_i64) {
            schema.insert("maxProperties", most.saturating_add(1));
        }
    }
    match schema.get_mut("required").and_then(Json::as_array_mut) {
        Some(required) if required.iter().any(|name| name.as_str() == Some(argument)) => {}
        Some(required) => required.push(argument.into()),
        None => {
            schema.insert("required", vec![Json::from(argument)]);
        }
    }
}

/// A client need not mirror into a header what the gate takes out of the body: the app would miss what is mirrored.
fn unmirror(schema: &mut Object, argument: &str) {
    let properties = schema.get_mut("properties").and_then(Json::as_object_mut);
    let own = properties.and_then(|properties| properties.get_mut(argument)).and_then(Json::as_object_mut);
    own.map(|own| own.remove("x-mcp-header"));
}

fn key_property() -> Json {
    let longest = u64::try_from(MAX_KEY_BYTES).unwrap_or(u64::MAX);
    Json::object([
        ("type", Json::from("string")),
        ("minLength", 1.into()),
        ("maxLength", longest.into()),
        ("description", KEY_DESCRIPTION.into()),
    ])
}
