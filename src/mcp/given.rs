//! Which tasks were given to whom, as far as this process knows.
//!
//! Promises: bounded: the oldest of [`MOST`] is forgotten for a new one. What is here decides what a list shows and by
//! which name a notification calls a task, never who may have one: that is in the seal.
//!
//! Absent on purpose: a home that outlives the process. After a restart, and on another pod, a task is listed again once
//! its owner has asked for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::domain::actor::Actor;

/// How many tasks are remembered.
pub const MOST: usize = 65_536;

/// A hash of a task's id and its owner.
type Name = [u8; 32];

#[derive(Debug, Default)]
struct Book {
    made_by: HashMap<Name, Arc<str>>,
    order: VecDeque<Name>,
}

/// The tasks given. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Given(Arc<Mutex<Book>>);

impl Given {
    /// Notes that this actor has this task, made by a call of this operation.
    pub fn note(&self, actor: &Actor, raw: &str, made_by: &str) {
        let name = name(actor, raw);
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if book.made_by.insert(name, made_by.into()).is_some() {
            return;
        }
        book.order.push_back(name);
        if book.order.len() > MOST
            && let Some(oldest) = book.order.pop_front()
        {
            book.made_by.remove(&oldest);
        }
    }

    /// The operation whose call made a task of this actor's; none where it is not known to be his.
    pub fn made_by(&self, actor: &Actor, raw: &str) -> Option<Arc<str>> {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.made_by.get(&name(actor, raw)).cloned()
    }
}

/// Each part goes in with its length.
fn name(actor: &Actor, raw: &str) -> Name {
    let mut hash = Sha256::new();
    for part in [actor.tenant(), actor.user(), raw] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
