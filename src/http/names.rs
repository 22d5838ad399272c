//! A field's name, in every way that some backend reads it.
//!
//! Promises: a name that PHP, Rack, Node's parsers, .NET or Go's lenient readers take for another is known under that
//! other name too. What errs here errs to more readings, never to fewer.
//!
//! Absent on purpose: any use of it to read a request. It finds what others may read; the gate's own reading is exact.

use crate::domain::json::folded;

/// Fields by which some framework takes another method than the request line's. The last three are header names, which
/// .NET's MVC looks up among the fields as well.
const OVERRIDES: [&str; 4] = ["_method", "x-http-method-override", "x-http-method", "x-method-override"];

/// Every reading of one name.
#[derive(Debug)]
pub(super) struct Readings(Vec<String>);

impl Readings {
    /// Of a name as it stands in a request, percent-escapes of its own place decoded.
    pub(super) fn of(name: &[u8]) -> Self {
        let text = String::from_utf8_lossy(name);
        let mut readings = Vec::new();
        for text in [Some(text.as_ref()), unescaped(&text).as_deref()].into_iter().flatten() {
            for name in trims(text).into_iter().flat_map(cuts) {
                let reading = plain(name);
                if !readings.contains(&reading) {
                    readings.push(reading);
                }
            }
        }
        Self(readings)
    }

    /// Whether some backend takes it for the name whose [`plain`] form this is.
    pub(super) fn include(&self, name: &str) -> bool {
        self.0.iter().any(|reading| reading == name)
    }

    /// Whether some backend takes another method from a field of this name.
    pub(super) fn override_the_method(&self) -> bool {
        self.0.iter().any(|reading| OVERRIDES.contains(&reading.as_str()))
    }
}

/// The name without what stands around it: PHP skips blanks before it and nothing behind it, others skip more, and a few
/// a question mark.
fn trims(name: &str) -> Vec<&str> {
    let skipped = |letter: char| letter.is_whitespace() || letter.is_control();
    let before = |letter: char| skipped(letter) || letter == '?';
    // Bodies may hold very many names, and nearly all have nothing around them.
    if !name.starts_with(before) && !name.ends_with(skipped) {
        return vec![name];
    }
    let trimmed = [
        name,
        name.trim_start_matches(' '),
        name.trim_start_matches([' ', '?']),
        name.trim_start_matches(skipped),
        name.trim_start_matches(before),
    ];
    trimmed.into_iter().flat_map(|name| [name, name.trim_end_matches(skipped)]).collect()
}

/// The name, and what it is within brackets: `name[]` is a list under `name`, and Rack and qs take `[name]` and `name]` for
/// `name` as well.
fn cuts(name: &str) -> impl Iterator<Item = &str> {
    let list = name.split('[').next();
    let inner = name.trim_start_matches(['[', ']']).split(['[', ']']).next();
    let shorter = [list, inner].into_iter().flatten().filter(|cut| cut.len() < name.len());
    std::iter::once(name).chain(shorter)
}

/// A name as PHP registers it (`.`, blanks and an unclosed `[` become `_`), without case, up to a NUL.
pub(super) fn plain(name: &str) -> String {
    let php = |letter: char| if matches!(letter, '.' | '[') || letter.is_whitespace() { '_' } else { letter };
    if name.is_ascii() {
        let letters = name.chars().take_while(|letter| *letter != '\0');
        return letters.map(|letter| php(letter.to_ascii_lowercase())).collect();
    }
    folded(name).chars().map(php).collect()
}

/// With percent-escapes decoded once more: some decode twice, some decode where nothing is escaped, and .NET knows
/// `%u005f`. None where there are none.
fn unescaped(name: &str) -> Option<String> {
    if !name.contains('%') {
        return None;
    }
    let mut text = String::with_capacity(name.len());
    let mut pieces = name.split('%');
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let wide = piece.strip_prefix(['u', 'U']).and_then(|digits| digits.split_at_checked(4));
        let escaped = wide.or_else(|| piece.split_at_checked(2));
        if let Some((letter, rest)) = escaped.and_then(|(digits, rest)| Some((code(digits)?, rest))) {
            text.push(letter);
            text.push_str(rest);
        } else {
            text.push('%');
            text.push_str(piece);
        }
    }
    Some(text)
}

/// The character of this code, in hexadecimal digits. A byte of a longer character stands for itself: the names that
/// are looked for are ASCII, or were decoded before.
fn code(digits: &str) -> Option<char> {
    let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}
