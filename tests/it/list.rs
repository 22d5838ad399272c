//! `tools/list` as one actor sees it.

use std::path::PathBuf;

use oncegate::domain::actor::Actor;
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::policy::Policy;
use oncegate::mcp::capabilities::advertise;
use oncegate::mcp::list::rewrite;

const POLICY: &str = r#"
[defaults]
tenant_arguments = ["tenant_id", "account"]

[tools.get_invoice]
effect = "read"
scopes = ["billing:read"]

[tools.refund_order]
effect = "mutation"
scopes = ["billing:refund"]
key_argument = "request_key"

[tools.send_mail]
effect = "mutation"
scopes = ["mail:send"]

[tools.delete_order]
effect = "mutation"
scopes = ["billing:refund"]
destructive = true

[tools.add_order]
effect = "mutation"
scopes = ["billing:refund"]
destructive = false

[tools.run_sql]
effect = "deny"

[methods."resources/read"]
effect = "read"
scopes = ["billing:read"]
"#;

fn rewritten(result: &str, modern: bool) -> Json {
    let (policy, _) = Policy::from_sources(&[(PathBuf::from("p.toml"), POLICY.to_owned())]).unwrap();
    let scopes = ["billing:read", "billing:refund"].map(str::to_owned);
    let actor = Actor::new("acme", "u1", None, scopes).unwrap();
    let mut result = Json::parse(result.as_bytes(), MAX_DEPTH).unwrap();
    rewrite(result.as_object_mut().unwrap(), &policy, &actor, modern);
    result
}

/// What becomes of one tool's input schema; the key's property stands as `KEY`.
#[track_caller]
fn check_schema(tool: &str, schema: &str, seen: &str) {
    let result = rewritten(&format!(r#"{{"tools":[{{"name":"{tool}","inputSchema":{schema}}}]}}"#), false);
    let tool = &result.get("tools").and_then(Json::as_array).unwrap()[0];
    let key = key_property().to_string();
    assert_eq!(tool.get("inputSchema").unwrap().to_string(), seen.replace("KEY", &key));
}

fn key_property() -> Json {
    let bare = rewritten(r#"{"tools":[{"name":"refund_order"}]}"#, false);
    let tool = bare.get("tools").and_then(Json::as_array).unwrap()[0].clone();
    tool.path(&["inputSchema", "properties", "request_key"]).unwrap().clone()
}

#[test]
fn an_actor_sees_the_tools_that_it_may_call_and_no_others() {
    let result = rewritten(
        r#"{"tools":[{"name":"run_sql"},{"name":"get_invoice","x":1.0},{"name":"send_mail"},{"name":"unknown"},{"name":"resources/read"},{"name":7},{},"get_invoice",{"name":"get_invoice"}],"nextCursor":"c","_meta":{"a":1}}"#,
        false,
    );
    assert_eq!(
        result.to_string(),
        r#"{"tools":[{"name":"get_invoice","x":1.0,"annotations":READ},{"name":"get_invoice","annotations":READ}],"nextCursor":"c","_meta":{"a":1}}"#
            .replace("READ", r#"{"readOnlyHint":true,"destructiveHint":false}"#)
    );
}

/// What becomes of one tool's annotations.
#[track_caller]
fn check_annotations(tool: &str, annotations: &str, seen: &str) {
    let result =
        rewritten(&format!(r#"{{"tools":[{{"name":"{tool}","annotations":{annotations}}}]}}"#), true);
    let tool = &result.get("tools").and_then(Json::as_array).unwrap()[0];
    assert_eq!(tool.get("annotations").unwrap().to_string(), seen);
}

#[test]
fn annotations_say_what_the_policy_says() {
    check_annotations(
        "get_invoice",
        r#"{"title":"Invoice","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,"x":1}"#,
        r#"{"title":"Invoice","readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true,"x":1}"#,
    );
    check_annotations(
        "refund_order",
        r#"{"readOnlyHint":true,"idempotentHint":false,"destructiveHint":false,"title":"Refund"}"#,
        r#"{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":false,"title":"Refund"}"#,
    );
    let unsaid = r#"{"readOnlyHint":false,"idempotentHint":true}"#;
    for annotations in ["{}", "[]", "null", "7"] {
        check_annotations("refund_order", annotations, unsaid);
    }
    let destroys = r#"{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":true}"#;
    check_annotations("delete_order", "{}", destroys);
    check_annotations(
        "delete_order",
        r#"{"destructiveHint":false,"readOnlyHint":false}"#,
        r#"{"destructiveHint":true,"readOnlyHint":false,"idempotentHint":true}"#,
    );
    let adds = r#"{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":false}"#;
    check_annotations("add_order", "{}", adds);
}

#[test]
fn pages_and_output_schemas_are_the_upstreams() {
    let output = r#"{"type":"object","properties":{"tenant_id":{"x-mcp-header":"T"},"request_key":{}},"required":["tenant_id"]}"#;
    let page = format!(
        r#"{{"tools":[{{"name":"refund_order","inputSchema":{{}},"outputSchema":{output}}}],"nextCursor":"c=="}}"#
    );
    let result = rewritten(&page, false);
    let tool = &result.get("tools").and_then(Json::as_array).unwrap()[0];
    assert_eq!(tool.get("outputSchema").unwrap().to_string(), output);
    assert_eq!(result.get("nextCursor"), Some(&Json::from("c==")));
    let emptied = r#"{"tools":[{"name":"run_sql"}],"nextCursor":"next"}"#;
    assert_eq!(rewritten(emptied, false).to_string(), r#"{"tools":[],"nextCursor":"next"}"#);
}

#[test]
fn only_what_the_policy_does_not_name_counts_as_unnamed() {
    let (policy, _) = Policy::from_sources(&[(PathBuf::from("p.toml"), POLICY.to_owned())]).unwrap();
    let actor = Actor::new("acme", "u1", None, []).unwrap();
    let list = r#"{"tools":[{"name":"run_sql"},{"name":"get_invoice"},{"name":"b"},{"name":"resources/read"},{"name":7},{},{"name":"a"},{"name":"b"}]}"#;
    let mut result = Json::parse(list.as_bytes(), MAX_DEPTH).unwrap();
    let learned = rewrite(result.as_object_mut().unwrap(), &policy, &actor, false);
    assert_eq!(learned.unnamed, ["b", "resources/read", "a", "b"]);
}

#[track_caller]
fn check_capabilities(capabilities: &str, seen: &str) {
    let mut result =
        Json::parse(format!(r#"{{"capabilities":{capabilities},"x":1}}"#).as_bytes(), MAX_DEPTH).unwrap();
    advertise(result.as_object_mut().unwrap());
    let ours = r#"{"metaKey":"oncegate/idempotency-key"}"#;
    assert_eq!(result.to_string(), format!(r#"{{"capabilities":{},"x":1}}"#, seen.replace("OURS", ours)));
}

#[test]
fn where_a_server_has_tools_the_key_is_advertised_in_both_places() {
    check_capabilities(
        r#"{"tools":{"listChanged":true},"logging":{}}"#,
        r#"{"tools":{"listChanged":true,"idempotency":OURS},"logging":{},"experimental":{"oncegate/idempotency":OURS}}"#,
    );
    check_capabilities(
        r#"{"experimental":{"a/b":{}},"tools":{"idempotency":{}}}"#,
        r#"{"experimental":{"a/b":{},"oncegate/idempotency":OURS},"tools":{"idempotency":OURS}}"#,
    );
    check_capabilities(
        r#"{"tools":[],"experimental":[]}"#,
        r#"{"tools":{"idempotency":OURS},"experimental":{"oncegate/idempotency":OURS}}"#,
    );
    for without in [r#"{"prompts":{}}"#, "{}", r#"{"tools":null}"#, r#"{"tools":true}"#, "7"] {
        check_capabilities(without, without);
    }
}

#[test]
fn a_list_is_its_actors_own() {
    for (result, modern, seen) in [
        (
            r#"{"tools":[],"ttlMs":60000,"cacheScope":"public"}"#,
            true,
            r#"{"tools":[],"ttlMs":60000,"cacheScope":"private"}"#,
        ),
        (r#"{"tools":[],"ttlMs":60000}"#, true, r#"{"tools":[],"ttlMs":60000,"cacheScope":"private"}"#),
        (r#"{"tools":[],"cacheScope":"public"}"#, false, r#"{"tools":[],"cacheScope":"private"}"#),
        (r#"{"tools":[]}"#, false, r#"{"tools":[]}"#),
        (r#"{"tools":{"name":"run_sql"}}"#, false, r#"{"tools":[]}"#),
        ("{}", false, "{}"),
    ] {
        assert_eq!(rewritten(result, modern).to_string(), seen);
    }
}

#[test]
fn a_mutation_asks_for_its_key() {
    check_schema(
        "refund_order",
        r#"{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"],"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"order_id":{"type":"string"},"request_key":KEY},"required":["order_id","request_key"],"additionalProperties":false}"#,
    );
    check_schema(
        "refund_order",
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{"request_key":KEY},"required":["request_key"]}"#,
    );
    check_schema(
        "refund_order",
        r#"{"type":"object","properties":[],"required":null,"maxProperties":0}"#,
        r#"{"type":"object","properties":{"request_key":KEY},"required":["request_key"],"maxProperties":1}"#,
    );
    let key = key_property();
    assert_eq!(key.path(&["type"]), Some(&Json::from("string")));
    assert_eq!(key.path(&["minLength"]), Some(&Json::from(1)));
    assert_eq!(key.path(&["maxLength"]), Some(&Json::from(128)));
    let description = key.path(&["description"]).and_then(Json::as_str).unwrap();
    for word in ["exactly the same value", "retry", "another action"] {
        assert!(description.contains(word), "{description}");
    }
}

#[test]
fn a_key_property_of_the_apps_own_stays_and_becomes_required() {
    check_schema(
        "refund_order",
        r#"{"properties":{"request_key":{"type":"string","format":"uuid"},"a":{}},"maxProperties":2}"#,
        r#"{"properties":{"request_key":{"type":"string","format":"uuid"},"a":{}},"maxProperties":2,"required":["request_key"]}"#,
    );
    check_schema(
        "refund_order",
        r#"{"properties":{"request_key":true},"required":["request_key"]}"#,
        r#"{"properties":{"request_key":true},"required":["request_key"]}"#,
    );
    check_schema(
        "refund_order",
        r#"{"properties":{"request_key":{"x-mcp-header":"Request-Key"},"a":{"x-mcp-header":"A"}}}"#,
        r#"{"properties":{"request_key":{},"a":{"x-mcp-header":"A"}},"required":["request_key"]}"#,
    );
}

#[test]
fn tenant_arguments_are_not_offered() {
    check_schema(
        "get_invoice",
        r#"{"properties":{"tenant_id":{},"id":{"properties":{"tenant_id":{}}},"account":{}},"required":["tenant_id","id"]}"#,
        r#"{"properties":{"id":{"properties":{"tenant_id":{}}}},"required":["id"]}"#,
    );
    check_schema(
        "get_invoice",
        r#"{"properties":{"account":{}},"required":["account"]}"#,
        r#"{"properties":{}}"#,
    );
    check_schema(
        "refund_order",
        r#"{"properties":{"account":{}},"required":["account"]}"#,
        r#"{"properties":{"request_key":KEY},"required":["request_key"]}"#,
    );
}

#[test]
fn schemas_that_are_no_objects_are_left_alone() {
    for schema in ["true", "false", "null", "[]", "\"x\"", r#"{"properties":[1]}"#, r#"{"properties":true}"#]
    {
        check_schema("refund_order", schema, schema);
        check_schema("get_invoice", schema, schema);
    }
}
