//! Whole bodies: what is accepted, what it means to a fingerprint, what the audit is told.

use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::http::query::Query;

use super::{FORM, accepted, check, target};

const PARTS: &str = "multipart/form-data; boundary=b";

#[track_caller]
fn same(media: &str, one: &str, other: &str) {
    assert_eq!(accepted(media, one).canonical(), accepted(media, other).canonical(), "{one} / {other}");
}

#[track_caller]
fn differ(media: &str, one: &str, other: &str) {
    assert_ne!(accepted(media, one).canonical(), accepted(media, other).canonical(), "{one} / {other}");
}

#[track_caller]
fn told(media: &str, body: &str, expected: &str) {
    let expected = Json::parse(expected.as_bytes(), MAX_DEPTH).expect("JSON");
    assert_eq!(
        accepted(media, body).told().map(|told| told.to_string()),
        Some(expected.to_string()),
        "{body}"
    );
}

#[test]
fn json_counts_by_value() {
    let json = "application/json";
    same(json, r#"{"a":1,"b":[true,null]}"#, " { \"b\" : [true,null], \"\\u0061\" : 1.0 } ");
    differ(json, r#"{"a":1}"#, r#"{"a":"1"}"#);
    differ(json, r#"{"n":9007199254740993}"#, r#"{"n":9007199254740992}"#);
    told(json, r#"{"b":1.50,"a":2}"#, r#"{"b":1.50,"a":2}"#);
}

#[test]
fn json_that_readers_take_apart_differently_is_refused() {
    let json = "application/json";
    check(json, r#"{"a":1,"a":2}"#, "unreadable: duplicate member \"a\" at byte 7");
    check(json, "{\"a\":1}{}", "unreadable: something after the end of the value at byte 7");
    check(json, "\u{feff}{}", "unreadable: a byte order mark at byte 0");
    check(json, "{'a':1}", "unreadable: a member's name expected at byte 1");
    check(json, "{}//", "unreadable: something after the end of the value at byte 2");
    check(json, "a=1&b=2", "unreadable: a value expected at byte 0");
    check(json, b"{\"a\":\"\xff\"}", "unreadable: not UTF-8 at byte 6");
    check(json, b"\xff\xfe{\0}\0", "unreadable: not UTF-8 at byte 0");
}

#[test]
fn the_fields_of_a_form_count_in_any_order_and_the_values_of_one_in_theirs() {
    same(FORM, "a=1&b=2", "b=2&a=1");
    same(FORM, "a=1&b=2", "&&a=1&b=2&");
    same(FORM, "a=x+y%21", "%61=x%20y!");
    same(FORM, "a=1&b=2&a=3", "b=2&a=1&a=3");
    same(FORM, "meta[a]=1&meta[b]=2", "meta%5Bb%5D=2&meta[a]=1");
    differ(FORM, "a=1&a=2", "a=2&a=1");
    differ(FORM, "a[]=1&a[]=2", "a[]=2&a[]=1");
    differ(FORM, "a.b=1&a_b=2", "a_b=2&a.b=1");
    differ(FORM, "a=1", "a=1&a=1");
    differ(FORM, "a", "a=");
    differ(FORM, "a=1&b=2", "a=1%26b=2");
    differ(FORM, "a=1=2", "a%3D1=2");
    differ(FORM, "ab=1", "a=b1");
    differ(FORM, "a=1", "A=1");
    differ(FORM, "a=%C3%A9", "a=%E9");
}

#[test]
fn an_escape_that_is_none_is_refused_in_a_form() {
    for body in ["a=%", "a=%4", "a=%4g", "a=100%&b=1", "%zz=1", "a=%u0041"] {
        check(FORM, body, "unreadable: a \"%\" in it begins no escape");
    }
}

#[test]
fn a_form_of_very_many_fields_is_refused_before_they_are_looked_through() {
    let most = "a=1&".repeat(10_000);
    assert!(accepted(FORM, &most).told().is_some());
    check(FORM, format!("{most}a=1&a"), "unreadable: it has more than 10,000 fields");
}

#[test]
fn a_query_counts_by_its_pairs() {
    let canonical = |query: &str| Query::of(&target(&format!("/api{query}"))).canonical();
    assert_eq!(canonical(""), canonical("?"));
    assert_eq!(canonical("?a=1&b=2"), canonical("?b=2&&%61=1"));
    assert_ne!(canonical("?a=1&a=2"), canonical("?a=2&a=1"));
    assert_ne!(canonical("?a=1;b=2"), canonical("?a=1&b=2"));
    assert_ne!(canonical("?a=100%"), canonical("?a=100%25x"));
    let told = |query: &str| Query::of(&target(&format!("/api{query}"))).told().to_string();
    assert_eq!(told(""), "{}");
    assert_eq!(told("?b=2&a=x+y&b=%ff&c"), "{\"b\":[\"2\",\"\u{fffd}\"],\"a\":\"x y\",\"c\":null}");
}

#[test]
fn the_audit_is_told_fields_and_of_files_their_names_and_sizes() {
    told(FORM, "amount=5&item=a&item=b&note=", r#"{"amount":"5","item":["a","b"],"note":""}"#);
    let body = "--b\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n\
                --b\r\nContent-Disposition: form-data; name=\"scan\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\
                \u{1}\u{2}\u{3}\r\n\
                --b\r\nContent-Disposition: form-data; name=\"scan\"; filename*=UTF-8''b%20c\r\n\r\n\r\n--b--\r\n";
    told(
        PARTS,
        body,
        r#"{"note":"hello","scan":[{"filename":"a.png","type":"image/png","bytes":3},
            {"filename":"UTF-8''b%20c","type":null,"bytes":0}]}"#,
    );
    assert_eq!(accepted("text/plain", "card=4111").told(), None);
}

#[test]
fn fields_within_fields_are_told_where_a_policys_paths_find_them() {
    told(FORM, "card[number]=4&card[cvc]=1&a=2", r#"{"card":{"number":"4","cvc":"1"},"a":"2"}"#);
    told(FORM, "card.number=4", r#"{"card":{"number":"4"}}"#);
    // An element of a list hides nothing that is named beside it, nor is it hidden.
    told(FORM, "card[number]=4&card[0][number]=5", r#"{"card":[{"number":"5"},{"number":"4"}]}"#);
    told(FORM, "card=x&card[number]=4&card[number]=5", r#"{"card":["x",{"number":["4","5"]}]}"#);
    told(FORM, "item[]=a&item[]=b", r#"{"item":["a","b"]}"#);
    told(FORM, "item[0][id]=a&item[1][id]=b&item[0][n]=2", r#"{"item":[{"id":"a","n":"2"},{"id":"b"}]}"#);
    told(FORM, "item[][id]=a&item[]=b", r#"{"item":[{"id":"a"},"b"]}"#);
    told(FORM, "a[b=1&a]=2&[c]=3&=4", r#"{"a[b":"1","a]":"2","":["4",{"c":"3"}]}"#);
    let deep = format!("a{}=1", "[b]".repeat(10_000));
    told(FORM, &deep, &format!("{{\"{}\":\"1\"}}", deep.trim_end_matches("=1")));
}

#[test]
fn bodies_of_different_kinds_never_count_as_one() {
    let parts = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n";
    let bodies = [
        accepted("application/json", "\"a=1\""),
        accepted(FORM, "a=1"),
        accepted(PARTS, parts),
        accepted("text/plain", "a=1"),
        accepted("text/plain", ""),
        accepted("text/plain", accepted(FORM, "a=1").canonical()),
    ];
    for (at, one) in bodies.iter().enumerate() {
        for other in &bodies[at + 1..] {
            assert_ne!(one.canonical(), other.canonical());
        }
    }
}

#[test]
fn what_goes_on_is_what_came() {
    for (media, body) in
        [("application/json", " {\"a\" : 1.0}\n"), (FORM, "b=2&&a=%61"), ("text/plain", "\r\n")]
    {
        let content = accepted(media, body);
        assert_eq!(content.bytes(), body);
        assert_eq!(content.media(), media);
    }
}
