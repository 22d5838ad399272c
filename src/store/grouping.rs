//! Who waits for the store, in which order, and who goes together in one commit.
//!
//! Promises: whatever waits when a worker is free goes in one group; a group is bounded in number and in weight; two
//! entries with one key are never in work at the same time, whichever workers took them, and keep their order; what was
//! pushed before [`Line::close`] is still served.
//!
//! Absent on purpose: a delay. At low load a group is one entry and nothing waits for company. The longer a commit
//! takes, the larger the next group becomes by itself.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How large a group may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// At most so many entries.
    pub(super) entries: usize,
    /// No further entry once the group weighs this (in bytes).
    pub(super) weight: usize,
}

/// Something that waits for the store.
pub(super) trait Entry {
    /// What may be in work only once at a time.
    type Key: Clone + Ord + Hash + Debug;

    /// Its key; none where it gets in nobody's way.
    fn key(&self) -> Option<&Self::Key>;

    /// How much it weighs, in bytes, roughly.
    fn weight(&self) -> usize;
}

/// The line in front of the store's workers.
#[derive(Debug)]
pub(super) struct Line<E: Entry> {
    state: Mutex<State<E>>,
    bell: Notify,
}

#[derive(Debug)]
struct State<E: Entry> {
    /// What can be taken now, in the order it came.
    ready: VecDeque<Ready<E>>,
    /// Per key that is ready or in work: who waits for it. A key that nobody wants is not here.
    waiting: HashMap<E::Key, VecDeque<E>>,
    closed: bool,
}

#[derive(Debug)]
enum Ready<E: Entry> {
    /// The first that waits for this key.
    Key(E::Key),
    /// One without a key.
    Free(E),
}

/// What a worker took: in key order, so that two groups never wait for each other's rows crosswise. Its keys are
/// given back when it is dropped.
#[derive(Debug)]
pub(super) struct Group<E: Entry> {
    /// Those with a key, in key order.
    pub(super) keyed: Vec<E>,
    /// Those without.
    pub(super) free: Vec<E>,
    /// Gives the keys back.
    pub(super) turn: Turn<E>,
}

/// The right to work on some keys.
#[derive(Debug)]
pub(super) struct Turn<E: Entry> {
    line: Arc<Line<E>>,
    keys: Vec<E::Key>,
}

impl<E: Entry> Line<E> {
    /// An empty line.
    pub(super) fn new() -> Arc<Self> {
        let state = State { ready: VecDeque::new(), waiting: HashMap::new(), closed: false };
        Arc::new(Self { state: Mutex::new(state), bell: Notify::new() })
    }

    /// Puts `entry` in the line; gives it back where the line is closed.
    pub(super) fn push(&self, entry: E) -> Result<(), E> {
        let mut state = self.lock();
        if state.closed {
            return Err(entry);
        }
        match entry.key().cloned() {
            None => state.ready.push_back(Ready::Free(entry)),
            Some(key) => {
                if let Some(others) = state.waiting.get_mut(&key) {
                    others.push_back(entry);
                } else {
                    state.waiting.insert(key.clone(), VecDeque::from([entry]));
                    state.ready.push_back(Ready::Key(key));
                }
            }
        }
        drop(state);
        self.bell.notify_one();
        Ok(())
    }

    /// Waits until something can be taken. `false` once the line is closed and everybody in it was served.
    pub(super) async fn ready(&self) -> bool {
        loop {
            let rung = self.bell.notified();
            {
                let state = self.lock();
                if !state.ready.is_empty() {
                    return true;
                }
                if state.closed && state.waiting.is_empty() {
                    return false;
                }
            }
            rung.await;
        }
    }

    /// Takes what can go together; none where another worker was quicker.
    pub(super) fn take(self: &Arc<Self>, bounds: Bounds) -> Option<Group<E>> {
        let mut state = self.lock();
        let mut keyed = BTreeMap::new();
        let mut free = Vec::new();
        let mut weight = 0_usize;
        while keyed.len() + free.len() < bounds.entries && weight < bounds.weight {
            match state.ready.pop_front() {
                None => break,
                Some(Ready::Free(entry)) => {
                    weight = weight.saturating_add(entry.weight());
                    free.push(entry);
                }
                Some(Ready::Key(key)) => {
                    if let Some(entry) = state.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
                        weight = weight.saturating_add(entry.weight());
                        keyed.insert(key, entry);
                    }
                }
            }
        }
        let more = !state.ready.is_empty();
        drop(state);
        if more {
            self.bell.notify_one();
        }
        if keyed.is_empty() && free.is_empty() {
            return None;
        }
        let (keys, keyed) = keyed.into_iter().unzip();
        Some(Group { keyed, free, turn: Turn { line: Arc::clone(self), keys } })
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_waiters();
        self.bell.notify_one();
    }

    /// A worker that panicked left the line as it was between two steps: nothing in it is half done.
    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Entry> Drop for Turn<E> {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        for key in self.keys.drain(..) {
            if state.waiting.get(&key).is_some_and(|others| !others.is_empty()) {
                state.ready.push_back(Ready::Key(key));
            } else {
                state.waiting.remove(&key);
            }
        }
        let (more, closed) = (!state.ready.is_empty(), state.closed);
        drop(state);
        if closed {
            self.line.bell.notify_waiters();
        }
        if more || closed {
            self.line.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Entry, Line};

    #[derive(Debug, PartialEq, Eq)]
    struct Ask(&'static str, u32);

    impl Entry for Ask {
        type Key = &'static str;

        fn key(&self) -> Option<&&'static str> {
            (!self.0.is_empty()).then_some(&self.0)
        }

        fn weight(&self) -> usize {
            10
        }
    }

    const WIDE: Bounds = Bounds { entries: 64, weight: 1000 };

    fn line(asks: &[(&'static str, u32)]) -> std::sync::Arc<Line<Ask>> {
        let line = Line::new();
        for (key, n) in asks {
            line.push(Ask(key, *n)).unwrap();
        }
        line
    }

    #[test]
    fn a_group_holds_a_key_once_and_is_in_key_order() {
        let line = line(&[("b", 1), ("a", 2), ("b", 3), ("", 4), ("c", 5)]);
        let group = line.take(WIDE).unwrap();
        assert_eq!(group.keyed, [Ask("a", 2), Ask("b", 1), Ask("c", 5)]);
        assert_eq!(group.free, [Ask("", 4)]);
    }

    #[test]
    fn a_key_in_work_is_not_taken_by_another_worker_until_it_is_given_back() {
        let line = line(&[("a", 1), ("a", 2)]);
        let first = line.take(WIDE).unwrap();
        assert!(line.take(WIDE).is_none());
        drop(first);
        assert_eq!(line.take(WIDE).unwrap().keyed, [Ask("a", 2)]);
    }

    #[test]
    fn a_group_is_bounded_in_number_and_in_weight() {
        let line = line(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
        let few = line.take(Bounds { entries: 1, weight: 1000 }).unwrap();
        assert_eq!(few.keyed.len(), 1);
        let light = line.take(Bounds { entries: 64, weight: 15 }).unwrap();
        assert_eq!(light.keyed.len(), 2);
    }

    #[tokio::test]
    async fn a_closed_line_still_serves_whoever_stood_in_it() {
        let line = line(&[("a", 1), ("a", 2)]);
        line.close();
        assert_eq!(line.push(Ask("b", 3)), Err(Ask("b", 3)));
        let first = line.take(WIDE).unwrap();
        let other = tokio::spawn({
            let line = line.clone();
            async move { line.ready().await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(other.await.unwrap());
        drop(line.take(WIDE));
        assert!(!line.ready().await);
    }
}
