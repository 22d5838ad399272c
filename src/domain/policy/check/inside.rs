//! Where something stands in a TOML string, of which the reader only has what it says.
//!
//! Promises: the place in the file of each of the text's bytes, escapes and quotes counted.

use std::ops::Range;

/// At which byte of the file the byte `offset` of a string's text stands. `span` is the string's, quotes and all.
pub(super) fn place(file: &str, span: &Range<usize>, offset: usize) -> usize {
    let written = file.get(span.clone()).unwrap_or_default();
    let (open, escapes) = [("\"\"\"", true), ("'''", false), ("\"", true), ("'", false)]
        .into_iter()
        .find(|(quote, _)| written.starts_with(quote))
        .unwrap_or_default();
    let mut at = open.len();
    let rest = |at: usize| written.get(at..).unwrap_or_default();
    if open.len() == 3 {
        // A line break right behind the quotes is none of the text's.
        at += ["\r\n", "\n"].iter().find(|end| rest(at).starts_with(*end)).map_or(0, |end| end.len());
    }
    let mut text = 0;
    while text < offset {
        let Some(letter) = rest(at).chars().next() else { break };
        if escapes && letter == '\\' {
            let (length, says) = escape(rest(at));
            at += length;
            text += says;
        } else {
            at += letter.len_utf8();
            text += letter.len_utf8();
        }
    }
    span.start + at
}

/// How many bytes an escape has, and how many it stands for.
fn escape(written: &str) -> (usize, usize) {
    let kind = written.chars().nth(1).unwrap_or('\\');
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        blank if blank.is_whitespace() => {
            let length = written.get(1..).map_or(0, |rest| rest.len() - rest.trim_start().len());
            return (1 + length, 0);
        }
        _ => return (1 + kind.len_utf8(), 1),
    };
    let code = written.get(2..2 + digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    (2 + digits, code.and_then(char::from_u32).map_or(1, char::len_utf8))
}
