//! The rule of an operation about its arguments: a CEL expression, `allow = "args.amount_cents <= 50000"`.
//!
//! Promises: a call is allowed only where the expression says `true`. What it cannot say (a member that is not there,
//! a number compared with a text, a member that another reader may take for the one that is looked at) allows nothing.
//! Numbers count by their exact value, however they are written. What a rule costs is bounded, whatever a caller sends:
//! by its length, since it has no loops, and by [`MOST_STEPS`] over all that it looks through.
//!
//! The text is read by the `cel` crate; what it means is decided here. The crate's own interpreter compares numbers as
//! floats where one of them is one, so that 50000.000000000001 would be no more than 50000, knows no bound, and takes
//! two things of different kinds for merely unequal.
//!
//! Absent on purpose: macros (`all`, `exists`, `map`, `filter`), which loop over what a caller sends; `matches`;
//! division, whose results would have to be rounded; times.

mod evaluate;
mod read;
mod term;
mod value;
mod words;

use self::evaluate::Evaluation;
use self::term::Term;
use self::value::Unclear;
use crate::domain::actor::Actor;
use crate::domain::json::Json;

pub(super) use read::Fault;

/// How many members, elements and pieces of text a rule may look at, all in all.
pub const MOST_STEPS: usize = 100_000;
/// The longest rule, in bytes.
pub const MOST_BYTES: usize = 1_000;
/// How many brackets and question marks a rule may have: each can nest, and the reader recurses.
pub const MOST_BRACKETS: usize = 32;

/// A rule that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRule {
    text: String,
    term: Term,
    /// The ways into the arguments that it looks at, and where in the text it does.
    ways: Vec<(Vec<String>, usize)>,
}

/// What a call's rule is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// These; none where the call has none.
    Given(Option<&'a Json>),
    /// Such that different readers may read different ones. No rule allows them.
    Unclear,
    /// Nothing is called: what is asked is whether the operation is open at all.
    Unasked,
}

/// One part of a rule, and what it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub part: String,
    /// What it says, or why it says nothing.
    pub says: Result<bool, String>,
    /// What it looked at: each way, and what stands there.
    pub seen: Vec<(String, String)>,
}

impl ArgumentRule {
    /// The rule that a text says.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        let (term, ways) = read::read(text)?;
        Ok(Self { text: text.to_owned(), term, ways })
    }

    /// As the policy writes it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it allows this actor these arguments.
    pub fn allows(&self, actor: &Actor, arguments: Arguments<'_>) -> bool {
        match arguments {
            Arguments::Given(arguments) => self.says(actor, arguments) == Ok(true),
            Arguments::Unclear => false,
            Arguments::Unasked => true,
        }
    }

    /// What it says of these arguments, or why it says nothing.
    pub fn says(&self, actor: &Actor, arguments: Option<&Json>) -> Result<bool, String> {
        let said = Evaluation::of(actor, arguments).truth(&self.term);
        said.map_err(|unclear: Unclear| unclear.to_string())
    }

    /// What each of its parts says: those that `&&`, `||` and `!` join.
    pub fn findings(&self, actor: &Actor, arguments: Option<&Json>) -> Vec<Finding> {
        let mut parts = Vec::new();
        self.term.parts(&mut parts);
        let find = |part: &Term| {
            let mut ways = Vec::new();
            part.ways(&mut ways);
            let seen = ways.iter().map(|way| {
                let found = Evaluation::of(actor, arguments).shown(way);
                (way.to_string(), found)
            });
            Finding {
                part: part.to_string(),
                says: Evaluation::of(actor, arguments).truth(part).map_err(|unclear| unclear.to_string()),
                seen: seen.collect(),
            }
        };
        parts.into_iter().map(find).collect()
    }

    /// The ways into the arguments that it looks at, each as the names that lead there, and where in its text it does.
    pub(super) fn ways(&self) -> impl Iterator<Item = (&[String], usize)> {
        self.ways.iter().map(|(way, at)| (way.as_slice(), *at))
    }

    /// Whether it looks at this part of a plain request: its `query`, or its `body`.
    pub fn looks_at(&self, part: &str) -> bool {
        self.ways.iter().any(|(way, _)| way.first().is_none_or(|first| first == part))
    }

    /// The fields that it looks at in this part, and whether it looks further into them.
    pub fn fields<'a>(&'a self, part: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
        self.ways.iter().filter_map(move |(way, _)| match way.as_slice() {
            [first, name, further @ ..] if first == part => Some((name.as_str(), !further.is_empty())),
            _ => None,
        })
    }
}
