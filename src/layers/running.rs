//! The calls that are running in this process.
//!
//! Promises: a call is here from before it goes upstream until it has ended, however it ends. What is here decides only
//! two things: whether a client's cancellation may go on, and where a client that comes back hears the rest.
//!
//! Absent on purpose: anything that a claim hangs on. The ledger knows that; a restart forgets all this.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::line::Line;
use crate::domain::actor::Actor;
use crate::domain::json::Json;

/// How a client names one of its calls: the id is unique in its session only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    tenant: String,
    user: String,
    session: Option<String>,
    id: String,
}

#[derive(Debug, Default)]
struct Book {
    /// How many calls without a claim bear this name.
    unclaimed: HashMap<Name, usize>,
    /// How many with one bear it, by names that no lenient backend tells apart.
    claimed: HashMap<Name, usize>,
    lines: HashMap<Uuid, Arc<Line>>,
}

/// All of them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Mutex<Book>>);

/// A call's place among them; it leaves when this is dropped.
#[derive(Debug)]
pub struct Place {
    running: Running,
    name: Name,
    claimed: bool,
    attempt: Option<Uuid>,
}

impl Running {
    /// Enters a call that has no claim.
    pub fn unclaimed(&self, actor: &Actor, session: Option<&str>, id: &Json) -> Place {
        let name = name(actor, session, id);
        *self.book().unclaimed.entry(name.clone()).or_default() += 1;
        Place { running: self.clone(), name, claimed: false, attempt: None }
    }

    /// Enters a call that has claimed ones inside, for as long as any of them may begin.
    pub fn around_claimed(&self, actor: &Actor, session: Option<&str>, id: &Json) -> Place {
        let name = loose(name(actor, session, id));
        *self.book().claimed.entry(name.clone()).or_default() += 1;
        Place { running: self.clone(), name, claimed: true, attempt: None }
    }

    /// Enters a claimed call, with its caller's line.
    pub fn claimed(
        &self,
        actor: &Actor,
        session: Option<&str>,
        id: &Json,
        attempt: Uuid,
        line: &Arc<Line>,
    ) -> Place {
        let mut place = self.around_claimed(actor, session, id);
        self.book().lines.insert(attempt, Arc::clone(line));
        place.attempt = Some(attempt);
        place
    }

    /// Whether the upstream may hear that this call is cancelled: only one that runs here without a claim.
    pub fn may_cancel(&self, actor: &Actor, session: Option<&str>, id: &Json) -> bool {
        let name = name(actor, session, id);
        let book = self.book();
        book.unclaimed.contains_key(&name) && !book.claimed.contains_key(&loose(name))
    }

    /// Whether a claimed call of this session runs here.
    pub fn has_claimed(&self, actor: &Actor, session: Option<&str>) -> bool {
        let of = |name: &Name| {
            name.tenant == actor.tenant() && name.user == actor.user() && name.session.as_deref() == session
        };
        self.book().claimed.keys().any(of)
    }

    /// The line of a claimed call that is still running.
    pub fn line(&self, attempt: Uuid) -> Option<Arc<Line>> {
        self.book().lines.get(&attempt).cloned()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.running.book();
        if let Some(attempt) = self.attempt {
            book.lines.remove(&attempt);
        }
        let names = if self.claimed { &mut book.claimed } else { &mut book.unclaimed };
        if let Some(count) = names.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                names.remove(&self.name);
            }
        }
    }
}

/// The id as it is written, so that `1` and `"1"` are two.
fn name(actor: &Actor, session: Option<&str>, id: &Json) -> Name {
    Name {
        tenant: actor.tenant().to_owned(),
        user: actor.user().to_owned(),
        session: session.map(str::to_owned),
        id: String::from_utf8_lossy(&id.to_bytes()).into_owned(),
    }
}

/// The name of an id as the most lenient backend keeps it: some know no difference between `1` and `"1"`, others read
/// numbers as floats.
fn loose(name: Name) -> Name {
    let bare = name.id.trim_matches('"');
    let id = bare.trim().parse::<f64>().map_or_else(|_| bare.to_owned(), |number| (number + 0.0).to_string());
    Name { id, ..name }
}
