//! Sentences on a terminal: as wide as it is, with a little colour where there is one.
//!
//! Promises: what was sent to the gate is escaped here ([`super::screen::plain`]), so that no colour and no line break comes
//! from a stranger. Where standard output is no terminal, lines are not broken and nothing is coloured; `NO_COLOR` is heard.

use std::env;
use std::io::{self, IsTerminal as _};

use super::screen::plain;

/// The narrowest terminal that lines are fitted to.
const NARROWEST: usize = 40;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// As any.
    Usual,
    /// The head of something.
    Strong,
    /// What one looks up, and does not read.
    Faint,
    /// It went well.
    Good,
    /// It was held back.
    Held,
    /// Somebody should look.
    Alarm,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Held => "33",
            Self::Alarm => "31",
        }
    }
}

/// A text in the making.
pub(super) struct Page {
    width: Option<usize>,
    color: bool,
    text: String,
}

impl Page {
    /// For standard output as it is.
    pub(super) fn for_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let columns = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let width = if is_terminal { columns().map(|columns| columns.max(NARROWEST)) } else { None };
        // https://no-color.org
        let color = is_terminal
            && env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
            && env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { width, color, text: String::new() }
    }

    /// A paragraph, indented.
    pub(super) fn put(&mut self, ink: Ink, indent: usize, text: &str) {
        let plain = plain(text);
        let room = self.width.map(|width| width.saturating_sub(indent).max(1));
        for line in broken(&plain, room) {
            self.text.extend(std::iter::repeat_n(' ', indent));
            if self.color && ink != Ink::Usual {
                self.text.extend(["\u{1b}[", ink.code(), "m", line, "\u{1b}[0m"]);
            } else {
                self.text.push_str(line);
            }
            self.text.push('\n');
        }
    }

    /// A line that stays in one piece.
    pub(super) fn put_whole(&mut self, indent: usize, text: &str) {
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.text.push_str(&plain(text));
        self.text.push('\n');
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// All of it.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The lines of a text that has none, each of at most so many characters; broken at blanks where there are some.
fn broken(text: &str, room: Option<usize>) -> Vec<&str> {
    let Some(room) = room else { return vec![text] };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((most, _)) = rest.char_indices().nth(room) {
        let head = rest.get(..most).unwrap_or(rest);
        // A blank right behind the line is a place to break, too.
        let end = if rest.get(most..).is_some_and(|behind| behind.starts_with(' ')) {
            most
        } else {
            head.rfind(' ').filter(|at| *at > 0).unwrap_or(most)
        };
        let (line, after) = rest.split_at(end);
        lines.push(line.trim_end());
        rest = after.trim_start();
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_lose_nothing() {
        let check = |text: &str, room: usize, lines: &[&str]| assert_eq!(broken(text, Some(room)), lines);
        check("one two three", 7, &["one two", "three"]);
        check("one two three", 8, &["one two", "three"]);
        check("one two three", 13, &["one two three"]);
        check("abcdefghijk", 4, &["abcd", "efgh", "ijk"]);
        check("x abcdefghijk", 4, &["x", "abcd", "efgh", "ijk"]);
        check("üüü üüü", 3, &["üüü", "üüü"]);
        check("", 5, &[""]);
        assert_eq!(broken("as long as it likes", None), ["as long as it likes"]);
    }

    #[test]
    fn a_stranger_s_text_brings_neither_colour_nor_lines() {
        let mut page = Page { width: Some(40), color: true, text: String::new() };
        page.put(Ink::Alarm, 2, "k\u{1b}[2Jx\ny");
        assert_eq!(page.into_text(), "  \u{1b}[31mk\\u{1b}[2Jx\\u{a}y\u{1b}[0m\n");
    }
}
