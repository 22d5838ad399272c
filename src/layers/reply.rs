//! The only step that answers.
//!
//! Promises: every refusal goes through the table in [`crate::wire`], as JSON-RPC to the MCP endpoint's clients and as a
//! problem to all others; where the actor is known its audit row is
//! committed before the client hears it, or, where the store is away, waits for it in the spool or the journal; a panic
//! further in becomes an answer with the call's own id. A call that takes longer than `OPEN_AFTER` is answered with a
//! stream, where its client takes one, so that nobody on the way takes the silence for the end.
//!
//! Absent on purpose: rows for what no actor asked, and second rows for what was written with a claim.

pub mod stalled;
mod stream;

use std::any::Any;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request, Response};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::{error, warn};

use super::authorize::{Court, short};
use super::claim::journal::Journal;
use super::observe::Observed;
use super::{Answer, Asked, Step};
use crate::auth::{Resource, WELL_KNOWN};
use crate::domain::answer;
use crate::domain::audit::{AuditEvent, Decision, Facts};
use crate::domain::policy::Kind;
use crate::domain::refusal::Refusal;
use crate::wire::envelope::Body;
use crate::wire::{self, Row, plain, problem, render};

/// How long an answer is waited for before a stream is opened in its place.
const OPEN_AFTER: Duration = Duration::from_secs(3);

/// The step.
#[derive(Clone)]
pub struct Reply<S> {
    inner: S,
    /// Whether it serves the gate's own documents; where the gate observes, the app's are asked for.
    documents: bool,
    desk: Arc<Desk>,
}

/// In which form a request is refused.
#[derive(Clone, Copy)]
enum Dialect {
    /// It was sent to the MCP endpoint.
    JsonRpc,
    /// It was sent elsewhere.
    Plain,
    /// The same, and no body is wanted.
    PlainHead,
}

/// What answering needs.
pub struct Desk {
    /// The gate's `service`.
    pub service: String,
    /// The gate as clients with JWTs dial it, for challenges; none where nobody comes with one.
    pub resource: Option<Resource>,
    /// The path of the MCP endpoint; none where there is no such endpoint.
    pub mcp_path: Option<String>,
    /// Who issues tokens for it.
    pub authorization_servers: Arc<ArcSwap<Vec<String>>>,
    /// Knows which scopes there are.
    pub court: Arc<Court>,
    /// Where denials are written down.
    pub journal: Journal,
    /// Cancelled when the gate takes no calls any more: whoever only listens is sent away, and comes back to another.
    pub stopping: CancellationToken,
}

impl<S> Reply<S> {
    /// Around `inner`.
    pub fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, documents: true, desk }
    }

    /// Around the steps of a listener towards somebody else's API: whatever path there is, is theirs.
    pub fn outward(inner: S, desk: Arc<Desk>) -> Self {
        Self { documents: false, ..Self::new(inner, desk) }
    }

    /// Around the steps of a gate that observes.
    pub fn watching(inner: S, desk: Arc<Desk>) -> Self {
        Self { documents: false, ..Self::new(inner, desk) }
    }
}

impl<S, B> Service<Observed<B>> for Reply<S>
where
    S: Service<Observed<B>, Response = Answer, Error = Refusal>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Step<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The steps further in are always ready; they hold no queue.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, observed: Observed<B>) -> Self::Future {
        if self.documents
            && let Some(document) = self.desk.document(observed.request())
        {
            return Box::pin(ready(Ok(document)));
        }
        let desk = Arc::clone(&self.desk);
        let asked = observed.asked().clone();
        let dialect = desk.dialect(observed.request());
        if !matches!(dialect, Dialect::JsonRpc) {
            asked.learn_plain();
        }
        let answering = AssertUnwindSafe(self.inner.call(observed)).catch_unwind();
        let mut answering: Answering = Box::pin(async move {
            answering.await.unwrap_or_else(|panic| {
                error!(panic = panic_text(&*panic), "A call panicked.");
                Err(Refusal::Internal)
            })
        });
        Box::pin(async move {
            loop {
                tokio::select! {
                    answered = &mut answering => return Ok(desk.respond(answered, asked, dialect).await),
                    () = sleep(OPEN_AFTER) => {}
                }
                if asked.may_speak() {
                    return Ok(render::stream(HeaderMap::new(), stream::body(desk, asked, answering)));
                }
            }
        })
    }
}

/// How a call ends, while it has not.
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

impl Desk {
    /// What the gate says about itself to clients that have no token yet (RFC 9728). They ask where a challenge sends
    /// them, or below the host's root.
    fn document<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let (path, resource) = (request.uri().path(), self.resource.as_ref()?);
        let asked = path == resource.metadata_path() || path == WELL_KNOWN;
        if !asked || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let policy = self.court.policy.load();
        let scopes: BTreeSet<&str> =
            policy.operations().flat_map(|operation| operation.scopes()).map(String::as_str).collect();
        Some(render::document(&resource.metadata(&self.authorization_servers.load(), scopes)))
    }

    /// The scopes that a caller without a good token will need.
    fn scopes_wanted(&self, asked: &Asked) -> Vec<String> {
        let policy = self.court.policy.load();
        let named = asked.wanted().and_then(|(kind, name)| policy.named(*kind, name));
        let inside = named.and_then(|outer| outer.runs()?.inner(asked.wanted_arguments()).ok());
        let inside = inside.iter().flatten().filter_map(|inner| policy.named(Kind::Tool, &inner.tool));
        let scopes: BTreeSet<&String> =
            named.into_iter().chain(inside).flat_map(|rule| rule.scopes()).collect();
        scopes.into_iter().cloned().collect()
    }

    /// How a request is answered: by its path, whatever else is wrong with it.
    fn dialect<B>(&self, request: &Request<B>) -> Dialect {
        if self.mcp_path.as_deref() == Some(request.uri().path()) {
            Dialect::JsonRpc
        } else if *request.method() == Method::HEAD {
            Dialect::PlainHead
        } else {
            Dialect::Plain
        }
    }

    async fn respond(
        self: Arc<Self>,
        answered: Result<Answer, Refusal>,
        asked: Asked,
        dialect: Dialect,
    ) -> Response<Body> {
        match answered {
            Ok(Answer::Passed(response)) => self.passed(response, &asked),
            Ok(Answer::Claimed { kept, marks, beside }) => match kept.kind {
                answer::Kind::Result | answer::Kind::Error => render::answer(&kept, &marks, asked.envelope()),
                answer::Kind::Plain => plain::answer(&kept, &marks, beside),
            },
            Ok(Answer::Spoken(spoken)) => {
                render::stream(spoken.headers, stream::of(self, asked, spoken.words))
            }
            Ok(Answer::Accepted) => render::accepted(),
            Err(refusal) => {
                let row = self.refuse(&refusal, &asked).await;
                let problem = || problem::response(&row, asked.row_id(), self.resource.as_ref());
                match dialect {
                    Dialect::JsonRpc => render::refusal(&row, asked.envelope(), self.resource.as_ref()),
                    Dialect::Plain => problem(),
                    Dialect::PlainHead => problem::without_body(problem()),
                }
            }
        }
    }

    /// What passes as it is; a stream on which a client only listens ends when the gate stops. A plain answer that goes on
    /// for long holds its call's place.
    fn passed(&self, response: Response<Body>, asked: &Asked) -> Response<Body> {
        if !stream::is_stream(&response) || stream::is_call(asked) {
            return if asked.is_plain() { response.map(|body| stalled::held(body, asked)) } else { response };
        }
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, stream::until(self.stopping.clone(), body))
    }

    /// Writes a refusal down, and says how it looks.
    async fn refuse(&self, refusal: &Refusal, asked: &Asked) -> Row {
        let mut row = wire::row(refusal);
        asked.is_refused(&row, asked.actor().is_none());
        if row.scopes.is_empty() {
            row.scopes = self.scopes_wanted(asked);
        }
        match asked.actor() {
            Some(_) if asked.is_audited() => {}
            Some(_) => {
                let facts = asked.facts().cloned().unwrap_or_else(|| self.bare_facts(asked));
                write_down(&self.journal, &row, facts, asked).await;
            }
            None => {
                let wanted = asked.wanted().map(|(_, name)| name.as_str());
                self.journal.meter().stranger(&self.service, wanted, row.reason);
                let (id, peer) = (asked.row_id(), asked.peer());
                warn!(reason = row.reason, %peer, %id, "Refused a call of no known actor.");
            }
        }
        row
    }

    /// What is known of a call that was refused before it had an operation.
    fn bare_facts(&self, asked: &Asked) -> Facts {
        let mut facts = Facts { service: self.service.clone(), ..Facts::default() };
        if let Some(actor) = asked.actor() {
            actor.tenant().clone_into(&mut facts.tenant_id);
            actor.user().clone_into(&mut facts.user_id);
            facts.session_id = actor.session().map(str::to_owned);
        }
        if let Some((_, name)) = asked.wanted() {
            facts.tool = short(name);
        }
        facts.trace_id = Some(asked.trace().id.clone());
        facts
    }
}

/// Writes a denial down.
pub(super) async fn write_down(journal: &Journal, row: &Row, facts: Facts, asked: &Asked) {
    let event = AuditEvent {
        id: asked.new_row_id(),
        facts: asked.refused(facts),
        decision: Decision::Denied,
        reason: Some(row.reason.to_owned()),
        result_summary: None,
        duration_ms: i64::try_from(asked.elapsed().as_millis()).ok(),
        executed: row.executed,
        upstream_status: None,
    };
    asked.came_to(&event);
    let _step = asked.span().store("append");
    journal.denied(event).await;
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("not a text")
}
