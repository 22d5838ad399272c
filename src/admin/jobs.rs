//! The jobs' gate: whoever runs work later than its request asks here before it begins, and tells here what came of it.
//!
//! Promises: nothing is told, not even which paths there are, without a service's token, and the operators' token is none;
//! what is allowed and what a row says are the policy's and the audit's as for any call; whoever hangs up stops nothing,
//! and a claim that its worker did not hear of is given back. A gate that leaves refuses new claims, and takes reports
//! until it has gone. How much is done at once is bounded, for claims and for reports apart, so that a flood of the one
//! does not hold up the other.
//!
//! Absent on purpose: memory of who works. A claim in the store is all that there is of it, and any gate of the service
//! takes its reports. A gate that observes answers here as any other: a worker asks on purpose, and what it does by the
//! answer passes no gate.

mod asked;
mod told;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{Instrument as _, Span, info, info_span, warn};
use uuid::Uuid;

use self::asked::{Asked, Question, What};
use self::told::Done;
use crate::auth::{AuthFault, Service, ServiceFault, Services, bearer};
use crate::domain::audit::{AuditEvent, Decision, Facts};
use crate::domain::refusal::Refusal;
use crate::layers::claim::Clerk;
use crate::layers::claim::jobs::{Handed, JobAsk, Work};
use crate::layers::observe::Trace;
use crate::layers::queue::room::Room;
use crate::store::event_id;
use crate::traces::{self, Tracer};
use crate::wire::envelope::Body;
use crate::wire::{self, Row};

/// What every path here begins with.
pub const PREFIX: &str = "/gate/";

/// Claims, and reports, that are dealt with at one time. Each takes a statement or two of the store, and up to
/// `limits.request_body` of memory.
const AT_ONCE: usize = 64;

/// How many more may wait for that.
const WAITING: usize = 1024;

/// What the jobs' gate needs.
pub struct Jobs {
    /// Who may ask.
    pub services: Arc<Services>,
    /// Claims and settles.
    pub clerk: Arc<Clerk>,
    /// Says whether the gate takes new work.
    pub room: Room,
    /// How much of a request is taken.
    pub bounds: Bounds,
    /// Makes spans, where traces are told.
    pub tracer: Tracer,
}

/// How much of a request is taken.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The largest body, in bytes.
    pub request_body: u64,
    /// How long one may take to come.
    pub body_time: Duration,
    /// How long a request may wait for its turn.
    pub queue_time: Duration,
}

/// What answers under [`PREFIX`]. Cheap to clone.
#[derive(Clone)]
pub struct JobsGate(Arc<Desk>);

struct Desk {
    services: Arc<Services>,
    /// None once the gate has no more to do with the store.
    clerk: ArcSwapOption<Clerk>,
    room: Room,
    bounds: Bounds,
    tracer: Tracer,
    claims: Counter,
    reports: Counter,
}

/// What a request is about, as far as is known.
#[derive(Default)]
struct About {
    job: Option<String>,
    tenant: Option<String>,
}

impl About {
    /// Tells it in the request's span.
    fn tell(&self, span: &traces::Span, way: Option<&str>, status: u16) {
        span.set("http.request.method", "POST");
        span.set("http.response.status_code", i64::from(status));
        if let Some(way) = way {
            span.set_text("http.route", way);
            span.name(format!("POST {way}"));
        }
        if let Some(job) = &self.job {
            span.set_text("oncegate.operation", job);
        }
        if status >= 500 {
            span.failed(&status.to_string());
        }
        span.end();
    }
}

/// Where requests of one kind wait for their turn.
struct Counter {
    places: Arc<Semaphore>,
    entrance: Arc<Semaphore>,
}

/// A request's turn, until this is dropped.
struct Turn {
    _entered: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// A request that goes no further, and what its row says where it is known who asks for whom.
struct Refused {
    refusal: Refusal,
    facts: Option<Facts>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, facts: None }
    }
}

/// What is answered.
enum Heard {
    /// What this gate is.
    Description,
    /// What comes of what is asked.
    Asked(Box<Asked>, Turn, Arc<Clerk>),
}

impl JobsGate {
    /// A gate for these jobs.
    pub fn new(jobs: Jobs) -> Self {
        let Jobs { services, clerk, room, bounds, tracer } = jobs;
        let (claims, reports) = (Counter::new(), Counter::new());
        Self(Arc::new(Desk {
            services,
            clerk: ArcSwapOption::new(Some(clerk)),
            room,
            bounds,
            tracer,
            claims,
            reports,
        }))
    }

    /// Lets go of all that writes: what is asked from now on must be asked of another gate.
    pub fn close(&self) {
        self.0.clerk.store(None);
    }

    /// The answer to a request.
    pub async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let trace = Trace::of(request.headers(), &self.0.tracer, "POST");
        let span = info_span!("job", trace_id = %trace.id);
        self.0.answer(request, trace).instrument(span).await
    }
}

impl Counter {
    fn new() -> Self {
        let entrance = Arc::new(Semaphore::new(AT_ONCE + WAITING));
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), entrance }
    }

    async fn turn(&self, patience: Duration) -> Result<Turn, Refusal> {
        let entered = Arc::clone(&self.entrance).try_acquire_owned().map_err(|_| Refusal::Overloaded)?;
        let place = timeout(patience, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Refusal::Overloaded)?;
        Ok(Turn { _entered: entered, _place: place })
    }
}

impl Desk {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, trace: Trace) -> Response<Body> {
        let began = Instant::now();
        let way = Question::at(request.uri().path()).map(|_| request.uri().path().to_owned());
        let mut about = About::default();
        let response = match self.hear(request, &trace, &mut about).await {
            Ok(Heard::Description) => told::description(),
            Ok(Heard::Asked(asked, turn, clerk)) => Self::carry_out(*asked, turn, clerk, began).await,
            Err(refused) => {
                let clerk = self.clerk.load_full();
                let (row, instance) = deny(clerk.as_deref(), refused, began).await;
                told::refusal(&row, instance)
            }
        };
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let status = response.status().as_u16();
        about.tell(&trace.span, way.as_deref(), status);
        let About { job, tenant } = about;
        info!(way, tool = job, status, ms, tenant, trace_id = trace.id, "Answered.");
        response
    }

    /// What is asked, once it is known who asks for whom.
    async fn hear(
        &self,
        request: Request<Incoming>,
        trace: &Trace,
        about: &mut About,
    ) -> Result<Heard, Refused> {
        let service = self.service(&request)?;
        let only = |allow: &str| Refusal::MethodNotAllowed { allow: allow.to_owned() };
        let question = match (request.method(), request.uri().path()) {
            (&Method::GET, "/gate/openapi.json") => return Ok(Heard::Description),
            (_, "/gate/openapi.json") => return Err(only("GET").into()),
            (method, path) => match Question::at(path) {
                Some(question) if *method == Method::POST => question,
                Some(_) => return Err(only("POST").into()),
                None => return Err(Refusal::NoSuchEndpoint.into()),
            },
        };
        let counter = if question == Question::Claim { &self.claims } else { &self.reports };
        let turn = counter.turn(self.bounds.queue_time).await?;
        asked::check_media(request.headers())?;
        let client = request.headers().get(http::header::USER_AGENT);
        let client = client.and_then(|name| name.to_str().ok()).map(str::to_owned);
        let said = asked::read(question, &self.body(request.into_body()).await?)?;
        let actor = service.actor([said.tenant.as_str()]).map_err(|fault| match fault {
            ServiceFault::Tenant(_) => Refusal::ForeignTenant,
            ServiceFault::NoActor(fault) => Refusal::BodyUnreadable { detail: fault.to_string() },
        })?;
        about.tenant = Some(actor.tenant().to_owned());
        let closed = if question == Question::Claim { Refusal::Draining } else { Refusal::ReportNotStored };
        let clerk = self.clerk.load_full().ok_or(closed)?;
        about.job = Some(clerk.job_facts(&clerk.court.policy.load(), &actor, &said.job, None).tool);
        let facts = || {
            let facts = clerk.job_facts(&clerk.court.policy.load(), &actor, &said.job, None);
            Some(Facts { trace_id: Some(trace.id.clone()), ..facts })
        };
        let key = said.key.map_err(|refusal| Refused { refusal, facts: facts() })?;
        let what = match said.what {
            What::Claim { arguments } => {
                if self.room.closed().is_cancelled() {
                    return Err(Refused { refusal: Refusal::Draining, facts: facts() });
                }
                let trace_id = Some(trace.id.clone());
                Asked::Claim(JobAsk { actor, job: said.job, key, arguments, trace_id, client })
            }
            What::Renew { attempt } => Asked::Renew(Work { actor, job: said.job, key, attempt }),
            What::Settle { attempt, told } => {
                Asked::Settle(Work { actor, job: said.job, key, attempt }, told)
            }
        };
        Ok(Heard::Asked(Box::new(what), turn, clerk))
    }

    fn service(&self, request: &Request<Incoming>) -> Result<Arc<Service>, Refusal> {
        let token = bearer(request.headers()).map_err(|fault| match fault {
            AuthFault::Missing => Refusal::NoToken,
            AuthFault::Bad(fault) => Refusal::BadToken { detail: fault.to_string() },
            AuthFault::KeysUnavailable => Refusal::KeysUnavailable,
        })?;
        let unknown = || Refusal::BadToken { detail: "it is no service's".to_owned() };
        self.services.holder(token).ok_or_else(unknown)
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let limit = self.bounds.request_body;
        let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
        match timeout(self.bounds.body_time, limited.collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(fault)) if fault.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge { limit }),
            Ok(Err(_)) | Err(_) => Err(Refusal::BodyCut),
        }
    }

    /// Does what is asked in a task of its own: whoever hangs up does not stop it.
    async fn carry_out(asked: Asked, turn: Turn, clerk: Arc<Clerk>, began: Instant) -> Response<Body> {
        let (tell, told) = oneshot::channel();
        let tasks = clerk.tasks.clone();
        let working = async move {
            let done = work(&clerk, asked, began).await;
            drop(turn);
            if let Err(Ok(Done::Handed(Handed::Fresh(fresh)))) = tell.send(done) {
                clerk.take_back(*fresh);
            }
        };
        tasks.spawn(working.instrument(Span::current()));
        match told.await {
            Ok(Ok(done)) => told::answer(&done),
            Ok(Err((row, instance))) => told::refusal(&row, instance),
            // The task ends without a word only if it panicked.
            Err(_) => told::refusal(&wire::row(&Refusal::Internal), event_id()),
        }
    }
}

async fn work(clerk: &Arc<Clerk>, asked: Asked, began: Instant) -> Result<Done, (Row, Uuid)> {
    // A late end has its row already, as what it is.
    let ends = matches!(asked, Asked::Settle(..));
    // One for the whole request: its row says which.
    let policy = clerk.court.policy.load_full();
    let done = match asked {
        Asked::Claim(ask) => {
            let handed = clerk.hand_out(&policy, &ask).await;
            handed.map(Done::Handed).map_err(|refusal| (refusal, clerk.ask_facts(&policy, &ask)))
        }
        Asked::Renew(work) => {
            let renewed = clerk.prolong(&policy, &work).await;
            renewed.map(Done::Renewed).map_err(|refusal| (refusal, clerk.work_facts(&policy, &work)))
        }
        Asked::Settle(work, told) => {
            let reported = clerk.settle_job(&policy, &work, told).await;
            reported.map(Done::Reported).map_err(|refusal| (refusal, clerk.work_facts(&policy, &work)))
        }
    };
    match done {
        Ok(done) => Ok(done),
        // Of what is to come again nothing is written.
        Err((refusal, _))
            if refusal == Refusal::ReportNotStored || (ends && refusal == Refusal::AttemptOver) =>
        {
            Err((wire::row(&refusal), event_id()))
        }
        Err((refusal, facts)) => Err(deny(Some(clerk), Refused { refusal, facts: Some(facts) }, began).await),
    }
}

/// Writes a refusal down, where it is known for whom was asked; says how it looks, and its row's id.
async fn deny(clerk: Option<&Clerk>, refused: Refused, began: Instant) -> (Row, Uuid) {
    let (row, id) = (wire::row(&refused.refusal), event_id());
    match (refused.facts, clerk) {
        (Some(facts), Some(clerk)) => {
            let event = AuditEvent {
                id,
                facts,
                decision: Decision::Denied,
                reason: Some(row.reason.to_owned()),
                result_summary: None,
                duration_ms: i64::try_from(began.elapsed().as_millis()).ok(),
                executed: row.executed,
                upstream_status: None,
            };
            clerk.journal.denied(event).await;
        }
        (_, clerk) => {
            if let Some(clerk) = clerk {
                clerk.journal.meter().stranger(&clerk.service, None, row.reason);
            }
            warn!(reason = row.reason, %id, "Refused a worker's request of no known actor.");
        }
    }
    (row, id)
}
