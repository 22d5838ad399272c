//! The one thread that touches the file.
//!
//! Promises: whatever came while it wrote goes to the disk together, with one sync; nobody is told before that.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use tokio::sync::oneshot;
use tracing::error;

use super::file::Book;
use super::frame::HEAD;
use super::{Shared, SpoolFault, Waiting};

/// No further record goes in a group that weighs this, in bytes.
const GROUP: usize = 4 << 20;

/// How many bytes are read at once, unless one record is larger.
const READ: usize = 4 << 20;

/// How far the file may be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// As far as rows may.
    Row,
    /// Up to its limit.
    Whole,
}

/// What is asked of the thread. Nobody may be there any more to hear its answer.
pub(super) enum Ask {
    Keep(Keep),
    Read { after: u64, most: usize, answer: oneshot::Sender<Result<Vec<Waiting>, SpoolFault>> },
    Done(Vec<u64>),
}

/// A record to be written.
pub(super) struct Keep {
    pub(super) record: Vec<u8>,
    pub(super) bound: Bound,
    pub(super) answer: oneshot::Sender<Result<(), SpoolFault>>,
}

/// Serves until nobody is left who could ask.
pub(super) fn serve(asks: &Receiver<Ask>, mut book: Book, shared: &Shared) {
    let mut next = asks.recv().ok();
    while let Some(ask) = next {
        next = match ask {
            Ask::Keep(first) => {
                let (group, other) = gather(asks, first);
                keep(&mut book, shared, group);
                other
            }
            Ask::Read { after, most, answer } => {
                let read = book.read(after, most, READ);
                let read = read.map_err(|source| SpoolFault::NotRead { file: shared.file.clone(), source });
                let waiting = read.map(|found| {
                    found.into_iter().map(|(number, record)| Waiting { number, record }).collect()
                });
                // What was found damaged does not wait any more.
                shared.publish(&book);
                let _nobody_there = answer.send(waiting).is_err();
                None
            }
            Ask::Done(numbers) => {
                if let Err(fault) = book.done(&numbers) {
                    error!(file = %shared.file.display(), error = %fault, "The spool could not be made empty.");
                }
                shared.publish(&book);
                None
            }
        };
        if next.is_none() {
            next = asks.recv().ok();
        }
    }
}

/// Everybody who waits to be written, and whoever else stood behind them.
fn gather(asks: &Receiver<Ask>, first: Keep) -> (Vec<Keep>, Option<Ask>) {
    let mut weight = first.record.len();
    let mut group = vec![first];
    while weight < GROUP {
        match asks.try_recv() {
            Ok(Ask::Keep(keep)) => {
                weight += keep.record.len();
                group.push(keep);
            }
            Ok(other @ (Ask::Read { .. } | Ask::Done(_))) => return (group, Some(other)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
        }
    }
    (group, None)
}

fn keep(book: &mut Book, shared: &Shared, group: Vec<Keep>) {
    let (mut records, mut answers) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    let mut weight = 0;
    for Keep { record, bound, answer } in group {
        let more = weight + (record.len() + HEAD) as u64;
        if book.fits(more, shared.limit_for(bound)) {
            weight = more;
            records.push(record);
            answers.push(answer);
        } else {
            let _nobody_there = answer.send(Err(shared.full())).is_err();
        }
    }
    if records.is_empty() {
        return;
    }
    let told = book.append(&records).map_err(Arc::new);
    shared.written(&told);
    shared.publish(book);
    for answer in answers {
        let told = told.clone().map_err(|source| shared.not_written(source));
        let _nobody_there = answer.send(told).is_err();
    }
}
