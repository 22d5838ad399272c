//! Messages, mirrored headers, keys, and what answers prove: the pure parts of the wire, rule by rule.

use http::{HeaderMap, HeaderName, HeaderValue};
use oncegate::domain::call::{drop_tenant, take_key};
use oncegate::domain::json::{Json, MAX_DEPTH, Object};
use oncegate::domain::key::Key;
use oncegate::domain::refusal::Refusal;
use oncegate::mcp::errors::code_of;
use oncegate::mcp::headers::{agree, take_mirrors};
use oncegate::mcp::judge::{Verdict, judge, reply_to};
use oncegate::mcp::message::{Era, Message, Request};
use oncegate::mcp::mirrors::Mirror;
use oncegate::mcp::takes::takes;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), MAX_DEPTH).unwrap()
}

fn object(text: &str) -> Object {
    json(text).as_object().cloned().unwrap()
}

fn request(text: &str) -> Request {
    match Message::parse(text.as_bytes()) {
        Ok(Message::Request(request) | Message::Notification(request)) => request,
        other => panic!("{text} is no request: {other:?}"),
    }
}

#[track_caller]
fn check_message(text: &str, expected: &str) {
    let kind = match Message::parse(text.as_bytes()) {
        Ok(Message::Request(_)) => "request",
        Ok(Message::Notification(_)) => "notification",
        Ok(Message::Response(_)) => "response",
        Err(refusal) => oncegate::wire::row(&refusal).code,
    };
    assert_eq!(kind, expected, "{text}");
}

#[test]
fn a_body_is_one_json_rpc_message_or_refused() {
    check_message(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request");
    check_message(r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#, "request");
    check_message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notification");
    check_message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response");
    check_message(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, "response");
    for broken in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",}", "\u{feff}{}"] {
        check_message(broken, "not_json");
    }
    for other in [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        "1",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1e2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
    ] {
        check_message(other, "invalid_request");
    }
}

const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
const LEGACY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund"}}"#;

#[track_caller]
fn check_headers(body: &str, headers: &[(&str, &str)], expected: Result<Era, &str>) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    let met = agree(&request(body), &map).map_err(|refusal| {
        let code = oncegate::wire::row(&refusal).code.to_owned();
        if let Refusal::HeaderMismatch { header, .. } = refusal { header } else { code }
    });
    assert_eq!(met, expected.map_err(str::to_owned), "{headers:?}");
}

#[test]
fn a_modern_requests_headers_say_what_its_body_says() {
    let version = ("mcp-protocol-version", "2026-07-28");
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "refund");
    check_headers(MODERN, &[version, method, name], Ok(Era::Modern));
    check_headers(MODERN, &[version, method, ("mcp-name", "=?base64?cmVmdW5k?=")], Ok(Era::Modern));
    check_headers(MODERN, &[method, name], Err("mcp-protocol-version"));
    check_headers(MODERN, &[version, name], Err("mcp-method"));
    check_headers(MODERN, &[version, method], Err("mcp-name"));
    check_headers(MODERN, &[version, method, name, name], Err("mcp-name"));
    check_headers(MODERN, &[version, method, ("mcp-name", "get_invoice")], Err("mcp-name"));
    check_headers(MODERN, &[version, method, ("mcp-name", "=?base64?!?=")], Err("mcp-name"));
    check_headers(MODERN, &[version, ("mcp-method", "Tools/Call"), name], Err("mcp-method"));
    check_headers(
        MODERN,
        &[("mcp-protocol-version", "2025-11-25"), method, name],
        Err("mcp-protocol-version"),
    );
    check_headers(LEGACY, &[version, method, name], Err("version_missing"));
}

#[test]
fn the_name_of_a_task_is_mirrored_where_the_modern_era_knows_the_method() {
    let version = ("mcp-protocol-version", "2026-07-28");
    for (method, bare) in [
        ("tasks/get", Err("mcp-name")),
        ("tasks/update", Err("mcp-name")),
        ("tasks/cancel", Err("mcp-name")),
        ("tasks/result", Ok(Era::Modern)),
    ] {
        let body = MODERN.replace("tools/call", method).replace(r#""name":"refund""#, r#""taskId":"t1""#);
        let method = ("mcp-method", method);
        check_headers(&body, &[version, method, ("mcp-name", "t1")], Ok(Era::Modern));
        check_headers(&body, &[version, method, ("mcp-name", "t2")], Err("mcp-name"));
        check_headers(&body, &[version, method], bare);
    }
}

#[test]
fn in_the_legacy_era_the_body_alone_counts() {
    check_headers(LEGACY, &[], Ok(Era::Legacy));
    check_headers(
        LEGACY,
        &[("mcp-protocol-version", "2025-06-18"), ("mcp-name", "get_invoice")],
        Ok(Era::Legacy),
    );
}

/// What becomes of these headers where `tenant_id` and the key are taken out of the arguments.
#[track_caller]
fn check_mirrors(era: Era, headers: &[(&str, &str)], remain: Result<&[&str], &str>) {
    let arguments = object(r#"{"tenant_id":"acme","idempotency_key":"k","tenant":7}"#);
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    let taken = ["tenant_id", "idempotency_key", "account"];
    let known = [("Where", "tenant_id"), ("Order", "order_id"), ("Account", "tenant_id")];
    let known = known.map(|(name, argument)| Mirror::new(name, argument).expect("a header's name"));
    let met = take_mirrors(&mut map, era, &taken, &known, Some(&arguments));
    let met = met.map_err(|refusal| {
        let Refusal::HeaderMismatch { header, .. } = refusal else { panic!("{refusal:?} is no mismatch") };
        header
    });
    let names: Vec<_> = map.keys().map(HeaderName::as_str).collect();
    assert_eq!(met.as_ref().map(|()| names.as_slice()).map_err(String::as_str), remain, "{headers:?}");
}

#[test]
fn a_header_that_mirrors_what_is_taken_out_agrees_and_goes_too() {
    let other = ("mcp-param-order", "o");
    for header in [
        ("mcp-param-tenant_id", "acme"),
        ("Mcp-Param-TenantId", "acme"),
        ("Mcp-Param-Tenant-Id", "=?base64?YWNtZQ==?="),
        ("Mcp-Param-Idempotency-Key", "k"),
        ("Mcp-Param-Where", "acme"),
        ("mcp-param-WHERE", "=?base64?IGFjbWUg?="),
    ] {
        check_mirrors(Era::Modern, &[header, other], Ok(&["mcp-param-order"]));
        check_mirrors(Era::Legacy, &[(header.0, "globex"), other], Ok(&["mcp-param-order"]));
        let name = header.0.to_ascii_lowercase();
        check_mirrors(Era::Modern, &[(header.0, "globex")], Err(&name));
        check_mirrors(Era::Modern, &[header, header], Err(&name));
    }
    check_mirrors(Era::Modern, &[("Mcp-Param-Account", "acme"), other], Ok(&["mcp-param-order"]));
    check_mirrors(Era::Modern, &[("Mcp-Param-Tenant", "8")], Ok(&["mcp-param-tenant"]));
}

#[track_caller]
fn check_key(params: &str, headers: &[&str], expected: Result<Option<&str>, &str>) -> Object {
    let mut params = object(params);
    let met = take_key(&mut params, headers, Some("idempotency_key"));
    let met = met.map_err(|refusal| oncegate::wire::row(&refusal).code);
    let met = met.as_ref().map(|key| key.as_ref().map(Key::as_str)).map_err(|code| *code);
    assert_eq!(met, expected);
    params
}

#[test]
fn a_key_is_found_in_every_place_and_taken_out_of_it() {
    let places = [
        r#"{"arguments":{"idempotency_key":"k","a":1}}"#,
        r#"{"arguments":{"a":1},"_meta":{"oncegate/idempotency-key":" k "}}"#,
        r#"{"arguments":{"a":1},"_meta":{"idempotencyKey":"k"}}"#,
        r#"{"arguments":{"a":1},"idempotencyKey":"k"}"#,
    ];
    for place in places {
        let rest = check_key(place, &["\"k\""], Ok(Some("k")));
        let rest = String::from_utf8(Json::Object(rest).to_bytes()).unwrap();
        assert!(!rest.contains('k'), "{rest} still holds the key");
        assert!(rest.contains(r#""a":1"#));
    }
    check_key("{}", &["k"], Ok(Some("k")));
}

#[test]
fn empty_and_null_keys_count_as_missing() {
    check_key("{}", &[], Ok(None));
    check_key(r#"{"arguments":{"idempotency_key":"  "}}"#, &[], Ok(None));
    check_key(r#"{"arguments":{"idempotency_key":null}}"#, &[""], Ok(None));
}

#[test]
fn keys_that_are_no_keys_are_invalid() {
    for value in ["1", "true", "{}", r#""a\u0000b""#, r#""é""#, &format!("\"{}\"", "x".repeat(129))] {
        check_key(
            &format!(r#"{{"arguments":{{"idempotency_key":{value}}}}}"#),
            &[],
            Err("idempotency_key_invalid"),
        );
    }
    let longest = "x".repeat(128);
    check_key(&format!(r#"{{"arguments":{{"idempotency_key":"{longest}"}}}}"#), &[], Ok(Some(&longest)));
}

#[test]
fn a_key_is_taken_out_of_every_place_even_where_one_holds_none() {
    let rest = check_key(
        r#"{"arguments":{"idempotency_key":7},"_meta":{"idempotencyKey":"k"},"idempotencyKey":"k"}"#,
        &[],
        Err("idempotency_key_invalid"),
    );
    assert_eq!(Json::Object(rest), json(r#"{"arguments":{},"_meta":{}}"#));
}

#[test]
fn two_places_that_disagree_are_ambiguous() {
    check_key(r#"{"arguments":{"idempotency_key":"a"}}"#, &["b"], Err("idempotency_key_ambiguous"));
    check_key(
        r#"{"_meta":{"oncegate/idempotency-key":"a","idempotencyKey":"b"}}"#,
        &[],
        Err("idempotency_key_ambiguous"),
    );
    check_key("{}", &["a", "a"], Err("idempotency_key_ambiguous"));
}

#[test]
fn tenant_arguments_are_dropped() {
    let mut arguments = object(r#"{"tenant_id":"other","order":"o1"}"#);
    drop_tenant(&mut arguments, &["tenant_id".to_owned(), "absent".to_owned()]);
    assert_eq!(Json::Object(arguments), json(r#"{"order":"o1"}"#));
}

/// Holds what a body of this status proves of the call with id 7.
#[track_caller]
fn check_verdict(status: u16, body: &str, expected: &str) {
    let reply =
        Json::parse(body.as_bytes(), MAX_DEPTH).ok().and_then(|json| reply_to(json, &json_id(), true));
    let verdict = match judge(status, reply, false, false) {
        Verdict::Answered { doubtful_in_rerun: false, .. } => "answered",
        Verdict::Answered { doubtful_in_rerun: true, .. } => "answered, doubtful in a re-run",
        Verdict::AwaitingInput(_) => "awaiting input",
        Verdict::NotRun { .. } => "not run",
        Verdict::Unknown => "unknown",
    };
    assert_eq!(verdict, expected, "{status} {body}");
}

fn json_id() -> Json {
    json("7")
}

fn error(code: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"no"}}}}"#)
}

#[test]
fn what_an_answer_proves() {
    let result = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;
    let tool_error = r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true,"content":[]}}"#;
    check_verdict(200, result, "answered");
    check_verdict(200, tool_error, "answered, doubtful in a re-run");
    check_verdict(
        200,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}"#,
        "awaiting input",
    );
    for status in [200, 400, 404, 500] {
        for code in [-32700, -32600, -32601, -32020, -32021, -32022] {
            check_verdict(status, &error(code), "not run");
        }
        for code in [-32602, -32603] {
            check_verdict(status, &error(code), "answered");
        }
    }
    for status in [200, 400, 500] {
        check_verdict(status, &error(-32000), "answered");
        check_verdict(status, &error(40_901), "answered");
    }
    for status in [401, 403, 404, 405, 406, 413, 415] {
        check_verdict(status, "", "not run");
        check_verdict(status, "<html>", "not run");
        check_verdict(status, &error(-32000), "not run");
        check_verdict(status, &error(-32602), "answered");
    }
    check_verdict(429, "", "not run");
    check_verdict(429, r#"{"message":"Too Many Attempts."}"#, "not run");
    check_verdict(429, &error(-32000), "answered, doubtful in a re-run");
    check_verdict(409, &error(1), "answered, doubtful in a re-run");
    for status in [200, 202, 204, 302, 307, 400, 402, 408, 409, 410, 422, 500, 502, 503, 504] {
        check_verdict(status, "", "unknown");
        check_verdict(status, "<html>down</html>", "unknown");
    }
}

#[test]
fn an_error_after_progress_does_not_prove_that_nothing_ran() {
    let reply = |code| reply_to(json(&error(code)), &json_id(), true);
    for code in [-32601, -32600] {
        assert!(matches!(judge(200, reply(code), true, false), Verdict::Answered { .. }));
        assert!(matches!(judge(200, reply(code), false, false), Verdict::NotRun { .. }));
    }
}

#[test]
fn another_calls_answer_proves_nothing() {
    for body in [
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":[]}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        r#"{"id":7,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":""}}"#,
    ] {
        check_verdict(200, body, "unknown");
    }
    check_verdict(400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}"#, "not run");
}

#[test]
fn a_tool_errors_code_is_found_where_tools_put_it() {
    let code = |text: &str| code_of(&object(text));
    assert_eq!(code(r#"{"isError":true,"structuredContent":{"code":"a"}}"#).as_deref(), Some("a"));
    assert_eq!(code(r#"{"isError":true,"structuredContent":{"error":{"code":"a"}}}"#).as_deref(), Some("a"));
    assert_eq!(
        code(r#"{"isError":true,"content":[{"type":"text","text":"{\"error\":\"a\"}"}]}"#).as_deref(),
        Some("a")
    );
    assert_eq!(code(r#"{"isError":true,"content":[{"type":"text","text":"not found"}]}"#), None);
    assert_eq!(code(r#"{"structuredContent":{"code":"a"}}"#), None);
}

#[test]
fn a_client_is_not_given_what_it_cannot_take() {
    let task = json(r#"{"resultType":"task","taskId":"t"}"#);
    let asks = json(r#"{"resultType":"input_required"}"#);
    let legacy_task = json(r#"{"task":{"taskId":"t"}}"#);
    let plain = request(MODERN);
    let knows_tasks = request(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#,
    );
    let wants_task =
        request(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":1}}}"#);
    assert!(!takes(&plain, Era::Modern, &task));
    assert!(takes(&knows_tasks, Era::Modern, &task));
    assert!(takes(&plain, Era::Modern, &asks));
    assert!(!takes(&request(LEGACY), Era::Legacy, &asks));
    assert!(!takes(&request(LEGACY), Era::Legacy, &task));
    assert!(!takes(&request(LEGACY), Era::Legacy, &legacy_task));
    assert!(takes(&wants_task, Era::Legacy, &legacy_task));
    assert!(takes(&plain, Era::Modern, &json(r#"{"content":[]}"#)));
}
