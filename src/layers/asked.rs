//! What is known of a call so far, for whoever must answer it or write it down.
//!
//! Promises: each slot is written once, by the step that learned it, and whatever a row or a log shows of them holds
//! nothing secret: arguments are redacted before they come here. So even a call that panics is answered with its own id.
//!
//! Absent on purpose: anything that a later step decides by. Proofs travel in the requests' types.

mod told;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use uuid::Uuid;

use self::told::Told;
use crate::domain::actor::Actor;
use crate::domain::audit::{AuditEvent, Facts};
use crate::domain::json::Object;
use crate::domain::policy::{self, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::observe::{Post, Trace};
use crate::layers::queue::room::{Aside, Inside, Place, Room};
use crate::mcp::message::{self, Era};
use crate::store::event_id;
use crate::traces::{Kind, Span, Step};
use crate::wire::Row;
use crate::wire::envelope::Envelope;

/// One call's notes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asked(Arc<Notes>);

#[derive(Debug)]
struct Notes {
    began: Instant,
    peer: IpAddr,
    told: Told,
    /// What the upstream hears as its parent, once the gate has a span for that.
    outgoing: OnceLock<String>,
    /// Shared with the calls that stand inside this one: they run one after the other, in its place.
    seat: Arc<Seat>,
    may_speak: AtomicBool,
    plain: AtomicBool,
    envelope: OnceLock<Envelope>,
    wanted: OnceLock<(policy::Kind, String)>,
    wanted_arguments: OnceLock<Object>,
    actor: OnceLock<Actor>,
    facts: OnceLock<Facts>,
    /// The version of the policy that refused it, where that is not the one that it began with.
    refused_by: OnceLock<String>,
    row_id: Mutex<Option<Uuid>>,
    audited: AtomicBool,
}

/// What a call holds of the room for concurrent calls.
#[derive(Debug)]
struct Seat {
    room: Room,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    inside: Option<Inside>,
    place: Option<Place>,
    aside: Option<Aside>,
}

impl Asked {
    /// Notes for a call that begins now.
    pub(super) fn begin(peer: IpAddr, method: Method, trace: Trace, post: &Post) -> Self {
        let seat = Seat { room: post.room.clone(), held: Mutex::default() };
        Self::seated(peer, Arc::new(seat), Told::new(Some(post.clone()), method, trace))
    }

    fn seated(peer: IpAddr, seat: Arc<Seat>, told: Told) -> Self {
        Self(Arc::new(Notes {
            began: Instant::now(),
            peer,
            told,
            outgoing: OnceLock::new(),
            seat,
            may_speak: AtomicBool::new(false),
            plain: AtomicBool::new(false),
            envelope: OnceLock::new(),
            wanted: OnceLock::new(),
            wanted_arguments: OnceLock::new(),
            actor: OnceLock::new(),
            facts: OnceLock::new(),
            refused_by: OnceLock::new(),
            row_id: Mutex::default(),
            audited: AtomicBool::new(false),
        }))
    }

    /// Notes for a call that stands inside this one: it came from there, and is answered with it, but has a row of its
    /// own.
    pub(super) fn inside(&self) -> Self {
        let outer = &self.0;
        let told = Told::new(None, outer.told.method.clone(), outer.told.trace().inside());
        told.is_tool_call();
        let inner = Self::seated(outer.peer, Arc::clone(&outer.seat), told);
        if let Some(envelope) = outer.envelope.get() {
            inner.learn_envelope(envelope.clone());
        }
        if let Some(actor) = outer.actor.get() {
            inner.learn_actor(actor.clone());
        }
        inner
    }

    /// How long ago it began.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Its answer is there: that of a stream, when its last word is.
    pub(super) fn answered(&self, status: Option<u16>) {
        self.0.told.answered(self.elapsed(), status);
    }

    /// Its row says this, as far as is known: the last row that does counts.
    pub(super) fn came_to(&self, event: &AuditEvent) {
        self.0.told.came_to(event);
    }

    /// It is refused, by this row of the table; `told`: no audit row says so.
    pub(super) fn is_refused(&self, row: &Row, told: bool) {
        self.span().failed(row.code);
        if told {
            self.0.told.refused(row.reason);
        }
    }

    /// It is this message, and perhaps of another trace than what carried it.
    pub(super) fn is_message(&self, request: &message::Request, version: Option<&str>) {
        if let Some(trace) = self.0.told.trace.of_message(request) {
            tracing::Span::current().record("trace_id", trace.id.as_str());
            self.0.told.message.get_or_init(|| trace);
        }
        self.0.told.is_message(request, version);
    }

    /// It is a call of this operation, where the policy has it.
    pub(super) fn is_call(&self, policy: &Policy, operation: Option<&Operation>) {
        if let Some(facts) = self.facts() {
            self.0.told.is_call(policy, facts, operation);
        }
    }

    /// Its span, where traces are told.
    pub fn span(&self) -> &Span {
        self.0.told.span()
    }

    /// What the upstream hears as the parent of its own span.
    pub fn traceparent(&self) -> &str {
        self.0.outgoing.get().unwrap_or(&self.trace().parent)
    }

    /// The step that asks the upstream: from now on that hears it as its parent.
    pub(super) fn forwards(&self) -> Step {
        let step: Step = self.span().under("forward", Kind::Client).into();
        if let Some((parent, _)) = step.ids() {
            self.0.outgoing.get_or_init(|| parent);
        }
        step
    }

    /// The client's address.
    pub fn peer(&self) -> IpAddr {
        self.0.peer
    }

    /// Its trace context.
    pub fn trace(&self) -> &Trace {
        self.0.told.trace()
    }

    /// Whether its client takes an event stream in place of one answer, should it take long.
    pub fn may_speak(&self) -> bool {
        self.0.may_speak.load(Ordering::SeqCst)
    }

    /// Whether it was sent elsewhere than to the MCP endpoint: it is no message then, and its GET no listening.
    pub fn is_plain(&self) -> bool {
        self.0.plain.load(Ordering::SeqCst)
    }

    /// How to address its answer, once known.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.0.envelope.get()
    }

    /// The operation that a caller without a good token asked for, where that much of its body could be read.
    pub fn wanted(&self) -> Option<&(policy::Kind, String)> {
        self.0.wanted.get()
    }

    /// Who calls, once known.
    pub fn actor(&self) -> Option<&Actor> {
        self.0.actor.get()
    }

    /// What its audit row will say, once known.
    pub fn facts(&self) -> Option<&Facts> {
        self.0.facts.get()
    }

    /// The id of its audit row, and of the refusal that the row tells of: by it whoever is on call finds the one from the
    /// other. Where it has no row, the log has it.
    pub fn row_id(&self) -> Uuid {
        *self.0.row_id.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(event_id)
    }

    /// An id for a row of its: no two rows have the same, and the last one is [`Self::row_id`].
    pub(super) fn new_row_id(&self) -> Uuid {
        let id = event_id();
        *self.0.row_id.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        id
    }

    /// Whether its audit row was written, or is being written with its claim.
    pub fn is_audited(&self) -> bool {
        self.0.audited.load(Ordering::SeqCst)
    }

    /// Is counted among the calls inside; refused where the gate takes none any more.
    pub(super) fn come_in(&self) -> Result<(), Refusal> {
        let inside = self.0.seat.room.come_in()?;
        self.held().inside = Some(inside);
        Ok(())
    }

    /// Finds a place among the concurrent calls, in its tenant's turn.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub(super) async fn find_first_room(&self) -> Result<(), Refusal> {
        let place = self.0.seat.room.find_place(self.tenant()).await?;
        self.held().place = Some(place);
        Ok(())
    }

    /// Takes a place if there is one at once, and goes on without one where there is none.
    pub(super) fn take_room_if_any(&self) -> bool {
        let inside = self.0.seat.room.come_in().ok();
        let place = self.0.seat.room.place_now(self.tenant());
        let mut held = self.held();
        held.inside = inside;
        held.place = place;
        held.place.is_some()
    }

    /// Will only listen from now on: it has nothing in the room any more.
    pub(super) fn only_listen(&self) {
        // Given back outside of the lock.
        drop(std::mem::take(&mut *self.held()));
    }

    /// Whether the gate is about to end, and whoever only waits for another call is to be sent away.
    pub(super) fn must_leave(&self) -> bool {
        self.0.seat.room.closed().is_cancelled()
    }

    /// Gives its place among the concurrent calls up while it waits for another call. Where very many calls wait so, it
    /// keeps it: that bounds them.
    pub fn leave_room(&self) {
        let place = {
            let mut held = self.held();
            let Some(place) = held.place.take() else { return };
            held.aside = self.0.seat.room.step_aside();
            if held.aside.is_none() {
                held.place = Some(place);
                return;
            }
            place
        };
        drop(place);
    }

    /// Takes the place again that it left, in its tenant's turn: refused where that takes longer than a call may wait.
    /// Whoever left none goes on as it is.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, without a place.
    pub async fn find_room(&self) -> Result<(), Refusal> {
        if self.held().aside.is_none() {
            return Ok(());
        }
        let place = self.0.seat.room.find_place_again(self.tenant()).await?;
        let aside = {
            let mut held = self.held();
            held.place = Some(place);
            held.aside.take()
        };
        drop(aside);
        Ok(())
    }

    fn tenant(&self) -> &str {
        self.actor().map_or("", Actor::tenant)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.seat.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn let_speak(&self) {
        self.0.may_speak.store(true, Ordering::SeqCst);
    }

    pub(super) fn learn_plain(&self) {
        self.0.plain.store(true, Ordering::SeqCst);
    }

    pub(super) fn learn_envelope(&self, envelope: Envelope) {
        self.0.envelope.get_or_init(|| envelope);
    }

    /// The arguments of what such a caller asked for: where it runs others, they say which. Never written down.
    pub(super) fn wanted_arguments(&self) -> Option<&Object> {
        self.0.wanted_arguments.get()
    }

    pub(super) fn learn_wanted_arguments(&self, arguments: &Object) {
        self.0.wanted_arguments.get_or_init(|| arguments.clone());
    }

    pub(super) fn learn_wanted(&self, kind: policy::Kind, name: &str) {
        self.0.wanted.get_or_init(|| (kind, name.to_owned()));
    }

    /// Notes the id of what is no message, where it has one all the same.
    pub(super) fn learn_id(&self, bytes: &[u8]) {
        let id = message::id_in(bytes);
        if id.is_some() {
            self.learn_envelope(Envelope { id, era: Era::Modern, is_tool_call: false });
        }
    }

    pub(super) fn learn_actor(&self, actor: Actor) {
        self.0.actor.get_or_init(|| actor);
    }

    pub(super) fn learn_facts(&self, facts: Facts) {
        self.0.facts.get_or_init(|| facts);
    }

    pub(super) fn learn_refused_by(&self, policy_version: &str) {
        self.0.refused_by.get_or_init(|| policy_version.to_owned());
    }

    /// What its row says of a refusal: the policy that refused it.
    pub(super) fn refused(&self, facts: Facts) -> Facts {
        let policy_version = self.0.refused_by.get().cloned().or(facts.policy_version);
        Facts { policy_version, ..facts }
    }

    pub(super) fn mark_audited(&self) {
        self.0.audited.store(true, Ordering::SeqCst);
    }
}

impl Drop for Notes {
    /// Nothing of the call runs any more: its answer was given, or nobody is there to hear it.
    fn drop(&mut self) {
        self.told.end(self.began.elapsed(), self.facts.get(), self.actor.get());
    }
}
