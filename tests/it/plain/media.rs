//! Content types, and what somebody writes there who wants a body to be taken for another.

use bytes::Bytes;
use http::HeaderMap;
use oncegate::domain::refusal::Refusal;
use oncegate::http::content::Content;
use oncegate::http::reading::{Reading, reading};

use super::{FORM, check, headers, of_type, read, word};

/// How an unclaimed body is read, in a word.
fn read_as(headers: &HeaderMap) -> String {
    match reading(headers, false) {
        Ok(Reading::Whole) => "whole".to_owned(),
        Ok(Reading::Scanned { .. }) => "scanned".to_owned(),
        Ok(Reading::Streamed) => "streamed".to_owned(),
        Err(refusal) => word(&refusal),
    }
}

#[track_caller]
fn check_reading(media: &str, expected: &str) {
    assert_eq!(read_as(&of_type(media)), expected, "{media}");
}

#[test]
fn what_may_hold_fields_is_read_and_what_may_not_passes() {
    for media in [
        "application/json",
        "APPLICATION/JSON; Charset=\"UTF-8\"",
        "application/problem+json",
        "application/vnd.api+json; ext=\"https://jsonapi.org/ext/atomic\"",
        "text/json",
        "text/x-json",
        "application/json-seq",
        FORM,
        "application/x-www-form-urlencoded; charset=utf-8",
        "Application/X-WWW-Form-URLEncoded ; charset=utf8",
    ] {
        check_reading(media, "whole");
    }
    check_reading("multipart/form-data; boundary=b", "scanned");
    check_reading("Multipart/Form-Data;Charset=utf-8;Boundary=\"----=_Part_1.2\"", "scanned");
    for media in
        ["application/octet-stream", "text/plain; charset=iso-8859-1", "image/png", "application/x-ndjson"]
    {
        check_reading(media, "streamed");
    }
    assert_eq!(read_as(&headers(&[])), "whole", "Rack takes it for a form");
    assert_eq!(read_as(&of_type("")), "whole");
    let claimed = |media: &str| reading(&of_type(media), true);
    assert_eq!(claimed("application/octet-stream"), Ok(Reading::Whole));
    assert_eq!(claimed("multipart/form-data; boundary=b"), Ok(Reading::Whole));
}

#[test]
fn a_type_that_some_backend_takes_for_another_is_refused() {
    let ill_formed = "unsupported: its Content-Type is not well formed";
    let boundary =
        "unsupported: its Content-Type needs a boundary of 1 to 70 plain characters, and no other parameter";
    let loose = "unsupported: its Content-Type is neither a form's nor certainly another";
    let form = "unsupported: a form's Content-Type may have no parameter but charset";
    for (media, expected) in [
        // PHP cuts at the first `,`, `;` or blank.
        ("application/x-www-form-urlencoded, text/plain", ill_formed),
        ("application/x-www-form-urlencoded text/plain", ill_formed),
        ("text/plain, application/json", ill_formed),
        ("text", ill_formed),
        ("text/", ill_formed),
        ("/json", ill_formed),
        ("text/plain;", ill_formed),
        ("text/plain; charset", ill_formed),
        ("text/plain; charset=", ill_formed),
        ("text/plain; charset=\"utf-8", ill_formed),
        ("text/plain; charset=\"utf\\-8\"", ill_formed),
        ("text/plain; charset=utf-8; charset=utf-16", ill_formed),
        ("text/plain; charset*=utf-8''utf-16", ill_formed),
        ("application/json\u{e9}", ill_formed),
        // Laravel takes for JSON whatever says `+json` somewhere.
        ("application/x-www-form-urlencoded; a=+json", form),
        ("application/x-www-form-urlencoded; boundary=b", form),
        ("multipart/form-data; boundary=b; a=+json", boundary),
        // PHP takes the first `boundary` in the text, Rack the last `boundary=`.
        ("multipart/form-data; xboundary=a; boundary=b", boundary),
        ("multipart/form-data; boundary=\"a-boundary=b\"", boundary),
        ("multipart/form-data; boundary=a; boundary=b", ill_formed),
        ("multipart/form-data; boundary*=utf-8''b", ill_formed),
        ("multipart/form-data; boundary*0=b", ill_formed),
        ("multipart/form-data", boundary),
        ("multipart/form-data; boundary=\"\"", boundary),
        ("multipart/form-data; boundary=\"a b\"", boundary),
        ("multipart/form-data; boundary=\"a,b\"", boundary),
        ("multipart/form-data; boundary=\"a;b\"", boundary),
        ("multipart/form-data; boundary=a;b", ill_formed),
        ("multipart/form-data; boundary=\"a\\\"b\"", ill_formed),
        ("multipart/form-data; boundary='a'b", "scanned"),
        // Rack reads fields from these, others look only at the beginning, or anywhere.
        ("multipart/mixed; boundary=b", loose),
        ("multipart/related; boundary=b", loose),
        ("multipart/x-form-data; boundary=b", loose),
        ("application/x-www-form-urlencoded-x", loose),
        ("text/plain; a=\"application/x-www-form-urlencoded\"", loose),
        ("text/plain; a=\"multipart/form-data\"; boundary=b", loose),
        ("application/json; a=\"multipart/form-data\"", loose),
    ] {
        check_reading(media, expected);
    }
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    check_reading(&long, boundary);
    check_reading("text/plain; a=+json", "whole");
    check("text/plain; a=+json", r#"{"_method":"DELETE"}"#, "MethodOverride");
    check("text/plain; a=+json", "not json", "unreadable: a value expected at byte 0");
}

#[test]
fn a_body_that_says_two_types_is_refused() {
    let twice = headers(&[("Content-Type", "text/plain"), ("Content-Type", FORM)]);
    assert_eq!(read_as(&twice), "unsupported: it names more than one Content-Type");
    let twice = headers(&[("Content-Type", ""), ("Content-Type", FORM)]);
    assert_eq!(read_as(&twice), "unsupported: it names more than one Content-Type");
}

#[test]
fn a_body_without_a_type_is_refused_unless_it_is_empty() {
    let none = headers(&[]);
    let refused =
        Content::read(&none, Bytes::from_static(b"_method=DELETE")).expect_err("Rack takes it for a form");
    assert_eq!(word(&refused), "unsupported: it has no Content-Type");
    let empty = Content::read(&none, Bytes::new()).expect("there is nothing to look into");
    assert_eq!((empty.media(), empty.told()), ("", None));
    for media in ["application/json", FORM, "multipart/form-data; boundary=b", "image/png"] {
        assert_eq!(read(media, "").expect("it is empty").canonical(), empty.canonical(), "{media}");
    }
}

#[test]
fn another_encoding_than_utf_8_is_refused_where_the_gate_looks_in() {
    for charset in ["utf-16", "utf-7", "IBM037", "iso-8859-1", "\"utf-16\"", "us-ascii"] {
        for media in ["application/json", FORM, "multipart/form-data; boundary=b"] {
            check_reading(&format!("{media}; charset={charset}"), "unsupported: it must be UTF-8");
        }
        check_reading(&format!("text/plain; charset={charset}"), "streamed");
    }
    check(FORM, "_charset_=utf-16&a=1", "unreadable: its field _charset_ names another encoding than UTF-8");
    assert!(read(FORM, "_charset_=UTF-8&a=1").is_ok());
}

#[test]
fn what_is_compressed_passes_by_its_bytes_or_is_refused() {
    let of = |media: &str, coding: &str| headers(&[("Content-Type", media), ("Content-Encoding", coding)]);
    let refused =
        "unsupported: it is compressed, and could not be looked into; send it with no Content-Encoding";
    for media in ["application/json", FORM, "multipart/form-data; boundary=b"] {
        for coding in ["gzip", "br", "identity, gzip", "x-unknown", ""] {
            assert_eq!(read_as(&of(media, coding)), refused, "{media}, {coding:?}");
        }
        assert_ne!(read_as(&of(media, "Identity")), refused, "{media}");
    }
    assert_eq!(read_as(&of("text/csv", "gzip")), "streamed");
    let zipped =
        Content::read(&of("text/csv", "gzip"), Bytes::from_static(b"\x1f\x8b")).expect("by its bytes");
    assert_eq!(zipped.told(), None);
    let twice =
        headers(&[("Content-Type", FORM), ("Content-Encoding", "identity"), ("Content-Encoding", "gzip")]);
    assert!(matches!(reading(&twice, true), Err(Refusal::UnsupportedMedia { .. })));
}
