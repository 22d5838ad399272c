//! Following up a task that an allowed call made.
//!
//! Promises: whoever names a task got it as the answer to a call of his own, and may still make that call. Where the
//! policy names the method too, its rule holds on top: its scopes, its key, its denial.
//!
//! Absent on purpose: what a task is doing. The upstream knows that. And the rule about the arguments of the call that
//! made it: that call was asked about, and whoever follows it up does not bring them.

use std::sync::Arc;

use super::{AllowedWhat, Court};
use crate::domain::actor::Actor;
use crate::domain::policy::{Arguments, Effect, Kind, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::layers::subject::Subject;
use crate::mcp::message::{Era, Request};
use crate::mcp::takes::declares_tasks;
use crate::mcp::tasks::{LEGACY_FOLLOW_UP, Named, Opener, Task, acts, follows_up};

impl Court {
    /// What opens the tasks that this actor names.
    pub(super) fn opener<'a>(&'a self, actor: &'a Actor) -> Opener<'a> {
        Opener { seal: &self.seal, given: &self.given, actor }
    }

    /// A request about one task. `rule` is the method's own, where the policy names it.
    pub(super) fn follow_up(
        head: &mut Head,
        request: Request,
        rule: Option<&Arc<Operation>>,
    ) -> Result<AllowedWhat, Refusal> {
        let subject = head.tasks.subject.as_ref().and_then(|task| task.operation.clone());
        let operation = subject.ok_or(Refusal::NoSuchTask)?;
        head.tasks.also = rule.cloned();
        head.subject = Subject::Earlier;
        Ok(if acts(&request.method) {
            AllowedWhat::Act { request, operation }
        } else {
            AllowedWhat::Read { request, operation }
        })
    }
}

/// Why a request goes no further that names a task of nobody's. The modern era tells of what ails the request itself
/// first, as the upstream would.
pub(super) fn unopened(refusal: Refusal, request: &Request, era: Era) -> Refusal {
    if refusal != Refusal::NoSuchTask || era == Era::Legacy || !follows_up(&request.method) {
        return refusal;
    }
    if request.method == LEGACY_FOLLOW_UP {
        Refusal::NoSuchMethod
    } else if declares_tasks(request) {
        refusal
    } else {
        Refusal::TasksNotDeclared
    }
}

/// Asks the policy about every task that the request is about or wants to hear of.
pub(super) fn ask_about(named: &mut Named, policy: &Policy, actor: &Actor) -> Result<(), Refusal> {
    for task in named.subject.iter_mut().chain(&mut named.listened) {
        task.operation = Some(made_by(task, policy, actor)?);
    }
    Ok(())
}

/// The rule of the operation that made a task, if this actor may still call it.
fn made_by(task: &Task, policy: &Policy, actor: &Actor) -> Result<Arc<Operation>, Refusal> {
    // An id that only came along with some message says of nobody that the task is his.
    let name = task.made_by.as_deref().ok_or(Refusal::NoSuchTask)?;
    let kind = if policy.named(Kind::Method, name).is_some() { Kind::Method } else { Kind::Tool };
    Ok(Arc::clone(policy.admit(actor, kind, name, Arguments::Unasked)?))
}

/// Whether the policy's own rule for a method makes it a mutation, which needs a claim.
pub(super) fn is_mutation(rule: Option<&Arc<Operation>>) -> bool {
    rule.is_some_and(|rule| rule.effect() == Effect::Mutation)
}
