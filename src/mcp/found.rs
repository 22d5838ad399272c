//! The answer of a call, found out otherwise than by its own answer: the app was asked, or a person looked.
//!
//! Promises: whoever calls again can read it, whatever form it was found in.
//!
//! Absent on purpose: a look-out for secrets. Whoever keeps it looks.

use crate::domain::answer::{self, Kept};
use crate::domain::json::{Json, Object};
use crate::domain::policy::{Kind, Operation};
use crate::domain::redact::Redactor;

/// What was found, masked as the policy says of its operation (a tool, where no policy names it), in the form in which
/// the ledger keeps it; and its value.
pub fn kept(operation: Option<&Operation>, found: Json) -> (Kept, Json) {
    let none = Redactor::default();
    let redactor = operation.map_or(&none, Operation::redactor);
    let (kind, value) = match operation.map_or(Kind::Tool, Operation::kind) {
        kind @ (Kind::Tool | Kind::Method) => {
            let mut value = Json::Object(as_answer(kind, found));
            redactor.mask_result(&mut value);
            (answer::Kind::Result, value)
        }
        // Nothing stands around these.
        Kind::Route | Kind::Job => {
            let mut value = found;
            redactor.mask(&mut value);
            (answer::Kind::Plain, value)
        }
    };
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    (Kept { kind, status: 200, headers, body: value.to_bytes().into() }, value)
}

/// What was found, in the form in which the call itself would have been answered. A tool's result that has no `content`
/// of its own becomes its `structuredContent`, and a text.
fn as_answer(kind: Kind, found: Json) -> Object {
    match (kind, found) {
        (Kind::Tool, Json::Object(mut whole)) if is_result(&whole) => {
            whole.remove("_meta");
            if let Some(texts) = whole.get("structuredContent").filter(|_| !has_list(&whole)).map(texts) {
                whole.insert("content", texts);
            }
            whole
        }
        (Kind::Tool, found) => {
            let structured = found.as_object().is_some().then(|| ("structuredContent", found.clone()));
            [("content", texts(&found))].into_iter().chain(structured).collect()
        }
        (Kind::Method, Json::Object(whole)) => whole,
        (Kind::Method | Kind::Route | Kind::Job, found) => [("value", found)].into_iter().collect(),
    }
}

/// Whether it is a tool's result, or a task's handle, rather than what such a result would speak of.
fn is_result(whole: &Object) -> bool {
    let is_structured = whole.get("structuredContent").is_some_and(|it| it.as_object().is_some());
    has_list(whole) || is_structured || is_task(whole)
}

fn has_list(whole: &Object) -> bool {
    whole.get("content").is_some_and(|it| it.as_array().is_some())
}

fn is_task(whole: &Object) -> bool {
    whole.get("resultType").and_then(Json::as_str) == Some("task")
        || whole.get("task").is_some_and(|task| task.get("taskId").is_some())
}

fn texts(of: &Json) -> Json {
    Json::Array(vec![Json::object([("type", Json::from("text")), ("text", of.to_string().into())])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::MAX_DEPTH;

    #[test]
    fn what_was_found_takes_the_form_of_a_result_unless_it_has_it() {
        let check = |kind, found: &str, answer: &str| {
            let json = |text: &str| Json::parse(text.as_bytes(), MAX_DEPTH).unwrap();
            assert_eq!(Json::Object(as_answer(kind, json(found))), json(answer), "{found}");
        };
        let wrapped = r#"{"content":[{"type":"text","text":"{\"id\":1}"}],"structuredContent":{"id":1}}"#;
        check(Kind::Tool, r#"{"id":1}"#, wrapped);
        let other_way_round =
            r#"{"structuredContent":{"id":1},"content":[{"type":"text","text":"{\"id\":1}"}]}"#;
        check(Kind::Tool, r#"{"structuredContent":{"id":1}}"#, other_way_round);
        check(Kind::Tool, r#"{"content":[],"_meta":{"a":1}}"#, r#"{"content":[]}"#);
        check(Kind::Tool, "1", r#"{"content":[{"type":"text","text":"1"}]}"#);
        let task = r#"{"resultType":"task","taskId":"t"}"#;
        check(Kind::Tool, task, task);
        let task = r#"{"task":{"taskId":"t"}}"#;
        check(Kind::Tool, task, task);
        check(Kind::Method, r#"{"id":1}"#, r#"{"id":1}"#);
        check(Kind::Method, "1", r#"{"value":1}"#);
    }
}
