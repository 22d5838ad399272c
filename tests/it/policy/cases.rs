//! Cases: what they prove, and what is no case.

use oncegate::domain::policy::Case;

use super::{policy, sources};

const POLICY: &str = r#"
[tools.get]
effect = "read"
[tools.pay]
effect = "mutation"
scopes = ["pay"]
[tools.sql]
effect = "deny"
[tools.run]
runs = "tools"
[tools.secret]
effect = "read"
scopes = ["other"]
[methods."resources/read"]
effect = "read"
scopes = ["docs"]
[routes.refund]
method = "POST"
path = "/{tenant_id}/orders/{order}/refunds"
effect = "mutation"
scopes = ["pay"]
[routes.note]
method = "POST"
path = "/notes"
effect = "mutation"
scopes = ["pay"]
key = "optional"
tenant_arguments = ["tenant", "account"]
[routes.open]
method = "GET"
path = "/docs/*"
effect = "read"
[routes.secret_docs]
method = "GET"
path = "/docs/secret"
effect = "read"
scopes = ["docs"]
[jobs.settle]
effect = "mutation"
scopes = ["pay"]
[jobs.purge]
effect = "deny"
"#;

/// What the policy comes to for a call of an actor with the scope `pay`.
#[track_caller]
fn check(call: &str, expected: &str) {
    let text = format!(
        "[[case]]\nname = \"a call\"\nactor = {{ tenant = \"t\", user = \"u\", scopes = [\"pay\"] }}\n\
         call = {call}\nexpect = \"allowed\"\n"
    );
    let cases = Case::from_sources(&sources(&[("c.toml", &text)])).expect("a case");
    let found: Vec<String> = cases.iter().map(|case| case.run(&policy(POLICY)).to_string()).collect();
    assert_eq!(found, [expected], "{call}");
}

/// The one mistake in a file of one case whose lines after its name are these.
#[track_caller]
fn check_mistake(lines: &str, expected: &str) {
    let text = format!("[[case]]\nname = \"a\"\n{lines}\n");
    let told = Case::from_sources(&sources(&[("c.toml", &text)])).expect_err("no case").to_string();
    assert_eq!(told, expected);
}

const ACTOR: &str = "actor = { tenant = \"t\", user = \"u\", scopes = [] }";
const CALL: &str = "call = { tool = \"get\" }";

#[test]
fn a_case_is_decided_as_a_call_is() {
    check("{ tool = \"get\" }", "allowed");
    check("{ tool = \"sql\" }", "denied (denied_by_policy)");
    check("{ tool = \"other\" }", "denied (not_in_policy)");
    check("{ method = \"resources/read\" }", "denied (missing_scope)");
    check("{ method = \"pay\" }", "denied (not_in_policy)");
}

#[test]
fn a_call_that_runs_others_is_decided_by_all_of_them() {
    let run = |calls: &str| format!("{{ tool = \"run\", arguments = {{ calls = {calls} }} }}");
    let get = "{ name = \"get\", arguments = { id = 7 } }";
    let pay = "{ name = \"pay\", arguments = { idempotency_key = \"k\" } }";
    let keyed = "{ name = \"get\", arguments = { idempotency_key = \"k\" } }";
    check(&run(&format!("[{get}]")), "allowed");
    check(&run(&format!("[{pay}]")), "allowed");
    check(&run(&format!("[{pay}, {keyed}]")), "allowed");
    check(&run(&format!("[{pay}, {get}]")), "denied (missing_idempotency_key)");
    check(&run(&format!("[{get}, {{ name = \"pay\" }}]")), "denied (missing_idempotency_key)");
    let odd = "{ name = \"pay\", arguments = { idempotency_key = 7 } }";
    check(&run(&format!("[{odd}]")), "denied (idempotency_key_invalid)");
    check(&run(&format!("[{get}, {{ name = \"sql\" }}]")), "denied (denied_by_policy)");
    check(&run(&format!("[{get}, {{ name = \"run\" }}]")), "denied (denied_by_policy)");
    check(&run(&format!("[{get}, {{ name = \"other\" }}]")), "denied (not_in_policy)");
    check(&run(&format!("[{get}, {{ name = \"secret\" }}]")), "denied (missing_scope)");
    check(&run("[]"), "denied (inner_calls_unreadable)");
    check(&run("\"get\""), "denied (inner_calls_unreadable)");
    check("{ tool = \"run\" }", "denied (inner_calls_unreadable)");
}

#[test]
fn a_mutation_needs_one_good_key() {
    check("{ tool = \"pay\", key = \"k\" }", "allowed");
    check("{ tool = \"pay\", arguments = { idempotency_key = \"k\" } }", "allowed");
    check("{ tool = \"pay\", arguments = { idempotency_key = \"k\" }, key = \" k \" }", "allowed");
    check("{ tool = \"pay\" }", "denied (missing_idempotency_key)");
    check("{ tool = \"pay\", key = \" \" }", "denied (missing_idempotency_key)");
    check("{ tool = \"pay\", key = \"schlüssel\" }", "denied (idempotency_key_invalid)");
    check("{ tool = \"pay\", arguments = { idempotency_key = 5 } }", "denied (idempotency_key_invalid)");
    check(
        "{ tool = \"pay\", arguments = { idempotency_key = \"k\" }, key = \"l\" }",
        "denied (idempotency_key_ambiguous)",
    );
}

#[test]
fn a_request_is_decided_by_its_method_path_tenant_and_key() {
    let keyed = |request: &str| format!("{{ request = \"{request}\", key = \"k\" }}");
    check(&keyed("POST /t/orders/o1/refunds"), "allowed");
    check(&keyed("POST /u/orders/o1/refunds"), "denied (foreign_tenant)");
    check("{ request = \"POST /t/orders/o1/refunds\" }", "denied (missing_idempotency_key)");
    check(
        "{ request = \"POST /t/orders/o1/refunds\", arguments = { idempotency_key = \"k\" } }",
        "denied (missing_idempotency_key)",
    );
    check("{ request = \"POST /t/orders/o1/refunds\", key = \"ü\" }", "denied (idempotency_key_invalid)");
    check(&keyed("PUT /t/orders/o1/refunds"), "denied (method_not_allowed)");
    check(&keyed("POST /t/orders/../refunds"), "denied (path_not_normal)");
    check("{ request = \"GET /docs/a/b\" }", "allowed");
    check("{ request = \"HEAD /docs/a/b\" }", "allowed");
    check("{ request = \"GET /docs/secret\" }", "denied (missing_scope)");
    check("{ request = \"GET /docs/Secret\" }", "denied (not_in_policy)");
    check("{ request = \"GET /elsewhere\" }", "denied (not_in_policy)");
    check("{ request = \"POST /notes\" }", "allowed");
    check("{ request = \"POST /notes\", arguments = { Account = \"t\" } }", "allowed");
    check("{ request = \"POST /notes\", arguments = { Account = 7 } }", "denied (foreign_tenant)");
    check_mistake(
        &format!("{ACTOR}\ncall = {{ request = \"/notes\" }}\nexpect = \"allowed\""),
        "c.toml:1:1: \"/notes\" is no request; write method and path: \"POST /api/orders/o1/refunds\"",
    );
    check_mistake(
        &format!("{ACTOR}\ncall = {{ request = \"GET /notes?a=1\" }}\nexpect = \"allowed\""),
        "c.toml:1:1: the query of \"GET /notes?a=1\" finds no route; fields of a query or of a body stand in arguments = { … }",
    );
}

#[test]
fn a_job_is_decided_by_its_name_and_its_key() {
    check("{ job = \"settle\", key = \"k\" }", "allowed");
    check("{ job = \"settle\" }", "denied (missing_idempotency_key)");
    check(
        "{ job = \"settle\", arguments = { idempotency_key = \"k\" } }",
        "denied (missing_idempotency_key)",
    );
    check("{ job = \"purge\", key = \"k\" }", "denied (denied_by_policy)");
    check("{ job = \"pay\", key = \"k\" }", "denied (not_in_policy)");
}

#[test]
fn what_is_no_case_is_a_mistake() {
    check_mistake(
        &format!("{ACTOR}\ncall = {{ tol = \"get\" }}\nexpect = \"allowed\""),
        "c.toml:4:10: unknown key \"tol\"; did you mean \"tool\"?",
    );
    check_mistake(
        &format!("{ACTOR}\ncall = {{ key = \"k\" }}\nexpect = \"allowed\""),
        "c.toml:1:1: a call names one tool, method, request or job",
    );
    check_mistake(
        &format!("actor = {{ tenant = \"\", user = \"u\", scopes = [] }}\n{CALL}\nexpect = \"allowed\""),
        "c.toml:1:1: no token can carry this actor: the tenant is missing",
    );
    check_mistake(
        &format!("{ACTOR}\n{CALL}\nexpect = \"alowed\""),
        "c.toml:5:10: unknown value \"alowed\"; did you mean \"allowed\"?",
    );
}

#[test]
fn a_denial_must_be_for_a_known_reason() {
    check_mistake(
        &format!("{ACTOR}\n{CALL}\nexpect = \"denied\""),
        "c.toml:1:1: a denied call needs the reason for which it must be denied; \
         a denial for another reason proves something else",
    );
    check_mistake(
        &format!("{ACTOR}\n{CALL}\nexpect = \"denied\"\nreason = \"missing_scopes\""),
        "c.toml:6:10: unknown reason \"missing_scopes\"; did you mean \"missing_scope\"?",
    );
    check_mistake(
        &format!("{ACTOR}\n{CALL}\nexpect = \"allowed\"\nreason = \"missing_scope\""),
        "c.toml:6:10: a call that is allowed has no reason",
    );
}
