//! How the app is asked whether a call whose outcome is unknown was carried out, and what its answers prove.
//!
//! Promises: an answer proves something only where the policy says so, word for word; whatever else comes proves nothing,
//! and so does one that would prove both. A question about a call whose arguments were masked is never asked with what
//! stands in their place.
//!
//! Absent on purpose: asking, and writing down what was learned.

mod question;
mod read;

use std::collections::BTreeSet;
use std::time::Duration;

pub use question::{About, Question, Unaskable};
pub(super) use read::reconcile;

use question::Ask;

use super::operation::FieldPath;
use crate::domain::json::Json;

/// What an operation says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconcile {
    ask: Ask,
    completed: Proof,
    absent: Proof,
    absent_errors: BTreeSet<String>,
    absent_status: BTreeSet<u16>,
    result: Option<Part>,
    every: Duration,
    timeout: Duration,
}

/// Members of an answer that prove something together: each must be there, with one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Proof(Vec<(FieldPath, Vec<Wanted>)>);

/// What a member may say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// Anything but null.
    Anything,
    /// This.
    Value(Json),
}

/// What of an answer is the call's own result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// All of it.
    Whole,
    /// The member there.
    At(FieldPath),
}

/// What the app said.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A tool's result that is no error: its structured content, or the first text of it that is JSON.
    Answer(&'a Json),
    /// A tool's own error, and its code where it has one.
    ToolError(Option<&'a str>),
    /// A route's answer: its status, and its body where that is JSON.
    Http(u16, Option<&'a Json>),
}

/// What that proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// The call was carried out.
    Completed,
    /// It was not.
    Absent,
    /// Nothing.
    Nothing,
}

impl Reconcile {
    /// The question about one claim.
    ///
    /// # Errors
    /// Where what the question needs was masked, or is not there.
    pub fn question(&self, about: &About<'_>) -> Result<Question, Unaskable> {
        self.ask.about(about)
    }

    /// What an answer proves.
    pub fn proven(&self, told: Told<'_>) -> Proven {
        let (completed, absent) = match told {
            Told::Answer(answer) => (self.completed.is_in(answer), self.absent.is_in(answer)),
            Told::ToolError(code) => (false, code.is_some_and(|code| self.absent_errors.contains(code))),
            Told::Http(status, Some(body)) if (200..300).contains(&status) => {
                (self.completed.is_in(body), self.absent.is_in(body))
            }
            Told::Http(status, body) => {
                let says_so = self.absent.0.is_empty() || body.is_some_and(|body| self.absent.is_in(body));
                (false, self.absent_status.contains(&status) && says_so)
            }
        };
        match (completed, absent) {
            (true, false) => Proven::Completed,
            (false, true) => Proven::Absent,
            (true, true) | (false, false) => Proven::Nothing,
        }
    }

    /// The call's own result in an answer: `content` as [`Told`] has it, `whole` as it came.
    pub fn result<'a>(&self, content: &'a Json, whole: &'a Json) -> Option<&'a Json> {
        match self.result.as_ref()? {
            Part::Whole => Some(whole),
            Part::At(path) => at(content, path).filter(|found| !matches!(found, Json::Null)),
        }
    }

    /// The tool that is asked; none where a route is.
    pub fn tool(&self) -> Option<&str> {
        match &self.ask {
            Ask::Tool { name, .. } => Some(name),
            Ask::Get { .. } => None,
        }
    }

    /// What is asked, as the policy writes it.
    pub fn asked(&self) -> String {
        match &self.ask {
            Ask::Tool { name, .. } => name.clone(),
            Ask::Get { path } => format!("GET {}", path.as_str()),
        }
    }

    /// How long after a question about a claim the next one may follow, at the earliest.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Proof {
    fn is_in(&self, answer: &Json) -> bool {
        let holds = |(path, wanted): &(FieldPath, Vec<Wanted>)| {
            at(answer, path).is_some_and(|found| wanted.iter().any(|wanted| wanted.is(found)))
        };
        !self.0.is_empty() && self.0.iter().all(holds)
    }
}

impl Wanted {
    fn is(&self, found: &Json) -> bool {
        match self {
            Self::Anything => !matches!(found, Json::Null),
            // Numbers by their value: 1 is 1.0.
            Self::Value(value) => value.canonical() == found.canonical(),
        }
    }
}

fn at<'a>(answer: &'a Json, path: &FieldPath) -> Option<&'a Json> {
    path.as_ref().split('.').try_fold(answer, |value, name| value.get(name))
}
