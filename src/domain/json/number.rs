//! A number's text, and its value in one canonical form.
//!
//! Promises: two numbers have the same canonical form exactly if they are equal as decimal numbers, however large
//! their exponents; the form is never longer than the text by more than a few bytes.

use std::cmp::Ordering;

/// A number's text, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(Box<str>);

/// Exponents of at most so many digits are computed with as integers; longer ones digit by digit.
const SHORT_EXPONENT: usize = 30;

impl Number {
    /// A text that the parser found to be a number.
    pub(super) fn of_checked(text: &str) -> Self {
        Self(Box::from(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, where the text is an integer's that fits; `1.0` and `1e0` are not.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Writes the value: `0`, or an optional `-`, digits that neither begin nor end with a zero, and `e` with the
    /// exponent where that is not zero.
    pub(super) fn write_canonical(&self, out: &mut Vec<u8>) {
        let Some((digits, exponent)) = self.value() else {
            out.push(b'0');
            return;
        };
        if self.0.starts_with('-') {
            out.push(b'-');
        }
        out.extend_from_slice(digits.as_bytes());
        if exponent != "0" {
            out.push(b'e');
            out.extend_from_slice(exponent.as_bytes());
        }
    }

    /// The decimal digits of a value that is whole, without its sign, where they are `most` or fewer.
    pub fn whole_digits(&self, most: usize) -> Option<String> {
        let Some((mut digits, exponent)) = self.value() else { return Some("0".to_owned()) };
        let zeros: usize = exponent.parse().ok()?;
        if digits.len().saturating_add(zeros) > most {
            return None;
        }
        digits.extend(std::iter::repeat_n('0', zeros));
        Some(digits)
    }

    /// The size of a value that is not zero: digits that neither begin nor end with a zero, and their exponent.
    pub(super) fn value(&self) -> Option<(String, String)> {
        let text = self.0.trim_start_matches('-');
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let significant = digits.trim_end_matches('0');
        let trailing = digits.len() - significant.len();
        let significant = significant.trim_start_matches('0');
        (!significant.is_empty())
            .then(|| (significant.to_owned(), sum(exponent, signed(trailing) - signed(fraction.len()))))
    }
}

/// A length, which is never near the end of what 64 bits hold.
fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// The sum of an exponent as JSON writes it and a small number, in decimal digits, `-` before them where negative.
fn sum(exponent: &str, small: i64) -> String {
    let (negative, digits) = match exponent.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let digits = digits.trim_start_matches('0');
    if digits.len() <= SHORT_EXPONENT {
        let size: i128 = digits.parse().unwrap_or(0);
        return (if negative { -size } else { size } + i128::from(small)).to_string();
    }
    // The exponent outweighs `small` by far, so that its sign is the sum's.
    let away = (small < 0) == negative;
    let mut sum =
        shifted(digits, small.unsigned_abs(), if away { Ordering::Greater } else { Ordering::Less });
    if negative {
        sum.insert(0, '-');
    }
    sum
}

/// Decimal digits plus (`Greater`) or minus (`Less`) a number that is smaller.
fn shifted(digits: &str, mut by: u64, way: Ordering) -> String {
    let mut shifted: Vec<u8> = Vec::with_capacity(digits.len() + 1);
    let mut carry = false;
    for digit in digits.bytes().rev() {
        let digit = digit - b'0';
        let step = u8::try_from(by % 10).unwrap_or(0) + u8::from(carry);
        by /= 10;
        let (next, over) = match way {
            Ordering::Less if digit < step => (digit + 10 - step, true),
            Ordering::Less => (digit - step, false),
            Ordering::Equal | Ordering::Greater if digit + step > 9 => (digit + step - 10, true),
            Ordering::Equal | Ordering::Greater => (digit + step, false),
        };
        shifted.push(b'0' + next);
        carry = over;
    }
    if carry {
        shifted.push(b'1');
    }
    while shifted.last() == Some(&b'0') {
        shifted.pop();
    }
    shifted.iter().rev().map(|byte| char::from(*byte)).collect()
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}
