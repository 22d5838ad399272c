//! What is done to a task: cancelled, or given the input that it asked for.
//!
//! Promises: its row is committed before the client hears the answer (or, where the store is away, waits for it in the
//! journal); whoever hangs up stops neither the act nor its row.
//!
//! Absent on purpose: a claim. A task takes each of these any number of times as it takes the first, by protocol; where
//! the policy calls one a mutation it has a key, and does not come here.

use std::sync::Arc;

use tokio::sync::oneshot;
use tower::Service;
use tracing::{Instrument as _, Span, info};

use super::{Claimed, ClaimedWhat, Clerk, read_event};
use crate::domain::audit::Executed;
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::forward::Forwarded;
use crate::layers::parse::Head;
use crate::mcp::message::Request;
use crate::wire;

impl Clerk {
    /// An act, and its row.
    pub(super) async fn act<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        request: Request,
        operation: Arc<Operation>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send + 'static,
        S::Future: Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let tasks = self.tasks.clone();
        let acting = async move {
            if tell.send(self.carry_out(inner, head, request, operation).await).is_err() {
                info!("The caller had hung up; the act was carried to its end.");
            }
        };
        tasks.spawn(acting.instrument(Span::current()));
        // The task ends without a word only if it panicked.
        told.await.unwrap_or(Err(Refusal::Internal))
    }

    async fn carry_out<S>(
        self: Arc<Self>,
        mut inner: S,
        head: Arc<Head>,
        request: Request,
        operation: Arc<Operation>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal> + Send,
        S::Future: Send,
    {
        let mut entry = self.journal.entry(read_event(&head)).await?;
        // A full queue may have kept it waiting for long.
        if let Err(refusal) = self.court.still_allows(&head, &operation) {
            entry.withdraw();
            return Err(refusal);
        }
        head.asked.mark_audited();
        let claimed = Claimed { head: Arc::clone(&head), what: ClaimedWhat::Act { request } };
        let forwarded = inner.call(claimed).await;
        let event = entry.event_mut();
        event.duration_ms = i64::try_from(head.asked.elapsed().as_millis()).ok();
        let answered = match forwarded {
            Ok(Forwarded::Passed { response, note }) => {
                event.reason = note.reason;
                event.executed = if note.turned_away { Executed::No } else { Executed::Yes };
                event.upstream_status = Some(note.status);
                Ok(Answer::Passed(response))
            }
            Ok(
                Forwarded::Judged { .. }
                | Forwarded::Plain(_)
                | Forwarded::NotSent
                | Forwarded::Lost { .. }
                | Forwarded::Spoken { .. }
                | Forwarded::Resumed(_),
            ) => Err(Refusal::Internal),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = &answered {
            let row = wire::row(refusal);
            event.reason = Some(row.reason.to_owned());
            event.executed = row.executed;
        }
        head.asked.came_to(event);
        let _step = head.asked.span().store("append");
        entry.write().await;
        answered
    }
}
