//! What holds of every form and every multipart body.

use oncegate::http::multipart::{Boundary, Event, MultipartFault, Parser, Part};
use proptest::prelude::*;
use proptest::sample::Index;

use super::scanned::pass;
use super::{FORM, accepted, read};

/// A part as a client makes it: name, file's name, type, content.
type Made = (String, Option<String>, Option<String>, Vec<u8>);

fn made() -> impl Strategy<Value = Made> {
    // Of letters that no boundary below is made of, so that content never holds one; with what parsers stumble over.
    let content = proptest::collection::vec(
        prop_oneof![
            Just(b'\r'),
            Just(b'\n'),
            Just(b'-'),
            Just(b':'),
            b'a'..=b'd',
            any::<u8>().prop_filter("no digit", |byte| !byte.is_ascii_digit())
        ],
        0..60,
    );
    let media =
        prop_oneof![Just("text/plain".to_owned()), Just("image/png".to_owned()), Just("a/b; c=d".to_owned())];
    ("[a-d\u{e9} ]{1,3}", proptest::option::of("[a-d.]{0,3}"), proptest::option::of(media), content)
}

fn write(parts: &[Made], boundary: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, filename, media, content) in parts {
        body.extend(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"").bytes());
        body.extend(filename.iter().flat_map(|name| format!("; filename=\"{name}\"").into_bytes()));
        body.extend(media.iter().flat_map(|media| format!("\r\nContent-Type: {media}").into_bytes()));
        body.extend(b"\r\n\r\n");
        body.extend(content);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    body
}

fn canonical(parts: &[Made], boundary: &str) -> Vec<u8> {
    accepted(&format!("multipart/form-data; boundary=\"{boundary}\""), write(parts, boundary)).canonical()
}

/// Every part with its content, as the parser tells them of a body that is fed in these pieces.
fn parse(body: &[u8], boundary: &str, cuts: &[Index]) -> Result<Vec<(Part, Vec<u8>)>, MultipartFault> {
    let mut parser = Parser::new(Boundary::new(boundary).expect("a boundary"));
    let mut found: Vec<(Part, Vec<u8>)> = Vec::new();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(body.len());
    let mut at = 0;
    for end in ends {
        parser.feed(&body[at..end], &mut |event| {
            match event {
                Event::Begins(part) => found.push((part.clone(), Vec::new())),
                Event::Content(content) => found.last_mut().expect("a part").1.extend_from_slice(content),
                Event::Named(_) | Event::Ends => {}
            }
            Ok::<_, MultipartFault>(())
        })?;
        at = end;
    }
    parser.finish()?;
    Ok(found)
}

fn boundaries() -> impl Strategy<Value = String> {
    "[0-9][0-9_'().:=?+/-]{0,20}"
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    proptest::collection::vec(any::<Index>(), 0..12)
}

/// Pieces from which hostile bodies are put together.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("--1"),
        Just("\r\n--1"),
        Just("\n--1"),
        Just("--"),
        Just("\r\n"),
        Just("\r"),
        Just("\n"),
        Just("Content-Disposition: form-data; name=\"a\""),
        Just("Content-Disposition: form-data; name=\"_method\""),
        Just("Content-Length: 1"),
        Just("x"),
        Just(" "),
        Just(": "),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn the_same_parts_count_as_the_same_under_every_boundary(
        parts in proptest::collection::vec(made(), 0..5), one in boundaries(), other in boundaries(),
    ) {
        prop_assert_eq!(canonical(&parts, &one), canonical(&parts, &other));
    }

    #[test]
    fn different_parts_never_count_as_the_same(
        one in proptest::collection::vec(made(), 0..4), other in proptest::collection::vec(made(), 0..4),
    ) {
        prop_assert_eq!(canonical(&one, "1") == canonical(&other, "1"), one == other);
    }

    #[test]
    fn parts_are_found_as_they_were_made_however_the_body_is_cut(
        parts in proptest::collection::vec(made(), 0..5), boundary in boundaries(), cuts in cuts(),
    ) {
        let body = write(&parts, &boundary);
        let found = parse(&body, &boundary, &cuts).expect("it is a multipart body");
        let found: Vec<Made> =
            found.into_iter().map(|(part, content)| (part.name, part.filename, part.media, content)).collect();
        prop_assert_eq!(found, parts);
    }

    #[test]
    fn a_hostile_body_is_one_thing_however_it_is_cut(mut body in hostile(), whole in any::<bool>(), cuts in cuts()) {
        if whole {
            let head = b"--1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
            body = [head, body.as_slice(), b"\r\n--1--\r\n"].concat();
        }
        let at_once = parse(&body, "1", &[]);
        prop_assert_eq!(parse(&body, "1", &cuts).ok(), at_once.ok());
    }

    #[test]
    fn no_bytes_whatever_make_the_parser_fail(body in proptest::collection::vec(any::<u8>(), 0..300), cuts in cuts()) {
        let body = [b"--1\r\nContent-Disposition: form-data; name=\"a\"\r\n", body.as_slice()].concat();
        prop_assert_eq!(parse(&body, "1", &cuts).ok(), parse(&body, "1", &[]).ok());
    }

    #[test]
    fn a_body_that_passes_the_scanner_passes_unchanged_and_another_never_whole(
        parts in proptest::collection::vec(made(), 0..4), method in proptest::option::of(any::<Index>()), cuts in cuts(),
    ) {
        let mut parts = parts;
        if let Some(at) = method {
            parts.insert(at.index(parts.len() + 1), ("_method".to_owned(), None, None, b"DELETE".to_vec()));
        }
        // The scanner's tests have this boundary, and content may hold it by chance.
        let body = write(&parts, "b");
        let readable = read("multipart/form-data; boundary=b", &body).is_ok();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        ends.sort_unstable();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let passed = runtime.block_on(pass(&body, &ends));
        prop_assert_eq!(passed.fault.is_none(), readable);
        if readable {
            prop_assert_eq!(passed.bytes, body);
        } else {
            prop_assert!(passed.refusal.is_some());
            prop_assert!(passed.bytes.len() < body.len() && body.starts_with(&passed.bytes));
        }
    }

    #[test]
    fn the_fields_of_a_form_count_in_any_order_of_different_names(
        values in proptest::collection::vec("[a-c&=%+;\u{e9}]{0,4}", 0..8).prop_shuffle(), seed in any::<u64>(),
    ) {
        let mut fields: Vec<String> = values.iter().enumerate().map(|(at, value)| format!("n{at}={}", escape(value))).collect();
        let one = accepted(FORM, fields.join("&")).canonical();
        let mut random = fastrand::Rng::with_seed(seed);
        random.shuffle(&mut fields);
        prop_assert_eq!(accepted(FORM, fields.join("&")).canonical(), one);
    }

    #[test]
    fn forms_count_as_the_same_exactly_if_the_values_of_every_name_do(
        one in proptest::collection::vec(("[a-b]", "[a-b=&]{0,2}"), 0..5),
        other in proptest::collection::vec(("[a-b]", "[a-b=&]{0,2}"), 0..5),
    ) {
        let form = |pairs: &[(String, String)]| {
            let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
            // An empty body is none, a form without fields would be one.
            accepted(FORM, format!("&{}", text.join("&"))).canonical()
        };
        let by_name = |pairs: &[(String, String)]| {
            let mut pairs = pairs.to_vec();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            pairs
        };
        prop_assert_eq!(form(&one) == form(&other), by_name(&one) == by_name(&other));
    }

    #[test]
    fn no_form_whatever_makes_the_reader_fail(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(content) = read(FORM, &body) {
            prop_assert_eq!(content.bytes(), &body);
        }
    }
}

fn escape(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
