//! A call that stands inside the call of a tool that runs others: put in for the way out, and its result taken out.
//!
//! Promises: what goes out holds one call and no other; what comes back is read as that call's own result, so that it
//! is judged, masked and kept like the result of a call that was made directly; what cannot be read so is said to be
//! the outer tool's own, never taken for the inner one's.
//!
//! Absent on purpose: other shapes than one list of calls and one list of results. Servers of the one framework that
//! ships such a tool answer with a JSON text in `content`; a list in `structuredContent` is read as well.

use std::sync::Arc;

use super::judge::is_tool_error;
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::policy::{Inner, Runs};

/// What a result says of itself as a whole; a result inside says it by itself, or not at all.
const OF_THE_WHOLE: [&str; 2] = ["resultType", "isError"];

/// The call around a call.
#[derive(Clone, Debug)]
pub struct Shell(Arc<Around>);

#[derive(Debug)]
struct Around {
    tool: String,
    runs: Runs,
    /// The outer call's other arguments.
    arguments: Object,
    /// What stood beside the inner call's arguments.
    beside: Object,
}

impl Shell {
    /// Around one of the calls of the outer tool's call with these arguments, as far as they go on.
    pub fn new(tool: &str, runs: &Runs, outer: Option<&Object>, inner: &Inner) -> Self {
        let mut arguments = outer.cloned().unwrap_or_default();
        arguments.remove(runs.calls());
        let beside = inner.beside.clone();
        Self(Arc::new(Around { tool: tool.to_owned(), runs: runs.clone(), arguments, beside }))
    }

    /// The message that goes out for this `tools/call`: the outer tool's, with this one call in it.
    pub fn put_in(&self, mut body: Object) -> Object {
        let Around { tool, runs, arguments, beside } = &*self.0;
        let Some(params) = body.get_mut("params").and_then(Json::as_object_mut) else { return body };
        let mut call = Object::new();
        call.insert(runs.name(), params.get("name").cloned().unwrap_or(Json::Null));
        let inner = params.remove("arguments").unwrap_or_else(|| Json::Object(Object::new()));
        call.insert(runs.arguments(), inner);
        for (name, value) in beside.iter() {
            call.insert(name, value.clone());
        }
        let mut outer = arguments.clone();
        outer.insert(runs.calls(), vec![Json::Object(call)]);
        params.insert("name", tool.as_str());
        params.insert("arguments", outer);
        body
    }

    /// The inner call's result; the outer tool's own, as it came, where there is no such thing in it.
    pub fn take_out(&self, outer: Object) -> Result<Object, Object> {
        let Some(mut inner) = self.result_in(&outer) else { return Err(outer) };
        inner.remove(self.0.runs.name());
        for name in OF_THE_WHOLE {
            if let (false, Some(said)) = (inner.contains(name), outer.get(name)) {
                inner.insert(name, said.clone());
            }
        }
        Ok(inner)
    }

    fn result_in(&self, outer: &Object) -> Option<Object> {
        let of = |answer: &Json| match answer.get(self.0.runs.results())?.as_array()? {
            [Json::Object(result)] if result.get("content").and_then(Json::as_array).is_some() => {
                Some(result.clone())
            }
            _ => None,
        };
        let texts = outer.get("content").and_then(Json::as_array).unwrap_or_default().iter();
        let mut texts =
            texts.filter_map(|part| Json::parse(part.get("text")?.as_str()?.as_bytes(), MAX_DEPTH).ok());
        outer.get("structuredContent").and_then(of).or_else(|| texts.find_map(|text| of(&text)))
    }
}

/// Whether a result is none yet: the tool asks for input, or has made a task.
pub fn is_unfinished(result: &Object) -> bool {
    let kind = result.get("resultType").and_then(Json::as_str);
    kind.is_some_and(|kind| kind != "complete") || result.contains("task")
}

/// A result that says what went wrong.
pub fn failed(text: &str) -> Object {
    let text = Json::object([("type", Json::from("text")), ("text", text.into())]);
    let mut result = Object::new();
    result.insert("content", vec![text]);
    result.insert("isError", true);
    result
}

/// What one inner call came to: its tool and its result.
pub type Came = (String, Object);

/// The outer tool's answer to a call whose calls came to this, in their order. It is an error where the last one is:
/// nothing was run after that.
pub fn answer(runs: &Runs, came: Vec<Came>, modern: bool) -> Object {
    let failed = came.last().is_none_or(|(_, result)| is_tool_error(result));
    let results = came.into_iter().map(|(tool, result)| {
        let mut entry = Object::new();
        entry.insert(runs.name(), tool);
        for (name, value) in result {
            entry.insert(name, value);
        }
        Json::Object(entry)
    });
    let told = Json::object([("ok", Json::from(!failed)), (runs.results(), Json::Array(results.collect()))]);
    let text = Json::object([("type", Json::from("text")), ("text", told.to_string().into())]);
    let mut result = Object::new();
    if modern {
        result.insert("resultType", "complete");
    }
    result.insert("content", vec![text]);
    result.insert("isError", failed);
    result
}
