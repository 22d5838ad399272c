//! What the policy promises: strict files, default deny, mistakes that say where they stand.

use std::path::PathBuf;
use std::time::Duration;

use oncegate::domain::actor::Actor;
use oncegate::domain::ledger::Downstream;
use oncegate::domain::policy::{
    Denial, Effect, ForwardKey, Forwarded, InFlight, Kind, Mutation, Operation, Policy, Warning,
};

fn sources(files: &[(&str, &str)]) -> Vec<(PathBuf, String)> {
    files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
}

fn policy(text: &str) -> Policy {
    match Policy::from_sources(&sources(&[("p.toml", text)])) {
        Ok((policy, _)) => policy,
        Err(mistakes) => panic!("the policy has mistakes: {mistakes:#?}"),
    }
}

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = Policy::from_sources(&sources(&[("p.toml", text)])).expect("no mistakes");
    warnings.iter().map(Warning::to_string).collect()
}

fn mistakes(files: &[(&str, &str)]) -> Vec<String> {
    match Policy::from_sources(&sources(files)) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

/// The one mistake in a file, as the operator reads it.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(mistakes(&[("p.toml", text)]), [expected]);
}

/// The one mistake in a mutation that has everything else it needs.
#[track_caller]
fn check_mutation(lines: &str, expected: &str) {
    check(&format!("[tools.t]\neffect = \"mutation\"\nscopes = [\"s\"]\n{lines}\n"), expected);
}

fn actor(scopes: &[&str]) -> Actor {
    Actor::new("acme", "u1", None, scopes.iter().map(|scope| (*scope).to_owned())).expect("an actor")
}

fn mutation(policy: &Policy) -> &Mutation {
    let operation: &Operation = policy.named(Kind::Tool, "t").expect("a tool t");
    operation.mutation().expect("a mutation")
}

#[test]
fn an_unknown_key_is_a_mistake_with_its_place_and_the_nearest_word() {
    check(
        "[tools.t]\neffect = \"read\"\n  scope = [\"a\"]\n",
        "p.toml:3:3: unknown key \"scope\"; did you mean \"scopes\"?",
    );
}

#[test]
fn columns_count_characters() {
    check(
        "[tools]\n\"tür\" = { effect = \"read\", scpes = [\"a\"] }\n",
        "p.toml:2:28: unknown key \"scpes\"; did you mean \"scopes\"?",
    );
}

#[test]
fn an_unknown_effect_is_a_mistake_that_names_the_nearest_one() {
    check(
        "[tools.t]\neffect = \"mutate\"\nscopes = [\"a\"]\n",
        "p.toml:2:10: unknown value \"mutate\"; did you mean \"mutation\"?",
    );
}

#[test]
fn an_operation_without_an_effect_is_a_mistake() {
    check("[tools.t]\nscopes = [\"a\"]\n", "p.toml:1:1: the key \"effect\" is missing");
}

#[test]
fn text_that_is_not_toml_is_a_mistake_with_its_place() {
    check("[tools.t\neffect = \"read\"\n", "p.toml:1:9: unclosed table, expected `]`");
    check("[tools.t]\neffect = \"read\"\neffect = \"deny\"\n", "p.toml:3:1: duplicate key");
}

#[test]
fn a_wrong_type_is_a_mistake() {
    check_mutation("ttl = 60", "p.toml:4:7: invalid type: integer `60`, expected a duration like \"90s\"");
    check(
        "[tools.t]\neffect = \"read\"\nscopes = \"a\"\n",
        "p.toml:3:10: invalid type: string \"a\", expected a sequence",
    );
    check("tools = 3\n", "p.toml:1:9: [tools.NAME] tables are due here, one for each of the tools");
}

#[test]
fn a_bad_duration_is_a_mistake_that_shows_good_ones() {
    for text in ["5", "5 m", "m", "", "-5m", "5x", "30m1h", "1m1m", "1.5h", "99999999999999999999d"] {
        check_mutation(
            &format!("ttl = \"{text}\""),
            &format!(
                "p.toml:4:7: \"{text}\" is not a duration; write it like \"90s\", \"5m\", \"48h\", \"7d\" or \"1h30m\""
            ),
        );
    }
}

#[test]
fn a_duration_that_makes_no_sense_is_a_mistake() {
    check_mutation("lease = \"0s\"", "p.toml:4:1: lease = \"0s\" makes no sense; it may be 1s to 1h");
    check_mutation("lease = \"500ms\"", "p.toml:4:1: lease = \"500ms\" makes no sense; it may be 1s to 1h");
    check_mutation("ttl = \"4000d\"", "p.toml:4:1: ttl = \"4000d\" makes no sense; it may be 1s to 366d");
    check("[defaults]\nlease = \"0s\"\n", "p.toml:2:1: lease = \"0s\" makes no sense; it may be 1s to 1h");
    check_mutation(
        "ttl = \"1h\"\nduplicate_window = \"2h\"",
        "p.toml:5:1: duplicate_window = \"2h\" makes no sense; it may be 1s to 1h",
    );
}

#[test]
fn a_mutation_without_scopes_is_a_mistake() {
    check(
        "[tools.t]\neffect = \"mutation\"\n",
        "p.toml:1:1: a mutation needs scopes; say which ones a caller must hold: scopes = [\"…\"]",
    );
    check(
        "[tools.t]\neffect = \"mutation\"\nscopes = []\n",
        "p.toml:3:1: a mutation needs at least one scope; name what a caller must hold",
    );
}

#[test]
fn scopes_that_no_token_can_carry_are_mistakes() {
    check(
        "[tools.t]\neffect = \"read\"\nscopes = []\n",
        "p.toml:3:1: an empty list of scopes is easily misread; \
         leave it out of a read that every authenticated actor may call",
    );
    check(
        "[tools.t]\neffect = \"read\"\nscopes = [\"a b\"]\n",
        "p.toml:3:1: \"a b\" cannot be a scope; one scope has no blank and no quote inside",
    );
}

#[test]
fn a_key_without_meaning_for_the_effect_is_a_mistake() {
    check(
        "[tools.t]\neffect = \"read\"\nttl = \"1h\"\n",
        "p.toml:3:1: \"ttl\" has no meaning with effect = \"read\"",
    );
    check(
        "[tools.t]\neffect = \"deny\"\nscopes = [\"a\"]\n",
        "p.toml:3:1: \"scopes\" has no meaning with effect = \"deny\"",
    );
    check(
        "[methods.m]\neffect = \"read\"\nreasons = { a = \"b\" }\n",
        "p.toml:3:1: \"reasons\" has a meaning for tools only",
    );
    check_mutation("wait_up_to = \"5s\"", "p.toml:4:1: nothing waits here; say in_flight = \"wait\" as well");
    check_mutation(
        "duplicate = \"refuse\"",
        "p.toml:4:1: nothing is looked for; say duplicate_window = \"5m\" as well",
    );
}

#[test]
fn routes_and_jobs_are_refused_rather_than_ignored() {
    check(
        "[routes.r]\nmethod = \"POST\"\n",
        "p.toml:1:2: plain routes are not served by this version, so [routes] would guard nothing",
    );
    check(
        "[jobs.j]\neffect = \"mutation\"\n",
        "p.toml:1:2: jobs are not served by this version, so [jobs] would guard nothing",
    );
}

#[test]
fn an_unknown_table_is_a_mistake() {
    check("[tool.t]\n", "p.toml:1:2: unknown table or key \"tool\"; did you mean \"tools\"?");
}

#[test]
fn what_passes_for_everyone_cannot_be_named_as_if_it_were_ruled() {
    check(
        "[methods.\"tools/list\"]\neffect = \"deny\"\n",
        "p.toml:1:10: \"tools/list\" passes for every authenticated actor; the policy cannot rule it",
    );
    check(
        "[methods.\"tools/call\"]\neffect = \"deny\"\n",
        "p.toml:1:10: tools/call is ruled tool by tool, under [tools.NAME]",
    );
}

#[test]
fn one_name_in_two_files_is_a_mistake_that_names_both_places() {
    let tool = "[tools.t]\neffect = \"deny\"\n";
    let method = "\n[methods.t]\neffect = \"deny\"\n";
    assert_eq!(
        mistakes(&[("a.toml", tool), ("b.toml", method)]),
        [
            "b.toml:2:10: \"t\" is named already at a.toml:1:8; tools and methods of all files share one name space"
        ],
    );
}

#[test]
fn every_mistake_of_every_file_is_told_at_once() {
    let told = mistakes(&[
        ("b.toml", "[tools.x]\neffect = \"mutation\"\nttl = \"0s\"\n[tools.y]\neffect = \"reed\"\n"),
        ("a.toml", "[tools.z]\neffect = \n"),
    ]);
    let places: Vec<&str> = told.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["a.toml:2:10", "b.toml:1:1", "b.toml:3:1", "b.toml:5:10"]);
}

#[test]
fn an_idempotent_downstream_must_say_what_it_hears_and_how_long_it_remembers() {
    assert_eq!(
        mistakes(&[(
            "p.toml",
            "[tools.t]\neffect = \"mutation\"\nscopes = [\"s\"]\ndownstream = \"idempotent\"\n"
        )]),
        [
            "p.toml:4:1: an idempotent downstream needs an explicit forward_key; \
             say what the backend hears: forward_key = \"{tenant}/{tool}/{key}\"",
            "p.toml:4:1: an idempotent downstream needs downstream_retention; say how long the backend remembers a key",
        ],
    );
    check_mutation(
        "downstream = \"idempotent\"\nforward_key = \"{digest}\"\ndownstream_retention = \"48h\"",
        "p.toml:6:1: downstream_retention (2d) is longer than ttl (1d); \
         the gate may not forget a key before the backend does",
    );
    check_mutation(
        "downstream_retention = \"1h\"",
        "p.toml:4:1: nothing runs again here; say downstream = \"idempotent\" as well",
    );
}

fn two_idempotent(forward_key: &str) -> String {
    ["a", "b"]
        .map(|name| {
            format!(
                "[tools.{name}]\neffect = \"mutation\"\nscopes = [\"s\"]\ndownstream = \"idempotent\"\n\
                 downstream_retention = \"1h\"\nforward_key = \"{forward_key}\"\n"
            )
        })
        .concat()
}

#[test]
fn two_idempotent_operations_may_not_forward_the_same_key() {
    check(
        &two_idempotent("{key}"),
        "p.toml:12:1: \"b\" and \"a\" would forward the same key, and the backend would take one for the other; \
         put {tool} into forward_key, or use {digest}",
    );
    assert_eq!(mistakes(&[("p.toml", &two_idempotent("{tenant}/{tool}/{key}"))]), [""; 0]);
    assert_eq!(mistakes(&[("p.toml", &two_idempotent("{digest}"))]), [""; 0]);
}

#[test]
fn a_forwarded_key_that_does_not_tell_tenants_apart_is_warned_of() {
    let told = warnings(&two_idempotent("{tool}/{key}"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("two tenants")), "{told:?}");
    assert_eq!(warnings(&two_idempotent("{tenant}/{tool}/{key}")), [""; 0]);
}

#[test]
fn a_policy_that_names_nothing_is_warned_of() {
    assert_eq!(warnings("").len(), 1);
}

#[test]
fn templates_that_could_confuse_two_calls_are_mistakes() {
    for (template, fault) in [
        (
            "{tenant}{key}",
            "a separator such as \"/\" must stand between two variables, or two calls could forward one key",
        ),
        (
            "{tenant}-{tool}/{key}",
            "a separator such as \"/\" must stand between two variables, or two calls could forward one key",
        ),
        ("{key}/{key}", "{key} may stand only once"),
        ("{tenant}/{tool}", "it must contain {key} or {digest}, or every call would forward the same key"),
        ("{user}/{key}", "unknown variable {user}; there are {key}, {tenant}, {tool} and {digest}"),
        ("{key", "a brace has no partner"),
        ("key}/{key}", "a brace has no partner"),
        ("a {key}", "only printable ASCII without blanks can stand in a header"),
    ] {
        let found = ForwardKey::parse(template, false).expect_err(template).to_string();
        assert_eq!(found, fault, "{template}");
    }
}

const CALL: Forwarded<'_> =
    Forwarded { service: "billing", tenant: "acme/eu", tool: "refund_order", key: "k/1" };

#[test]
fn a_bare_key_is_forwarded_as_it_came() {
    assert_eq!(ForwardKey::bare().header_value(CALL), "k/1");
    let quoted = ForwardKey::parse("{key}", true).expect("a template");
    assert_eq!(quoted.header_value(Forwarded { key: r#"a"b\c"#, ..CALL }), r#""a\"b\\c""#);
}

#[test]
fn tenants_with_separators_in_their_names_stay_apart() {
    let template = ForwardKey::parse("{tenant}/{tool}/{key}", false).expect("a template");
    assert_eq!(template.render(CALL), "acme%2Feu/refund_order/k/1");
    let other = Forwarded { tenant: "acme", tool: "eu/refund_order", ..CALL };
    assert_ne!(template.render(CALL), template.render(other));
}

#[test]
fn a_digest_tells_every_part_apart() {
    let template = ForwardKey::parse("{digest}", false).expect("a template");
    let digest = template.render(CALL);
    assert_eq!(digest.len(), 64);
    for other in [
        Forwarded { service: "billin", tenant: "gacme/eu", ..CALL },
        Forwarded { tenant: "acme", ..CALL },
        Forwarded { tool: "refund", ..CALL },
        Forwarded { key: "k/2", ..CALL },
    ] {
        assert_ne!(template.render(other), digest, "{other:?}");
    }
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
fn check_decision(scopes: &[&str], kind: Kind, name: &str, expected: Result<Effect, Denial>) {
    let policy = policy(BILLING);
    let decision = policy.decide(&actor(scopes), kind, name).map(|operation| operation.effect());
    assert_eq!(decision, expected);
}

#[test]
fn what_is_not_named_is_denied() {
    check_decision(&["read"], Kind::Tool, "other", Err(Denial::NotInPolicy));
    check_decision(&["docs"], Kind::Tool, "resources/read", Err(Denial::NotInPolicy));
    check_decision(&["read"], Kind::Method, "get", Err(Denial::NotInPolicy));
}

#[test]
fn what_is_denied_is_denied_to_everyone() {
    check_decision(&["admin", "pay", "read"], Kind::Tool, "sql", Err(Denial::DeniedByPolicy));
}

#[test]
fn every_scope_is_needed_and_all_are_named() {
    check_decision(&["read"], Kind::Tool, "get", Ok(Effect::Read));
    check_decision(&["admin", "pay"], Kind::Tool, "t", Ok(Effect::Mutation));
    check_decision(&[], Kind::Tool, "open", Ok(Effect::Read));
    check_decision(&["docs"], Kind::Method, "resources/read", Ok(Effect::Read));
    let needed = vec!["admin".to_owned(), "pay".to_owned()];
    check_decision(&["pay"], Kind::Tool, "t", Err(Denial::MissingScope { needed, as_tool_error: true }));
    let needed = vec!["read".to_owned()];
    check_decision(&[], Kind::Tool, "get", Err(Denial::MissingScope { needed, as_tool_error: false }));
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
