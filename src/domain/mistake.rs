//! A mistake in what an operator wrote, said so that it can be put right without searching.
//!
//! Promises: every [`Mistake`] says where it stands (file, line and column; or the variable, or the flag) and, where
//! there is one, the nearest right word.
//!
//! Absent on purpose: values. A mistake repeats the operator's keys and words, never what a secret's file holds.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How alike two words must be (Jaro-Winkler) for one to be offered for the other.
const ALIKE: f64 = 0.8;

/// Where a mistake stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file, at a position where one is known.
    File {
        /// As the operator named it.
        path: PathBuf,
        /// Line and column.
        at: Option<Position>,
    },
    /// In an environment variable.
    Variable(String),
    /// In a command-line flag, with its dashes.
    Flag(String),
    /// In what all sources together say, or fail to say.
    Settings,
}

/// A position in a text. Both count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    place: Place,
    message: String,
    help: Option<String>,
}

impl Mistake {
    /// A mistake at a place.
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), help: None }
    }

    /// A mistake about a whole file.
    pub fn in_file(path: &Path, message: impl Into<String>) -> Self {
        Self::new(Place::File { path: path.to_owned(), at: None }, message)
    }

    /// What the TOML reader, or serde above it, complained about, in this house's words.
    pub fn of_toml(place: Place, error: &toml::de::Error) -> Self {
        let (message, help) = reworded(error.message());
        Self { place, message, help }
    }

    /// The same mistake, with a hint how to put it right.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How it may be put right.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, at: Some(at) } => write!(to, "{}:{}:{}", path.display(), at.line, at.column),
            Self::File { path, at: None } => write!(to, "{}", path.display()),
            Self::Variable(name) | Self::Flag(name) => to.write_str(name),
            Self::Settings => to.write_str("settings"),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.place, self.message)?;
        match &self.help {
            Some(help) => write!(to, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

/// Every mistake that was found: at least one, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// `Err` with everything that was found, sorted and each told once; `Ok` where nothing was.
    pub fn none_in(mut found: Vec<Mistake>) -> Result<(), Self> {
        found.sort();
        found.dedup();
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// With one before all others, wherever those stand: what explains them.
    #[must_use]
    pub fn behind(mut self, first: Mistake) -> Self {
        self.0.insert(0, first);
        self
    }

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Mistakes {
    type Item = &'a Mistake;
    type IntoIter = std::slice::Iter<'a, Mistake>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Mistake> for Mistakes {
    fn from(mistake: Mistake) -> Self {
        Self(vec![mistake])
    }
}

/// One to a line.
impl fmt::Display for Mistakes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            write!(to, "{gap}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// A file's text, and the maker of mistakes in it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    /// The text of the file at `path`.
    pub fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// The file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The place where a range of bytes begins.
    pub fn place(&self, span: &Range<usize>) -> Place {
        Place::File { path: self.path.to_owned(), at: Some(position(self.text, span.start)) }
    }

    /// A mistake where a range of bytes begins.
    pub fn mistake(&self, span: &Range<usize>, message: impl Into<String>) -> Mistake {
        Mistake::new(self.place(span), message)
    }

    /// What the TOML reader, or serde above it, complained about.
    pub fn of_toml(&self, error: &toml::de::Error) -> Mistake {
        let place = match error.span() {
            Some(span) => self.place(&span),
            None => Place::File { path: self.path.to_owned(), at: None },
        };
        Mistake::of_toml(place, error)
    }
}

/// Line and column of a byte offset; an offset beyond the end is the end.
pub fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    Position { line: before.matches('\n').count() + 1, column }
}

/// The hint for a word that is none of `known`: the nearest one, or all of them where they are few.
pub fn nearest(word: &str, known: &[&str]) -> Option<String> {
    let alike = known
        .iter()
        .map(|candidate| (likeness(word, candidate), *candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match alike {
        Some((_, candidate)) => Some(format!("did you mean \"{candidate}\"?")),
        None if known.is_empty() || known.len() > 8 => None,
        None => Some(format!("it may be {}", quoted_list(known))),
    }
}

/// One slip of the finger is a likeness of its own: short words have few letters to be alike in.
fn likeness(word: &str, candidate: &str) -> f64 {
    let slip = strsim::osa_distance(word, candidate) <= 1;
    strsim::jaro_winkler(word, candidate).max(if slip { ALIKE } else { 0.0 })
}

/// `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
fn quoted_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// serde says which words it knows only inside its sentences, between backticks; and it names what it expected in
/// Rust's words, not in TOML's.
fn reworded(message: &str) -> (String, Option<String>) {
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (first, known) = words.split_first().map_or(("", [].as_slice()), |(first, known)| (*first, known));
    if message.starts_with("unknown field `") {
        (format!("unknown key \"{first}\""), nearest(first, known))
    } else if message.starts_with("unknown variant `") {
        (format!("unknown value \"{first}\""), nearest(first, known))
    } else if message.starts_with("missing field `") {
        (format!("the key \"{first}\" is missing"), None)
    } else if let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    {
        (format!("wrong type: {}, where {} is due", in_toml(found), in_toml(expected)), None)
    } else if message == "duplicate key" {
        ("it stands in the file twice".to_owned(), Some("write what it says in one place".to_owned()))
    } else if message == "wanted string or table" {
        ("wrong type, where a string is due".to_owned(), None)
    } else {
        (message.replace('\n', ", "), None)
    }
}

fn in_toml(words: &str) -> String {
    match words {
        "a sequence" => "a list".to_owned(),
        "sequence" => "list".to_owned(),
        "a map" => "a table".to_owned(),
        "map" => "table".to_owned(),
        structure if structure.starts_with("struct ") => "a table".to_owned(),
        other => other.replace('`', ""),
    }
}
