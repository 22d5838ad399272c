//! The table `reconcile`: what is refused when the policy is read, what is warned of, and what is asked.

use std::sync::Arc;

use oncegate::domain::audit::Facts;
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::policy::{About, Operation, Policy, Proven, Question, Told, Warning};

use super::sources;

const READ: &str = "[tools.get_refund]\neffect = \"read\"\n";

fn policy_with(table: &str, more: &str) -> String {
    format!("{READ}[tools.refund]\neffect = \"mutation\"\nscopes = [\"s\"]\n{more}reconcile = {table}\n")
}

/// The one mistake in the table, as the operator reads it.
#[track_caller]
fn check(table: &str, expected: &str) {
    check_with(table, "", &format!("p.toml:6:1: {expected}"));
}

#[track_caller]
fn check_with(table: &str, more: &str, expected: &str) {
    match Policy::from_sources(&sources(&[("p.toml", &policy_with(table, more))])) {
        Ok(_) => panic!("{table} is sound"),
        Err(mistakes) => {
            assert_eq!(mistakes.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        }
    }
}

#[track_caller]
fn warnings(table: &str) -> Vec<String> {
    let (_, warnings) =
        Policy::from_sources(&sources(&[("p.toml", &policy_with(table, ""))])).expect("no mistakes");
    warnings.iter().map(Warning::to_string).collect()
}

#[test]
fn a_question_to_nobody_or_to_two_is_a_mistake() {
    check(
        "{ completed = { a = 1 } }",
        "it says nobody to ask; name a tool that reads, tool = \"get_refund\", or a route, get = \"/refunds/{forwarded_key}\"",
    );
    check(
        "{ tool = \"get_refund\", get = \"/x\", completed = { a = 1 } }",
        "it asks a tool and a route; leave one of tool and get out",
    );
}

#[test]
fn only_a_tool_that_reads_is_asked() {
    check(
        "{ tool = \"get_refnd\", completed = { a = 1 } }",
        "\"get_refnd\" is asked what became of a call, and no file names it; name it: [tools.get_refnd] with effect = \"read\"",
    );
    check(
        "{ tool = \"refund\", completed = { a = 1 } }",
        "\"refund\" is asked what became of a call, and is no read; ask a tool with effect = \"read\"",
    );
}

#[test]
fn an_answer_that_could_prove_nothing_is_a_mistake() {
    check(
        "{ tool = \"get_refund\" }",
        "no answer would prove anything; say which members do: completed = { status = [\"succeeded\"] }",
    );
    check(
        "{ tool = \"get_refund\", completed = { status = [] } }",
        "no value of \"status\" proves anything in \"completed\"; name those that do, or \"*\" for any but null",
    );
    check(
        "{ tool = \"get_refund\", completed = { \"a..b\" = 1 } }",
        "\"a..b\" is not a path to a member of the answer; write the names that lead to it with dots between them: \"refund.status\"",
    );
    check(
        "{ tool = \"get_refund\", completed = { a = 1.5 } }",
        "a float cannot stand in \"completed\"; strings, integers and true or false can",
    );
    check(
        "{ tool = \"get_refund\", absent_errors = [\"x\"], result = \"refund\" }",
        "nothing is ever found completed here, so there is no result; say completed = { … } as well",
    );
    check(
        "{ get = \"/x/{key}\", absent = { a = 1 }, absent_status = [500] }",
        "500 cannot prove that a call did not run; an app that knows answers 404 or 410; of an answer with 200, name members: absent = { … }",
    );
}

#[test]
fn what_only_a_tool_or_only_a_route_has_is_a_mistake_at_the_other() {
    check(
        "{ tool = \"get_refund\", completed = { a = 1 }, absent_status = [404] }",
        "\"absent_status\" has a meaning for a route only; a tool's error has a code: absent_errors = [\"…\"]",
    );
    check(
        "{ get = \"/x\", completed = { a = 1 }, absent_errors = [\"x\"] }",
        "\"absent_errors\" has a meaning for a tool only; a route answers with a status: absent_status = [404]",
    );
    check(
        "{ get = \"/x\", completed = { a = 1 }, arguments = { a = 1 } }",
        "\"arguments\" has a meaning for a tool only; put them into the path of get, or its query",
    );
}

#[test]
fn a_template_that_cannot_be_filled_in_is_a_mistake() {
    check(
        "{ get = \"/x/{kee}\", completed = { a = 1 } }",
        "\"/x/{kee}\" cannot be filled in: nothing stands for {kee}; there are {key}, {forwarded_key}, {tenant} and {args.NAME}; see \"{forwarded_key}\"",
    );
    check(
        "{ tool = \"get_refund\", arguments = { a = \"{key\" }, completed = { a = 1 } }",
        "\"{key\" cannot be filled in: a brace has no partner; see \"{forwarded_key}\"",
    );
    for path in ["x/{key}", "//evil/{key}", "/a/../{key}", "/a b", "/a#b", "http://evil/{key}"] {
        check(
            &format!("{{ get = \"{path}\", completed = {{ a = 1 }} }}"),
            &format!(
                "\"{path}\" is not a path of the app; write it like \"/internal/refunds/{{forwarded_key}}\"; the host is upstream.url's"
            ),
        );
    }
}

#[test]
fn what_is_masked_cannot_be_asked_with() {
    for (redact, name) in [("card", "card"), ("customer", "customer.id"), ("order.id.raw", "order.id")] {
        let table = format!(
            "{{ tool = \"get_refund\", arguments = {{ a = \"{{args.{name}}}\" }}, completed = {{ a = 1 }} }}"
        );
        let expected = format!(
            "p.toml:7:1: {{args.{name}}} is masked by \"redact\", so the gate does not have it to ask with; ask by {{key}} or {{forwarded_key}}"
        );
        check_with(&table, &format!("redact = [\"{redact}\"]\n"), &expected);
    }
}

#[test]
fn times_out_of_bounds_and_unknown_keys_are_mistakes() {
    check(
        "{ tool = \"get_refund\", completed = { a = 1 }, every = \"10ms\" }",
        "reconcile.every = \"10ms\" makes no sense; it may be 1s to 1h",
    );
    check(
        "{ tool = \"get_refund\", completed = { a = 1 }, timeout = \"5m\" }",
        "reconcile.timeout = \"5m\" makes no sense; it may be 100ms to 1m",
    );
    check_with(
        "{ tool = \"get_refund\", complete = { a = 1 } }",
        "",
        "p.toml:6:36: unknown key \"complete\"; did you mean \"completed\"?",
    );
}

#[test]
fn what_may_not_be_meant_is_warned_of() {
    let sound = "{ tool = \"get_refund\", arguments = { k = \"{key}\" }, completed = { a = 1 }, absent_errors = [\"x\"] }";
    assert_eq!(warnings(sound), [""; 0]);
    let by_order = sound.replace("{key}", "{args.order_id}");
    let told = warnings(&by_order);
    assert!(told.len() == 1 && told[0].contains("does not name the call's key"), "{told:?}");
    let told = warnings("{ get = \"/x/{key}\", completed = { a = 1 }, absent_status = [404] }");
    assert!(told.len() == 1 && told[0].contains("a status alone proves"), "{told:?}");
    let told = warnings("{ get = \"/x/{key}\", completed = { a = 1 } }");
    assert!(told.len() == 1 && told[0].contains("no answer proves that a call did not run"), "{told:?}");
    let told = warnings("{ get = \"/x/{key}\", absent = { a = 1 } }");
    assert!(told.len() == 1 && told[0].contains("no answer proves that a call ran"), "{told:?}");
}

fn operation(table: &str) -> Arc<Operation> {
    let (policy, _) =
        Policy::from_sources(&sources(&[("p.toml", &policy_with(table, ""))])).expect("no mistakes");
    Arc::clone(policy.of_name("refund").expect("the operation"))
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), MAX_DEPTH).expect("JSON")
}

#[test]
fn a_question_has_everything_in_its_place_with_its_type() {
    let table = r#"{ tool = "get_refund", arguments = { k = "{forwarded_key}", n = "{args.order.number}", t = "{tenant}:{args.id}", fixed = 3, deep = true }, completed = { a = 1 } }"#;
    let operation = operation(table);
    let how = operation.mutation().and_then(|mutation| mutation.reconcile()).expect("it asks");
    let facts = Facts {
        tenant_id: "acme".into(),
        args: Some(r#"{"order":{"number":12.50},"id":"a/b"}"#.into()),
        ..Facts::default()
    };
    let about = About { key: "k1", forwarded_key: "acme/k1", facts: &facts };
    let Question::Tool { name, arguments } = how.question(&about).expect("a question") else {
        panic!("a tool")
    };
    assert_eq!(name, "get_refund");
    assert_eq!(
        Json::Object(arguments).canonical(),
        json(r#"{"k":"acme/k1","n":12.50,"t":"acme:a/b","fixed":3,"deep":true}"#).canonical()
    );
    let facts = Facts { args: Some(r#"{"order":{"number":0},"id":"a"}"#.into()), ..facts.clone() };
    let fault = how.question(&About { facts: &facts, ..about }).expect_err("0 may be a mask");
    assert_eq!(
        fault.to_string(),
        "the claim has no {args.order.number} that is whole: it was masked, shortened, or never there"
    );
}

#[test]
fn members_prove_by_their_exact_value() {
    let table = r#"{ get = "/x/{key}", completed = { state = ["done", 2], "by.whom" = "*" }, absent = { code = "none" }, absent_status = [404] }"#;
    let operation = operation(table);
    let how = operation.mutation().and_then(|mutation| mutation.reconcile()).expect("it asks");
    let check = |status: u16, body: &str, expected: Proven| {
        let body = Json::parse(body.as_bytes(), MAX_DEPTH).ok();
        assert_eq!(how.proven(Told::Http(status, body.as_ref())), expected, "{status} {body:?}");
    };
    check(200, r#"{"state":"done","by":{"whom":"x"}}"#, Proven::Completed);
    check(200, r#"{"state":2.0,"by":{"whom":0}}"#, Proven::Completed);
    check(200, r#"{"state":"2","by":{"whom":"x"}}"#, Proven::Nothing);
    check(200, r#"{"state":"Done","by":{"whom":"x"}}"#, Proven::Nothing);
    check(200, r#"{"state":"done","by":{"whom":null}}"#, Proven::Nothing);
    check(200, r#"{"state":"done"}"#, Proven::Nothing);
    check(200, r#"{"state":["done"],"by":{"whom":"x"}}"#, Proven::Nothing);
    check(201, r#"{"code":"none"}"#, Proven::Absent);
    check(404, r#"{"code":"none"}"#, Proven::Absent);
    check(404, r#"{"code":"other"}"#, Proven::Nothing);
    check(404, "", Proven::Nothing);
    check(410, r#"{"code":"none"}"#, Proven::Nothing);
    check(404, r#"{"state":"done","by":{"whom":"x"}}"#, Proven::Nothing);
    check(200, r#"{"state":"done","by":{"whom":"x"},"code":"none"}"#, Proven::Nothing);
    check(302, r#"{"code":"none"}"#, Proven::Nothing);
}
