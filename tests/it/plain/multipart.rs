//! Multipart bodies that two parsers take apart differently.

use super::{accepted, check, read};

const MEDIA: &str = "multipart/form-data; boundary=b";

/// A body of one part with this header, whose lines are joined as they are given.
fn with_header(header: &str) -> String {
    format!("--b\r\n{header}\r\n\r\nvalue\r\n--b--\r\n")
}

/// A body of one part with this `Content-Disposition` behind `form-data`.
fn with_name(disposition: &str) -> String {
    with_header(&format!("Content-Disposition: form-data{disposition}"))
}

/// A body of one part with this header beside its name.
fn beside(header: &str) -> String {
    with_header(&format!("Content-Disposition: form-data; name=\"a\"\r\n{header}"))
}

/// A body of one part with this content.
fn with_content(content: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{content}\r\n--b--\r\n")
}

const DISPOSITION: &str = "unreadable: a part's Content-Disposition is none of form-data in its plain form";
const LINE_END: &str = "unreadable: a line of a part's header does not end with CR LF";
const HEADER: &str = "unreadable: a part has a header that is not well formed";
const NAMELESS: &str = "unreadable: a part has no name";
const TWICE: &str = "unreadable: a part has a header twice";
const ENCODED: &str = "unreadable: a part is encoded";
const PART_MEDIA: &str = "unreadable: a part's Content-Type is not one that a form may hold";
const BOUNDARY: &str = "unreadable: its boundary stands where no part can end";
const PREAMBLE: &str = "unreadable: it does not begin with its boundary";
const EPILOGUE: &str = "unreadable: something follows its last boundary";
const CUT: &str = "unreadable: it ends before its last boundary";
const LENGTH: &str = "unreadable: a part is not as long as its Content-Length says";

#[track_caller]
fn refused(body: impl AsRef<[u8]>, expected: &str) {
    check(MEDIA, body, expected);
}

#[test]
fn what_clients_send_is_accepted() {
    for disposition in [
        "; name=\"a\"",
        ";name=\"a\"",
        "; name=a",
        " ; Name=\"a\"",
        "; name=\"na\u{ef}ve\"",
        "; name=\"a b[]\"",
        "; name=\"it's\"",
        "; name=\"a\"; filename=\"C:\\dir\\x.png\"",
        "; name=\"a\"; filename=\"na\u{ef}ve.png\"",
        "; filename=\"x.png\"; name=\"a\"",
        "; name=\"a\"; filename=\"\"",
        "; name=a; filename=x.png; filename*=utf-8''x.png",
        "; name=\"a%22b\"",
    ] {
        accepted(MEDIA, with_name(disposition));
    }
    for header in [
        "Content-Type: text/plain; charset=utf-8",
        "content-type: image/png",
        "Content-Transfer-Encoding: BINARY",
        "Content-Length: 5",
        "Content-Encoding: identity",
        "X-Of-Nobody: \u{e9}",
        "Content-ID:",
    ] {
        accepted(MEDIA, beside(header));
    }
    accepted(MEDIA, "--b--\r\n");
    accepted(MEDIA, "--b--");
    accepted(MEDIA, with_content(""));
    accepted(MEDIA, with_content("\r\n\r\n--\r\n-b\n--c\r--a\r\n"));
}

#[test]
fn a_name_that_is_not_one_text_to_everybody_is_refused() {
    for disposition in [
        // Some take the first of two, some the last.
        "; name=\"a\"; name=\"_method\"",
        "; name=\"a\"; NAME=\"_method\"",
        "; name=\"a\"; filename=\"x\"; filename=\"y\"",
        // RFC 8187 and RFC 2231.
        "; name*=utf-8''_method",
        "; name=\"a\"; name*=utf-8''_method",
        "; name*0=_met; name*1=hod",
        "; name=\"a\"; filename*0=x",
        // A quoted pair, a quote in a quote, an encoded word of RFC 2047, single quotes.
        "; name=\"_meth\\od\"",
        "; name=\"a\\\"; name=\"_method\"",
        "; filename=\"x\\\"; name=\"a\"",
        "; name=\"a\"; filename=\"\\\"; x=\"; name=_method\"",
        "; name=\"=?UTF-8?Q?=5Fmethod?=\"",
        "; name='_method'",
        "; filename='x; name=\"a\"; y='; name=\"b\"",
        "; name=\"a\"; filename*=utf-8'x.png",
        "; name=\"a\"; filename*=utf-7''x",
        // What is no parameter.
        "; name=\"a\" filename=\"x\"",
        "; name =\"a\"",
        "; name= \"a\"",
        "; name=\"a\"; ",
        "; name=\"a\";; filename=x",
        "; name=\"a\"x",
        "; name=\"a\"; size=5",
        ", name=\"a\"",
        "; name=a b",
        "; name=",
        "; name=\"a",
        "x; name=\"a\"",
    ] {
        refused(with_name(disposition), DISPOSITION);
    }
    refused(with_name(""), NAMELESS);
    refused(with_name("; filename=\"x\""), NAMELESS);
    refused(with_name("; name=\"\""), NAMELESS);
    refused(with_header("Content-Disposition: attachment; name=\"a\""), DISPOSITION);
    refused(with_header("Content-Type: text/plain"), NAMELESS);
    refused("--b\r\n\r\nvalue\r\n--b--\r\n", NAMELESS);
    refused(with_name("; name=\"a\0b\""), HEADER);
    let mut latin = with_name("; name=\"X\"").into_bytes();
    let at = latin.iter().position(|byte| *byte == b'X').expect("its name");
    latin[at] = 0xe9;
    refused(latin, HEADER);
}

#[test]
fn a_method_in_a_name_is_found() {
    for name in [
        "_method",
        "_METHOD",
        "_method[]",
        " _method",
        ".method",
        "%5Fmethod",
        "[_method]",
        "X-HTTP-Method-Override",
    ] {
        refused(with_name(&format!("; name=\"{name}\"")), "MethodOverride");
        refused(with_name(&format!("; name=\"{name}\"; filename=\"x\"")), "MethodOverride");
    }
    refused(with_name("; name=_method"), "MethodOverride");
}

#[test]
fn a_header_that_readers_cut_differently_is_refused() {
    let name = "Content-Disposition: form-data; name=\"a\"";
    refused(with_header(&format!("{name}\nX: y")), LINE_END);
    refused(with_header(&format!("{name}\rX: y")), LINE_END);
    refused(with_header(&format!("{name}\r\n filename=\"x\"")), HEADER);
    refused(with_header(&format!("{name}\r\n\t; filename=\"x\"")), HEADER);
    refused(with_header(&format!(" X: y\r\n{name}")), HEADER);
    refused(with_header(&format!("{name}\r\nX : y")), HEADER);
    refused(with_header(&format!("{name}\r\n: y")), HEADER);
    refused(with_header(&format!("{name}\r\nno colon")), HEADER);
    refused(with_header(&format!("{name}\r\nX: \u{1}")), HEADER);
    refused(with_header(&format!("{name}\r\n{name}")), TWICE);
    refused(with_header(&format!("{name}\r\ncontent-disposition: form-data; name=\"_method\"")), TWICE);
    refused(beside("Content-Type: text/plain\r\nContent-Type: text/html"), TWICE);
    refused(format!("--b\n{name}\r\n\r\nvalue\r\n--b--\r\n"), BOUNDARY);
    refused(format!("--b\r\n{name}\r\n\nvalue\r\n--b--\r\n"), LINE_END);
    refused(format!("--b\r\n{name}\n\nvalue\r\n--b--\r\n"), LINE_END);
    refused(
        beside(&format!("X: {}", "y".repeat(8 * 1024))),
        "unreadable: the header of a part is longer than 8 KiB",
    );
    let many = "X: y\r\n".repeat(2000);
    refused(beside(&format!("{many}X: z")), "unreadable: the header of a part is longer than 8 KiB");
}

#[test]
fn a_part_that_some_decode_is_refused() {
    for coding in ["base64", "quoted-printable", "x-uuencode", ""] {
        refused(beside(&format!("Content-Transfer-Encoding: {coding}")), ENCODED);
    }
    refused(beside("Content-Encoding: gzip"), ENCODED);
    refused(beside("Content-Type: multipart/mixed; boundary=c"), PART_MEDIA);
    refused(beside("Content-Type: Multipart/Form-Data; boundary=c"), PART_MEDIA);
    refused(beside("Content-Type: message/rfc822"), PART_MEDIA);
    refused(beside("Content-Type: text/plain; charset=utf-16"), PART_MEDIA);
    refused(beside("Content-Type: text"), PART_MEDIA);
    refused(beside("Content-Type:"), PART_MEDIA);
}

#[test]
fn a_part_of_another_length_than_it_says_is_refused() {
    refused(beside("Content-Length: 4"), LENGTH);
    refused(beside("Content-Length: 6"), LENGTH);
    refused(beside("Content-Length: +5"), LENGTH);
    refused(beside("Content-Length: 5, 5"), LENGTH);
    refused(beside("Content-Length:"), LENGTH);
    refused(beside("Content-Length: 99999999999999999999"), LENGTH);
    // A reader that goes by it finds the second part in the first one's place.
    let hidden =
        "--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Length: 1\r\n\r\nvalue\r\n--b--\r\n";
    refused(hidden, LENGTH);
}

#[test]
fn a_boundary_is_met_at_the_end_of_a_part_and_nowhere_else() {
    let smuggled = "Content-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE";
    // PHP looks for a line feed and the boundary.
    refused(with_content(&format!("x\n--b\r\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("x\r--b\r\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("--b\r\n{smuggled}")), BOUNDARY);
    // Some take whatever begins with it.
    refused(with_content(&format!("x\r\n--bc\r\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("x\r\n--b \r\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("x\r\n--b\t\r\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("x\r\n--b\n{smuggled}")), BOUNDARY);
    refused(with_content(&format!("x\r\n--b-\r\n{smuggled}")), BOUNDARY);
    refused(with_content("x--b"), BOUNDARY);
    // And this is a part of its own to everybody.
    refused(with_content(&format!("x\r\n--b\r\n{smuggled}")), "MethodOverride");
}

#[test]
fn nothing_may_stand_before_or_behind_the_parts() {
    let smuggled = "\r\n--c\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--c--\r\n";
    refused(format!("preamble{}", with_content("x")), PREAMBLE);
    refused(format!("\r\n{}", with_content("x")), PREAMBLE);
    refused(format!("\n{}", with_content("x")), PREAMBLE);
    refused("--c--\r\n", PREAMBLE);
    refused("--B--\r\n", PREAMBLE);
    refused(format!("--b--{smuggled}"), EPILOGUE);
    refused("--b--\r\n\r\n", EPILOGUE);
    refused("--b--\n", EPILOGUE);
    refused("--b--\r", EPILOGUE);
    refused("--b-- \r\n", EPILOGUE);
    refused(format!("--b--\r\n{}", with_content("x")), EPILOGUE);
    refused("--b--x", EPILOGUE);
    refused("--b-", CUT);
    refused("--b\r\n", CUT);
    refused("-", CUT);
    let whole = with_content("x");
    for end in 1..whole.len() - 2 {
        assert!(read(MEDIA, &whole[..end]).is_err(), "{:?}", &whole[..end]);
    }
}
