//! Task ids on their way out: sealed for the client that hears them.
//!
//! Promises: in every place where a message names a task of the server's, its id leaves under this actor's seal, and by
//! the name that the client used where it named the task itself; a list of tasks shows only those that are known to be
//! this actor's; the result that a task's state holds is masked as its operation's policy says, and left out where
//! nobody knows the operation. A seal that says which operation made the task, and so can be followed up, is put only on
//! what that operation's own call gave.
//!
//! | message | places |
//! |---|---|
//! | result | `task.taskId`, `tasks[].taskId`; `taskId` where it is a task's state |
//! | `notifications/tasks`, `notifications/tasks/status` | `params.taskId` |
//! | `notifications/subscriptions/acknowledged` | `params.notifications.taskIds[]` |
//! | any of them, requests of the server's, what they ask for in `inputRequests`, a task's own result | `_meta["io.modelcontextprotocol/related-task"].taskId` |
//!
//! Absent on purpose: errors, which name tasks in prose at most.

use std::sync::Arc;

use super::super::given::Given;
use super::{Named, RELATED, TASK_ID};
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Object};
use crate::domain::policy::Operation;
use crate::domain::seal::{Handle, Seal};

/// How task ids pass to the client of one request.
#[derive(Clone)]
pub struct Sealer {
    /// What they are sealed with.
    pub seal: Seal,
    /// What is remembered of them.
    pub given: Given,
    /// For whom.
    pub actor: Actor,
    /// The tasks that the request names.
    pub named: Named,
    /// The operation that was called, where a task may come of it.
    pub called: Option<Arc<Operation>>,
}

/// Whether a task can only come of the call that is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Here,
    Anywhere,
}

impl Sealer {
    /// Seals every id in a message. Says whether there was any, or something was masked.
    pub fn message(&self, message: &mut Json) -> bool {
        let Some(message) = message.as_object_mut() else { return false };
        let method = message.get("method").and_then(Json::as_str).map(str::to_owned);
        let Some(method) = method else {
            let result = message.get_mut("result").and_then(Json::as_object_mut);
            return result.is_some_and(|result| self.result(result));
        };
        let Some(params) = message.get_mut("params").and_then(Json::as_object_mut) else { return false };
        let mut changed = self.related(params);
        match method.as_str() {
            "notifications/tasks" | "notifications/tasks/status" => {
                changed |= self.state(params, Made::Anywhere);
            }
            "notifications/subscriptions/acknowledged" => {
                let filter = params.get_mut("notifications").and_then(|filter| filter.get_mut("taskIds"));
                for id in filter.and_then(Json::as_array_mut).into_iter().flatten() {
                    changed |= self.id(id, Made::Anywhere).is_some();
                }
            }
            _ => {}
        }
        changed
    }

    /// Seals every id in a result. Says whether there was any, or something was masked.
    pub fn result(&self, result: &mut Object) -> bool {
        let mut changed = self.related(result);
        let word = |name: &str| result.get(name).and_then(Json::as_str);
        let (has_id, status) = (word(TASK_ID).is_some(), word("status").is_some());
        if has_id && word("resultType") == Some("task") {
            changed |= self.state(result, Made::Here);
        } else if has_id && status && !self.named.elsewhere {
            changed |= self.state(result, Made::Anywhere);
        }
        changed |= self.asks(result);
        if let Some(task) = result.get_mut("task").and_then(Json::as_object_mut).filter(|task| is_state(task))
        {
            changed |= self.state(task, Made::Here);
        }
        if !self.named.elsewhere
            && let Some(tasks) = result.get_mut("tasks").and_then(Json::as_array_mut)
            && tasks.iter().any(|task| task.as_object().is_some_and(is_state))
        {
            tasks.retain_mut(|task| {
                task.as_object_mut()
                    .is_some_and(|task| self.is_theirs(task) && self.state(task, Made::Anywhere))
            });
            changed = true;
        }
        changed
    }

    /// What a result tells of the call that was made: in the modern era a task's state holds that call's own result.
    pub fn told<'a>(&self, result: &'a Json) -> &'a Json {
        let inner = result.get("result").filter(|_| self.named.subject.is_some());
        inner.filter(|inner| inner.as_object().is_some()).unwrap_or(result)
    }

    /// A task as the protocol tells of one.
    fn state(&self, task: &mut Object, made: Made) -> bool {
        let Some(operation) = task.get_mut(TASK_ID).and_then(|id| self.id(id, made)) else { return false };
        self.asks(task);
        let Some(operation) = operation else {
            for name in ["result", "error"] {
                task.remove(name);
            }
            return true;
        };
        for operation in std::iter::once(&operation).chain(&self.named.also) {
            if let Some(error) = task.get_mut("error") {
                operation.redactor().mask_error(error);
            }
            if let Some(result) = task.get_mut("result") {
                operation.redactor().mask_result(result);
            }
        }
        if let Some(result) = task.get_mut("result").and_then(Json::as_object_mut) {
            self.related(result);
        }
        true
    }

    /// Whether a listed task is known to be this actor's.
    fn is_theirs(&self, task: &Object) -> bool {
        let raw = task.get(TASK_ID).and_then(Json::as_str);
        raw.is_some_and(|raw| self.given.made_by(&self.actor, raw).is_some())
    }

    /// What the client is asked for.
    fn asks(&self, holder: &mut Object) -> bool {
        let Some(Json::Object(requests)) = holder.get_mut("inputRequests") else { return false };
        let params =
            requests.iter_mut().filter_map(|(_, request)| request.get_mut("params")?.as_object_mut());
        params.fold(false, |changed, params| self.related(params) | changed)
    }

    fn related(&self, holder: &mut Object) -> bool {
        let related = holder.get_mut("_meta").and_then(|meta| meta.get_mut(RELATED));
        let id = related.and_then(|related| related.get_mut(TASK_ID));
        id.and_then(|id| self.id(id, Made::Anywhere)).is_some()
    }

    /// Seals one id, and says by which operation's rule its result is masked; none where there is no id.
    #[expect(clippy::option_option, reason = "no id is one thing, an id whose maker is not known another")]
    fn id(&self, id: &mut Json, made: Made) -> Option<Option<Arc<Operation>>> {
        let raw = id.as_str()?;
        if let Some(task) = self.named.find(raw) {
            let operation = task.operation.clone();
            *id = Json::from(task.sealed.as_str());
            return Some(operation);
        }
        let known = if made == Made::Here { None } else { self.given.made_by(&self.actor, raw) };
        let (made_by, operation) = match (known, &self.called) {
            (Some(name), called) => {
                let called = called.as_ref().filter(|called| *called.name() == *name).cloned();
                (Some(name), called)
            }
            (None, Some(called)) => (Some(called.name().into()), Some(Arc::clone(called))),
            (None, None) => (None, None),
        };
        if let Some(made_by) = &made_by {
            self.given.note(&self.actor, raw, made_by);
        }
        let note: Vec<&str> = made_by.as_deref().into_iter().collect();
        *id = Json::from(self.seal.seal(Handle::Task, &self.actor, raw, &note));
        Some(operation)
    }
}

/// Whether an object tells the state of a task.
fn is_state(object: &Object) -> bool {
    let is_text = |name: &str| object.get(name).is_some_and(|value| value.as_str().is_some());
    is_text(TASK_ID) && is_text("status")
}
