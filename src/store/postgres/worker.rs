//! The workers: each takes what waits in the line, and sees to it that everybody in it is answered.
//!
//! Promises: a group whose answer got lost is sent again, on another connection, until it is known what came of it or
//! patience ends; a group that was refused is halved until the one that is to blame stands alone; whoever is told
//! "unavailable" had nothing written.
//!
//! Sending again is safe: a write that was committed the first time finds its own row, which is told as applied, and
//! an audit row that is there already is not written twice.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::connections::{Connections, PATIENCE};
use super::fault::Fault;
use super::statements;
use crate::domain::audit::AuditEvent;
use crate::domain::ledger::ClaimId;
use crate::store::grouping::{Bounds, Line};
use crate::store::op::{AppendOp, Cause, Op, ReadOp, SwapOp, tell};
use crate::store::{StoreError, Write};

/// The size of a group. Larger ones gain nothing measurable and keep their first entry waiting.
const BOUNDS: Bounds = Bounds { entries: 32, weight: 4 << 20 };

/// Between two tries at that.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a group that clashed with another is sent again.
const CLASHES: u32 = 8;

/// How often writes are sent again whose rows came and went while they looked.
const ROUNDS: u32 = 8;

/// Serves the line until it is closed and empty.
pub(super) async fn serve(line: Arc<Line<Op>>, connections: Arc<Connections>) {
    while line.ready().await {
        // The connection first: whoever comes while we wait for it goes in the same group.
        match connections.get().await {
            Ok(client) => serve_group(&line, &connections, client).await,
            Err(fault) => turn_away(&line, &fault),
        }
    }
}

async fn serve_group(line: &Arc<Line<Op>>, connections: &Arc<Connections>, client: Object) {
    let Some(group) = line.take(BOUNDS) else {
        return;
    };
    let (batch, reads) = sort(group.keyed.into_iter().chain(group.free));
    let mut client = Some(client);
    if !reads.is_empty() {
        read(connections, &mut client, reads).await;
    }
    if !batch.is_empty() {
        Box::pin(write(connections, &mut client, batch)).await;
    }
    // Only now may another group hold these keys.
    drop(group.turn);
}

/// Without a connection nobody in the line can be served: all are told at once, rather than each after its own wait.
fn turn_away(line: &Arc<Line<Op>>, fault: &Fault) {
    let all = Bounds { entries: usize::MAX, weight: usize::MAX };
    while let Some(group) = line.take(all) {
        for op in group.keyed.into_iter().chain(group.free) {
            match op {
                Op::Swap(op) => tell(op.answer, Err(fault.error())),
                Op::Append(op) => tell(op.answer, Err(fault.error())),
                Op::Read(op) => tell(op.answer, Err(fault.error())),
            }
        }
    }
}

/// Writes that go in one statement.
#[derive(Default)]
struct Batch {
    swaps: Vec<SwapOp>,
    appends: Vec<AppendOp>,
    /// Whether it was sent once without an answer.
    lost: bool,
}

fn sort(ops: impl Iterator<Item = Op>) -> (Batch, Vec<ReadOp>) {
    let mut batch = Batch::default();
    let mut reads = Vec::new();
    for op in ops {
        match op {
            Op::Swap(op) => batch.swaps.push(op),
            Op::Append(op) => batch.appends.push(op),
            Op::Read(op) => reads.push(op),
        }
    }
    (batch, reads)
}

impl Batch {
    fn len(&self) -> usize {
        self.swaps.len() + self.appends.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Two halves; both still in key order.
    fn halve(mut self) -> (Self, Self) {
        let swaps = self.swaps.split_off(self.swaps.len().div_ceil(2));
        // An odd one out must not leave the first half whole.
        let appends = self.appends.split_off(self.appends.len() / 2);
        let rest = Self { swaps, appends, lost: self.lost };
        (self, rest)
    }

    /// Nobody knows what came of it, or certainly nothing did.
    fn fail(self, fault: &Fault) {
        let told = || if self.lost { fault.uncertain() } else { fault.error() };
        self.swaps.into_iter().for_each(|op| tell(op.answer, Err(told())));
        self.appends.into_iter().for_each(|op| tell(op.answer, Err(told())));
    }

    /// Tells everybody what came of it; keeps those of whom it is not known.
    fn deliver(&mut self, told: Vec<statements::Told>) {
        for op in self.appends.drain(..) {
            tell(op.answer, Ok(()));
        }
        let mut open = Vec::new();
        for (op, told) in self.swaps.drain(..).zip(told) {
            match told {
                Some(told) => tell(op.answer, told),
                None => open.push(op),
            }
        }
        self.swaps = open;
    }
}

/// Rows came and went under a write as often as it looked.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the row changed each time it was looked at")]
struct Restless;

async fn write(connections: &Arc<Connections>, client: &mut Option<Object>, first: Batch) {
    let mut todo = vec![first];
    let (mut clashes, mut rounds) = (0, 0);
    let mut until = None;
    while let Some(mut batch) = todo.pop() {
        let fault = match attempt(connections, client, &batch).await {
            Ok(told) => {
                batch.deliver(told);
                if batch.is_empty() {
                    continue;
                }
                rounds += 1;
                if rounds < ROUNDS {
                    todo.push(batch);
                    continue;
                }
                Fault::Refused(Cause::new(Restless))
            }
            Err(fault) => fault,
        };
        match &fault {
            Fault::Clash(_) if clashes < CLASHES => {
                clashes += 1;
                sleep(Duration::from_millis(u64::from(clashes) * 5)).await;
                todo.push(batch);
            }
            Fault::Refused(_) if batch.len() > 1 => {
                let (half, rest) = batch.halve();
                todo.extend([rest, half]);
            }
            Fault::Elsewhere(cause) | Fault::Lost(cause) => {
                batch.lost |= matches!(fault, Fault::Lost(_));
                if Instant::now() < *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
                    warn!(error = %cause, writes = batch.len(), "The store did not answer; asking again.");
                    sleep(PAUSE).await;
                    todo.push(batch);
                } else {
                    batch.fail(&fault);
                }
            }
            // Without a connection: that had its own patience.
            Fault::Unreached(_)
            | Fault::Barred(_)
            | Fault::NoneFree(_)
            | Fault::Clash(_)
            | Fault::Refused(_)
            | Fault::Hopeless(_)
            | Fault::Corrupt(_)
            | Fault::Unfit(_) => batch.fail(&fault),
        }
    }
}

async fn attempt(
    connections: &Arc<Connections>,
    client: &mut Option<Object>,
    batch: &Batch,
) -> Result<Vec<statements::Told>, Fault> {
    let writes: Vec<&Write> = batch.swaps.iter().map(|op| &*op.write).collect();
    let appends: Vec<&AuditEvent> = batch.appends.iter().flat_map(|op| &op.events).collect();
    let held = connected(connections, client).await?;
    let told = statements::swap(held, &writes, &appends).await;
    give_up_if_lost(connections, client, told)
}

/// A question changes nothing: it is asked once more where a connection broke, and no more.
async fn read(connections: &Arc<Connections>, client: &mut Option<Object>, ops: Vec<ReadOp>) {
    let ids: Vec<&ClaimId> = ops.iter().map(|op| &op.id).collect();
    let mut told = ask(connections, client, &ids).await;
    if matches!(told, Err(Fault::Lost(_) | Fault::Elsewhere(_) | Fault::Clash(_))) {
        told = ask(connections, client, &ids).await;
    }
    match told {
        Ok(seen) => ops.into_iter().zip(seen).for_each(|(op, seen)| tell(op.answer, seen)),
        Err(fault) => ops.into_iter().for_each(|op| tell(op.answer, Err(fault.error()))),
    }
}

async fn ask(
    connections: &Arc<Connections>,
    client: &mut Option<Object>,
    ids: &[&ClaimId],
) -> Result<Vec<Result<crate::store::Seen, StoreError>>, Fault> {
    let held = connected(connections, client).await?;
    let told = statements::read(held, ids).await;
    give_up_if_lost(connections, client, told)
}

async fn connected<'a>(
    connections: &Arc<Connections>,
    client: &'a mut Option<Object>,
) -> Result<&'a Object, Fault> {
    let held = match client.take() {
        Some(held) => held,
        None => connections.get().await?,
    };
    Ok(client.insert(held))
}

fn give_up_if_lost<T>(
    connections: &Arc<Connections>,
    client: &mut Option<Object>,
    told: Result<T, Fault>,
) -> Result<T, Fault> {
    if let Err(fault) = &told
        && fault.ends_connection()
        && let Some(ended) = client.take()
    {
        connections.give_up(ended, fault);
    }
    told
}
