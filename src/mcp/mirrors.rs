//! Which headers mirror arguments that do not go on to the app, as far as tools lists have told.
//!
//! Promises: the last list that showed a tool counts; memory is bounded. What is remembered can only make a header go,
//! or a call fail whose header says something else than its argument.
//!
//! Absent on purpose: sharing between gates. A client learns such a header from a list, and lists that went through a
//! gate do not show it any more; this is for clients that knew the tool before the gate stood there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderName;

/// Before the name of a header that mirrors one argument of a tool.
pub(super) const ARGUMENT: &str = "mcp-param-";

/// How many tools are remembered.
const MOST_TOOLS: usize = 4096;

/// One header, and the argument that it mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The header.
    pub header: HeaderName,
    /// The argument.
    pub argument: String,
}

impl Mirror {
    /// The header that a schema's `x-mcp-header` asks for; none where no header can have that name.
    pub fn new(name: &str, argument: &str) -> Option<Self> {
        let header = format!("{ARGUMENT}{name}").parse().ok()?;
        Some(Self { header, argument: argument.to_owned() })
    }
}

/// What was learned.
#[derive(Debug, Default)]
pub struct Mirrors(Mutex<BTreeMap<String, Vec<Mirror>>>);

impl Mirrors {
    /// A tool was listed with these.
    pub fn learn(&self, tool: &str, mirrors: Vec<Mirror>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if mirrors.is_empty() {
            known.remove(tool);
        } else if known.len() < MOST_TOOLS || known.contains_key(tool) {
            known.insert(tool.to_owned(), mirrors);
        }
    }

    /// Those of a tool.
    pub fn of(&self, tool: &str) -> Vec<Mirror> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tool).cloned().unwrap_or_default()
    }
}
