//! The step that asks the policy.
//!
//! Promises: [`Allowed`] exists only for a call that the policy allows to this actor, or that is observed and says so
//! in its type ([`Watched`]). For a mutation it holds a valid key; key and tenant arguments are out of what will be
//! forwarded, and the fingerprint is taken of what remains.
//!
//! Absent on purpose: annotations and names as grounds for anything. What the policy does not name is denied.

mod facts;
mod follow;
mod inner;
mod observed;
mod plain;
mod take;
mod would;

use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use tower::Service;

pub(super) use self::facts::short;
use self::facts::{Told, protocol_of};
use self::follow::{ask_about, is_mutation, unopened};
pub use self::inner::Several;
use self::observed::Kept;
use self::take::{has_rounds, put_argument, subject_of, take, take_mirrors};
use super::parse::{Head, Parsed, What};
use super::plain::{Open, Plain};
use super::resume::{self, Resumed};
use super::session::bind_session;
use super::subject::Subject;
use super::watched::Watched;
use super::{Answer, Step};
use crate::auth::Verifier;
use crate::domain::call::META_KEY;
use crate::domain::fingerprint::{Fingerprinter, Fingerprints};
use crate::domain::json::{Json, Object};
use crate::domain::key::Key;
use crate::domain::ledger::{AskedRound, RoundId};
use crate::domain::policy::{Effect, Kind, Mutation as Rule, Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::domain::seal::Seal;
use crate::mcp::given::Given;
use crate::mcp::message::{Message, Request};
use crate::mcp::mirrors::Mirrors;
use crate::mcp::tasks::follows_up;

/// A message that may go on: because the policy allows it to this actor, or, where it is observed, whatever the policy
/// says.
#[derive(Debug)]
pub struct Allowed {
    pub(super) head: Head,
    what: AllowedWhat,
}

/// What it is.
#[derive(Debug)]
pub(super) enum AllowedWhat {
    /// It needs a claim.
    Mutation(Box<Mutation>),
    /// It changes nothing.
    Read {
        /// The message, as it will be forwarded.
        request: Request,
        /// Its rule.
        operation: Arc<Operation>,
    },
    /// It does something to a task that an allowed call made: no claim, but a row before the answer.
    Act {
        /// The message, as it will be forwarded.
        request: Request,
        /// The rule of the operation that made the task.
        operation: Arc<Operation>,
    },
    /// Housekeeping.
    Passage {
        /// The message, as it will be forwarded.
        message: Message,
        /// The policy by which a list is filtered.
        policy: Arc<Policy>,
    },
    /// A plain request that needs no claim.
    Open(Box<Open>),
    /// It runs others.
    Several(Box<Several>),
    /// The gate observes: it goes on as it came, and what would have been decided is written down.
    Watched(Box<Watched>),
    /// Its operation is only observed: it goes on though it would have been refused.
    Unenforced {
        /// The message, as it will be forwarded.
        request: Request,
        /// Its rule.
        operation: Arc<Operation>,
        /// The refusal.
        would: Refusal,
    },
    /// Its operation is only observed: it goes on whether or not it owns its claim.
    Recorded(Box<Mutation>),
    /// A legacy client listens to its session.
    Listen {
        /// From where it goes on, if it does.
        resumed: Option<Resumed>,
        /// The policy by which a list is filtered.
        policy: Arc<Policy>,
    },
    /// A legacy client ends its session.
    Leave,
}

/// A mutation that the policy allows.
#[derive(Debug)]
pub struct Mutation {
    /// What will be forwarded.
    pub sends: Sends,
    /// Its rule.
    pub operation: Arc<Operation>,
    /// The client's key.
    pub key: Key,
    /// The fingerprints of its arguments.
    pub prints: Fingerprints,
    /// Which round of the call it brings.
    pub round: AskedRound,
}

/// What goes out for a mutation.
#[derive(Debug)]
pub enum Sends {
    /// A message to the MCP endpoint.
    Message(Request),
    /// A plain request.
    Plain(Plain),
}

impl Mutation {
    /// The message; none for a plain request.
    pub fn message(&self) -> Option<&Request> {
        match &self.sends {
            Sends::Message(request) => Some(request),
            Sends::Plain(_) => None,
        }
    }

    /// The message's id.
    pub fn id(&self) -> Json {
        self.message().and_then(|request| request.id.clone()).unwrap_or(Json::Null)
    }
}

impl Allowed {
    /// A request that goes on whatever was decided about it.
    pub(super) fn watched(head: Head, watched: Watched) -> Self {
        Self { head, what: AllowedWhat::Watched(Box::new(watched)) }
    }

    /// Its rule, where it is a call that has one of its own.
    pub(super) fn operation(&self) -> Option<&Operation> {
        match &self.what {
            AllowedWhat::Mutation(mutation) | AllowedWhat::Recorded(mutation) => Some(&mutation.operation),
            AllowedWhat::Read { operation, .. }
            | AllowedWhat::Act { operation, .. }
            | AllowedWhat::Unenforced { operation, .. } => Some(operation),
            AllowedWhat::Open(open) => Some(&open.operation),
            AllowedWhat::Passage { .. }
            | AllowedWhat::Listen { .. }
            | AllowedWhat::Leave
            | AllowedWhat::Several(_)
            | AllowedWhat::Watched(_) => None,
        }
    }

    /// What it carries along, and what it is.
    pub(super) fn into_parts(self) -> (Head, AllowedWhat) {
        (self.head, self.what)
    }
}

/// A call as it will be forwarded, and what was taken out of it.
struct Weighed {
    request: Request,
    mirrored: Result<(), Refusal>,
    taken: Result<Option<Key>, Refusal>,
    prints: Fingerprints,
}

/// What deciding needs.
pub struct Court {
    /// The policy in force.
    pub policy: Arc<ArcSwap<Policy>>,
    /// Takes fingerprints.
    pub fingerprinter: Fingerprinter,
    /// The gate's `service`.
    pub service: String,
    /// Opens what is bound to an actor.
    pub seal: Seal,
    /// Which tasks were given to whom.
    pub given: Given,
    /// Which headers go with the arguments that are taken out.
    pub mirrors: Arc<Mirrors>,
    /// Tells whether a token still holds, after a wait.
    pub verifier: Arc<Verifier>,
}

/// The step.
#[derive(Clone)]
pub struct Authorize<S> {
    inner: S,
    court: Arc<Court>,
}

impl<S> Authorize<S> {
    /// Before `inner`.
    pub fn new(inner: S, court: Arc<Court>) -> Self {
        Self { inner, court }
    }
}

impl<S> Service<Parsed> for Authorize<S>
where
    S: Service<Allowed, Response = Answer, Error = Refusal>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Refusal;
    type Future = Step<Answer, Refusal>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, parsed: Parsed) -> Self::Future {
        let step = parsed.asked().span().step("authorize");
        let allowed = self.court.allow(parsed);
        drop(step);
        match allowed {
            Ok(allowed) => Box::pin(self.inner.call(allowed)),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }
}

impl Court {
    fn allow(&self, parsed: Parsed) -> Result<Allowed, Refusal> {
        let (mut head, what) = parsed.into_parts();
        let policy = self.policy.load_full();
        let bound = bind_session(&mut head, &self.seal);
        let what = match what {
            What::Passage(mut message) => {
                bound.clone()?;
                head.tasks = self.opener(head.caller.actor()).message(&mut message, &mut head.headers)?;
                AllowedWhat::Passage { message, policy }
            }
            What::Listen => {
                let actor = head.caller.actor();
                let resumed = resume::open(&self.seal, actor, &head.headers, &policy)?;
                AllowedWhat::Listen { resumed, policy }
            }
            What::Leave => AllowedWhat::Leave,
            What::Call { request, kind, name } => {
                self.allow_call(&mut head, &policy, request, kind, &name)?
            }
            What::Plain(matched) => self.allow_plain(&mut head, *matched)?,
        };
        // Last, so that a refusal's row tells what was called.
        bound?;
        Ok(Allowed { head, what })
    }

    fn allow_call(
        &self,
        head: &mut Head,
        policy: &Policy,
        mut request: Request,
        kind: Kind,
        name: &str,
    ) -> Result<AllowedWhat, Refusal> {
        let rule = policy.named(kind, name).cloned();
        let opened = self.opener(head.caller.actor()).request(&mut request, &mut head.headers);
        let opened = opened.map_err(|refusal| unopened(refusal, &request, head.era));
        let observed = Kept::of(rule.as_ref(), &request, head);
        let weighed = self.weigh(head, policy, request, kind, name, rule.as_deref());
        head.tasks = opened?;
        ask_about(&mut head.tasks, policy, head.caller.actor())?;
        if kind == Kind::Method && follows_up(name) && !is_mutation(rule.as_ref()) {
            if rule.is_some() {
                policy.admit(head.caller.actor(), kind, name, head.subject.arguments())?;
            }
            return Self::follow_up(head, weighed.request, rule.as_ref());
        }
        let decided = self.decide(head, policy, weighed, kind, name);
        match observed {
            None => decided,
            Some(kept) => Ok(kept.whatever(head, decided)),
        }
    }

    /// Takes out of a call what does not go on, and notes what its row will say.
    fn weigh(
        &self,
        head: &mut Head,
        policy: &Policy,
        mut request: Request,
        kind: Kind,
        name: &str,
        rule: Option<&Operation>,
    ) -> Weighed {
        let mirrored = take_mirrors(head, &self.mirrors, &request, kind, rule);
        let taken = take(&mut request, &head.headers, rule);
        let arguments = subject_of(&request, kind);
        let prints = self.fingerprinter.of(arguments.as_ref());
        head.subject = Subject::of(rule, arguments.as_ref());
        let arguments = arguments.map(|arguments| match rule.and_then(Operation::runs) {
            None => Ok(arguments),
            Some(runs) => inner::shown(policy, runs, arguments, &prints.signed),
        });
        let (protocol, client) = (protocol_of(head, &request), request.client());
        let (protocol, client) = (protocol.as_str(), client.as_deref());
        let told = Told { name, rule, taken: &taken, prints: &prints, arguments, protocol, client };
        head.asked.learn_facts(self.facts(head, policy, told));
        head.asked.is_call(policy, rule);
        Weighed { request, mirrored, taken, prints }
    }

    /// What the policy makes of a call.
    fn decide(
        &self,
        head: &Head,
        policy: &Policy,
        weighed: Weighed,
        kind: Kind,
        name: &str,
    ) -> Result<AllowedWhat, Refusal> {
        let Weighed { mut request, mirrored, taken, prints } = weighed;
        if let Some((outer, runs)) = policy.named(kind, name).and_then(|rule| Some((rule, rule.runs()?))) {
            let apart = self.take_apart(head, policy, &request, outer, runs)?;
            return mirrored.map(|()| apart);
        }
        let operation = policy.decide(head.caller.actor(), kind, name, head.subject.arguments())?;
        mirrored?;
        if operation.effect() != Effect::Mutation {
            return Ok(AllowedWhat::Read { request, operation: Arc::clone(operation) });
        }
        let key = taken?.ok_or_else(|| Refusal::KeyRequired { place: place_of_key(operation) })?;
        if operation.mutation().is_some_and(Rule::forward_argument) {
            put_argument(&mut request, operation.key_argument(), key.as_str());
        }
        let rounds = request.params().filter(|_| has_rounds(&request.method));
        let round = self.round(rounds);
        let operation = Arc::clone(operation);
        let sends = Sends::Message(request);
        Ok(AllowedWhat::Mutation(Box::new(Mutation { sends, operation, key, prints, round })))
    }

    /// Which round of the call this is, by what it brings for the upstream's questions.
    fn round(&self, params: Option<&Object>) -> AskedRound {
        // Some clients write `null` for what they leave out.
        let said = |name: &str| params.and_then(|params| params.get(name)).filter(|value| !value.is_null());
        let (inputs, state) = (said("inputResponses"), said("requestState"));
        if inputs.is_none() && state.is_none() {
            return AskedRound::default();
        }
        AskedRound {
            id: RoundId::from_hex(&self.fingerprinter.round_hash(inputs, state)),
            state: self.fingerprinter.state_hash(state),
            inputs: inputs.is_some(),
        }
    }

    /// Whether a call that had to wait is still allowed: the policy may have changed, the token may have run out.
    pub(super) fn still_allows(&self, head: &Head, operation: &Operation) -> Result<(), Refusal> {
        let caller = &head.caller;
        if !caller.verified().is_some_and(|verified| self.verifier.still_holds(verified)) {
            return Err(Refusal::BadToken { detail: "it is no longer valid".to_owned() });
        }
        let policy = self.policy.load();
        let arguments = head.subject.arguments();
        let admitted = policy.admit(caller.actor(), operation.kind(), operation.name(), arguments);
        admitted.inspect_err(|_| head.asked.learn_refused_by(policy.version()))?;
        Ok(())
    }
}

/// Where a client that sent no key is told to put it.
fn place_of_key(operation: &Operation) -> String {
    match operation.kind() {
        Kind::Tool => format!("the argument {}", operation.key_argument()),
        Kind::Method => format!("params._meta[\"{META_KEY}\"]"),
        Kind::Route => "the Idempotency-Key header".to_owned(),
        Kind::Job => "\"key\"".to_owned(),
    }
}
