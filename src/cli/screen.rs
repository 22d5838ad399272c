//! What a person sees: tables, and text that cannot write to the terminal.
//!
//! Promises: a stored value is shown, never obeyed. Control characters and marks that change the direction of writing
//! come out escaped, whatever key or tool name somebody once sent. A reader that stops reading (`| head`) is no
//! failure, nor is a standard error that takes nothing.
//!
//! Absent on purpose: colours, and the width of the terminal. Lines of tables are cut by pipes and pagers, not here; what
//! is told in sentences has a [`super::page`].

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::domain::shown::is_obeyed;
pub(super) use crate::domain::shown::plain;

/// A JSON text that a terminal shows as it is, and that means the same: such characters stand in its strings only.
pub(super) fn plain_json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut plain, character| {
        if is_obeyed(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let written = write!(plain, "\\u{unit:04x}");
                debug_assert!(written.is_ok(), "writing to a String cannot fail");
            }
        } else {
            plain.push(character);
        }
        plain
    })
}

/// Says lines on standard error. Where it takes nothing, nobody can be told.
pub(super) fn tell(text: &str) {
    for line in text.lines() {
        // Not `eprintln!`, which panics then.
        let _nobody_hears = writeln!(io::stderr(), "{}", plain(line)).is_err();
    }
}

/// A table that is written in pieces: every column as wide as its widest cell so far, the last one as long as it likes.
pub(super) struct Columns<const N: usize> {
    heads: Option<[&'static str; N]>,
    widths: [usize; N],
}

impl<const N: usize> Columns<N> {
    /// Under these heads, which come with the first piece.
    pub(super) fn of(heads: [&'static str; N]) -> Self {
        Self { heads: Some(heads), widths: heads.map(|head| head.chars().count()) }
    }

    /// The lines of these rows.
    pub(super) fn put(&mut self, rows: &[[String; N]]) -> String {
        let heads = self.heads.take().map(|heads| heads.map(str::to_owned));
        let rows: Vec<[String; N]> =
            heads.into_iter().chain(rows.iter().map(|row| row.each_ref().map(|cell| plain(cell)))).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        rows.iter().fold(String::new(), |mut text, row| {
            let line = row.iter().zip(self.widths).fold(String::new(), |mut line, (cell, width)| {
                let written = write!(line, "{cell:width$}  ");
                debug_assert!(written.is_ok(), "writing to a String cannot fail");
                line
            });
            text.push_str(line.trim_end());
            text.push('\n');
            text
        })
    }
}

/// A whole table.
pub(super) fn table<const N: usize>(heads: [&'static str; N], rows: &[[String; N]]) -> String {
    Columns::of(heads).put(rows)
}

/// Writes to standard output. A closed pipe means that nobody wants to read on.
pub(super) fn show(text: &str) -> io::Result<()> {
    show_to_reader(text).map(drop)
}

/// The same; says whether somebody reads on.
pub(super) fn show_to_reader(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}
