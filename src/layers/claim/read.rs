//! Calls that need no claim, and their rows.
//!
//! Promises: a read's row has its place in the queue before the read is sent, and is written whoever hangs up; that of an
//! answer which streams waits for its end.
//!
//! Absent on purpose: rows before answers. A read changes nothing that a lost row would hide.

use std::sync::Arc;

use tower::Service;

use super::journal::Entry;
use super::{Claimed, ClaimedWhat, Clerk, facts};
use crate::domain::audit::{AuditEvent, Decision, Executed};
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::layers::Answer;
use crate::layers::forward::passing::Learned;
use crate::layers::forward::{Forwarded, Note};
use crate::layers::parse::Head;
use crate::mcp::message::Request;
use crate::wire;

impl Clerk {
    /// A read, and its row. The row's place in the queue is taken first, so that a full queue slows callers; it is
    /// filled even if the caller hangs up.
    pub(super) async fn read<S>(
        self: Arc<Self>,
        inner: S,
        head: Arc<Head>,
        request: Request,
        operation: Arc<Operation>,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        let mut entry = self.journal.entry(read_event(&head)).await?;
        // A full queue may have kept it waiting for long.
        self.court.still_allows(&head, &operation).inspect_err(|_| entry.withdraw())?;
        self.answer_read(inner, head, ClaimedWhat::Read { request, operation }, entry).await
    }

    /// The call, and its row, whose place is taken.
    pub(super) async fn answer_read<S>(
        &self,
        mut inner: S,
        head: Arc<Head>,
        what: ClaimedWhat,
        mut entry: Entry,
    ) -> Result<Answer, Refusal>
    where
        S: Service<Claimed, Response = Forwarded, Error = Refusal>,
    {
        head.asked.mark_audited();
        // Nobody can cancel what is no message.
        let message = if let ClaimedWhat::Read { request, .. } = &what { Some(request) } else { None };
        let place = message.and_then(|request| self.unclaimed(&head, request));
        let claimed = Claimed { head: Arc::clone(&head), what };
        let forwarded = inner.call(claimed).await;
        let event = entry.event_mut();
        event.duration_ms = i64::try_from(head.asked.elapsed().as_millis()).ok();
        match forwarded {
            Ok(Forwarded::Passed { response, note }) => {
                answered(event, note);
                head.asked.came_to(event);
                entry.write_if_spooled().await?;
                Ok(Answer::Passed(response))
            }
            Ok(Forwarded::Spoken { spoken, note, row: None }) => {
                answered(event, note);
                head.asked.came_to(event);
                Ok(Answer::Spoken(spoken.keeping(place)))
            }
            Ok(Forwarded::Spoken { spoken, row: Some(learned), .. }) => {
                Ok(Answer::Spoken(spoken.keeping((place, ReadRow { entry, learned, head }))))
            }
            Ok(
                Forwarded::Judged { .. }
                | Forwarded::Plain(_)
                | Forwarded::NotSent
                | Forwarded::Lost { .. }
                | Forwarded::Resumed(_),
            ) => Err(Refusal::Internal),
            Err(refusal) => {
                let row = wire::row(&refusal);
                because(event, Some(row.reason.to_owned()));
                event.executed = row.executed;
                head.asked.came_to(event);
                Err(refusal)
            }
        }
    }
}

/// The row of a read whose answer comes on a stream: it is written when that is over, however it is over.
struct ReadRow {
    entry: Entry,
    learned: Learned,
    head: Arc<Head>,
}

impl Drop for ReadRow {
    fn drop(&mut self) {
        let event = self.entry.event_mut();
        event.duration_ms = i64::try_from(self.head.asked.elapsed().as_millis()).ok();
        match self.learned.get() {
            Some(Some(note)) => answered(event, note.clone()),
            Some(None) => because(event, Some(wire::row(&Refusal::ReadFailed).reason.to_owned())),
            None => {}
        }
        self.head.asked.came_to(event);
    }
}

/// What would not have been allowed keeps that as its reason.
fn because(event: &mut AuditEvent, reason: Option<String>) {
    if event.decision == Decision::Allowed {
        event.reason = reason;
    }
}

fn answered(event: &mut AuditEvent, note: Note) {
    because(event, note.reason);
    event.executed = Executed::Yes;
    event.result_summary = note.summary;
    event.upstream_status = Some(note.status);
}

/// What the row says if the caller hangs up before there is an answer.
pub(super) fn read_event(head: &Head) -> AuditEvent {
    AuditEvent {
        id: head.asked.new_row_id(),
        facts: facts(head),
        decision: Decision::Allowed,
        reason: Some("client_gone".to_owned()),
        result_summary: None,
        duration_ms: None,
        executed: Executed::Maybe,
        upstream_status: None,
    }
}
