//! Rules about arguments: what they allow, and that what they do not say allows nothing.

mod mistakes;
mod numbers;
mod oracle;

use oncegate::domain::actor::Actor;
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::policy::{Arguments, Denial, Kind, Policy};

use super::policy;

fn ruled(rule: &str) -> Policy {
    policy(&format!("[tools.t]\neffect = \"mutation\"\nscopes = [\"pay\"]\nallow = '''{rule}'''\n"))
}

fn allowed(policy: &Policy, arguments: &str) -> bool {
    let scopes = ["pay", "billing:refund"].map(str::to_owned);
    let actor = Actor::new("acme", "ann", None, scopes).expect("an actor");
    let arguments = Json::parse(arguments.as_bytes(), MAX_DEPTH).expect("JSON");
    match policy.decide(&actor, Kind::Tool, "t", Arguments::Given(Some(&arguments))) {
        Ok(_) => true,
        Err(Denial::ArgumentRule) => false,
        Err(other) => panic!("denied for another reason: {other:?}"),
    }
}

#[track_caller]
fn check(rule: &str, arguments: &str, expected: bool) {
    assert_eq!(allowed(&ruled(rule), arguments), expected, "{rule} of {arguments}");
}

const EXAMPLE: &str = "args.amount_cents <= 50000 || 'billing:refund:large' in actor.scopes";

#[test]
fn a_call_is_allowed_where_the_rule_says_true() {
    check(EXAMPLE, r#"{"amount_cents": 50000}"#, true);
    check(EXAMPLE, r#"{"amount_cents": 50001}"#, false);
    check("'billing:refund' in actor.scopes", "{}", true);
    check("actor.tenant == 'acme' && actor.user == 'ann'", "{}", true);
    check("args.account == actor.tenant", r#"{"account": "acme"}"#, true);
    check("args.account == actor.tenant", r#"{"account": "globex"}"#, false);
    check("args.path.startsWith('/' + actor.tenant + '/')", r#"{"path": "/acme/x"}"#, true);
    check("args.currency in ['EUR', 'USD']", r#"{"currency": "USD"}"#, true);
    check("args.currency in ['EUR', 'USD']", r#"{"currency": "GBP"}"#, false);
    check("args.items[0].sku == 'a' && size(args.items) <= 2", r#"{"items": [{"sku": "a"}]}"#, true);
    check("args['amount-cents'] < 5", r#"{"amount-cents": 4}"#, true);
    check("has(args.coupon) ? args.coupon == 'X' : args.amount <= 10", r#"{"amount": 10}"#, true);
    check("has(args.coupon) ? args.coupon == 'X' : args.amount <= 10", r#"{"coupon": "Y"}"#, false);
    check("args.dry_run", r#"{"dry_run": true}"#, true);
    check("args.amount % 100 == 0", r#"{"amount": 1200}"#, true);
    check("args.amount % 100 == 0", r#"{"amount": 1250}"#, false);
    check("args.part * 2 <= args.whole", r#"{"part": 50, "whole": 100}"#, true);
    check("!has(args.note) || size(args.note) < 4", r#"{"note": "äöü"}"#, true);
    check("'note' in args", r#"{"note": null}"#, true);
    check("args.note == null", r#"{"note": null}"#, true);
    check("'tag' in args.tags", r#"{"tags": ["tag"]}"#, true);
    check("'tag' in args.tags", r#"{"tags": {"tag": 1}}"#, true);
    check("args.tags == ['a', 1]", r#"{"tags": ["a", 1.0]}"#, true);
    check("int(args.amount) <= 5", r#"{"amount": "5"}"#, true);
    check("double(args.amount) <= 5.5", r#"{"amount": "5.50"}"#, true);
}

#[test]
fn what_cannot_be_said_allows_nothing() {
    let nothing = [
        "{}",
        r#"{"amount_cents": null}"#,
        r#"{"amount_cents": "1"}"#,
        r#"{"amount_cents": [1]}"#,
        r#"{"amount_cents": true}"#,
        r#"{"amount_cents": {}}"#,
    ];
    for arguments in nothing {
        for rule in [
            "args.amount_cents <= 50000",
            "!(args.amount_cents > 50000)",
            "args.amount_cents > 50000 ? false : true",
            "args.amount_cents <= 50000 || args.amount_cents > 50000",
            "args.amount_cents + 1 < 50000",
            "-args.amount_cents < 0",
        ] {
            check(rule, arguments, false);
        }
    }
    check("args.amount_cents", r#"{"amount_cents": 1}"#, false);
    check("args.dry_run", r#"{"dry_run": "true"}"#, false);
    check("has(args.a.b) || true == false", r#"{"a": 1}"#, false);
    check("!has(args.a.b)", r#"{"a": 1}"#, false);
    check("args.items[1] == 1", r#"{"items": [1]}"#, false);
    check("actor.session != 's'", "{}", false);
    // Two of different kinds are not merely unequal.
    check("args.currency != 'EUR'", r#"{"currency": ["EUR"]}"#, false);
    check("!(args.currency in ['EUR'])", r#"{"currency": ["EUR"]}"#, false);
    check("!(args.currency == 'EUR')", r#"{"currency": 5}"#, false);
    check("args.currency != 'EUR'", r#"{"currency": "GBP"}"#, true);
    check("args.filter != args.other", r#"{"filter": {}, "other": {"a": 1}}"#, false);
}

#[test]
fn what_is_unclear_does_not_matter_where_the_other_side_decides() {
    check("args.nope == 1 || true", "{}", true);
    check("true || args.nope == 1", "{}", true);
    check("!(args.nope == 1 && false)", "{}", true);
    check("args.nope == 1 || false", "{}", false);
}

#[test]
fn a_member_that_some_app_takes_for_the_one_looked_at_allows_nothing() {
    for lookalike in ["Amount_Cents", "AMOUNT_CENTS", "amount_cent\u{17f}", "amount_cents\\u0000x"] {
        let arguments = format!(r#"{{"amount_cents": 1, "{lookalike}": 99999999}}"#);
        check("args.amount_cents <= 50000", &arguments, false);
        check("has(args.amount_cents)", &arguments, false);
        check("'amount_cents' in args", &arguments, false);
        let alone = format!(r#"{{"{lookalike}": 99999999}}"#);
        check("!has(args.amount_cents)", &alone, false);
        check("!('amount_cents' in args)", &alone, false);
    }
    check("args.amount_cents <= 50000", r#"{"amount_cents": 1, "amount": 2, "amount-cents": 3}"#, true);
}

#[test]
fn a_call_without_arguments_has_none_of_them() {
    let policy = ruled("!has(args.amount)");
    let actor = Actor::new("acme", "ann", None, ["pay".to_owned()]).expect("an actor");
    assert!(policy.decide(&actor, Kind::Tool, "t", Arguments::Given(None)).is_ok());
    let unclear = policy.decide(&actor, Kind::Tool, "t", Arguments::Unclear).map(|_| ());
    assert_eq!(unclear, Err(Denial::ArgumentRule));
    assert!(policy.may_see(&actor, "t"), "a rule hides no tool");
}

#[test]
fn scopes_are_asked_for_before_arguments() {
    let actor = Actor::new("acme", "ann", None, []).expect("an actor");
    let denial = ruled("false").decide(&actor, Kind::Tool, "t", Arguments::Given(None)).map(|_| ());
    assert!(matches!(denial, Err(Denial::MissingScope { .. })), "{denial:?}");
}

#[test]
fn huge_and_deep_arguments_are_refused_and_cost_little() {
    let rule = "args.a == 1 || args.b == 1 || args.c == args.d || args.e.contains(args.f)";
    let members: Vec<String> = (0..90_000).map(|at| format!("\"m{at}\": 1")).collect();
    check(rule, &format!("{{{}, \"b\": 1}}", members.join(",")), false);
    check("args.b == 1", &format!("{{{}, \"b\": 1}}", members.join(",")), true);
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
    check(rule, &format!(r#"{{"a": 0, "b": 0, "c": {deep}, "d": {deep}}}"#), true);
    let long = "x".repeat(1 << 20);
    let texts = format!(r#"{{"a": 0, "b": 0, "c": 0, "d": 1, "e": "{long}", "f": "{long}"}}"#);
    check(rule, &texts, true);
    let doubling = format!("size({}) > 0", ["args.e"; 60].join(" + "));
    check(&doubling, &texts, false);
    let zeros = format!(r#"{{"a": 1{}}}"#, "0".repeat(1 << 20));
    check("args.a > 1", &zeros, false);
}
