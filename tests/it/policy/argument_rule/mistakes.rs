//! A rule that cannot hold is found when it is loaded, with its place in the file.

use oncegate::domain::policy::Policy;
use proptest::prelude::*;

use crate::policy::sources;

/// What is wrong with `allow = …`, and where.
fn mistake(allow: &str, rest: &str) -> Option<String> {
    let text = format!("[tools.t]\neffect = \"read\"\nallow = {allow}\n{rest}");
    let found = Policy::from_sources(&sources(&[("p.toml", &text)]));
    found.err().map(|mistakes| mistakes.to_string())
}

#[track_caller]
fn check(allow: &str, expected: &str) {
    assert_eq!(mistake(allow, "").as_deref(), Some(expected), "{allow}");
}

#[test]
fn a_mistake_has_its_place_inside_of_the_rule() {
    let help = "; a rule is an expression of CEL: \"args.amount_cents <= 50000\"";
    check("\"args.a <= \"", &format!("p.toml:3:20: the expression breaks off{help}"));
    check("\"\"", &format!("p.toml:3:10: a rule says something{help}"));
    check("\"args.a 5\"", &format!("p.toml:3:17: \"5\" cannot stand here{help}"));
    check("\"arg.a == 5\"", "p.toml:3:10: unknown variable \"arg\"; did you mean \"args\"?");
    check(
        "'args.a == 5 && tool == \"x\"'",
        "p.toml:3:25: unknown variable \"tool\"; it may be \"args\" or \"actor\"",
    );
    check("\"sise(args.a) == 5\"", "p.toml:3:14: unknown function \"sise\"; did you mean \"size\"?");
    check("\"actor.tenent == 'a'\"", "p.toml:3:15: an actor has no \"tenent\"; did you mean \"tenant\"?");
    check(
        "\"args.a == \\\"\\u00fc\\\" && nope == 1\"",
        "p.toml:3:34: unknown variable \"nope\"; it may be \"args\" or \"actor\"",
    );
    check(
        "\"\"\"\nargs.a == 1 &&\n  nope == 1\"\"\"",
        "p.toml:5:3: unknown variable \"nope\"; it may be \"args\" or \"actor\"",
    );
}

#[test]
fn what_could_cost_too_much_is_no_rule() {
    let loops = "rules have no loops (all, exists, exists_one, map, filter)";
    for rule in [
        "args.a.all(x, x > 1)",
        "args.a.exists(x, x > 1)",
        "args.a.map(x, x) == []",
        "args.a.filter(x, x > 1) == []",
    ] {
        let found = mistake(&format!("\"{rule}\""), "").unwrap_or_default();
        assert!(found.contains(loops), "{rule}: {found}");
    }
    let found = mistake("\"args.a.matches('x*')\"", "").unwrap_or_default();
    assert!(found.contains("rules have no patterns"), "{found}");
    let found = mistake("\"args.a / 2 == 1\"", "").unwrap_or_default();
    assert!(found.contains("rules do not divide"), "{found}");
    let found = mistake(&format!("\"args.a == 1{}\"", " || args.b == 1".repeat(100)), "").unwrap_or_default();
    assert!(found.contains("a rule has 1000 bytes at most"), "{found}");
}

#[test]
fn sorts_that_can_never_fit_are_found() {
    for (rule, expected) in [
        ("1 + 2", "p.toml:3:12: \"1 + 2\" is a number, where true or false is due"),
        ("'a'", "p.toml:3:10: \"'a'\" is a text, where true or false is due"),
        (
            "args.a < 'x' && 1 < 'x'",
            "p.toml:3:28: \"1\" is a number, and \"'x'\" is a text; both sides are to be of one kind",
        ),
        (
            "actor.tenant == 5",
            "p.toml:3:23: \"actor.tenant\" is a text, and \"5\" is a number; both sides are to be of one kind",
        ),
        ("actor.tenant.id == 5", "p.toml:3:22: \"actor.tenant\" is a text, and has no members"),
        (
            "args.a[args.b] == 5",
            "p.toml:3:21: what stands in brackets must be written out; a name, or a number from 0",
        ),
        ("true in actor.tenant", "p.toml:3:23: \"actor.tenant\" is a text, where a list is due"),
    ] {
        check(&format!("\"{rule}\""), expected);
    }
}

#[test]
fn a_rule_about_what_it_does_not_see_is_a_mistake() {
    check(
        "\"args.a == 1 && args.tenant_id == 'a'\"",
        "p.toml:3:29: \"tenant_id\" is taken out of the arguments before the rule is asked; the caller's tenant is actor.tenant",
    );
    check(
        "\"args.Idempotency_Key == 'a'\"",
        "p.toml:3:14: \"Idempotency_Key\" is the key, which the rule does not see; it does not reach the app",
    );
    let route = "[routes.r]\nmethod = \"GET\"\npath = \"/o/{order}\"\neffect = \"read\"\nallow = ";
    for (rule, expected) in [
        (
            "args.order == 'o1'",
            "p.toml:8:14: a plain request's arguments have no \"order\"; it may be \"path\", \"query\" or \"body\"",
        ),
        (
            "args.path.oder == 'o1'",
            "p.toml:8:19: the path has no parameter \"oder\"; did you mean \"order\"?",
        ),
    ] {
        let found = mistake("\"true\"", &format!("{route}\"{rule}\"\n"));
        assert_eq!(found.as_deref(), Some(expected));
    }
    assert_eq!(
        mistake("\"true\"", &format!("{route}\"args.path.order == 'o1' && args.query.tenant_id != 'x'\"\n")),
        None
    );
}

#[test]
fn a_rule_stands_with_reads_and_mutations_only() {
    for (table, expected) in [
        ("[tools.x]\neffect = \"deny\"\nallow = \"true\"", "\"allow\" has no meaning with effect = \"deny\""),
        ("[tools.x]\nruns = \"tools\"\nallow = \"true\"", "\"allow\" has no meaning with runs = \"tools\""),
        ("[defaults]\nallow = \"true\"", "unknown key \"allow\""),
    ] {
        let found = mistake("\"true\"", table).unwrap_or_default();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn hostile_rules_are_mistakes_and_exhaust_nothing() {
    let nested = |one: &str, count: usize| one.repeat(count);
    for rule in [
        nested("(", 1_000),
        nested("[", 500),
        format!("{}true{}", nested("(", 32), nested(")", 32)),
        format!("{}args.a{}", nested("!", 900), " == 1"),
        format!("args{}", nested(".a", 490)),
        format!("args.a{} == 1", nested("+1", 490)),
        nested("args.a ? ", 110),
        format!("{}1", nested("-", 990)),
        format!("{}true", nested("true || ", 120)),
        format!("1{}", nested(" in args.b", 90)),
        nested("f(", 400),
        nested("'", 999),
        nested("\u{1f600}", 200),
    ] {
        let _found: Option<String> = mistake(&format!("'''{rule}'''"), "");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_text_breaks_the_reader(rule in "[ -&(-~]{0,120}") {
        let _found: Option<String> = mistake(&format!("'{rule}'"), "");
    }

    #[test]
    fn no_text_of_its_own_words_breaks_the_reader(words in prop::collection::vec(prop_oneof![
        Just("args"), Just("actor"), Just("."), Just("a"), Just("("), Just(")"), Just("["), Just("]"), Just("=="), Just("<"),
        Just("&&"), Just("||"), Just("!"), Just("?"), Just(":"), Just("in"), Just("1"), Just("2.5"), Just("\"x\""), Just(","),
        Just("size"), Just("has"), Just("scopes"), Just("-"), Just("+"), Just("null"), Just("{"), Just("}"), Just("all"),
    ], 0..24)) {
        let _found: Option<String> = mistake(&format!("'{}'", words.concat()), "");
        let _spaced: Option<String> = mistake(&format!("'{}'", words.join(" ")), "");
    }
}
