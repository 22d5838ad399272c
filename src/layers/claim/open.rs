//! Plain requests that need no claim.
//!
//! Promises: each has its row. That of a read queues; that of a request that may change something is committed before its
//! answer is given, whatever became of it.
//!
//! Absent on purpose: any guard against a second run. A request without a key asks for none.

use std::sync::Arc;

use tower::Service;

use super::exchange::watch::Unclaimed;
use super::journal::Entry;
use super::{Claimed, ClaimedWhat, Clerk, read_event};
use crate::domain::audit::{AuditEvent, Executed};
use crate::domain::policy::{Answers, Meaning, Mutation, Operation};
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::forward::Forwarded;
use crate::layers::parse::Head;
use crate::layers::plain::{Ground, Open};
use crate::wire;

/// The row's reason of what has no key, and needs none.
const UNKEYED: &str = "unkeyed";

impl Clerk {
    /// A plain request, and its row.
    pub(super) async fn open<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        open: Open,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let Open { going, operation, ground } = open;
        let what = ClaimedWhat::Open { going, operation: Arc::clone(&operation) };
        let event = match &ground {
            Ground::Unenforced(refusal) => {
                let row = Unclaimed::refused(refusal);
                return self.go_unclaimed(inner, head, what, Some(row)).await;
            }
            Ground::Read => read_event(&head),
            Ground::Unkeyed => AuditEvent { reason: Some(UNKEYED.to_owned()), ..read_event(&head) },
        };
        let mut entry = self.journal.entry(event).await?;
        // A full queue may have kept it waiting for long.
        self.court.still_allows(&head, &operation).inspect_err(|_| entry.withdraw())?;
        match ground {
            Ground::Read | Ground::Unenforced(_) => self.answer_read(inner, head, what, entry).await,
            Ground::Unkeyed => self.answer_unkeyed(inner, head, what, &operation, entry).await,
        }
    }

    async fn answer_unkeyed<S>(
        &self,
        mut inner: S,
        head: Arc<Head>,
        what: ClaimedWhat,
        operation: &Operation,
        mut entry: Entry,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        head.asked.mark_audited();
        let forwarded = inner.call(Claimed { head: Arc::clone(&head), what }).await;
        let event = entry.event_mut();
        event.duration_ms = i64::try_from(head.asked.elapsed().as_millis()).ok();
        let answer = match forwarded {
            Ok(Forwarded::Passed { response, note }) => {
                event.executed = ran(operation.mutation().map(Mutation::answers), note.status);
                event.result_summary = note.summary;
                event.upstream_status = Some(note.status);
                Ok(Answer::Passed(response))
            }
            Ok(_) => Err(Refusal::Internal),
            // It may have changed something, and nothing holds a second one back.
            Err(Refusal::ReadFailed) => Err(Refusal::NoGateway),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = &answer {
            let row = wire::row(refusal);
            event.reason = Some(row.reason.to_owned());
            event.executed = row.executed;
        }
        head.asked.came_to(event);
        let _step = head.asked.span().store("append");
        // What the store does not take stays queued, and is lost only with the process.
        let _written = entry.write().await;
        answer
    }
}

/// Whether a request ran, by the status of its answer.
fn ran(answers: Option<&Answers>, status: u16) -> Executed {
    match answers.map(|answers| answers.of(status)) {
        Some(Meaning::Completes) => Executed::Yes,
        Some(Meaning::Releases) => Executed::No,
        Some(Meaning::Unknown) | None => Executed::Maybe,
    }
}
