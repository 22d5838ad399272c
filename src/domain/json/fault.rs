//! What is wrong with a text that is not JSON, in words for whoever sent it.

use std::fmt;

/// The longest part of a member's name that a message shows, in characters.
const SHOWN_NAME: usize = 40;

/// Why a text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonFault {
    /// Where, in bytes from the start.
    pub offset: usize,
    /// What.
    pub kind: FaultKind,
}

impl JsonFault {
    /// Whether the text is JSON by its grammar and only names a member twice.
    pub fn is_duplicate(&self) -> bool {
        matches!(self.kind, FaultKind::Duplicate { .. })
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The text ends in the middle of a value.
    CutShort,
    /// Something else stands where `what` is due.
    Expected {
        /// What is due.
        what: &'static str,
    },
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// The text begins with a byte order mark.
    ByteOrderMark,
    /// Something follows the value.
    Trailing,
    /// More levels of arrays and objects than are read.
    TooDeep {
        /// So many are read.
        limit: usize,
    },
    /// Not a number by JSON's grammar.
    BadNumber,
    /// A backslash that begins no escape of JSON's.
    BadEscape,
    /// An escaped half of a surrogate pair without the other half.
    LoneSurrogate,
    /// A control character inside a string, not escaped.
    ControlCharacter,
    /// An object names a member twice.
    Duplicate {
        /// The name, unescaped, whole.
        name: String,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => f.write_str("the text ends too early"),
            Self::Expected { what } => write!(f, "{what} expected"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::ByteOrderMark => f.write_str("a byte order mark"),
            Self::Trailing => f.write_str("something after the end of the value"),
            Self::TooDeep { limit } => write!(f, "nested deeper than {limit} levels"),
            Self::BadNumber => f.write_str("not a JSON number"),
            Self::BadEscape => f.write_str("not a JSON escape"),
            Self::LoneSurrogate => f.write_str("half a surrogate pair"),
            Self::ControlCharacter => f.write_str("a control character in a string"),
            Self::Duplicate { name } => {
                // The name is the sender's: nothing in it may forge a line of a log or turn text around.
                let shown: String = name.chars().take(SHOWN_NAME).flat_map(char::escape_debug).collect();
                let cut = if name.chars().nth(SHOWN_NAME).is_some() { "…" } else { "" };
                write!(f, "duplicate member \"{shown}{cut}\"")
            }
        }
    }
}
