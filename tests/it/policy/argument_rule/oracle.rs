//! On what CEL and this house agree about, rules say what the field's interpreter says.

use cel::{Context, Program, Value};
use oncegate::domain::json::Json;
use proptest::prelude::*;

use super::{allowed, ruled};

/// Expressions over `args.a` and `args.b`, whole numbers, that say true or false.
fn truths() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("args.a".to_owned()),
        Just("args.b".to_owned()),
        (-9_i64..=9).prop_map(|number| number.to_string()),
    ];
    let sum = (number.clone(), prop_oneof![Just("+"), Just("-"), Just("*"), Just("%")], number)
        .prop_map(|(one, sign, other)| format!("({one} {sign} {other})"));
    let signs = prop_oneof![Just("<"), Just("<="), Just(">"), Just(">="), Just("=="), Just("!=")];
    let order =
        (sum.clone(), signs, sum.clone()).prop_map(|(one, sign, other)| format!("{one} {sign} {other}"));
    let leaf = prop_oneof![
        order,
        (sum.clone(), sum).prop_map(|(one, other)| format!("{one} in [1, {other}]")),
        Just("has(args.a)".to_owned()),
        Just("has(args.nope)".to_owned()),
        Just("args.nope == 1".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| format!("!({one})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) && ({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) || ({other})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(when, one, other)| format!("({when}) ? ({one}) : ({other})")),
        ]
    })
    .prop_filter("short enough", |text| {
        text.len() <= 1_000 && text.chars().filter(|letter| "([{?".contains(*letter)).count() <= 32
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_rule_over_whole_numbers_says_what_cel_says(rule in truths(), a in -20_i64..=20, b in -20_i64..=20) {
        let program = Program::compile(&rule).expect("CEL");
        let mut context = Context::default();
        let members = [("a", a), ("b", b)].map(|(name, value)| (name.to_owned(), value));
        context.add_variable("args", std::collections::HashMap::<String, i64>::from(members)).expect("a variable");
        let theirs = program.execute(&context) == Ok(Value::Bool(true));
        let arguments = Json::object([("a", Json::from(a)), ("b", Json::from(b))]);
        let text = String::from_utf8(arguments.to_bytes()).expect("text");
        prop_assert_eq!(allowed(&ruled(&rule), &text), theirs, "{} of {}", rule, text);
    }
}
