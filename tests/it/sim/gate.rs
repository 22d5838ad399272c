//! A gate in this process: the real steps from the top down to the claim, between a caller's request and the world.
//!
//! Promises: each gate has a runtime and a clock of its own, and nothing but the world in common with others; dropping
//! it drops all its tasks where they stand, as a crash does.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use oncegate::auth::{ClaimNames, KeySource, Resource, Settings, Verifier};
use oncegate::domain::fingerprint::{Fingerprinter, Secrets};
use oncegate::domain::mode::WhenStoreDown;
use oncegate::domain::policy::Policy;
use oncegate::domain::seal::Seal;
use oncegate::domain::site::Sites;
use oncegate::herd::Herd;
use oncegate::layers::address::Address;
use oncegate::layers::authenticate::Authenticate;
use oncegate::layers::authorize::{Authorize, Court};
use oncegate::layers::claim::flights::Flights;
use oncegate::layers::claim::journal::Journal;
use oncegate::layers::claim::{Claim, Clerk};
use oncegate::layers::glance::Glance;
use oncegate::layers::observe::{Observe, Post};
use oncegate::layers::parse::{Bounds, Parse};
use oncegate::layers::queue::Queue;
use oncegate::layers::queue::room::{Measures, Room};
use oncegate::layers::reply::{Desk, Reply};
use oncegate::layers::running::Running;
use oncegate::mcp::given::Given;
use oncegate::mcp::mirrors::Mirrors;
use oncegate::meter::Meter;
use oncegate::traces::Tracer;
use oncegate::wire::envelope::Body;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tower::util::BoxCloneService;

use super::store::{ModelForward, ModelStore};
use super::world::World;
use crate::harness::setup::{AUDIENCE, ISSUER, JWT_SECRET, token};

/// One attempt's whole time.
pub(super) const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(100);

/// A lease lasts 60 s.
const POLICY: &str = r#"
[tools.refund_order]
effect = "mutation"
scopes = ["billing:refund"]
lease = "60s"
"#;

const PATIENT: &str = r#"in_flight = "wait"
wait_up_to = "50s"
"#;

static TOKEN: LazyLock<String> = LazyLock::new(token);

static COURT: LazyLock<Arc<Court>> = LazyLock::new(|| court(POLICY));

static PATIENT_COURT: LazyLock<Arc<Court>> = LazyLock::new(|| court(&format!("{POLICY}{PATIENT}")));

/// What a caller heard.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) body: Value,
}

/// Where a caller's answer comes.
pub(super) type Ear = Arc<Mutex<Option<Told>>>;

type Stack = BoxCloneService<Request<Full<Bytes>>, Response<Body>, std::convert::Infallible>;

pub(super) struct Gate {
    pub(super) runtime: Runtime,
    stack: Stack,
}

impl Gate {
    pub(super) fn start(world: &World, gate: usize, patient: bool) -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let court = Arc::clone(if patient { &PATIENT_COURT } else { &COURT });
        let stack = runtime.block_on(async { stack(world, gate, &court) });
        Self { runtime, stack }
    }

    /// Lets its tasks go on until each of them waits for the world, or for time.
    pub(super) fn settle_down(&self, time: Duration) {
        // A paused clock moves on only when there is nothing left to do.
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// A call by the caller of this name.
    pub(super) fn call(&self, caller: usize, args: &str) -> (JoinHandle<()>, Ear) {
        let ear = Ear::default();
        let (stack, request, heard) = (self.stack.clone(), request(caller, args), Arc::clone(&ear));
        let calling = self.runtime.spawn(async move {
            let Ok(response) = stack.oneshot(request).await;
            let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
            let body = serde_json::from_slice(&bytes).expect("an answer is JSON");
            *heard.lock().expect("nobody panics with it") = Some(Told { body });
        });
        (calling, ear)
    }
}

/// By which a caller's rows are known.
pub(super) fn trace(caller: usize) -> String {
    format!("{:032x}", caller + 1)
}

fn request(caller: usize, args: &str) -> Request<Full<Bytes>> {
    let arguments = json!({ "order_id": args, "idempotency_key": "k" });
    let params = json!({ "name": "refund_order", "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": caller, "method": "tools/call", "params": params });
    Request::post("/mcp")
        .header("host", "api.example.com")
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("mcp-protocol-version", "2025-11-25")
        .header("authorization", format!("Bearer {}", *TOKEN))
        .header("traceparent", format!("00-{}-{:016x}-01", trace(caller), 1))
        .body(Full::from(body.to_string()))
        .expect("a request")
}

fn court(policy: &str) -> Arc<Court> {
    let (policy, _) = Policy::from_sources(&[("sim.toml".into(), policy.to_owned())]).expect("a good policy");
    let secrets = Secrets::new(["0123456789abcdef0123456789abcdef"]).expect("a long secret");
    let names = ["tenant_id", "sub", "sid", "scope", "roles"].map(str::to_owned);
    let [tenant, user, session, scopes, roles] = names;
    let settings = Settings {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        keys: KeySource::Hs256(JWT_SECRET.as_bytes().to_vec()),
        leeway: Duration::from_secs(30),
        max_session_age: Duration::from_hours(12),
        claims: ClaimNames { tenant, user, session, scopes, roles },
        roles: std::collections::BTreeMap::new(),
    };
    Arc::new(Court {
        policy: Arc::new(ArcSwap::from_pointee(policy)),
        fingerprinter: Fingerprinter::new(secrets.clone()),
        seal: Seal::new(secrets, "billing"),
        given: Given::default(),
        mirrors: Arc::new(Mirrors::default()),
        service: "billing".to_owned(),
        verifier: Arc::new(Verifier::new(settings).expect("good settings")),
    })
}

fn stack(world: &World, gate: usize, court: &Arc<Court>) -> Stack {
    let store = Arc::new(ModelStore { world: world.clone(), gate });
    let meter = Arc::new(Meter::new("billing"));
    let (journal, writing) =
        Journal::open(store.clone(), None, WhenStoreDown::Refuse, Arc::clone(&meter), "billing");
    tokio::spawn(writing);
    let clerk = Arc::new(Clerk {
        store,
        court: Arc::clone(court),
        service: "billing".to_owned(),
        tasks: TaskTracker::new(),
        running: Running::default(),
        flights: Flights::default(),
        herd: Herd::default(),
        // No operation here names what could be asked.
        reconciler: None,
        journal: journal.clone(),
        upstream_timeout: UPSTREAM_TIMEOUT,
        stored_response: 1 << 20,
        forwards_token: false,
    });
    let desk = Arc::new(Desk {
        service: "billing".to_owned(),
        resource: Some(Resource::new(AUDIENCE).expect("a URL")),
        mcp_path: Some("/mcp".to_owned()),
        authorization_servers: Arc::new(ArcSwap::from_pointee(vec![ISSUER.to_owned()])),
        court: Arc::clone(court),
        journal,
        stopping: CancellationToken::new(),
    });
    let room = Room::new(Measures { places: 8, queue: 8, queue_time: Duration::from_secs(10) });
    let sites = Arc::new(Sites::new(AUDIENCE, Vec::new(), Vec::new()).expect("a host"));
    let (request_body, body_time) = (1 << 20, Duration::from_secs(30));
    let policy = Arc::clone(&court.policy);
    let bounds = Arc::new(Bounds { mcp_path: Some("/mcp".to_owned()), request_body, body_time, policy });
    let claim = Claim::new(ModelForward { world: world.clone(), gate }, clerk);
    let parse = Parse::new(Authorize::new(claim, Arc::clone(court)), bounds);
    let queue = Queue::new(parse, Arc::new(Glance::new(request_body)));
    let address = Address::new(Authenticate::new(queue, Arc::clone(&court.verifier)), sites);
    BoxCloneService::new(Observe::new(
        Reply::new(address, desk),
        Post { room, meter, tracer: Tracer::default(), service: "billing".into() },
    ))
}
