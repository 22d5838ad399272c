//! What the policy would make of a message in a gate that observes.
//!
//! Promises: the decision is the one that is carried out elsewhere, by the same functions.
//!
//! Absent on purpose: seals. A gate that observes gives out the app's own sessions and tasks, so nobody can present a
//! sealed one; following a task up is allowed unless the policy says something else about that method.

use super::follow::is_mutation;
use super::{AllowedWhat, Court};
use crate::domain::json::Json;
use crate::domain::policy::{Kind, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::parse::{Head, What};
use crate::layers::plain::{Ground, Matched};
use crate::layers::watched::Would;
use crate::mcp::message::Request;
use crate::mcp::tasks::follows_up;

impl Court {
    /// What would come of this message.
    pub(in crate::layers) fn would(&self, head: &mut Head, what: What) -> Would {
        let policy = self.policy.load_full();
        match what {
            What::Passage(_) | What::Listen | What::Leave => Would::Pass,
            What::Call { request, kind, name } => {
                self.would_call(head, &policy, request, kind, &name).unwrap_or_else(Would::Refuse)
            }
            What::Plain(matched) => self.would_plain(head, *matched),
        }
    }

    fn would_plain(&self, head: &mut Head, matched: Matched) -> Would {
        match self.allow_plain(head, matched) {
            Ok(AllowedWhat::Mutation(mutation) | AllowedWhat::Recorded(mutation)) => Would::Claim(mutation),
            Ok(AllowedWhat::Open(open)) => match open.ground {
                Ground::Read | Ground::Unkeyed => Would::Read { id: Json::Null, operation: None },
                Ground::Unenforced(refusal) => Would::Refuse(refusal),
            },
            // A plain request is none of these.
            Ok(_) => Would::Pass,
            Err(refusal) => Would::Refuse(refusal),
        }
    }

    fn would_call(
        &self,
        head: &mut Head,
        policy: &Policy,
        request: Request,
        kind: Kind,
        name: &str,
    ) -> Result<Would, Refusal> {
        let rule = policy.named(kind, name).cloned();
        let weighed = self.weigh(head, policy, request, kind, name, rule.as_deref());
        if kind == Kind::Method && follows_up(name) && !is_mutation(rule.as_ref()) {
            if rule.is_some() {
                policy.decide(head.caller.actor(), kind, name, head.subject.arguments())?;
            }
            return Ok(Would::Read { id: Json::Null, operation: None });
        }
        let id = weighed.request.id.clone().unwrap_or(Json::Null);
        Ok(match self.decide(head, policy, weighed, kind, name)? {
            AllowedWhat::Mutation(mutation) | AllowedWhat::Recorded(mutation) => Would::Claim(mutation),
            AllowedWhat::Read { request, operation } => {
                Would::Read { id: request.id.unwrap_or(Json::Null), operation: Some(operation) }
            }
            // What is inside goes on with it: of the whole, that it was called is written down.
            AllowedWhat::Several(_) => Would::Read { id, operation: rule },
            AllowedWhat::Act { .. }
            | AllowedWhat::Open(_)
            | AllowedWhat::Passage { .. }
            | AllowedWhat::Listen { .. }
            | AllowedWhat::Leave => Would::Pass,
            AllowedWhat::Watched(watched) => watched.would,
            AllowedWhat::Unenforced { would, .. } => Would::Refuse(would),
        })
    }
}
