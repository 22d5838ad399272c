//! The client's idempotency key.
//!
//! Promises: a [`Key`] is 1 to [`MAX_KEY_BYTES`] printable ASCII characters without blanks around them, so that it
//! can stand in a header, in a log and in a database as it is. One key has one form: however it was quoted or padded,
//! two places that mean the same key give equal values.
//!
//! Absent on purpose: any reading of a key's content. Case, hyphens and length are the client's.

use std::fmt;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 128;

/// A checked key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Nothing is left of it without the blanks around it: it counts as missing.
    #[error("the key is empty")]
    Missing,
    /// It is longer than [`MAX_KEY_BYTES`].
    #[error("the key has more than {MAX_KEY_BYTES} characters")]
    TooLong,
    /// It has characters other than printable ASCII.
    #[error("the key has characters other than printable ASCII (blank to tilde)")]
    Unprintable,
    /// It begins with a quotation mark in a header and is not a string by RFC 9651.
    #[error("the key begins with a quotation mark and is not a structured field string")]
    BadQuoting,
}

impl Key {
    /// The key that a JSON string names. Blanks, tabs and line ends around it do not count.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let key = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if key.is_empty() {
            return Err(KeyFault::Missing);
        }
        if !key.bytes().all(is_printable) {
            return Err(KeyFault::Unprintable);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(KeyFault::TooLong);
        }
        Ok(Self(key.to_owned()))
    }

    /// The key that a header's value names: bare, or quoted as a structured field string (RFC 9651, without
    /// parameters). Both forms of one key are equal.
    pub fn from_header(value: &str) -> Result<Self, KeyFault> {
        let value = value.trim_matches(|c: char| c.is_ascii_whitespace());
        match value.strip_prefix('"') {
            Some(quoted) => Self::parse(&unquoted(quoted).ok_or(KeyFault::BadQuoting)?),
            None => Self::parse(value),
        }
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e)
}

/// The content of a structured field string whose opening quote is gone.
fn unquoted(quoted: &str) -> Option<String> {
    let mut content = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return characters.as_str().is_empty().then_some(content),
            '\\' => content.push(characters.next().filter(|next| matches!(next, '"' | '\\'))?),
            plain => content.push(plain),
        }
    }
}
