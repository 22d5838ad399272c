//! Task ids on their way in: opened for the client whose they are.
//!
//! Promises: a request that names a task goes on only with ids that were sealed for its actor, in every place where the
//! protocol has one; the header that mirrors one says what the body then says. What is about a task without asking for
//! one (a notification, an answer to the server) loses an id that is not its actor's.
//!
//! Absent on purpose: tasks of the client's own. A legacy server may ask a client for one, and their ids are theirs: they
//! stand in answers' `result.task`, in the server's `tasks/…` requests and in the client's
//! `notifications/tasks/status`, and pass as they are. The way out is in [`outbound`].

pub mod outbound;

use std::sync::Arc;

use http::HeaderMap;

use super::given::Given;
use super::headers;
use super::message::{Message, Request};
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Object, folded};
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::domain::seal::{Handle, Seal};

/// The `_meta` member that says which task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The `_meta` member that lists tasks which may matter to a request.
const RELATED_IDS: &str = "io.modelcontextprotocol/relatedTaskIds";

/// The member that names a task, wherever one is named.
const TASK_ID: &str = "taskId";

/// The one of the methods that follow a task up which only the legacy era has.
pub const LEGACY_FOLLOW_UP: &str = "tasks/result";

/// Methods that follow a task up.
const FOLLOW_UPS: [&str; 4] = ["tasks/get", LEGACY_FOLLOW_UP, "tasks/cancel", "tasks/update"];

/// Those of them that change something.
const ACTS: [&str; 2] = ["tasks/cancel", "tasks/update"];

/// Whether a method follows one task up.
pub fn follows_up(method: &str) -> bool {
    FOLLOW_UPS.contains(&method)
}

/// Whether a method does something to a task.
pub fn acts(method: &str) -> bool {
    ACTS.contains(&method)
}

/// A task that a request names.
#[derive(Clone, Debug)]
pub struct Task {
    /// The upstream's own id.
    pub raw: String,
    /// The id as this client knows it.
    pub sealed: String,
    /// The operation whose call made it; none where it only came along with some message.
    pub made_by: Option<String>,
    /// The policy's rule for that operation, once it was asked.
    pub operation: Option<Arc<Operation>>,
}

/// The tasks that a request names.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The one that it is about.
    pub subject: Option<Task>,
    /// Those that it wants to hear of.
    pub listened: Vec<Task>,
    /// Those that it belongs to.
    pub related: Vec<Task>,
    /// A rule whose masks hold for the task's result as well as its own operation's.
    pub also: Option<Arc<Operation>>,
    /// Whether the answer is of a method that is not about tasks.
    pub elsewhere: bool,
}

impl Named {
    fn find(&self, raw: &str) -> Option<&Task> {
        self.subject.iter().chain(&self.listened).chain(&self.related).find(|task| task.raw == raw)
    }
}

/// Opens ids for one actor.
#[derive(Clone, Copy)]
pub struct Opener<'a> {
    /// What they were sealed with.
    pub seal: &'a Seal,
    /// What is remembered of them.
    pub given: &'a Given,
    /// For whom.
    pub actor: &'a Actor,
}

impl Opener<'_> {
    /// Opens every id in a message, and in the header that mirrors it.
    pub fn message(self, message: &mut Message, headers: &mut HeaderMap) -> Result<Named, Refusal> {
        match message {
            Message::Request(request) => return self.request(request, headers),
            Message::Notification(request) => {
                if let Some(params) = request.body.get_mut("params").and_then(Json::as_object_mut) {
                    self.related_or_none(params);
                }
            }
            Message::Response(body) => {
                if let Some(result) = body.get_mut("result").and_then(Json::as_object_mut) {
                    self.related_or_none(result);
                }
            }
        }
        Ok(Named { elsewhere: true, ..Named::default() })
    }

    /// Opens every id in a request, and in the header that mirrors it.
    pub fn request(self, request: &mut Request, headers: &mut HeaderMap) -> Result<Named, Refusal> {
        let about_tasks = request.method.starts_with("tasks/");
        let mut named = Named { elsewhere: !about_tasks, ..Named::default() };
        let listens = request.method == "subscriptions/listen";
        let must_name_one = follows_up(&request.method);
        let Some(params) = request.body.get_mut("params").and_then(Json::as_object_mut) else {
            return if must_name_one { Err(Refusal::NoSuchTask) } else { Ok(named) };
        };
        if must_name_one || (about_tasks && params.contains(TASK_ID)) {
            let task = self.opened(params.get_mut(TASK_ID).ok_or(Refusal::NoSuchTask)?)?;
            headers::set_name(headers, &task.raw);
            named.subject = Some(task);
        }
        if listens && let Some(filter) = params.get_mut("notifications").and_then(Json::as_object_mut) {
            alone(filter, &["taskIds"]);
            named.listened = self.opened_all(filter, "taskIds")?;
        }
        if let Some(meta) = params.get_mut("_meta").and_then(Json::as_object_mut) {
            alone(meta, &[RELATED, RELATED_IDS]);
            named.related = self.opened_all(meta, RELATED_IDS)?;
            if let Some(related) = meta.get_mut(RELATED) {
                let id = related.as_object_mut().and_then(|related| {
                    alone(related, &[TASK_ID]);
                    related.get_mut(TASK_ID)
                });
                named.related.push(self.opened(id.ok_or(Refusal::NoSuchTask)?)?);
            }
        }
        if let Some(Json::Object(responses)) = params.get_mut("inputResponses") {
            for (_, response) in responses.iter_mut() {
                if let Some(response) = response.as_object_mut() {
                    self.related_or_none(response);
                }
            }
        }
        Ok(named)
    }

    /// Puts the upstream's own id in place of a sealed one.
    fn opened(self, id: &mut Json) -> Result<Task, Refusal> {
        let task = id.as_str().and_then(|sealed| self.task(sealed)).ok_or(Refusal::NoSuchTask)?;
        *id = Json::from(task.raw.as_str());
        Ok(task)
    }

    fn opened_all(self, holder: &mut Object, name: &str) -> Result<Vec<Task>, Refusal> {
        let Some(ids) = holder.get_mut(name).filter(|ids| !ids.is_null()) else { return Ok(Vec::new()) };
        let ids = ids.as_array_mut().ok_or(Refusal::NoSuchTask)?;
        ids.iter_mut().map(|id| self.opened(id)).collect()
    }

    fn task(self, sealed: &str) -> Option<Task> {
        let opened = self.seal.open(Handle::Task, self.actor, sealed)?;
        let made_by = opened.note.into_iter().next();
        if let Some(made_by) = &made_by {
            self.given.note(self.actor, &opened.raw, made_by);
        }
        Some(Task { raw: opened.raw, sealed: sealed.to_owned(), made_by, operation: None })
    }

    /// Opens the id of the task that a message belongs to; takes one out that does not open.
    fn related_or_none(self, holder: &mut Object) {
        let Some(meta) = holder.get_mut("_meta").and_then(Json::as_object_mut) else { return };
        alone(meta, &[RELATED]);
        let Some(related) = meta.get_mut(RELATED) else { return };
        let id = related.as_object_mut().and_then(|related| {
            alone(related, &[TASK_ID]);
            related.get_mut(TASK_ID)
        });
        if id.and_then(|id| self.opened(id).ok()).is_none() {
            meta.remove(RELATED);
        }
    }
}

/// Takes members out that a lenient reader takes for one of these names: what they say was not opened.
fn alone(object: &mut Object, names: &[&str]) {
    let plain: Vec<String> = names.iter().map(|name| folded(name)).collect();
    object.retain(|name| names.contains(&name) || !plain.contains(&folded(name)));
}
