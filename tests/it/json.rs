//! The parser that guards, the exact writer, the canonical form.

use oncegate::domain::json::{FaultKind, Json, MAX_DEPTH};
use proptest::prelude::*;

fn parsed(text: &str) -> Json {
    Json::parse(text.as_bytes(), MAX_DEPTH).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

#[track_caller]
fn check(text: impl AsRef<[u8]>, fault: &str) {
    let met = Json::parse(text.as_ref(), MAX_DEPTH).expect_err("the text must be refused");
    assert_eq!(met.to_string(), fault);
}

#[track_caller]
fn check_canonical(text: &str, canonical: &str) {
    assert_eq!(String::from_utf8(parsed(text).canonical()).unwrap(), canonical);
}

#[test]
fn an_object_of_many_members_is_made_in_linear_time() {
    let names = (0..200_000).map(|n| (format!("member {:06}", n % 150_000), Json::from(n)));
    let begun = std::time::Instant::now();
    let Json::Object(object) = Json::object(names) else { panic!("an object") };
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(object.len(), 150_000);
    assert_eq!(
        object.iter().next(),
        Some(("member 000000", &Json::from(150_000))),
        "the later value, in the first place"
    );
}

#[test]
fn broken_text_is_refused_where_it_breaks() {
    check("", "the text ends too early at byte 0");
    check(" ", "the text ends too early at byte 1");
    check("{", "the text ends too early at byte 1");
    check("[1,", "the text ends too early at byte 3");
    check("[1,]", "a value expected at byte 3");
    check("[1 2]", "',' or ']' expected at byte 3");
    check("{\"a\" 1}", "':' expected at byte 5");
    check("{\"a\":1,}", "a member's name expected at byte 7");
    check("{a:1}", "a member's name expected at byte 1");
    check("tru", "the text ends too early at byte 0");
    check("trux", "a value expected at byte 0");
    check("True", "a value expected at byte 0");
    check("1 2", "something after the end of the value at byte 2");
    check("{}\0", "something after the end of the value at byte 2");
    check("\u{feff}{}", "a byte order mark at byte 0");
    check("\u{a0}1", "a value expected at byte 0");
    check(b"\"\xff\"", "not UTF-8 at byte 1");
    check(b"\"\xed\xa0\x80\"", "not UTF-8 at byte 1");
}

#[test]
fn numbers_follow_the_grammar_and_nothing_else() {
    for text in
        ["01", "-", "-01", "1.", ".5", "+1", "1.e1", "1e", "1e+", "0x1", "NaN", "-Infinity", "1_0", "--1"]
    {
        assert!(Json::parse(text.as_bytes(), MAX_DEPTH).is_err(), "{text}");
    }
    for text in ["0", "-0", "0.0", "1E+00", "-1.5e-7", "1e999999999", "123456789012345678901234567890"] {
        assert_eq!(parsed(text).to_string(), text);
    }
}

#[test]
fn strings_hold_whole_characters() {
    assert_eq!(parsed(r#""a\u00e9\ud83d\ude00\/\n""#).as_str(), Some("aé😀/\n"));
    assert_eq!(parsed(r#""\u0000""#).as_str(), Some("\0"));
    check(r#""\ud83d""#, "half a surrogate pair at byte 1");
    check(r#""\ud83dx""#, "half a surrogate pair at byte 1");
    check(r#""\ud83d\u0041""#, "half a surrogate pair at byte 1");
    check(r#""\ude00""#, "half a surrogate pair at byte 1");
    check(r#""\u+123""#, "not a JSON escape at byte 1");
    check(r#""\u12""#, "not a JSON escape at byte 1");
    check(r#""\x41""#, "not a JSON escape at byte 1");
    check("\"a\nb\"", "a control character in a string at byte 2");
    check("\"abc", "the text ends too early at byte 4");
    check("\"abc\\", "the text ends too early at byte 4");
}

#[test]
fn a_member_named_twice_is_refused_however_it_is_spelt() {
    check(r#"{"name":1,"name":2}"#, "duplicate member \"name\" at byte 10");
    check(r#"{"a":{"name":1,"n\u0061me":2}}"#, "duplicate member \"name\" at byte 15");
    let fault = Json::parse(br#"{"":1,"":2}"#, MAX_DEPTH).unwrap_err();
    assert!(fault.is_duplicate());
    assert!(!Json::parse(b"{", MAX_DEPTH).unwrap_err().is_duplicate());
}

#[test]
fn a_hostile_name_cannot_forge_a_message() {
    let name = format!("\u{202e}\n{}", "x".repeat(1000));
    let text = format!("{{{0}:1,{0}:2}}", Json::from(name.as_str()));
    let fault = Json::parse(text.as_bytes(), MAX_DEPTH).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Duplicate { name });
    let shown = fault.to_string();
    assert!(shown.starts_with(r#"duplicate member "\u{202e}\nxxx"#), "{shown}");
    assert!(shown.len() < 120, "{shown}");
}

#[test]
fn a_duplicate_among_very_many_members_is_found_and_many_members_are_read_in_linear_time() {
    let members: Vec<String> = (0..50_000).map(|at| format!("\"m{at}\":{at}")).collect();
    let text = format!("{{{}}}", members.join(","));
    assert_eq!(parsed(&text).as_object().unwrap().len(), 50_000);
    let twice = format!("{{{},\"m49999\":0}}", members.join(","));
    assert!(Json::parse(twice.as_bytes(), MAX_DEPTH).unwrap_err().is_duplicate());
    for at in [0, 14, 15, 16, 17, 18] {
        let twice = format!("{{{},\"m{at}\":0}}", members[..20].join(","));
        assert!(Json::parse(twice.as_bytes(), MAX_DEPTH).unwrap_err().is_duplicate(), "{at}");
    }
}

#[test]
fn nesting_is_bounded_whatever_the_caller_asks_for() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Json::parse(nested(MAX_DEPTH).as_bytes(), usize::MAX).is_ok());
    assert!(Json::parse(nested(3).as_bytes(), 3).is_ok());
    assert!(Json::parse(nested(4).as_bytes(), 3).is_err());
    check("[".repeat(1_000_000), "nested deeper than 128 levels at byte 128");
    check("{\"a\":".repeat(1_000_000), "nested deeper than 128 levels at byte 640");
}

#[test]
fn objects_keep_their_order() {
    let mut value = parsed(r#"{"b":1,"a":2,"c":3}"#);
    let object = value.as_object_mut().unwrap();
    assert_eq!(object.insert("a", "two"), Some(Json::from(2)));
    assert_eq!(object.insert("d", true), None);
    assert_eq!(object.remove("b"), Some(Json::from(1)));
    assert_eq!(object.remove("b"), None);
    assert_eq!(value.to_string(), r#"{"a":"two","c":3,"d":true}"#);
    assert_eq!(parsed(r#"{"a":{"b":[1]}}"#).path(&["a", "b"]), Some(&Json::from(vec![1.into()])));
    assert_eq!(parsed("{}").path(&["a", "b"]), None);
}

#[test]
fn numbers_are_compared_by_exact_value() {
    for (text, canonical) in [
        ("1", "1"),
        ("1.0", "1"),
        ("10e-1", "1"),
        ("0.1e1", "1"),
        ("-0", "0"),
        ("0e5", "0"),
        ("-0.000E-7", "0"),
        ("100", "1e2"),
        ("1E+02", "1e2"),
        ("-12.50", "-125e-1"),
        ("0.00120", "12e-4"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "9007199254740993"),
        ("1e999999999", "1e999999999"),
        ("10e999999998", "1e999999999"),
        ("0.1e1000000000", "1e999999999"),
    ] {
        check_canonical(text, canonical);
    }
}

#[test]
fn exponents_of_any_length_are_computed_exactly() {
    let nines = "9".repeat(40);
    let million = format!("1{}", "0".repeat(40));
    check_canonical(&format!("10e{nines}"), &format!("1e{million}"));
    check_canonical(&format!("0.1e{million}"), &format!("1e{nines}"));
    check_canonical(&format!("0.1e-{nines}"), &format!("1e-{million}"));
    check_canonical(&format!("10e-{million}"), &format!("1e-{nines}"));
    check_canonical(&format!("1e+000{million}"), &format!("1e{million}"));
    check_canonical(&format!("0e{nines}"), "0");
    // Where computing with integers ends and computing with digits begins.
    let nines = "9".repeat(30);
    let next = format!("1{}", "0".repeat(30));
    check_canonical(&format!("10e{nines}"), &format!("1e{next}"));
    check_canonical(&format!("0.1e{next}"), &format!("1e{nines}"));
}

#[test]
fn the_canonical_form_sorts_names_by_code_point() {
    check_canonical(
        r#"{"\ud83d\ude00":1,"\uffee":2,"b":3,"a":[{"z":1.0,"y":"\u0041\/"}]}"#,
        "{\"a\":[{\"y\":\"A/\",\"z\":1}],\"b\":3,\"￮\":2,\"😀\":1}",
    );
}

/// A JSON text of any spelling: blanks, escapes, members in any order, every number.
fn any_json() -> impl Strategy<Value = Json> {
    let number =
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,8})?([eE][+-]?[0-9]{1,4})?".prop_map(|text| parsed(&text));
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number,
        any::<String>().prop_map(Json::String),
        "[a-z\"\\\\\u{0}-\u{1f}😀]{0,8}".prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec(("[a-e]{1,2}|\\PC{0,3}", inner), 0..4).prop_map(Json::object),
        ]
    })
}

/// The same value in another spelling: members turned around, blanks, every character escaped, numbers respelt.
fn respelt(value: &Json, out: &mut String) {
    match value {
        Json::Null | Json::Bool(_) => out.push_str(&value.to_string()),
        Json::Number(number) => out.push_str(&respelt_number(number.as_str())),
        Json::String(text) => escaped(text, out),
        Json::Array(elements) => {
            out.push_str("[ ");
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "\t,\n" } else { "" });
                respelt(element, out);
            }
            out.push_str(" ]");
        }
        Json::Object(object) => {
            let members: Vec<_> = object.iter().collect();
            out.push_str("{\r\n");
            for (at, (name, value)) in members.into_iter().rev().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                escaped(name, out);
                out.push_str(" : ");
                respelt(value, out);
            }
            out.push_str(" } ");
        }
    }
}

fn escaped(text: &str, out: &mut String) {
    out.push('"');
    out.extend(text.encode_utf16().map(|unit| format!("\\u{unit:04X}")));
    out.push('"');
}

/// The same number with another exponent: its point moved three places.
fn respelt_number(text: &str) -> String {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.trim_start_matches('+').parse().unwrap();
    let point = if mantissa.contains('.') { "000" } else { ".000" };
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let moved = format!("{whole}{fraction}000");
    let moved = moved.trim_start_matches('0');
    let moved = if moved.is_empty() { "0" } else { moved };
    let places = i64::try_from(fraction.len()).unwrap() + 3;
    if exponent % 2 == 0 {
        format!("{mantissa}{point}E{exponent:+}")
    } else {
        format!("{sign}{moved}e{}", exponent - places)
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_as_what_it_was(value in any_json()) {
        let text = value.to_bytes();
        let again = Json::parse(&text, MAX_DEPTH).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(again.to_bytes(), text);
    }

    #[test]
    fn the_canonical_form_knows_meaning_only(value in any_json()) {
        let mut text = String::new();
        respelt(&value, &mut text);
        let again = parsed(&text);
        prop_assert_eq!(again.canonical(), value.canonical());
        let canonical = value.canonical();
        prop_assert_eq!(Json::parse(&canonical, MAX_DEPTH).unwrap().canonical(), canonical);
    }

    #[test]
    fn other_meanings_have_other_canonical_forms(one in any_json(), other in any_json()) {
        let mut one_sorted = Vec::new();
        let mut other_sorted = Vec::new();
        sorted(&one, &mut one_sorted);
        sorted(&other, &mut other_sorted);
        prop_assert_eq!(one.canonical() == other.canonical(), one_sorted == other_sorted);
    }

    #[test]
    fn what_another_reader_takes_is_taken_and_means_the_same(text in json_like()) {
        let ours = Json::parse(text.as_bytes(), MAX_DEPTH);
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let again: serde_json::Value = serde_json::from_slice(&ours.to_bytes()).unwrap();
                prop_assert_eq!(again, theirs);
            }
            (Err(fault), Ok(_)) => prop_assert!(fault.is_duplicate(), "{} in {}", fault, text),
            // Theirs computes numbers, and refuses those that its floats cannot hold.
            (Ok(_), Err(fault)) => prop_assert!(fault.to_string().contains("number out of range"), "{} in {}", fault, text),
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = Json::parse(&bytes, MAX_DEPTH) {
            prop_assert_eq!(Json::parse(&value.to_bytes(), MAX_DEPTH).unwrap(), value);
        }
    }
}

/// A second opinion on meaning: members sorted, numbers as sign, digits and exponent.
fn sorted(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::Null | Json::Bool(_) | Json::String(_) => out.push(format!("{value:?}")),
        Json::Number(number) => {
            let (mantissa, exponent) =
                number.as_str().split_once(['e', 'E']).unwrap_or((number.as_str(), "0"));
            let exponent: i64 = exponent.trim_start_matches('+').parse().unwrap();
            let fraction = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
            let digits: i128 = mantissa.replace('.', "").parse().unwrap();
            let (mut digits, mut exponent) = (digits, exponent - i64::try_from(fraction).unwrap());
            while digits != 0 && digits % 10 == 0 {
                digits /= 10;
                exponent += 1;
            }
            out.push(if digits == 0 { "0".to_owned() } else { format!("{digits} {exponent}") });
        }
        Json::Array(elements) => {
            out.push(format!("[{}", elements.len()));
            for element in elements {
                sorted(element, out);
            }
        }
        Json::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(name, _)| name.chars().collect::<Vec<_>>());
            out.push(format!("{{{}", members.len()));
            for (name, value) in members {
                out.push(format!("{name:?}"));
                sorted(value, out);
            }
        }
    }
}

/// Text that is JSON, or nearly: written values with a piece changed.
fn json_like() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("\\ud800"),
        Just("\\u0061"),
        Just("\""),
        Just("01"),
        Just("-"),
        Just("e5"),
        Just(".0"),
        Just(","),
        Just("{"),
        Just("}"),
        Just("[]"),
        Just(":"),
        Just("\u{feff}"),
        Just(" "),
        Just("\n"),
        Just("\\"),
        Just("\u{1}"),
        Just("null"),
        Just("\"a\":1,"),
        Just("é"),
    ];
    (any_json(), any::<prop::sample::Index>(), prop::option::of(fragment), 0..3_usize).prop_map(
        |(value, place, fragment, cut)| {
            let mut text = value.to_string();
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = *place.get(&places);
            let end = text[at..].char_indices().nth(cut).map_or(text.len(), |(length, _)| at + length);
            if let Some(fragment) = fragment {
                text.replace_range(at..end, fragment);
            }
            text
        },
    )
}
