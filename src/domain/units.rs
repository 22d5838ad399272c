//! Durations and sizes as operators write them: `"90s"`, `"1h30m"`, `"1MiB"`.
//!
//! Promises: a text has one meaning or is refused; nothing overflows.
//!
//! Absent on purpose: bare numbers for durations, since nobody can tell their unit; `"1MB"`, which is two sizes.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Why a text is not a duration or a size. The text shows what one looks like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitFault {
    /// Not a duration.
    #[error("\"{0}\" is not a duration; write it like \"90s\", \"5m\", \"48h\", \"7d\" or \"1h30m\"")]
    Duration(String),
    /// Not a size.
    #[error("\"{0}\" is not a size; write it like \"512KiB\", \"1MiB\" or \"65536B\"")]
    Size(String),
}

/// A length of time, read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes, read from text or from a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// From the largest; in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parts from the largest unit to the smallest, each at most once: `1h30m`, not `30m1h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitFault> {
    let fault = || UnitFault::Duration(text.to_owned());
    let mut rest = text;
    let mut units = UNITS.as_slice();
    let mut millis: u64 = 0;
    while !rest.is_empty() || text.is_empty() {
        let (count, after) = leading_number(rest).ok_or_else(fault)?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit_end).ok_or_else(fault)?;
        let at = units.iter().position(|(name, _)| *name == unit).ok_or_else(fault)?;
        let (found, smaller) = units.get(at..).and_then(<[_]>::split_first).ok_or_else(fault)?;
        let part = count.checked_mul(found.1).ok_or_else(fault)?;
        millis = millis.checked_add(part).ok_or_else(fault)?;
        (rest, units) = (next, smaller);
    }
    Ok(Duration::from_millis(millis))
}

/// One number and one unit: `B`, `KiB`, `MiB`, `GiB`.
pub fn parse_size(text: &str) -> Result<u64, UnitFault> {
    let fault = || UnitFault::Size(text.to_owned());
    let (count, unit) = leading_number(text).ok_or_else(fault)?;
    let scale: u64 = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(fault()),
    };
    count.checked_mul(scale).ok_or_else(fault)
}

/// A text of one unit that reads as this duration, to the millisecond.
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let whole = UNITS.iter().find(|(_, size)| millis > 0 && millis.is_multiple_of(u128::from(*size)));
    whole.map_or_else(|| "0s".to_owned(), |(unit, size)| format!("{}{unit}", millis / u128::from(*size)))
}

/// A text of one unit that reads as this size.
pub fn size_text(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = units.into_iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{bytes}B"), |(unit, size)| format!("{}{unit}", bytes / size))
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Span;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a duration like \"90s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                parse_duration(text).map(Span).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a size like \"1MiB\", or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text).map(Size).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        from.deserialize_any(Text)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "minLength": 1 })
    }
}
