//! Secrets that show what they are, wherever they stand.
//!
//! Promises: every scan is linear in the text, whatever the text; a span begins and ends at a character.
//!
//! Absent on purpose: regular expressions. Each shape here is a prefix, a character class and a length; written out,
//! their cost and their edges can be seen.

use std::ops::Range;

use super::{cards, keys};

/// Where secrets stand in the text: in order, none touching the next.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    cards::find(text, &mut spans);
    keys::find(text, &mut spans);
    find_bearers(text, &mut spans);
    find_jwts(text, &mut spans);
    find_private_keys(text, &mut spans);
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    spans.dedup_by(|later, earlier| {
        let touches = later.start <= earlier.end;
        earlier.end = earlier.end.max(if touches { later.end } else { 0 });
        touches
    });
    spans
}

/// The byte that stands `back` bytes before `at`.
pub(super) fn before(bytes: &[u8], at: usize, back: usize) -> Option<u8> {
    bytes.get(at.checked_sub(back)?).copied()
}

/// Whether a word begins at `at`: no letter or digit stands before it, or one that ends an escape (`\n`, `%20`,
/// `\u0020`), as in JSON or a URL inside a string.
pub(super) fn begins_word(bytes: &[u8], at: usize) -> bool {
    before(bytes, at, 1).is_none_or(|byte| !byte.is_ascii_alphanumeric()) || follows_escape(bytes, at)
}

/// Whether an escape ends right before `at`.
pub(super) fn follows_escape(bytes: &[u8], at: usize) -> bool {
    before(bytes, at, 2) == Some(b'\\')
        || before(bytes, at, 3) == Some(b'%')
        || (before(bytes, at, 6) == Some(b'\\') && before(bytes, at, 5) == Some(b'u'))
}

/// How many bytes from `at` on belong to a class.
pub(super) fn run(bytes: &[u8], at: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len())
}

/// What follows the word `Bearer`, in any case.
fn find_bearers(text: &str, spans: &mut Vec<Range<usize>>) {
    const WORD: &[u8] = b"bearer";
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| byte | 0x20 == b'b'))
    {
        let word = at + found;
        at = word + 1;
        let is_word = bytes.get(word..word + WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD));
        if !is_word || !begins_word(bytes, word) {
            continue;
        }
        at = word + WORD.len();
        let token = at + blanks(bytes, at);
        let length = run(bytes, token, is_token);
        if token > at && bytes.get(token..token + length).is_some_and(is_bearer_token) {
            spans.push(token..token + length);
            // A token that ends with the word itself may have another one after it.
            at = (token + length).saturating_sub(WORD.len()).max(at);
        }
    }
}

/// The blanks from `at` on, as they are or as a URL writes them.
fn blanks(bytes: &[u8], at: usize) -> usize {
    let plain = run(bytes, at, |byte| matches!(byte, b' ' | b'\t' | b'+' | b':'));
    if plain == 0 && bytes.get(at..at + 3) == Some(b"%20") { 3 } else { plain }
}

/// RFC 6750's token.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

/// Whether what follows `Bearer` is a token and not the next word of a sentence.
fn is_bearer_token(token: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| token.iter().any(class);
    let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    token.len() >= 20
        || (token.len() >= 12 && inner.iter().any(|byte| !byte.is_ascii_alphanumeric()))
        || (token.len() >= 8 && inner.iter().any(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
        || (token.len() >= 6 && has(u8::is_ascii_digit))
}

/// JSON Web Tokens: base64url parts between dots, the first of which begins as `{"` does.
fn find_jwts(text: &str, spans: &mut Vec<Range<usize>>) {
    const SHORTEST_HEADER: usize = 12;
    const SHORTEST_PAYLOAD: usize = 4;
    const MOST_PARTS: usize = 5;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find("eyJ")) {
        let start = at + found;
        let header = run(bytes, start, is_part);
        at = start + header;
        let (mut end, mut parts, mut payload) = (at, 1, 0);
        while parts < MOST_PARTS && bytes.get(end) == Some(&b'.') {
            let part = run(bytes, end + 1, is_part);
            end += 1 + part;
            parts += 1;
            payload = if parts == 2 { part } else { payload };
        }
        // An encrypted one may have an empty second part, and has five in all; an unsigned one an empty third.
        let is_token = parts == MOST_PARTS || (parts > 2 && payload >= SHORTEST_PAYLOAD);
        if header >= SHORTEST_HEADER && is_token {
            at = end;
            spans.push(start..end);
        }
    }
}

/// Private keys in PEM, from their first line to their last, or to the end of a text that was cut.
fn find_private_keys(text: &str, spans: &mut Vec<Range<usize>>) {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    const LONGEST_LABEL: usize = 40;
    let is_label = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ';
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(BEGIN)) {
        let start = at + found;
        at = start + BEGIN.len();
        let bytes = text.as_bytes();
        let label = run(bytes, at, is_label);
        let is_private = label <= LONGEST_LABEL
            && text.get(at..at + label).is_some_and(|label| label.contains("PRIVATE KEY"));
        if !is_private {
            continue;
        }
        let end = text.get(at..).and_then(|rest| rest.find(END)).map_or(text.len(), |end| {
            let label = at + end + END.len();
            let dashes = label + run(bytes, label, is_label);
            dashes + run(bytes, dashes, |byte| byte == b'-')
        });
        at = end;
        spans.push(start..end);
    }
}
