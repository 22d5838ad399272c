//! Numbers in rules count by their exact value.

use oncegate::domain::json::{Decimal, Json};
use proptest::prelude::*;

use super::{allowed, check, ruled};

#[test]
fn numbers_compare_by_their_exact_value_however_they_are_written() {
    let limit = "args.n <= 50000";
    for within in [
        "50000",
        "5e4",
        "5E+4",
        "50000.0",
        "500000e-1",
        "0.5e5",
        "49999.99999999999999999999",
        "0",
        "-0",
        "-1",
    ] {
        check(limit, &format!("{{\"n\": {within}}}"), true);
    }
    for beyond in [
        "50001",
        "50000.00000001",
        "50000.000000000000000000000001",
        "5.00000000000000000000000001e4",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999999999999",
        // Too long or too large to be computed with.
        "1e999",
        "1e99999999999999999999999",
        "100000000000000000000000000000000000000000001",
        "-100000000000000000000000000000000000000000001",
        "1e-500",
    ] {
        check(limit, &format!("{{\"n\": {beyond}}}"), false);
    }
}

#[test]
fn neighbours_that_one_float_stands_for_are_two_numbers() {
    check("args.n == 9007199254740993", r#"{"n": 9007199254740992}"#, false);
    check("args.n == 9007199254740993", r#"{"n": 9007199254740993}"#, true);
    check("args.n != 9007199254740993", r#"{"n": 9007199254740993.0}"#, false);
    check("args.n <= 9007199254740992.0", r#"{"n": 9007199254740993}"#, false);
    check("args.n == 0.1", r#"{"n": 0.1}"#, true);
    check("args.n == 0.1", r#"{"n": 0.1000000000000000055511151231257827}"#, false);
    check("args.a + args.b == 0.3", r#"{"a": 0.1, "b": 0.2}"#, true);
    check("args.n in [1, 2.5]", r#"{"n": 25e-1}"#, true);
    check("-args.n >= -5", r#"{"n": 5}"#, true);
}

#[test]
fn nothing_wraps_and_nothing_is_rounded() {
    let largest = "999999999999999999999999999999999999";
    check("args.n + 1 > 0", &format!("{{\"n\": {largest}}}"), true);
    check("args.n + args.n + args.n > 0", &format!("{{\"n\": {largest}}}"), false);
    check("args.n * args.n > 0", &format!("{{\"n\": {largest}}}"), false);
    check("args.n * args.n < 0 || args.n > 0", r#"{"n": 9223372036854775807}"#, true);
    check("args.n * 4 == 36893488147419103228.0", r#"{"n": 9223372036854775807}"#, true);
    check("args.n % 0 == 0", r#"{"n": 5}"#, false);
    check("args.n % 2 == 0", r#"{"n": 2.5}"#, false);
    check("int(args.n) <= 5", r#"{"n": 5.9}"#, false);
}

#[test]
fn a_text_is_a_number_only_where_every_reader_takes_it_for_the_same() {
    for text in ["5", "-5", "0"] {
        check("int(args.n) <= 5", &format!("{{\"n\": \"{text}\"}}"), true);
    }
    for text in
        ["", " 5", "5 ", "05", "0x5", "5e0", "+5", "5.5", "5_0", "٥", "1e1", "-", ".5", "NaN", "5\\u0000"]
    {
        check("int(args.n) <= 5", &format!("{{\"n\": \"{text}\"}}"), false);
        check("!(int(args.n) > 5)", &format!("{{\"n\": \"{text}\"}}"), false);
    }
}

/// A decimal number and how many hundred-millionths it is.
fn number() -> impl Strategy<Value = (String, i128)> {
    (-999_999_999_999_i64..=999_999_999_999, -8_i32..=8, 0_usize..4).prop_map(|(digits, exponent, zeros)| {
        let value = i128::from(digits) * 10_i128.pow(u32::try_from(exponent + 8).unwrap_or(0));
        let fraction = if zeros > 0 { format!(".{}", "0".repeat(zeros)) } else { String::new() };
        (format!("{digits}{fraction}e{exponent}"), value)
    })
}

fn decimal(text: &str) -> Option<Decimal> {
    Json::parse(text.as_bytes(), 1).ok().and_then(|json| json.as_number().and_then(Decimal::of))
}

proptest! {
    #[test]
    fn the_order_is_that_of_the_numbers(one in number(), other in number()) {
        let (a, b) = (decimal(&one.0), decimal(&other.0));
        prop_assert!(a.is_some() && b.is_some());
        prop_assert_eq!(a.cmp(&b), one.1.cmp(&other.1), "{} and {}", one.0, other.0);
        prop_assert_eq!(a == b, one.1 == other.1);
        let (a, b) = (a.expect("a"), b.expect("b"));
        let read = |value: i128| Decimal::parse(&format!("{value}e-8"));
        prop_assert_eq!(a.plus(b), read(one.1 + other.1));
        prop_assert_eq!(a.minus(b), read(one.1 - other.1));
        if let Some(product) = one.1.checked_mul(other.1) {
            prop_assert_eq!(a.times(b), Decimal::parse(&format!("{product}e-16")));
        }
        prop_assert_eq!(Decimal::parse(&a.to_string()), Some(a));
    }

    #[test]
    fn no_number_slips_past_a_limit(text in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?") {
        let policy = ruled("args.n <= 50000");
        let over = ruled("args.n > 50000");
        let arguments = format!("{{\"n\": {text}}}");
        let (within, beyond) = (allowed(&policy, &arguments), allowed(&over, &arguments));
        prop_assert!(!(within && beyond));
        // A float is never off by so much.
        let float: f64 = text.parse().expect("a float");
        if float > 50_000.1 {
            prop_assert!(!within, "{text}");
        }
        if float < 49_999.9 {
            prop_assert!(!beyond, "{text}");
        }
    }
}
