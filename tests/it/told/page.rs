//! A page as its reader sees it: blocks of commands, of what they print, of files; and what is noted about each.
//!
//! Promises: a fence that does not close, a note that nobody knows, and a block that nothing looks at are faults, with
//! the page's line.

use std::fs;
use std::path::{Path, PathBuf};

/// What a comment of the page says about the block behind it: `<!-- not run: needs a cluster -->`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Note {
    /// `not run: WHY`: it is only shown. Tests that run it elsewhere are named as `tests/it/FILE.rs::NAME`.
    NotRun(String),
    /// `an example: WHY`: output that comes out another way each time, and is not compared.
    Example(String),
    /// `terminal`: it runs on in a terminal of its own. The output behind it is waited for.
    Terminal,
    /// `exits N`: its last command ends with this code.
    Exits(i32),
    /// `drawing`: there is nothing in it to be run or read.
    Drawing,
    /// `beside a gate`: from here on the page's own configuration and policies are those of a gate that runs.
    BesideAGate,
}

impl Note {
    fn read(text: &str) -> Option<Self> {
        match text.split_once(": ") {
            Some(("not run", why)) => return Some(Self::NotRun(why.to_owned())),
            Some(("an example", why)) => return Some(Self::Example(why.to_owned())),
            Some(_) | None => {}
        }
        match text {
            "terminal" => Some(Self::Terminal),
            "drawing" => Some(Self::Drawing),
            "beside a gate" => Some(Self::BesideAGate),
            _ => text.strip_prefix("exits ")?.parse().ok().map(Self::Exits),
        }
    }
}

/// What a block is, by the word behind its fence.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Shell,
    /// What the commands before it print.
    Output,
    Toml,
    Json,
    Yaml,
    /// Only to be shown, and only with a reason.
    Other(String),
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) notes: Vec<Note>,
    pub(super) text: String,
}

impl Block {
    pub(super) fn is_run(&self) -> bool {
        self.kind == Kind::Shell && !self.notes.iter().any(|note| matches!(note, Note::NotRun(_)))
    }

    pub(super) fn has(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }

    /// Whether it stands there for its own sake, as its note says.
    fn is_shown(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::NotRun(_) | Note::Drawing | Note::Example(_)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Page {
    /// From the root: `docs/policy.md`.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) blocks: Vec<Block>,
    faults: Vec<String>,
}

impl Page {
    /// Blocks of one kind that are not only shown.
    pub(super) fn of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Block> {
        self.blocks.iter().filter(move |block| block.kind == *kind && !block.is_shown())
    }

    /// What nobody could run, read or compare.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        let mut before: Option<&Block> = None;
        for block in &self.blocks {
            let at = format!("{}:{}", self.name, block.line);
            match &block.kind {
                Kind::Other(kind) if !block.is_shown() => {
                    faults.push(format!("{at}: nothing looks at a block of {kind:?}"));
                }
                Kind::Output if !block.is_shown() && !before.is_some_and(Block::is_run) => {
                    faults.push(format!("{at}: no command that is run stands before this output"));
                }
                Kind::Shell | Kind::Output | Kind::Toml | Kind::Json | Kind::Yaml | Kind::Other(_) => {}
            }
            if before.is_some_and(|before| before.has(&Note::Terminal)) && block.kind != Kind::Output {
                faults.push(format!("{at}: the terminal before it shows no output to wait for"));
            }
            before = Some(block);
        }
        faults
    }

    fn read(name: String, text: String) -> Self {
        let (mut blocks, mut faults, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let (line, at) = (line.trim_start(), number + 1);
            if let Some(comment) = line.strip_prefix("<!--") {
                let mut comment = comment.to_owned();
                while !comment.contains("-->")
                    && let Some((_, more)) = lines.next()
                {
                    comment = format!("{comment} {}", more.trim());
                }
                let told = comment.split("-->").next().unwrap_or_default().trim();
                match Note::read(told) {
                    Some(note) => notes.push(note),
                    None => faults.push(format!("{name}:{at}: nobody knows the note {told:?}")),
                }
            } else if let Some(kind) = line.strip_prefix("```") {
                let kind = match kind {
                    "sh" => Kind::Shell,
                    "text" => Kind::Output,
                    "toml" => Kind::Toml,
                    "json" => Kind::Json,
                    "yaml" => Kind::Yaml,
                    other => Kind::Other(other.to_owned()),
                };
                let mut inside = Vec::new();
                loop {
                    match lines.next() {
                        Some((_, line)) if line.trim() == "```" => break,
                        Some((_, line)) => inside.push(line),
                        None => {
                            faults.push(format!("{name}:{at}: the block does not end"));
                            break;
                        }
                    }
                }
                let notes = std::mem::take(&mut notes);
                blocks.push(Block { line: at, kind, notes, text: dedented(&inside) });
            } else if !line.is_empty() && !notes.is_empty() {
                faults.push(format!("{name}:{at}: a note stands before what is no block"));
                notes.clear();
            }
        }
        Self { name, text, blocks, faults }
    }
}

fn dedented(lines: &[&str]) -> String {
    let indents = lines.iter().filter(|line| !line.trim().is_empty());
    let least = indents.map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    lines.iter().flat_map(|line| [line.get(least..).unwrap_or_default(), "\n"]).collect()
}

/// Every page: the README, those in `docs/`, and those that stand beside what is deployed.
pub(super) fn all() -> Vec<Page> {
    let mut files = vec![super::root().join("README.md")];
    walk(&super::root().join("docs"), &mut files);
    walk(&super::root().join("deploy"), &mut files);
    files.sort();
    let read = |file: PathBuf| {
        let name =
            file.strip_prefix(super::root()).expect("it is below the root").to_string_lossy().into_owned();
        Page::read(name, fs::read_to_string(&file).expect("a page in UTF-8"))
    };
    files.into_iter().map(read).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the pages' folder").flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "node_modules" && entry.file_name() != "vendor" {
            walk(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}
