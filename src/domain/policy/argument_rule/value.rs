//! What a rule computes with, and why it may say nothing.
//!
//! Promises: nothing that looks like a secret stands in what is said of a value.

use std::borrow::Cow;
use std::fmt;

use crate::domain::json::{Decimal, Json, MOST_DIGITS, Object};
use crate::domain::redact::mask_text;

/// How much of a value is shown to a person.
const SHOWN: usize = 80;

/// Why a rule says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    Missing(String),
    Lookalike(String),
    NoObject(String),
    Kinds(&'static str, &'static str),
    Kind(&'static str, &'static str),
    Number(String),
    TooLarge,
    TooMuch,
}

impl fmt::Display for Unclear {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(to, "{what} is not there"),
            Self::Lookalike(what) => write!(to, "beside {what} stands a member that some apps take for it"),
            Self::NoObject(what) => write!(to, "{what} is no object"),
            Self::Kinds(one, other) => write!(to, "{one} and {other} cannot be compared"),
            Self::Kind(found, due) => write!(to, "{found} stands where {due} is due"),
            Self::Number(text) => write!(to, "\"{text}\" is no number that can be computed with exactly"),
            Self::TooLarge => to.write_str("a number becomes too large to be computed with exactly"),
            Self::TooMuch => to.write_str("the arguments are more than a rule looks through"),
        }
    }
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(Cow<'a, str>),
    Array(&'a [Json]),
    Object(&'a Object),
    List(Vec<Value<'a>>),
    Scopes,
}

impl Value<'_> {
    /// Why it cannot stand where this is due.
    pub(super) const fn is_no(&self, due: &'static str) -> Unclear {
        Unclear::Kind(self.kind(), due)
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Array(_) | Self::List(_) | Self::Scopes => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// A number that is there, or that a text writes in one way only: no exponent, no zeros before it, no blanks.
pub(super) fn number(whole: bool, value: Value<'_>) -> Result<Decimal, Unclear> {
    let number = match value {
        Value::Number(number) => number,
        Value::Text(text) => {
            let unclear = || Unclear::Number(short(&text));
            let size = text.strip_prefix('-').unwrap_or(&text);
            let (before, behind) = size.split_once('.').unwrap_or((size, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let plain = digits(before) && digits(behind) && (before == "0" || !before.starts_with('0'));
            if !plain || text.len() > MOST_DIGITS + 2 {
                return Err(unclear());
            }
            Decimal::parse(&text).ok_or_else(unclear)?
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::List(_)
        | Value::Scopes) => return Err(other.is_no("a number or a text")),
    };
    if whole && !number.is_whole() {
        return Err(Unclear::Number(number.to_string()));
    }
    Ok(number)
}

/// What is shown of a text: its beginning, and nothing that looks like a secret.
pub(super) fn short(text: &str) -> String {
    let begin: String = text.chars().take(4 * SHOWN).collect();
    let masked = mask_text(&begin);
    let mut short: String = masked.chars().take(SHOWN).collect();
    if masked.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}
