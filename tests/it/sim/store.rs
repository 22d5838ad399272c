//! A gate's way to the world's store and upstream.
//!
//! Promises: asking puts the question into the world and waits; dropping the future leaves the question there, as
//! [`Store`] says of every home.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::audit::AuditEvent;
use oncegate::domain::ledger::ClaimId;
use oncegate::domain::refusal::Refusal;
use oncegate::domain::time::Timestamp;
use oncegate::layers::claim::Claimed;
use oncegate::layers::forward::Forwarded;
use oncegate::store::{
    AuditAge, AuditFilter, AuditKept, ClaimFilter, Counted, Due, Floor, Found, LapsedOf, ListedClaim,
    MigrationNews, OpenClaims, PruneOf, Pruned, RecordedEvent, Schema, Seen, Store, StoreError, Swap,
    TallyOf, Twin, TwinOf, UnknownOf, Write,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tower::Service;
use uuid::Uuid;

use super::world::{Heard, Op, Sabotage, Sent, What, World};

/// Who asks, where it is one of a gate's own tasks; 0 for its other work.
fn asker(gate: usize) -> u64 {
    let id = tokio::task::try_id().map_or(0, |id| id.to_string().parse().unwrap_or(0));
    id * 4 + u64::try_from(gate).unwrap_or(0)
}

/// The store, as one gate sees it.
pub(super) struct ModelStore {
    pub(super) world: World,
    pub(super) gate: usize,
}

impl ModelStore {
    async fn ask(&self, what: What) -> Result<Heard, StoreError> {
        let (answer, told) = oneshot::channel();
        {
            let mut state = self.world.state();
            let early = state.sabotage == Sabotage::ForwardsBeforeTheCommit;
            if let (true, What::Swap(write)) = (early, &what)
                && write.event.is_none()
            {
                let now = Timestamp::from_micros(state.now);
                let done = None;
                state.ops.push(Op { gate: self.gate, asker: asker(self.gate), what, done, answer: None });
                return Ok(Heard::Swap(Swap::Applied { now }));
            }
            let (done, answer) = (None, Some(answer));
            state.ops.push(Op { gate: self.gate, asker: asker(self.gate), what, done, answer });
        }
        told.await
            .unwrap_or_else(|_| Err(StoreError::Uncertain(Box::new(io::Error::other("nobody answers")))))
    }
}

#[async_trait]
impl Store for ModelStore {
    async fn swap(&self, write: Write) -> Result<Swap, StoreError> {
        match self.ask(What::Swap(Box::new(write))).await? {
            Heard::Swap(swap) => Ok(swap),
            Heard::Read(_) | Heard::Append => panic!("a write is answered as a write"),
        }
    }

    async fn read(&self, _: &ClaimId) -> Result<Seen, StoreError> {
        match self.ask(What::Read).await? {
            Heard::Read(seen) => Ok(*seen),
            Heard::Swap(_) | Heard::Append => panic!("a question is answered as a question"),
        }
    }

    async fn append(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.ask(What::Append(Box::new(event))).await.map(drop)
    }

    async fn twin(&self, _: &TwinOf) -> Result<Option<Twin>, StoreError> {
        Ok(None)
    }

    async fn claims(&self, _: &ClaimFilter) -> Result<Vec<ListedClaim>, StoreError> {
        Ok(Vec::new())
    }

    async fn lapsed(&self, _: &LapsedOf) -> Result<Found, StoreError> {
        let now = Timestamp::from_micros(self.world.state().now);
        Ok(Found { claims: Vec::new(), now })
    }

    async fn unknown(&self, _: &UnknownOf) -> Result<Found, StoreError> {
        let now = Timestamp::from_micros(self.world.state().now);
        Ok(Found { claims: Vec::new(), now })
    }

    async fn open_counts(&self, _: &str) -> Result<Vec<OpenClaims>, StoreError> {
        Ok(Vec::new())
    }

    async fn events(&self, _: &AuditFilter) -> Result<Vec<RecordedEvent>, StoreError> {
        Ok(Vec::new())
    }

    async fn tally(&self, _: &TallyOf) -> Result<Counted, StoreError> {
        Ok(Counted { tallies: Vec::new(), now: Timestamp::from_micros(0) })
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        Ok(Schema::Fits)
    }

    async fn migrate_telling(&self, _: &(dyn Fn(MigrationNews) + Send + Sync)) -> Result<i64, StoreError> {
        Ok(0)
    }

    async fn lead(&self, _: &str, _: Uuid, _: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn prune_claims(&self, _: &PruneOf) -> Result<Pruned, StoreError> {
        Ok(Pruned::default())
    }

    async fn keep_audit(&self, _: &AuditAge) -> Result<AuditKept, StoreError> {
        Ok(AuditKept::default())
    }

    async fn due(&self, _: Option<Duration>) -> Result<Due, StoreError> {
        Ok(Due::default())
    }

    async fn audit_floor(&self) -> Result<Floor, StoreError> {
        Ok(Floor::None)
    }

    async fn set_audit_floor(&self, _: Option<Duration>, _: bool) -> Result<Floor, StoreError> {
        Ok(Floor::None)
    }

    async fn close(&self) {}
}

/// In place of the step that forwards: what it promises of deadlines, it keeps.
#[derive(Clone)]
pub(super) struct ModelForward {
    pub(super) world: World,
    pub(super) gate: usize,
}

impl Service<Claimed> for ModelForward {
    type Response = Forwarded;
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Forwarded, Refusal>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, claimed: Claimed) -> Self::Future {
        let (world, gate) = (self.world.clone(), self.gate);
        Box::pin(async move {
            let sending = claimed.sending().expect("only mutations are called here");
            let deadline = sending.deadline;
            if Instant::now() >= deadline {
                return Ok(Forwarded::NotSent);
            }
            let id = sending.mutation.id().to_string();
            let (answer, told) = oneshot::channel();
            {
                let mut state = world.state();
                let left = i64::try_from((deadline - Instant::now()).as_micros()).unwrap_or(i64::MAX);
                let until = state.now.saturating_add(left);
                let (attempt, answer) = (sending.attempt, Some(answer));
                state.sent.push(Sent { gate, attempt, caller: id, until, ran: false, answer });
            }
            let lost = match world.state().sabotage {
                Sabotage::ReleasesWhatIsLost => Forwarded::NotSent,
                Sabotage::None | Sabotage::IgnoresTheRevision | Sabotage::ForwardsBeforeTheCommit => {
                    Forwarded::Lost { status: None }
                }
            };
            Ok(match timeout_at(deadline, told).await {
                Ok(Ok(forwarded)) => forwarded,
                Ok(Err(_)) | Err(_) => lost,
            })
        })
    }
}
