//! How a call is put into another one's, and its result taken out.

use oncegate::domain::json::{Json, MAX_DEPTH, Object};
use oncegate::domain::policy::Runs;
use oncegate::mcp::shell::{Shell, answer, is_unfinished};

fn object(text: &str) -> Object {
    Json::parse(text.as_bytes(), MAX_DEPTH).expect("JSON").as_object().cloned().expect("an object")
}

fn shell(outer: &str) -> Shell {
    let outer = object(outer);
    let runs = Runs::default();
    let inner = runs.inner(Some(&outer)).expect("calls").remove(0);
    Shell::new("outer", &runs, Some(&outer), &inner)
}

#[test]
fn one_call_goes_out_in_the_place_of_all() {
    let outer = r#"{"a":1,"calls":[{"x":2,"name":"one","arguments":{"b":3}},{"name":"two"}]}"#;
    let inner =
        r#"{"id":7,"method":"tools/call","params":{"name":"one","arguments":{"b":3},"_meta":{"m":1}}}"#;
    let sent = shell(outer).put_in(object(inner));
    assert_eq!(
        Json::Object(sent).to_string(),
        r#"{"id":7,"method":"tools/call","params":{"name":"outer","_meta":{"m":1},"arguments":{"a":1,"calls":[{"name":"one","arguments":{"b":3},"x":2}]}}}"#
    );
}

/// The inner result that is found in an outer one, or that none is.
#[track_caller]
fn check_result(outer: &str, inner: Result<&str, ()>) {
    let found = shell(r#"{"calls":[{"name":"one"}]}"#).take_out(object(outer));
    let found = found.map(|inner| Json::Object(inner).to_string());
    match inner {
        Ok(inner) => assert_eq!(found, Ok(inner.to_owned()), "{outer}"),
        Err(()) => assert_eq!(found, Err(object(outer))),
    }
}

fn in_text(told: &str) -> String {
    format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":{}}}]}}"#, Json::from(told))
}

#[test]
fn a_result_is_taken_out_where_there_is_one_and_no_other() {
    let entry = r#"{"name":"one","content":[],"isError":true,"structuredContent":{"name":1}}"#;
    let own = r#"{"content":[],"isError":true,"structuredContent":{"name":1},"resultType":"complete"}"#;
    check_result(&in_text(&format!(r#"{{"ok":false,"results":[{entry}]}}"#)), Ok(own));
    let structured =
        format!(r#"{{"content":[],"structuredContent":{{"results":[{entry}]}},"resultType":"complete"}}"#);
    check_result(&structured, Ok(own));
    let outer = r#"{"content":[{"type":"text","text":"{\"results\":[{\"content\":[]}]}"}],"isError":true}"#;
    check_result(outer, Ok(r#"{"content":[],"isError":true}"#));
    for told in [
        "words",
        "{}",
        r#"{"results":{}}"#,
        r#"{"results":[]}"#,
        r#"{"results":[1]}"#,
        r#"{"results":[{"name":"one"}]}"#,
        r#"{"results":[{"content":"text"}]}"#,
        r#"{"results":[{"content":[]},{"content":[]}]}"#,
        r#"{"results":[{"content":[],"content":[]}]}"#,
        r#"[{"content":[]}]"#,
    ] {
        check_result(&in_text(told), Err(()));
    }
    for outer in
        ["{}", r#"{"content":{}}"#, r#"{"content":[{"type":"image"}]}"#, r#"{"structuredContent":[]}"#]
    {
        check_result(outer, Err(()));
    }
}

#[test]
fn an_answer_lists_what_each_call_came_to() {
    let came = |results: &[&str]| -> Vec<_> {
        results.iter().map(|result| ("one".to_owned(), object(result))).collect()
    };
    let good = r#"{"content":[{"type":"text","text":"a"}],"isError":false}"#;
    let bad = r#"{"content":[],"isError":true}"#;
    for (results, modern, whole) in [
        (
            vec![good],
            false,
            r#"{"content":[{"type":"text","text":"{\"ok\":true,\"results\":[{\"name\":\"one\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"isError\":false}]}"}],"isError":false}"#,
        ),
        (
            vec![bad],
            true,
            r#"{"resultType":"complete","content":[{"type":"text","text":"{\"ok\":false,\"results\":[{\"name\":\"one\",\"content\":[],\"isError\":true}]}"}],"isError":true}"#,
        ),
    ] {
        assert_eq!(Json::Object(answer(&Runs::default(), came(&results), modern)).to_string(), whole);
    }
}

#[test]
fn questions_and_tasks_are_no_ends() {
    for (result, unfinished) in [
        (r#"{"content":[]}"#, false),
        (r#"{"resultType":"complete"}"#, false),
        (r#"{"resultType":"input_required"}"#, true),
        (r#"{"resultType":"task","taskId":"t"}"#, true),
        (r#"{"task":{"taskId":"t"}}"#, true),
    ] {
        assert_eq!(is_unfinished(&object(result)), unfinished, "{result}");
    }
}
