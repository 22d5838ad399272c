//! A number that is computed with.
//!
//! Promises: exact, as decimal numbers are: nothing is rounded, nothing wraps. What would need more than
//! [`MOST_DIGITS`] digits, or a larger exponent than [`MOST_EXPONENT`], is no such number.
//!
//! Absent on purpose: division. Its results have no end, or are rounded.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;

use super::Number;

/// The most significant digits.
pub const MOST_DIGITS: usize = 36;
/// The largest power of ten, either way.
const MOST_EXPONENT: i32 = 400;

/// A decimal number: digits that do not end with a zero, and a power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: i128,
    exponent: i32,
}

impl Decimal {
    /// The number that a JSON number, or one that begins with its point, writes.
    pub fn parse(text: &str) -> Option<Self> {
        let size = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = size.split_once(['e', 'E']).unwrap_or((size, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let sound = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let all = sound(whole) && sound(fraction) && sound(exponent);
        (all && !fraction.is_empty() && !exponent.is_empty() && mantissa != ".")
            .then(|| Self::of(&Number::of_checked(text)))
            .flatten()
    }

    /// The value of a JSON number, unless it is too long or too large to be computed with.
    pub fn of(number: &Number) -> Option<Self> {
        let Some((digits, exponent)) = number.value() else { return Some(Self { digits: 0, exponent: 0 }) };
        if digits.len() > MOST_DIGITS {
            return None;
        }
        let digits: i128 = digits.parse().ok()?;
        let negative = number.as_str().starts_with('-');
        Self::new(if negative { -digits } else { digits }, exponent.parse().ok()?)
    }

    fn new(mut digits: i128, mut exponent: i32) -> Option<Self> {
        if digits == 0 {
            return Some(Self { digits: 0, exponent: 0 });
        }
        while digits % 10 == 0 {
            digits /= 10;
            exponent = exponent.checked_add(1)?;
        }
        (length(digits) <= MOST_DIGITS && exponent.abs() <= MOST_EXPONENT)
            .then_some(Self { digits, exponent })
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (one, other, exponent) = aligned(self, other)?;
        Self::new(one.checked_add(other)?, exponent)
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.plus(-other)
    }

    /// The product.
    pub fn times(self, other: Self) -> Option<Self> {
        Self::new(self.digits.checked_mul(other.digits)?, self.exponent.checked_add(other.exponent)?)
    }

    /// What is left of a whole number that is divided by another; none where one of them is not whole, or by zero.
    pub fn rest(self, of: Self) -> Option<Self> {
        Self::new(self.whole()?.checked_rem(of.whole()?)?, 0)
    }

    /// Whether it has nothing behind its point.
    pub const fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    fn whole(self) -> Option<i128> {
        self.digits.checked_mul(power(u32::try_from(self.exponent).ok()?)?)
    }

    /// How many digits it has before its point, below zero for those behind it.
    fn size(self) -> i64 {
        i64::try_from(length(self.digits)).unwrap_or(i64::MAX) + i64::from(self.exponent)
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        // An i64 has 19 digits.
        Self::new(i128::from(number), 0).unwrap_or(Self { digits: i128::from(number), exponent: 0 })
    }
}

impl Neg for Decimal {
    type Output = Self;

    fn neg(self) -> Self {
        Self { digits: -self.digits, ..self }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.digits.signum().cmp(&other.digits.signum());
        if sign != Ordering::Equal || self.digits == 0 {
            return sign;
        }
        let size = match self.size().cmp(&other.size()) {
            // Of one size: so they are at most as far apart as their digits are many.
            Ordering::Equal => {
                return aligned(*self, *other).map_or(Ordering::Equal, |(one, other, _)| one.cmp(&other));
            }
            larger @ (Ordering::Less | Ordering::Greater) => larger,
        };
        if self.digits < 0 { size.reverse() } else { size }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(whole) = self.whole() {
            return write!(to, "{whole}");
        }
        let digits = self.digits.unsigned_abs().to_string();
        let sign = if self.digits < 0 { "-" } else { "" };
        let behind = usize::try_from(-i64::from(self.exponent)).unwrap_or_default();
        if self.exponent > 0 || behind > MOST_DIGITS {
            return write!(to, "{sign}{digits}e{}", self.exponent);
        }
        let digits = format!("{digits:0>width$}", width = behind + 1);
        let (whole, fraction) = digits.split_at_checked(digits.len() - behind).unwrap_or((&digits, ""));
        write!(to, "{sign}{whole}.{fraction}")
    }
}

fn length(digits: i128) -> usize {
    digits.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn power(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// Both with one exponent.
fn aligned(one: Decimal, other: Decimal) -> Option<(i128, i128, i32)> {
    let exponent = one.exponent.min(other.exponent);
    let at = |number: Decimal| {
        let shift = u32::try_from(number.exponent.checked_sub(exponent)?).ok()?;
        number.digits.checked_mul(power(shift)?)
    };
    // Nothing is as small as it takes to be added to.
    match (one.digits, other.digits) {
        (0, _) => Some((0, other.digits, other.exponent)),
        (_, 0) => Some((one.digits, 0, one.exponent)),
        (..) => Some((at(one)?, at(other)?, exponent)),
    }
}
