//! A thread with a connection of its own, at which questions are asked.
//!
//! Promises: they are answered one after the other, and block nobody else; one that takes longer than its asker waits is
//! broken off, and one that nobody waits for any more is not begun.
//!
//! Absent on purpose: an order among askers. Whoever must not wait for lists asks at another desk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{named, rows};
use crate::store::StoreError;
use crate::store::op::{Closed, WorkerGone};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Where questions are asked.
pub(super) struct Desk {
    /// None once closed.
    line: Mutex<Option<mpsc::Sender<Job>>>,
    interrupt: InterruptHandle,
    /// The question that is being answered.
    current: Arc<AtomicU64>,
    asked: AtomicU64,
}

/// The answer would have come too late.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct TooLong(Duration);

impl Desk {
    /// A thread of this name; `held` is dropped when it ends.
    pub(super) fn start(
        name: &str,
        mut connection: Connection,
        held: impl Send + 'static,
    ) -> Result<Self, StoreError> {
        let (line, jobs) = mpsc::channel::<Job>();
        let interrupt = connection.get_interrupt_handle();
        named(name, move || {
            for job in jobs {
                job(&mut connection);
            }
            drop((connection, held));
        })?;
        let (current, asked) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
        Ok(Self { line: Mutex::new(Some(line)), interrupt, current, asked })
    }

    /// Runs `work` there, however long it takes.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, told) = oneshot::channel();
        self.put(Box::new(move |connection| {
            let _nobody_there = answer.send(work(connection).map_err(rows::error));
        }))?;
        told.await.unwrap_or_else(|_| Err(StoreError::Unavailable(Box::new(WorkerGone))))
    }

    /// Runs `work` there, for so long at most, with the time that it waits for its turn.
    pub(super) async fn ask_within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let own = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let current = Arc::clone(&self.current);
        let (answer, told) = oneshot::channel();
        self.put(Box::new(move |connection| {
            if !answer.is_closed() {
                current.store(own, Ordering::SeqCst);
                let found = work(connection).map_err(rows::error);
                current.store(0, Ordering::SeqCst);
                let _nobody_there = answer.send(found);
            }
        }))?;
        match timeout(limit, told).await {
            Ok(told) => told.unwrap_or_else(|_| Err(StoreError::Unavailable(Box::new(WorkerGone)))),
            Err(_elapsed) => {
                if self.current.load(Ordering::SeqCst) == own {
                    self.interrupt.interrupt();
                }
                Err(StoreError::Unavailable(Box::new(TooLong(limit))))
            }
        }
    }

    /// Takes no more questions; the thread ends with those that wait.
    pub(super) fn close(&self) {
        drop(self.line.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn put(&self, job: Job) -> Result<(), StoreError> {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = line.ok_or(Closed).and_then(|line| line.send(job).map_err(|_| Closed));
        sent.map_err(|closed| StoreError::Unavailable(Box::new(closed)))
    }
}
