//! The composition root: from a checked configuration to a running gate, and back to nothing.
//!
//! Promises: a gate that cannot keep its promises does not start (a policy with a mistake, keys that cannot be read) or
//! does not become ready (a schema that is missing or older); on SIGTERM or SIGINT readiness falls, running calls end,
//! claimed work is settled, queued rows are written. A second signal hurries.
//!
//! Absent on purpose: anything that a call goes through. That is [`crate::stack`].

mod listeners;
mod signals;
mod spool;
mod tokens;

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::uri::{InvalidUri, InvalidUriParts};
use http::{HeaderValue, Uri};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::admin::drain::Drain;
use crate::admin::{Readiness, health};
use crate::auth::{AuthSetupFault, NotAResource, Resource, Verifier};
use crate::config::{ServeConfig, load_policy};
use crate::domain::chain::Chain;
use crate::domain::fingerprint::Fingerprinter;
use crate::domain::mistake::Mistakes;
use crate::domain::mode::Mode;
use crate::domain::policy::Policy;
use crate::domain::seal::Seal;
use crate::domain::site::{NoHost, Sites};
use crate::herd::{Herd, NoRedis};
use crate::janitor::Janitor;
use crate::layers::authorize::Court;
use crate::layers::claim::Clerk;
use crate::layers::claim::flights::Flights;
use crate::layers::claim::journal::Journal;
use crate::layers::claim::reconcile::Reconciler;
use crate::layers::forward::Road;
use crate::layers::forward::edits::Editor;
use crate::layers::glance::Glance;
use crate::layers::parse::Bounds;
use crate::layers::queue::room::{Measures, Room};
use crate::layers::reply::Desk;
use crate::layers::running::Running;
use crate::mcp::given::Given;
use crate::mcp::mirrors::Mirrors;
use crate::meter::Meter;
use crate::server::{self, Doors};
use crate::spool::SpoolFault;
use crate::stack::{Parts, stack, watching};
use crate::store::{Role, Schema, Store, StoreError, StoreOptions, open};
use crate::tls;
use crate::tls::TlsFault;
use crate::upstream::headers::Front;
use crate::upstream::{Reach, Upstream};

use self::listeners::{beside, listen};
use self::signals::Signals;
pub use self::tokens::{services, token_settings};

/// How long is waited between looks at a store that is not fit yet.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long after the upstream's timeout running calls may take to settle while the gate stops.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// How long the store is waited for by a gate that was told twice to stop.
const HURRY: Duration = Duration::from_millis(500);

/// Why the gate does not run.
#[derive(Debug, thiserror::Error)]
pub enum AppFault {
    /// The policy has mistakes.
    #[error("the policy cannot be used")]
    Policy(#[source] Mistakes),
    /// The tokens' keys cannot be had.
    #[error("tokens cannot be checked")]
    Auth(#[source] AuthSetupFault),
    /// `public_url` is not one.
    #[error("public_url cannot be used")]
    PublicUrl(#[source] NotAResource),
    /// `public_url` has no host that a client could name.
    #[error("public_url cannot be used")]
    PublicHost(#[source] NoHost),
    /// The upstream's address is not one.
    #[error("the upstream's URL cannot be used")]
    UpstreamUrl(#[source] Box<dyn Error + Send + Sync>),
    /// The upstream's certificates.
    #[error("the upstream cannot be trusted")]
    Tls(#[source] TlsFault),
    /// The store.
    #[error("the store cannot be opened")]
    Store(#[source] StoreError),
    /// The herd's lock.
    #[error("herd.redis_url cannot be used")]
    Herd(#[source] NoRedis),
    /// The file for what the store cannot take.
    #[error("audit.spool_file cannot be used")]
    Spool(#[source] SpoolFault),
    /// A listener.
    #[error("cannot listen on {address}, which is {setting}")]
    Listen {
        /// The setting that says so.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Signals.
    #[error("signals cannot be received")]
    Signal(#[source] std::io::Error),
}

impl AppFault {
    /// Whether the configuration is at fault, rather than the world.
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Policy(_)
            | Self::Auth(_)
            | Self::PublicUrl(_)
            | Self::PublicHost(_)
            | Self::UpstreamUrl(_)
            | Self::Tls(_)
            | Self::Herd(_)
            | Self::Spool(_) => true,
            Self::Store(_) | Self::Listen { .. } | Self::Signal(_) => false,
        }
    }
}

/// Runs the gate until it is told to stop.
pub async fn serve(mut config: ServeConfig) -> Result<(), AppFault> {
    let (policy, warnings) = load_policy(&config.policy_dir).map_err(AppFault::Policy)?;
    for warning in &warnings {
        warn!("{warning}");
    }
    let options = StoreOptions { role: Role::Serve, connections: config.store.connections };
    let store = open(&config.store.url, options).await.map_err(AppFault::Store)?;
    let meter = Arc::new(Meter::new(&policy));
    let (journal, writing) = spool::begin(&config.audit, &store, &meter).await.map_err(AppFault::Spool)?;
    let (address, health_address) = (config.listen, config.health_listen);
    let (mode, admin, connections) = (config.mode, config.admin.take(), config.limits.connections);
    let grace = config.limits.queue_time + config.upstream.timeout + SETTLE_TIME;
    let (stop, readiness) = (CancellationToken::new(), Readiness::default());
    let parts = parts(config, policy, Arc::clone(&store), journal, &meter)?;
    let tasks = parts.clerk.tasks.clone();
    let janitor = janitor(&parts.clerk, &meter);
    let refreshing = tokio::spawn(parts.verifier.keep_fresh());
    let drain = Drain::new(readiness.clone(), parts.room.clone(), Arc::clone(&meter));
    let doors = Doors { connections, leaving: drain.leaving().clone(), stop: stop.clone(), grace };

    let beside = beside(health_address, health(readiness.clone(), meter), admin, &drain).await?;
    let listener = listen("listen", address).await?;
    let (fitting, ready) = (Arc::clone(&store), readiness.clone());
    let looking = tokio::spawn(async move {
        become_ready(fitting, ready, address).await;
        janitor.keep().await
    });
    let mut serving: Pin<Box<dyn Future<Output = ()>>> = match mode {
        Mode::Enforce => Box::pin(server::serve(listener, stack(parts), doors)),
        Mode::Observe => {
            warn!(
                "OBSERVE MODE: every call passes, whoever sent it. What would be refused is only written down."
            );
            Box::pin(server::serve(listener, watching(parts), doors))
        }
    };

    let mut signals = Signals::new()?;
    tokio::select! {
        () = &mut serving => {}
        () = signals.next() => info!("Stopping: no new connections, no new calls; running calls end."),
    }
    drain.stop();
    stop.cancel();
    tasks.close();
    let ending = async {
        serving.await;
        tasks.wait().await;
    };
    let patience = tokio::select! {
        ended = tokio::time::timeout(grace, ending) => {
            if ended.is_err() {
                error!(left = tasks.len(), "Some calls did not end in time; their claims will be found unknown.");
            }
            SETTLE_TIME
        }
        () = signals.next() => {
            warn!(left = tasks.len(), "Hurried: claims of running calls will be found unknown.");
            HURRY
        }
    };
    looking.abort();
    refreshing.abort();
    writing.end(&*store, patience).await;
    if tokio::time::timeout(patience, store.close()).await.is_err() {
        error!("Some writes were not confirmed.");
    }
    drop(beside);
    info!("Stopped.");
    Ok(())
}

/// What the steps of a call are made of.
fn parts(
    config: ServeConfig,
    policy: Policy,
    store: Arc<dyn Store>,
    journal: Journal,
    meter: &Arc<Meter>,
) -> Result<Parts, AppFault> {
    let resource = Resource::new(&config.public_url).map_err(AppFault::PublicUrl)?;
    let sites = Sites::new(&config.public_url, config.allowed_hosts.clone(), config.allowed_origins.clone());
    let mirrors = Arc::new(Mirrors::default());
    let road = Arc::new(road(&config, Editor { meter: Arc::clone(meter), mirrors: Arc::clone(&mirrors) })?);
    let authorization_servers = config.auth.authorization_servers.clone();
    let verifier = Arc::new(Verifier::new(token_settings(config.auth)).map_err(AppFault::Auth)?);
    let court = Arc::new(Court {
        policy: ArcSwap::from_pointee(policy),
        fingerprinter: Fingerprinter::new(config.secrets),
        seal: road.seal.clone(),
        given: road.given.clone(),
        mirrors,
        service: config.service.clone(),
        verifier: Arc::clone(&verifier),
    });
    let stored_response = usize::try_from(config.limits.stored_response).unwrap_or(usize::MAX);
    // Whoever observes sends the app nothing of its own.
    let reconciler = (config.mode == Mode::Enforce).then(|| {
        let (store, road, court) = (Arc::clone(&store), Arc::clone(&road), Arc::clone(&court));
        Arc::new(Reconciler::new(store, road, court, Arc::clone(meter), stored_response))
    });
    let clerk = Clerk {
        reconciler,
        store,
        court: Arc::clone(&court),
        service: config.service.clone(),
        tasks: TaskTracker::new(),
        running: Running::default(),
        flights: Flights::default(),
        herd: herd(config.herd.as_deref())?,
        journal: journal.clone(),
        upstream_timeout: config.upstream.timeout,
        stored_response,
        forwards_token: config.upstream.forward_authorization,
    };
    let room = Room::new(Measures {
        places: config.limits.concurrent_calls,
        queue: config.limits.queued_calls,
        queue_time: config.limits.queue_time,
    });
    Ok(Parts {
        room: room.clone(),
        desk: Arc::new(Desk {
            service: config.service,
            resource,
            mcp_path: Some(config.upstream.mcp_path.clone()),
            authorization_servers,
            court: Arc::clone(&court),
            journal,
            stopping: room.closed().clone(),
        }),
        sites: Arc::new(sites.map_err(AppFault::PublicHost)?),
        verifier,
        glance: Arc::new(Glance::new(config.limits.request_body)),
        bounds: Arc::new(Bounds {
            mcp_path: config.upstream.mcp_path,
            request_body: config.limits.request_body,
            body_time: config.limits.body_time,
        }),
        court,
        clerk: Arc::new(clerk),
        road,
    })
}

fn herd(url: Option<&str>) -> Result<Herd, AppFault> {
    url.map_or_else(|| Ok(Herd::default()), Herd::at).map_err(AppFault::Herd)
}

/// Whoever looks after claims that nobody else does.
fn janitor(clerk: &Clerk, meter: &Arc<Meter>) -> Janitor {
    Janitor {
        store: Arc::clone(&clerk.store),
        court: Arc::clone(&clerk.court),
        reconciler: clerk.reconciler.clone(),
        meter: Arc::clone(meter),
        service: clerk.service.clone(),
    }
}

/// The road to the upstream.
fn road(config: &ServeConfig, editor: Editor) -> Result<Road, AppFault> {
    let reach =
        Reach { max_idle: config.upstream.max_idle, connect_timeout: config.upstream.connect_timeout };
    let tls = tls::client(config.upstream.ca_file.as_deref()).map_err(AppFault::Tls)?;
    let mut parts = config.upstream.url.clone().into_parts();
    let bad_path = |fault: InvalidUri| AppFault::UpstreamUrl(fault.into());
    let bad_url = |fault: InvalidUriParts| AppFault::UpstreamUrl(fault.into());
    parts.path_and_query = Some(config.upstream.mcp_path.parse().map_err(bad_path)?);
    let public: Uri = config.public_url.parse().map_err(bad_path)?;
    let text = |text: &str| HeaderValue::from_str(text).map_err(|fault| AppFault::UpstreamUrl(fault.into()));
    Ok(Road {
        upstream: Upstream::new(&reach, tls),
        endpoint: Uri::from_parts(parts).map_err(bad_url)?,
        front: Front {
            proto: text(public.scheme_str().unwrap_or("http"))?,
            host: text(public.authority().map_or("", |authority| authority.as_str()))?,
            forward_authorization: config.upstream.forward_authorization,
        },
        editor,
        service: config.service.clone(),
        seal: Seal::new(config.secrets.clone(), &config.service),
        given: Given::default(),
        timeout: config.upstream.timeout,
    })
}

/// Waits for a store whose schema fits, and says what is wrong with one that does not.
async fn become_ready(store: Arc<dyn Store>, readiness: Readiness, address: SocketAddr) {
    let mut said = None;
    loop {
        let schema = store.schema().await;
        if matches!(schema, Ok(Schema::Fits)) {
            readiness.fits();
            return info!(%address, "Ready.");
        }
        let sentence = match schema {
            Ok(Schema::Fits) => return,
            Ok(Schema::Missing) => "Not ready: the store has no schema. Run `oncegate migrate`.".to_owned(),
            Ok(Schema::Older { found, needed }) => {
                format!(
                    "Not ready: the store's schema is version {found}, not {needed}. Run `oncegate migrate`."
                )
            }
            Err(fault) => format!("Not ready: {}", Chain(&fault)),
        };
        if said.as_ref() != Some(&sentence) {
            error!("{sentence}");
            said = Some(sentence);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
