//! `tools/list` as one actor sees it.

use std::path::PathBuf;

use oncegate::domain::actor::Actor;
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::policy::Policy;
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
        r#"{"tools":[{"name":"get_invoice","x":1.0},{"name":"get_invoice"}],"nextCursor":"c","_meta":{"a":1}}"#
    );
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
