//! What the policy promises: strict files, default deny, mistakes that say where they stand.

mod answers;
mod argument_rule;
mod cases;
mod changes;
mod commands;
mod explaining;
mod forward_key;
mod mistakes;
mod proposing;
mod reconcile;
mod route_mistakes;
mod routes;
mod schemas;
mod shipped;
mod spellings;

use std::path::PathBuf;
use std::time::Duration;

use oncegate::domain::actor::Actor;
use oncegate::domain::ledger::Downstream;
use oncegate::domain::policy::{Arguments, Denial, Effect, InFlight, Kind, Mutation, Operation, Policy};

fn sources(files: &[(&str, &str)]) -> Vec<(PathBuf, String)> {
    files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
}

fn policy(text: &str) -> Policy {
    match Policy::from_sources(&sources(&[("p.toml", text)])) {
        Ok((policy, _)) => policy,
        Err(mistakes) => panic!("the policy has mistakes: {mistakes:#?}"),
    }
}

fn actor(scopes: &[&str]) -> Actor {
    Actor::new("acme", "u1", None, scopes.iter().map(|scope| (*scope).to_owned())).expect("an actor")
}

fn mutation(policy: &Policy) -> &Mutation {
    let operation: &Operation = policy.named(Kind::Tool, "t").expect("a tool t");
    operation.mutation().expect("a mutation")
}

const BILLING: &str = r#"
[defaults]
ttl = "36h"
in_flight = "wait"
wait_up_to = "5s"
[tools.get]
effect = "read"
scopes = ["read"]
[tools.t]
effect = "mutation"
scopes = ["pay", "admin"]
deny_as = "tool_error"
[tools.sql]
effect = "deny"
[tools.open]
effect = "read"
[methods."resources/read"]
effect = "read"
scopes = ["docs"]
"#;

#[track_caller]
fn check_decision(scopes: &[&str], kind: Kind, name: &str, expected: &Result<Effect, Denial>) {
    let policy = policy(BILLING);
    let decision =
        policy.decide(&actor(scopes), kind, name, Arguments::Given(None)).map(|operation| operation.effect());
    assert_eq!(&decision, expected);
}

#[test]
fn what_is_not_named_is_denied() {
    check_decision(&["read"], Kind::Tool, "other", &Err(Denial::NotInPolicy));
    check_decision(&["docs"], Kind::Tool, "resources/read", &Err(Denial::NotInPolicy));
    check_decision(&["read"], Kind::Method, "get", &Err(Denial::NotInPolicy));
}

#[test]
fn what_is_denied_is_denied_to_everyone() {
    check_decision(&["admin", "pay", "read"], Kind::Tool, "sql", &Err(Denial::DeniedByPolicy));
}

#[test]
fn every_scope_is_needed_and_all_are_named() {
    check_decision(&["read"], Kind::Tool, "get", &Ok(Effect::Read));
    check_decision(&["admin", "pay"], Kind::Tool, "t", &Ok(Effect::Mutation));
    check_decision(&[], Kind::Tool, "open", &Ok(Effect::Read));
    check_decision(&["docs"], Kind::Method, "resources/read", &Ok(Effect::Read));
    let needed = vec!["admin".to_owned(), "pay".to_owned()];
    check_decision(&["pay"], Kind::Tool, "t", &Err(Denial::MissingScope { needed, as_tool_error: true }));
    let needed = vec!["read".to_owned()];
    check_decision(&[], Kind::Tool, "get", &Err(Denial::MissingScope { needed, as_tool_error: false }));
}

#[test]
fn a_tool_is_seen_only_by_who_may_call_it() {
    let policy = policy(BILLING);
    let seen = |scopes: &[&str]| {
        ["get", "t", "sql", "open", "other"]
            .into_iter()
            .filter(|tool| policy.may_see(&actor(scopes), tool))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&["read"]), ["get", "open"]);
    assert_eq!(seen(&["pay", "admin"]), ["t", "open"]);
}

#[test]
fn an_operation_inherits_what_it_does_not_say() {
    let policy = policy(BILLING);
    let upstream_timeout = Duration::from_mins(5);
    let terms = mutation(&policy).terms(upstream_timeout);
    assert_eq!(terms.ttl, Duration::from_hours(36));
    assert_eq!(terms.lease, Duration::from_mins(1));
    assert_eq!(terms.upstream_timeout, upstream_timeout);
    assert_eq!(terms.downstream, Downstream::Unsafe);
    assert_eq!(mutation(&policy).in_flight(), InFlight::Wait { up_to: Duration::from_secs(5) });
    let operation = policy.named(Kind::Tool, "t").expect("a tool t");
    assert_eq!(operation.key_argument(), "idempotency_key");
    assert_eq!(operation.tenant_arguments(), ["tenant_id"]);
}

#[test]
fn the_version_names_the_texts_whatever_their_order() {
    let (one, other) =
        (("a.toml", "[tools.a]\neffect = \"deny\"\n"), ("b.toml", "[tools.b]\neffect = \"deny\"\n"));
    let version = |files: &[(&str, &str)]| {
        Policy::from_sources(&sources(files)).expect("no mistakes").0.version().to_owned()
    };
    assert_eq!(version(&[one, other]), version(&[other, one]));
    assert_ne!(version(&[one, other]), version(&[one]));
    assert_eq!(version(&[one]).len(), 12);
}
