//! Fingerprints and keys.

use oncegate::domain::fingerprint::{Fingerprinter, MIN_SECRET_BYTES, Secrets, SecretsFault};
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::key::{Key, KeyFault, MAX_KEY_BYTES};

const ONE: &[u8] = b"one secret of thirty-two bytes..";
const OTHER: &[u8] = b"another secret of the same kind!";

fn under(secrets: &[&[u8]]) -> Fingerprinter {
    Fingerprinter::new(Secrets::new(secrets).unwrap())
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), MAX_DEPTH).unwrap()
}

#[track_caller]
fn check(one: &str, other: &str, same: bool) {
    let fingerprint = |text| under(&[ONE]).of(Some(&json(text))).signed;
    assert_eq!(fingerprint(one) == fingerprint(other), same, "{one} and {other}");
}

#[test]
fn arguments_that_mean_the_same_have_one_fingerprint() {
    check(r#"{"a":1,"b":[1.0,"A"]}"#, r#"{ "b": [10e-1, "\u0041"], "a": 1 }"#, true);
    check(r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, false);
    check(r#"{"a":1}"#, r#"{"a":"1"}"#, false);
    check(r#"{"a":null}"#, "{}", false);
    check("[1,2]", "[2,1]", false);
    check("null", "{}", false);
}

#[test]
fn absent_arguments_are_the_empty_object() {
    assert_eq!(under(&[ONE]).of(None), under(&[ONE]).of(Some(&json("{ }"))));
}

#[test]
fn a_fingerprint_names_its_secret_and_needs_it() {
    let one = under(&[ONE]).of(None).signed;
    let other = under(&[OTHER]).of(None).signed;
    let (id, hash) = one.split_once(':').unwrap();
    assert_eq!((id.len(), hash.len()), (8, 64));
    assert_ne!(id, other.split_once(':').unwrap().0);
    assert_ne!(hash, other.split_once(':').unwrap().1);
    // Bytes that are no JSON are hashed for another purpose, whatever they hold.
    assert_ne!(under(&[ONE]).of_bytes(b"{}"), one);
    assert!(under(&[ONE]).of_bytes(b"{}").starts_with(id));
}

#[test]
fn a_fingerprint_is_the_same_in_every_version() {
    // Claims outlive releases: whoever changes this line changes what every stored key means.
    let signed = under(&[ONE]).of(Some(&json(r#"{"order_id":"ord_9f2","amount_cents":1250}"#))).signed;
    assert_eq!(signed, "1a4664f9:6e75f7e7e220a8a408b8f8d0d67ec8085e3022853da925d7b6aa6d1a67475149");
}

#[test]
fn after_a_change_of_secrets_the_old_fingerprints_are_still_accepted() {
    let old = under(&[ONE]).of(None).signed;
    let new = under(&[OTHER, ONE]).of(None);
    assert_ne!(new.signed, old);
    assert_eq!(new.accepted, [new.signed.clone(), old]);
}

#[test]
fn a_short_secret_is_refused() {
    let fault = |secrets: &[&[u8]]| Secrets::new(secrets).err();
    assert_eq!(fault(&[]), Some(SecretsFault::Missing));
    assert_eq!(fault(&[b"short"]), Some(SecretsFault::TooShort { position: 1, found: 5 }));
    assert_eq!(fault(&[ONE, b""]), Some(SecretsFault::TooShort { position: 2, found: 0 }));
    assert_eq!(ONE.len(), MIN_SECRET_BYTES);
}

#[test]
fn a_round_is_known_by_its_inputs_and_its_state() {
    let hashes = under(&[ONE]);
    let (inputs, state) = (json(r#"{"confirm":{"action":"accept"}}"#), json(r#""opaque""#));
    let rounds = [
        hashes.round_hash(None, None),
        hashes.round_hash(Some(&inputs), None),
        hashes.round_hash(None, Some(&state)),
        hashes.round_hash(Some(&inputs), Some(&state)),
        hashes.round_hash(Some(&state), Some(&inputs)),
        hashes.round_hash(Some(&json("null")), Some(&state)),
        hashes.state_hash(Some(&state)),
    ];
    assert_eq!(rounds[0], "");
    assert_eq!(hashes.state_hash(None), "");
    for (at, round) in rounds.iter().enumerate() {
        assert!(!rounds[..at].contains(round), "{at}");
    }
    assert_eq!(
        hashes.round_hash(Some(&json(r#"{ "confirm": {"action": "accept"} }"#)), Some(&state)),
        rounds[3]
    );
    assert_ne!(under(&[OTHER, ONE]).round_hash(None, Some(&state)), rounds[2]);
}

#[track_caller]
fn check_key(header: &str, key: Result<&str, KeyFault>) {
    assert_eq!(Key::from_header(header).as_ref().map(Key::as_str), key.as_ref().copied(), "{header}");
}

#[test]
fn a_key_is_printable_ascii_of_bounded_length() {
    let longest = "k".repeat(MAX_KEY_BYTES);
    for (text, key) in [
        (" \t refund 42\r\n", Ok("refund 42")),
        ("~!\"\\", Ok("~!\"\\")),
        (longest.as_str(), Ok(longest.as_str())),
        (&format!(" {longest} "), Ok(longest.as_str())),
        (&format!("{longest}k"), Err(KeyFault::TooLong)),
        ("", Err(KeyFault::Missing)),
        (" \t\n", Err(KeyFault::Missing)),
        ("a\0", Err(KeyFault::Unprintable)),
        ("a\tb", Err(KeyFault::Unprintable)),
        ("\u{7f}", Err(KeyFault::Unprintable)),
        ("schlüssel", Err(KeyFault::Unprintable)),
        ("\u{a0}", Err(KeyFault::Unprintable)),
    ] {
        assert_eq!(Key::parse(text).as_ref().map(Key::as_str), key.as_ref().copied(), "{text:?}");
    }
}

#[test]
fn a_bare_key_and_the_same_key_quoted_are_one() {
    check_key("abc", Ok("abc"));
    check_key(" \"abc\" ", Ok("abc"));
    check_key("\" abc \"", Ok("abc"));
    check_key(r#""a\"b\\c""#, Ok(r#"a"b\c"#));
    check_key(r#"a"b\c"#, Ok(r#"a"b\c"#));
    check_key("\"\"", Err(KeyFault::Missing));
    check_key("\"  \"", Err(KeyFault::Missing));
    check_key("\"", Err(KeyFault::BadQuoting));
    check_key("\"abc", Err(KeyFault::BadQuoting));
    check_key("\"abc\\\"", Err(KeyFault::BadQuoting));
    check_key("\"abc\"d", Err(KeyFault::BadQuoting));
    check_key("\"abc\";v=1", Err(KeyFault::BadQuoting));
    check_key("\"a\", \"b\"", Err(KeyFault::BadQuoting));
    check_key(r#""a\bc""#, Err(KeyFault::BadQuoting));
    check_key("\"a\u{7f}\"", Err(KeyFault::Unprintable));
}
