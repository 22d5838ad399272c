//! Card numbers: an issuer's prefix, a length that this issuer uses, and a check digit that is right.
//!
//! Promises: digits that only look long (order numbers, timestamps in any unit, phone numbers, UUIDs) are left alone
//! unless all three agree.
//!
//! Absent on purpose: Visa's numbers of thirteen digits. None is valid any more, and every tenth article number
//! (EAN-13) of some countries would be taken for one.

use std::ops::{Range, RangeInclusive};

use super::patterns::{before, follows_escape, run};
use crate::domain::json::Number;

const SHORTEST: usize = 12;
const LONGEST: usize = 19;

/// In a number that is printed in groups, none is shorter or longer.
const GROUP: RangeInclusive<usize> = 3..=6;

/// An issuer's prefixes, as the first four digits, and its lengths.
struct Issuer {
    first_four: RangeInclusive<u32>,
    lengths: &'static [usize],
}

const fn issuer(first_four: RangeInclusive<u32>, lengths: &'static [usize]) -> Issuer {
    Issuer { first_four, lengths }
}

const ISSUERS: [Issuer; 24] = [
    issuer(2200..=2204, &[16, 17, 18, 19]),                 // Mir
    issuer(2221..=2720, &[16]),                             // Mastercard
    issuer(3000..=3059, &[14, 16]),                         // Diners Club
    issuer(3095..=3095, &[14, 16]),                         // Diners Club
    issuer(3400..=3499, &[15]),                             // American Express
    issuer(3528..=3589, &[16, 17, 18, 19]),                 // JCB
    issuer(3600..=3699, &[14, 16]),                         // Diners Club
    issuer(3700..=3799, &[15]),                             // American Express
    issuer(3800..=3999, &[14, 16]),                         // Diners Club
    issuer(4000..=4999, &[16, 19]),                         // Visa
    issuer(5018..=5020, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(5038..=5038, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(5060..=5089, &[16, 18, 19]),                     // Verve, Elo, RuPay
    issuer(5100..=5599, &[16]),                             // Mastercard
    issuer(5893..=5893, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(6000..=6099, &[16, 19]),                         // Discover, RuPay, Hipercard
    issuer(6200..=6299, &[16, 17, 18, 19]),                 // UnionPay
    issuer(6304..=6304, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(6362..=6399, &[16]),                             // Elo, InstaPayment
    issuer(6440..=6599, &[16, 19]),                         // Discover, RuPay
    issuer(6759..=6759, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(6761..=6763, &[12, 13, 14, 15, 16, 17, 18, 19]), // Maestro
    issuer(8100..=8299, &[16, 17, 18, 19]),                 // UnionPay, RuPay
    issuer(9792..=9792, &[16]),                             // Troy
];

/// Whether these ASCII digits are a card's number.
fn is_card(digits: &[u8]) -> bool {
    if !(SHORTEST..=LONGEST).contains(&digits.len()) {
        return false;
    }
    let first_four = digits.iter().take(4).fold(0, |sum, digit| sum * 10 + value(*digit));
    let is_issued =
        |issuer: &Issuer| issuer.first_four.contains(&first_four) && issuer.lengths.contains(&digits.len());
    ISSUERS.iter().any(is_issued) && has_check_digit(digits)
}

/// Luhn's formula: from the right, every second digit counts twice.
fn has_check_digit(digits: &[u8]) -> bool {
    let weighed = digits.iter().rev().enumerate().map(|(at, digit)| match (at % 2, value(*digit)) {
        (0, digit) => digit,
        (_, digit) if digit > 4 => digit * 2 - 9,
        (_, digit) => digit * 2,
    });
    weighed.sum::<u32>() % 10 == 0
}

fn value(digit: u8) -> u32 {
    u32::from(digit.wrapping_sub(b'0'))
}

/// Whether a number's value is that of a card's digits, however it is spelt (`4.1e15`, `….0`).
pub(super) fn is_card_number(number: &Number) -> bool {
    let text = number.as_str();
    if text.len() < SHORTEST && !text.contains(['e', 'E']) {
        return false;
    }
    number.whole_digits(LONGEST).is_some_and(|digits| is_card(digits.as_bytes()))
}

/// Finds every card number, in one piece or in groups with one blank or hyphen between.
pub(super) fn find(text: &str, spans: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut groups = Vec::new();
    while let Some(rest) = bytes.get(at..) {
        let Some(found) = rest.iter().position(u8::is_ascii_digit) else { return };
        groups.clear();
        at += found;
        let escape = escaped(bytes, at);
        loop {
            let end = at + run(bytes, at, |byte| byte.is_ascii_digit());
            groups.push(at..end);
            at = end;
            let goes_on = matches!(bytes.get(end), Some(b' ' | b'-'))
                && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            if !goes_on {
                break;
            }
            at += 1;
        }
        find_among(bytes, &groups, spans);
        if let Some(first) = groups.first_mut().filter(|_| escape > 0) {
            first.start += escape;
            find_among(bytes, &groups, spans);
        }
    }
}

/// How many of the digits at `at` may belong to an escape (`%20`, `\u0022`) that began before them.
fn escaped(bytes: &[u8], at: usize) -> usize {
    let length = match (before(bytes, at, 2), before(bytes, at, 1)) {
        (_, Some(b'%')) => 2,
        (Some(b'\\'), Some(b'u')) => 4,
        _ => return 0,
    };
    length.min(run(bytes, at, |byte| byte.is_ascii_digit()))
}

/// Finds the card numbers that begin and end with one of these groups of digits.
fn find_among(bytes: &[u8], groups: &[Range<usize>], spans: &mut Vec<Range<usize>>) {
    let mut rest = groups;
    while let Some((first, others)) = rest.split_first() {
        let span = if may_begin(bytes, first.start) { longest_from(bytes, rest) } else { None };
        rest = match span {
            Some((count, span)) => {
                spans.push(span);
                rest.get(count..).unwrap_or_default()
            }
            None => others,
        };
    }
}

/// The longest card number that begins with the first group: how many groups it takes, and where it stands.
fn longest_from(bytes: &[u8], groups: &[Range<usize>]) -> Option<(usize, Range<usize>)> {
    let start = groups.first()?.start;
    let mut digits = Vec::with_capacity(LONGEST);
    let mut longest = None;
    for (at, group) in groups.iter().enumerate() {
        let in_groups = at > 0;
        let fits = !in_groups
            || (GROUP.contains(&group.len())
                && groups.first().is_some_and(|first| GROUP.contains(&first.len())));
        if !fits || digits.len() + group.len() > LONGEST {
            break;
        }
        digits.extend_from_slice(bytes.get(group.clone()).unwrap_or_default());
        if is_card(&digits) && may_end(bytes, group.end) {
            longest = Some((at + 1, start..group.end));
        }
    }
    longest
}

/// Whether a card number may begin here: not in the middle of a hexadecimal number, nor after a decimal point.
fn may_begin(bytes: &[u8], at: usize) -> bool {
    match before(bytes, at, 1) {
        Some(b'.') => !before(bytes, at, 2).is_some_and(|byte| byte.is_ascii_digit()),
        // A magnetic stripe begins with `%B`.
        Some(b'B') if before(bytes, at, 2) == Some(b'%') => true,
        Some(letter) if letter.is_ascii_hexdigit() => follows_escape(bytes, at),
        Some(_) | None => true,
    }
}

/// Whether a card number may end here: not in the middle of a hexadecimal number.
fn may_end(bytes: &[u8], at: usize) -> bool {
    !bytes.get(at).is_some_and(u8::is_ascii_hexdigit)
}
