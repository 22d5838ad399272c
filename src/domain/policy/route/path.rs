//! A request's path, in the one form in which it is matched.
//!
//! Promises: what is written in any other form is refused, never repaired, so that gate and app cannot read one path
//! in two ways; the folded form has lost whatever some app somewhere does not look at (case, dots and blanks at a
//! segment's end, wide letters).
//!
//! Absent on purpose: the query.

/// A path in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath {
    text: String,
    pub(super) segments: Vec<Segment>,
    /// Whether a slash ends it. Then there may be no segment at all.
    pub(super) ends_in_slash: bool,
}

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// As it was written.
    pub(super) written: String,
    /// What its escapes stand for.
    pub(super) decoded: String,
    /// What is left for the most lenient reader.
    pub(super) folded: String,
}

/// Why a path is in no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// The form that only proxies are sent, or none.
    #[error("it does not begin with a slash")]
    NotAbsolute,
    /// `//`.
    #[error("two slashes stand side by side")]
    Empty,
    /// `.`, `..`, `...`, and blanks that some take away.
    #[error("a segment has nothing but dots or blanks")]
    Dots,
    /// `;` begins what some apps cut off; `\` is a slash to others.
    #[error("a semicolon or a backslash stands in it")]
    Separator,
    /// `%2F` and the like.
    #[error("a slash, a backslash, a dot or a semicolon is escaped")]
    Hidden,
    /// `%41`.
    #[error("a character is escaped that needs no escape")]
    Needless,
    /// `%c3`.
    #[error("an escape is not written in capitals")]
    Lower,
    /// `%G1`.
    #[error("a percent sign begins no escape")]
    Broken,
    /// `%2541`.
    #[error("an escape is itself escaped")]
    Twice,
    /// NUL, a line's end.
    #[error("a control character is escaped")]
    Control,
    /// Bytes that are no text.
    #[error("what its escapes stand for is not UTF-8")]
    NotText,
    /// A blank, a quote, a letter beyond ASCII.
    #[error("a character must be escaped")]
    Unescaped,
}

impl NormalPath {
    /// The path of a request, as it came.
    ///
    /// # Errors
    /// Where it could have been written otherwise and mean the same.
    pub fn parse(path: &str) -> Result<Self, PathFault> {
        let rest = path.strip_prefix('/').ok_or(PathFault::NotAbsolute)?;
        let (inner, ends_in_slash) = match rest.strip_suffix('/') {
            Some(inner) => (inner, true),
            None => (rest, rest.is_empty()),
        };
        let text = path.to_owned();
        if rest.is_empty() {
            return Ok(Self { text, segments: Vec::new(), ends_in_slash });
        }
        let segments = inner.split('/').map(Segment::parse).collect::<Result<_, _>>()?;
        Ok(Self { text, segments, ends_in_slash })
    }

    /// As it came.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Segment {
    pub(super) fn parse(written: &str) -> Result<Self, PathFault> {
        if written.is_empty() {
            return Err(PathFault::Empty);
        }
        let decoded = decoded(written)?;
        // Once more, for whoever decodes twice.
        let mut escapes = decoded.match_indices('%').filter_map(|(at, _)| decoded.get(at + 1..at + 3));
        if escapes.any(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            return Err(PathFault::Twice);
        }
        let folded = folded(&decoded);
        if folded.is_empty() {
            return Err(PathFault::Dots);
        }
        Ok(Self { written: written.to_owned(), decoded, folded })
    }
}

/// What a segment says, where it says it in the one way there is.
fn decoded(written: &str) -> Result<String, PathFault> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => escaped(rest.next(), rest.next())?,
            b';' | b'\\' => return Err(PathFault::Separator),
            _ if stands_for_itself(byte) || is_reserved(byte) => byte,
            _ => return Err(PathFault::Unescaped),
        });
    }
    let decoded = String::from_utf8(bytes).map_err(|_| PathFault::NotText)?;
    if decoded.chars().any(char::is_control) {
        return Err(PathFault::Control);
    }
    // The wide forms, which some apps make narrow.
    if decoded.chars().any(|letter| !letter.is_ascii() && matches!(narrow(letter), '/' | '\\' | '.' | ';')) {
        return Err(PathFault::Hidden);
    }
    Ok(decoded)
}

/// The byte of an escape.
fn escaped(high: Option<u8>, low: Option<u8>) -> Result<u8, PathFault> {
    let digit = |byte: Option<u8>| match byte {
        Some(byte @ b'0'..=b'9') => Ok(byte - b'0'),
        Some(byte @ b'A'..=b'F') => Ok(byte - b'A' + 10),
        Some(b'a'..=b'f') => Err(PathFault::Lower),
        Some(_) | None => Err(PathFault::Broken),
    };
    match digit(high)? << 4 | digit(low)? {
        b'/' | b'\\' | b'.' | b';' => Err(PathFault::Hidden),
        byte if stands_for_itself(byte) => Err(PathFault::Needless),
        byte => Ok(byte),
    }
}

/// What means the same whether it is escaped or not, and so may not be.
const fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What may stand in a segment, and may be escaped as well: clients differ, and to an app the two may be two.
const fn is_reserved(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@')
}

/// What is left of a segment's text for the most lenient app.
fn folded(decoded: &str) -> String {
    // Up and down again: some letters share a partner in one direction only. The dot above is what `İ` leaves behind.
    let letters = decoded.chars().map(narrow).flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let letters: String = letters.filter(|letter| *letter != '\u{307}').collect();
    let blank = char::is_whitespace;
    letters.trim_start_matches(blank).trim_end_matches(|letter| letter == '.' || blank(letter)).to_owned()
}

/// The ASCII character of a wide one.
fn narrow(letter: char) -> char {
    match letter {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(letter) - 0xFEE0).unwrap_or(letter),
        other => other,
    }
}
