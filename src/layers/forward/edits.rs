//! What is changed in the results that tell a client what there is.
//!
//! Promises: a tools list is what its actor may call, and how; what a server says that it can do is joined by what the
//! gate can do. A tool that the upstream lists and the policy does not name is logged once, and counted each time.

use std::sync::Arc;

use tracing::warn;

use crate::domain::actor::Actor;
use crate::domain::json::Object;
use crate::domain::policy::Policy;
use crate::mcp::mirrors::Mirrors;
use crate::mcp::{capabilities, list};
use crate::meter::Meter;

/// The longest name of a tool that is logged, in characters.
const SHOWN: usize = 128;

/// Which results are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A list of tools.
    Tools,
    /// What a server says about itself.
    Capabilities,
}

impl Edit {
    /// What is changed in the answer to this method.
    pub fn of(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "initialize" | "server/discover" => Some(Self::Capabilities),
            _ => None,
        }
    }
}

/// Changes them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Editor {
    /// Counts what is hidden.
    pub meter: Arc<Meter>,
    /// Remembers which headers mirror what is taken out of calls.
    pub mirrors: Arc<Mirrors>,
}

impl Editor {
    /// Changes a result for this actor. `modern`: by the rules of 2026-07-28 or later.
    pub(super) fn edit(&self, edit: Edit, result: &mut Object, policy: &Policy, actor: &Actor, modern: bool) {
        match edit {
            Edit::Capabilities => capabilities::advertise(result),
            Edit::Tools => {
                let learned = list::rewrite(result, policy, actor, modern);
                for (tool, mirrors) in learned.mirrors {
                    self.mirrors.learn(&tool, mirrors);
                }
                for tool in learned.unnamed {
                    let tool: String = tool.chars().take(SHOWN).collect();
                    if self.meter.hidden(&tool) {
                        warn!(tool, "The upstream has a tool that the policy does not name; it is hidden.");
                    }
                }
            }
        }
    }
}
