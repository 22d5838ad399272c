//! API keys by the prefixes that their issuers gave them, so that they can be found.

use std::ops::Range;

use super::patterns::{begins_word, run};

/// One issuer's shape: a prefix and what follows it.
struct Shape {
    prefix: &'static str,
    tail: Tail,
    /// The shortest tail, in bytes. Issuers use longer ones; a cut or shortened key is a secret too.
    shortest: usize,
    /// Whether the prefix alone says little, so that it counts at the beginning of a word only.
    plain: bool,
}

/// The characters of a tail.
#[derive(Clone, Copy)]
enum Tail {
    /// Letters and digits.
    Alphanumeric,
    /// Also `_` and `-`.
    Base64Url,
    /// Also `.`.
    Dotted,
    /// Capitals and digits, exactly as many as the shortest.
    Capitals,
}

impl Tail {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Base64Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

const fn marked(prefix: &'static str, tail: Tail, shortest: usize) -> Shape {
    Shape { prefix, tail, shortest, plain: false }
}

const fn plain(prefix: &'static str, tail: Tail, shortest: usize) -> Shape {
    Shape { prefix, tail, shortest, plain: true }
}

const SHAPES: [Shape; 24] = [
    marked("sk_live_", Tail::Alphanumeric, 6),
    marked("sk_test_", Tail::Alphanumeric, 6),
    marked("rk_live_", Tail::Alphanumeric, 6),
    marked("rk_test_", Tail::Alphanumeric, 6),
    marked("whsec_", Tail::Alphanumeric, 10),
    marked("ghp_", Tail::Alphanumeric, 10),
    marked("gho_", Tail::Alphanumeric, 10),
    marked("ghu_", Tail::Alphanumeric, 10),
    marked("ghs_", Tail::Alphanumeric, 10),
    marked("ghr_", Tail::Alphanumeric, 10),
    marked("github_pat_", Tail::Base64Url, 10),
    marked("glpat-", Tail::Base64Url, 10),
    marked("xoxa-", Tail::Base64Url, 8),
    marked("xoxb-", Tail::Base64Url, 8),
    marked("xoxp-", Tail::Base64Url, 8),
    marked("xoxr-", Tail::Base64Url, 8),
    marked("xoxs-", Tail::Base64Url, 8),
    plain("AKIA", Tail::Capitals, 16),
    plain("ASIA", Tail::Capitals, 16),
    plain("AIza", Tail::Base64Url, 30),
    marked("sk-ant-", Tail::Base64Url, 10),
    marked("sk-proj-", Tail::Base64Url, 10),
    plain("sk-", Tail::Alphanumeric, 20),
    plain("ya29.", Tail::Dotted, 20),
];

/// Finds every key.
pub(super) fn find(text: &str, spans: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let may_begin = |byte: &u8| matches!(byte, b's' | b'r' | b'w' | b'g' | b'x' | b'A' | b'y');
        let Some(found) = rest.iter().position(may_begin) else { return };
        at += found;
        let length = SHAPES.iter().find_map(|shape| shape.length_at(bytes, at));
        if let Some(length) = length {
            spans.push(at..at + length);
        }
        at += length.unwrap_or(1);
    }
}

impl Shape {
    /// The length of the key of this shape that begins at `at`.
    fn length_at(&self, bytes: &[u8], at: usize) -> Option<usize> {
        if !bytes.get(at..)?.starts_with(self.prefix.as_bytes()) || (self.plain && !begins_word(bytes, at)) {
            return None;
        }
        let tail = at + self.prefix.len();
        if matches!(self.tail, Tail::Capitals) {
            // Only as far as it must be looked: capitals may go on for a megabyte.
            let beyond = (tail + self.shortest + 1).min(bytes.len());
            let length = run(bytes.get(..beyond)?, tail, |byte| byte.is_ascii_alphanumeric());
            let right = bytes.get(tail..tail + length)?.iter().all(|byte| self.tail.has(*byte));
            return (length == self.shortest && right).then_some(self.prefix.len() + length);
        }
        let length = run(bytes, tail, |byte| self.tail.has(byte));
        (length >= self.shortest).then_some(self.prefix.len() + length)
    }
}
