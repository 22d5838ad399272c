//! The composition root: from a checked configuration to a running gate, and back to nothing.
//!
//! Promises: a gate that cannot keep its promises does not start (a policy with a mistake, keys that cannot be read) or
//! does not become ready (a schema that is missing or older); on SIGTERM or SIGINT readiness falls, running calls end,
//! claimed work is settled, queued rows are written. A second signal hurries.
//!
//! Absent on purpose: anything that a call goes through. That is [`crate::stack`].

mod gates;
mod jobs;
mod listeners;
mod measured;
mod outward;
mod policies;
mod reload;
mod sights;
mod signals;
mod spool;
mod tokens;
mod traced;

use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::admin::drain::Drain;
use crate::admin::{Readiness, health};
use crate::auth::{AuthSetupFault, NotAResource};
use crate::config::{ConfigFlags, ServeConfig};
use crate::domain::chain::Chain;
use crate::domain::mistake::Mistakes;
use crate::domain::mode::Mode;
use crate::domain::site::NoHost;
use crate::herd::NoRedis;
use crate::janitor::Janitor;
use crate::meter::Meter;
use crate::server::{self, Doors};
use crate::spool::SpoolFault;
use crate::stack::{Parts, stack, watching};
use crate::store::{Role, Schema, Store, StoreError, StoreOptions, open, timed};
use crate::sweeper::Sweeper;
use crate::tls::TlsFault;
use crate::traces::TracesFault;

use self::gates::House;
use self::listeners::{beside, listen};
use self::measured::measure;
use self::outward::Outward;
use self::policies::{Policies, PolicyRead};
use self::reload::{Held, Reloader};
use self::sights::sights;
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
    #[error(transparent)]
    Store(StoreError),
    /// The herd's lock.
    #[error("herd.redis_url cannot be used")]
    Herd(#[source] NoRedis),
    /// The file for what the store cannot take.
    #[error("audit.spool_file cannot be used")]
    Spool(#[source] SpoolFault),
    /// The collector of traces.
    #[error("traces cannot be told")]
    Traces(#[source] TracesFault),
    /// A listener.
    #[error("{setting} = \"{address}\": nobody can listen there{}", hint(source))]
    Listen {
        /// The setting that says so.
        setting: String,
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

/// What to do about an address that cannot be had.
fn hint(fault: &std::io::Error) -> &'static str {
    let ways = [
        (ErrorKind::AddrInUse, "; another program has the port, maybe another gate: name another one"),
        (ErrorKind::PermissionDenied, "; ports below 1024 are the system's: name another one"),
        (ErrorKind::AddrNotAvailable, "; this machine does not have that address"),
    ];
    ways.into_iter().find(|(kind, _)| *kind == fault.kind()).map_or("", |(_, way)| way)
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
            | Self::Traces(_)
            | Self::Spool(_) => true,
            Self::Store(_) | Self::Listen { .. } | Self::Signal(_) => false,
        }
    }
}

/// Runs the gate until it is told to stop.
///
/// `flags` are those that the configuration came from: it is read anew when its files change.
pub async fn serve(mut config: ServeConfig, flags: ConfigFlags) -> Result<(), AppFault> {
    // First of all: whoever asks for a reload too early ends nothing.
    let hangup = signals::hangup()?;
    let fixed = config.fixed();
    let policies = policies(&mut config)?;
    let options = StoreOptions { role: Role::Serve, connections: config.store.connections };
    let store = open(&config.store.url, options).await.map_err(AppFault::Store)?;
    let meter = Arc::new(Meter::new(&config.service));
    let store = timed(&config.service, store, Arc::clone(&meter));
    let begun = traced::begin(config.traces.take(), &config.service, &config.store.url, &meter);
    let (tracer, spans) = begun.map_err(AppFault::Traces)?;
    let writing = spool::begin(&config.audit, &store, &meter, &config.service).await;
    let (journal, writing) = writing.map_err(AppFault::Spool)?;
    let (mode, admin, limits) = (config.mode, config.admin.take(), config.limits);
    let grace = config.limits.queue_time + config.upstream.timeout + SETTLE_TIME;
    let outward_grace =
        policies.longest_timeout().map(|longest| config.limits.queue_time + longest + SETTLE_TIME);
    let (stop, readiness) = (CancellationToken::new(), Readiness::default());
    let (address, health_address) = (config.listen, config.health_listen);
    let services = Arc::new(services(&config.service_tokens));
    let PolicyRead { policy, dir, .. } = policies.front;
    let sweeper = Sweeper::new(&store, &meter, config.retention);
    let lead = sweeper.lead();
    let (house, front) = House::of(config, policy, &store, journal, (&meter, &tracer))?;
    let parts = house.front(front)?;
    let outward = Outward::open(&house, policies.listeners, &services).await?;
    let mut tasks = vec![parts.clerk.tasks.clone()];
    let mut janitors = outward.janitors(&house);
    janitors.push(house.janitor(&parts.clerk));
    let services_here = outward.services().chain([parts.clerk.service.as_str()]).map(str::to_owned).collect();
    let measuring = measure(Arc::clone(&store), Arc::clone(&meter), services_here);
    let (held, operators) = Held::of(&parts, &dir, outward.rulings(), &house, &services, admin.as_ref());
    // What is written is written by the gates, and ends with them.
    drop(house);
    let (in_force, reloading) = Reloader::begin(flags, held, fixed, hangup);
    let drain = Drain::new(readiness.clone(), parts.post.room.clone(), Arc::clone(&meter));
    let connections = limits.connections;
    let doors = Doors { connections, leaving: drain.leaving().clone(), stop: stop.clone(), grace };

    let jobs = jobs::jobs(services, &parts, limits, admin.is_some());
    let health = health(readiness.clone(), in_force.clone(), meter);
    let sights = sights(&parts, &outward, &store, &drain, in_force);
    let beside = beside(health_address, health, operators, (sights, &parts.sites), &drain, &jobs).await?;
    let listener = listen("listen", address).await?;
    let (fitting, ready) = (Arc::clone(&store), readiness.clone());
    let looking = tokio::spawn(async move {
        become_ready(fitting, ready, address).await;
        tokio::join!(join_all(janitors.into_iter().map(Janitor::keep)), measuring, sweeper.keep())
    });
    let outward = outward.lead(connections, outward_grace.unwrap_or_default());
    tasks.extend(outward.tasks());
    let mut serving = serving(mode, listener, parts, doors);

    let mut signals = Signals::new()?;
    tokio::select! {
        () = &mut serving => {}
        () = signals.next() => info!("Stopping: no new connections, no new calls; running calls end."),
    }
    drain.stop();
    stop.cancel();
    let ending = async {
        serving.await;
        if let Some(front) = tasks.first() {
            front.close();
            front.wait().await;
        }
        outward.end().await;
    };
    let time = grace + outward_grace.unwrap_or_default();
    let patience = ended(ending, time, &mut signals, &tasks).await;
    looking.abort();
    lead.give_up(&*store).await;
    reloading.abort();
    // The journal ends with the last who could write into it.
    jobs.close();
    writing.end(&*store, patience).await;
    if tokio::time::timeout(patience, store.close()).await.is_err() {
        error!("Some writes were not confirmed.");
    }
    spans.end(patience).await;
    drop(beside);
    info!("Stopped.");
    Ok(())
}

/// The policies, after what is to be warned of.
fn policies(config: &mut ServeConfig) -> Result<Policies, AppFault> {
    for warning in &config.warnings {
        warn!("{warning} (warning)");
    }
    let policies = Policies::load(config).map_err(AppFault::Policy)?;
    policies.warn();
    Ok(policies)
}

/// Waits for what still runs, for so long. Says how long the store may take after that.
async fn ended(
    ending: impl Future<Output = ()>,
    time: Duration,
    signals: &mut Signals,
    tasks: &[TaskTracker],
) -> Duration {
    let left = || tasks.iter().map(TaskTracker::len).sum::<usize>();
    tokio::select! {
        ended = tokio::time::timeout(time, ending) => {
            if ended.is_err() {
                error!(left = left(), "Some calls did not end in time; their claims will be found unknown.");
            }
            SETTLE_TIME
        }
        () = signals.next() => {
            warn!(left = left(), "Hurried: claims of running calls will be found unknown.");
            HURRY
        }
    }
}

/// Serves calls, as the mode says.
fn serving(
    mode: Mode,
    listener: TcpListener,
    parts: Parts,
    doors: Doors,
) -> Pin<Box<dyn Future<Output = ()>>> {
    match mode {
        Mode::Enforce => Box::pin(server::serve(listener, stack(parts), doors)),
        Mode::Observe => {
            warn!(
                "OBSERVE MODE: every call passes, whoever sent it. What would be refused is only written down. \
                 Listeners enforce."
            );
            Box::pin(server::serve(listener, watching(parts), doors))
        }
    }
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
