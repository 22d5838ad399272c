//! Observed calls: what would have been decided is written down, and the call goes on whatever that was.
//!
//! Promises: every call that would have a row has one, and its reason begins with `would_` where a gate that enforces
//! would have refused it; a store that is away keeps nobody waiting. Whoever is answered here is answered by the
//! upstream, or hears that it cannot be reached.
//!
//! Absent on purpose: rows of what is no call.

use std::sync::Arc;

use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::Service;
use tracing::{Instrument as _, Span, info};

use super::exchange::Exchange;
use super::journal::Entry;
use super::{Claimed, ClaimedWhat, Clerk, read_event};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::json::Json;
use crate::domain::mode::WOULD;
use crate::domain::policy::{Mutation as Rule, OnToolError, Operation};
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::authorize::{Mutation, short};
use crate::layers::forward::Forwarded;
use crate::layers::forward::raw::{Ear, Hears, Tell};
use crate::layers::line::Line;
use crate::layers::parse::Head;
use crate::layers::watched::{Raw, Watched, Would};
use crate::mcp::collect::MAX_ANSWER_BYTES;
use crate::mcp::errors;
use crate::mcp::judge::{Reply, Verdict, judge};
use crate::wire;

/// The reason of what would have been refused, or answered otherwise, for this one.
pub(super) fn would(reason: &str) -> String {
    format!("{WOULD}{reason}")
}

impl Clerk {
    pub(super) async fn watch<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        watched: Watched,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let Watched { raw, would } = watched;
        match would {
            Would::Pass => carry(inner, head, raw, None, false).await,
            Would::Refuse(refusal) => self.refused(inner, head, raw, &refusal).await,
            Would::Read { id, operation } => self.watch_read(inner, head, raw, id, operation).await,
            Would::Claim(mutation) => self.watch_claim(inner, head, raw, *mutation).await,
        }
    }

    /// What would have been refused. How its row ends the answer's status says.
    async fn refused<S>(
        &self,
        inner: S,
        head: Arc<Head>,
        raw: Raw,
        refusal: &Refusal,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let reason = would(wire::row(refusal).reason);
        info!(reason, "A call would have been refused.");
        let event = AuditEvent {
            facts: self.facts(&head),
            decision: Decision::Denied,
            reason: Some(reason),
            ..read_event(&head)
        };
        let mut entry = self.journal.entry_now(event);
        let answer = carry(inner, Arc::clone(&head), raw, None, true).await;
        let event = entry.event_mut();
        event.duration_ms = i64::try_from(head.asked.elapsed().as_millis()).ok();
        match &answer {
            Ok(Answer::Passed(response)) => {
                let status = response.status();
                event.upstream_status = Some(status.as_u16());
                let turned_away =
                    matches!(judge(status.as_u16(), None, false, false), Verdict::NotRun { .. });
                event.executed = match (turned_away, status.is_success()) {
                    (true, _) => Executed::No,
                    (false, true) => Executed::Yes,
                    (false, false) => Executed::Maybe,
                };
            }
            Ok(Answer::Claimed { .. } | Answer::Spoken(_) | Answer::Accepted) => {}
            Err(refusal) => event.executed = wire::row(refusal).executed,
        }
        answer
    }

    async fn watch_read<S>(
        &self,
        inner: S,
        head: Arc<Head>,
        raw: Raw,
        id: Json,
        operation: Option<Arc<Operation>>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let row = Row { entry: self.journal.entry_now(read_event(&head)), head: Arc::clone(&head) };
        let Some(operation) = operation.filter(|operation| operation.reads_results()) else {
            return row.of_head(carry(inner, head, raw, None, false).await);
        };
        let tell: Tell = Box::new(move |came| row.of_answer(came, &operation));
        let hears = Hears::Message { id, release: false };
        let ear = Ear { hears, limit: self.stored_response, tell, goes_on: None };
        carry(inner, head, raw, Some(ear), false).await
    }

    /// A mutation with a key. From here on it is in a task that no hang-up ends, if its claim is its own.
    async fn watch_claim<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        mut raw: Raw,
        mutation: Mutation,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let rule = mutation.operation.mutation();
        let hears = match (mutation.message(), rule) {
            (None, Some(rule)) => Hears::Plain(rule.answers().clone()),
            (Some(_) | None, rule) => {
                let release = rule.map(Rule::on_tool_error) == Some(OnToolError::Release);
                Hears::Message { id: mutation.id(), release }
            }
        };
        // What is recorded must be read: the one thing that is asked of the app otherwise than by its client.
        if raw.headers.contains_key(ACCEPT_ENCODING) {
            raw.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let (tell, told) = oneshot::channel();
        let (coming, came) = oneshot::channel();
        // The exchange itself has nobody to answer; the client's answer comes by `carry`.
        let (line, listener) = Line::open(false);
        let (tasks, forward) = (self.tasks.clone(), inner.clone());
        let carry = {
            let (head, tasks) = (Arc::clone(&head), tasks.clone());
            move |until: Option<Instant>| {
                let tell: Tell = Box::new(move |came| drop(coming.send(came)));
                let goes_on = until.map(|until| (tasks, until));
                let ear = Ear { hears, limit: MAX_ANSWER_BYTES, tell, goes_on };
                carry(inner, head, raw, Some(ear), true)
            }
        };
        let exchange = Exchange::new(self, head, Arc::new(mutation), forward, line);
        let watching = async move {
            exchange.watch(carry, came, tell).await;
            drop(listener);
        };
        tasks.spawn(watching.instrument(Span::current()));
        told.await.unwrap_or(Err(Refusal::Internal))
    }

    /// What is known of a call that may have been refused before it had an operation.
    fn facts(&self, head: &Head) -> Facts {
        head.asked.facts().cloned().unwrap_or_else(|| {
            let actor = head.caller.actor();
            Facts {
                tenant_id: actor.tenant().to_owned(),
                service: self.service.clone(),
                user_id: actor.user().to_owned(),
                session_id: actor.session().map(str::to_owned),
                tool: head.asked.wanted().map(|(_, name)| short(name)).unwrap_or_default(),
                trace_id: Some(head.asked.trace().id.clone()),
                ..Facts::default()
            }
        })
    }
}

/// A read's row. It is queued when this is dropped, and says that the client went unless somebody knows better.
struct Row {
    entry: Entry,
    head: Arc<Head>,
}

impl Row {
    fn event(&mut self) -> &mut AuditEvent {
        let event = self.entry.event_mut();
        event.duration_ms = i64::try_from(self.head.asked.elapsed().as_millis()).ok();
        event
    }

    /// By no more than the answer's head.
    fn of_head(mut self, answer: Result<Answer, Refusal>) -> Result<Answer, Refusal> {
        let event = self.event();
        match &answer {
            Ok(Answer::Passed(response)) => {
                event.reason = None;
                event.executed = Executed::Yes;
                event.upstream_status = Some(response.status().as_u16());
            }
            Ok(Answer::Claimed { .. } | Answer::Spoken(_) | Answer::Accepted) => {}
            Err(refusal) => {
                let row = wire::row(refusal);
                event.reason = Some(row.reason.to_owned());
                event.executed = row.executed;
            }
        }
        answer
    }

    /// By what was heard of the answer.
    fn of_answer(mut self, came: Forwarded, operation: &Operation) {
        let event = self.event();
        event.reason = None;
        match came {
            Forwarded::Judged { status, verdict, .. } => {
                event.executed = Executed::Yes;
                event.upstream_status = Some(status);
                if let Verdict::Answered { reply: Reply::Result(result), .. } = verdict {
                    let code = errors::code_of(&result);
                    event.reason = code.and_then(|code| operation.reason_for(&code).map(str::to_owned));
                    let mut result = Json::Object(result);
                    operation.redactor().mask_result(&mut result);
                    event.result_summary = operation.summary_of(&result);
                }
            }
            Forwarded::Passed { note, .. } | Forwarded::Spoken { note, .. } => {
                event.upstream_status = Some(note.status);
            }
            Forwarded::Resumed(_) | Forwarded::Plain(_) => {}
            Forwarded::NotSent => {
                event.reason = Some(wire::row(&Refusal::UpstreamUnreachable).reason.to_owned());
                event.executed = Executed::No;
            }
            Forwarded::Lost { status } => {
                event.reason = Some(wire::row(&Refusal::ReadFailed).reason.to_owned());
                event.upstream_status = status;
            }
        }
    }
}

/// Sends an observed request and gives its answer. `changes` says that it may be a mutation.
async fn carry<S>(
    mut inner: S,
    head: Arc<Head>,
    raw: Raw,
    ear: Option<Ear>,
    changes: bool,
) -> Result<Answer, Refusal>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal>,
{
    let claimed = Claimed { head: Arc::clone(&head), what: ClaimedWhat::Watched { raw, ear } };
    let is_request = head.asked.envelope().is_some_and(|envelope| envelope.id.is_some());
    match inner.call(claimed).await? {
        Forwarded::Passed { response, .. } => Ok(Answer::Passed(response)),
        Forwarded::NotSent if is_request => Err(Refusal::UpstreamUnreachable),
        Forwarded::Lost { .. } if is_request && !changes => Err(Refusal::ReadFailed),
        // Whether a key holds back what comes next is not for a gate to say that lets everything pass.
        Forwarded::NotSent | Forwarded::Lost { .. } => Err(Refusal::NoGateway),
        Forwarded::Judged { .. } | Forwarded::Plain(_) | Forwarded::Spoken { .. } | Forwarded::Resumed(_) => {
            Err(Refusal::Internal)
        }
    }
}
