//! A tool error's own code.
//!
//! Promises: found where tools put it, `code` or `error.code` or `error` in `structuredContent` or in a text that is
//! JSON; nothing is guessed from prose.

use super::judge::{first_text, is_tool_error};
use crate::domain::json::{Json, MAX_DEPTH, Object};

/// The code of an `isError` result, where it has one.
pub fn code_of(result: &Object) -> Option<String> {
    if !is_tool_error(result) {
        return None;
    }
    let structured = result.get("structuredContent").and_then(code_in);
    structured.or_else(|| code_in(&Json::parse(first_text(result)?.as_bytes(), MAX_DEPTH).ok()?))
}

fn code_in(json: &Json) -> Option<String> {
    let places = [json.get("code"), json.path(&["error", "code"]), json.get("error")];
    places.into_iter().flatten().find_map(Json::as_str).map(str::to_owned)
}
