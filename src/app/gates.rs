//! The gates of one process: the one before the app, and one for each listener towards somebody else's API.
//!
//! Promises: they share the store, what is written into it, what is counted, and the secrets; each has its own name in the
//! ledger, its policy, its upstream and its room. Rooms are apart since calls wait for each other: one that the app makes
//! outward, while it serves one that came in, must find a place however many came in.
//!
//! Absent on purpose: a reconciler where the upstream is somebody else's. The gate has no access of its own there.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::uri::{InvalidUri, InvalidUriParts};
use http::{HeaderValue, Uri};
use tokio_util::task::TaskTracker;

use super::AppFault;
use super::tokens::token_settings;
use crate::auth::{Resource, Verifier};
use crate::config::{Limits, ListenerConfig, ServeConfig, UpstreamConfig};
use crate::domain::fingerprint::{Fingerprinter, Secrets};
use crate::domain::mode::Mode;
use crate::domain::policy::Policy;
use crate::domain::seal::Seal;
use crate::domain::site::Sites;
use crate::herd::Herd;
use crate::janitor::Janitor;
use crate::layers::authorize::Court;
use crate::layers::claim::Clerk;
use crate::layers::claim::flights::Flights;
use crate::layers::claim::journal::Journal;
use crate::layers::claim::reconcile::Reconciler;
use crate::layers::forward::Road;
use crate::layers::forward::edits::Editor;
use crate::layers::glance::Glance;
use crate::layers::observe::Post;
use crate::layers::parse::Bounds;
use crate::layers::queue::room::{Measures, Room};
use crate::layers::reply::Desk;
use crate::layers::running::Running;
use crate::mcp::given::Given;
use crate::mcp::mirrors::Mirrors;
use crate::meter::{Meter, Reading};
use crate::stack::Parts;
use crate::store::Store;
use crate::tls::Trust;
use crate::traces::Tracer;
use crate::upstream::headers::provider::Provider;
use crate::upstream::{Reach, Upstream, headers};

/// What all gates of the process have in common.
pub(super) struct House {
    service: String,
    store: Arc<dyn Store>,
    journal: Journal,
    meter: Arc<Meter>,
    tracer: Tracer,
    verifier: Arc<Verifier>,
    secrets: Secrets,
    limits: Limits,
    /// The Redis before the store, where there is one.
    herd: Option<String>,
    /// The gate as clients dial it, and who issues their tokens.
    resource: Resource,
    authorization_servers: Vec<String>,
    public_url: String,
}

/// The gate before the app, as it is configured.
pub(super) struct Front {
    service: String,
    upstream: UpstreamConfig,
    policy: Policy,
    sites: Sites,
    mode: Mode,
}

/// What is one gate's own.
struct Own {
    policy: Policy,
    road: Road,
    mirrors: Arc<Mirrors>,
    sites: Sites,
    mcp_path: Option<String>,
    forwards_token: bool,
    /// Whether the upstream may be asked what became of a call.
    asks: bool,
    /// The gate as clients with JWTs dial it, where they do.
    resource: Option<Resource>,
}

impl House {
    /// As it is configured, with the gate before the app.
    pub(super) fn of(
        config: ServeConfig,
        policy: Policy,
        store: &Arc<dyn Store>,
        journal: Journal,
        (meter, tracer): (&Arc<Meter>, &Tracer),
    ) -> Result<(Self, Front), AppFault> {
        let resource = Resource::new(&config.public_url).map_err(AppFault::PublicUrl)?;
        let sites = Sites::new(&config.public_url, config.allowed_hosts, config.allowed_origins);
        let sites = sites.map_err(AppFault::PublicHost)?;
        let authorization_servers = config.auth.authorization_servers.clone();
        let verifier = Verifier::new(token_settings(config.auth)).map_err(AppFault::Auth)?;
        let house = Self {
            service: config.service.clone(),
            store: Arc::clone(store),
            journal,
            meter: Arc::clone(meter),
            tracer: tracer.clone(),
            verifier: Arc::new(verifier),
            secrets: config.secrets,
            limits: config.limits,
            herd: config.herd,
            resource,
            authorization_servers,
            public_url: config.public_url,
        };
        let (service, upstream, mode) = (config.service, config.upstream, config.mode);
        Ok((house, Front { service, upstream, policy, sites, mode }))
    }

    /// What counts.
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The secrets of all gates.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The gate before the app.
    pub(super) fn front(&self, front: Front) -> Result<Parts, AppFault> {
        let (mirrors, bad) = (Arc::new(Mirrors::default()), AppFault::UpstreamUrl);
        let public: Uri = self.public_url.parse().map_err(|fault: InvalidUri| bad(fault.into()))?;
        let text = |text: &str| HeaderValue::from_str(text).map_err(|fault| bad(fault.into()));
        let Front { service, upstream, policy, sites, mode } = front;
        let trust = Trust::read(upstream.ca_file.as_deref()).map_err(AppFault::Tls)?;
        let reach = Reach { max_idle: upstream.max_idle, connect_timeout: upstream.connect_timeout };
        let road = Road {
            upstream: Upstream::new(&reach, trust),
            endpoint: endpoint(&upstream.url, &upstream.mcp_path)?,
            front: headers::Front {
                proto: text(public.scheme_str().unwrap_or("http"))?,
                host: text(public.authority().map_or("", |authority| authority.as_str()))?,
                forward_authorization: upstream.forward_authorization,
            },
            provider: None,
            editor: Editor { meter: Arc::clone(&self.meter), mirrors: Arc::clone(&mirrors) },
            seal: Seal::new(self.secrets.clone(), &service),
            service,
            given: Given::default(),
            timeout: upstream.timeout,
        };
        self.gate(Own {
            policy,
            road,
            mirrors,
            sites,
            mcp_path: Some(upstream.mcp_path),
            forwards_token: upstream.forward_authorization,
            // Whoever observes sends the app nothing of its own.
            asks: mode == Mode::Enforce,
            resource: Some(self.resource.clone()),
        })
    }

    /// A gate that leads out. Its claims stand under a name of their own.
    pub(super) fn outward(&self, config: ListenerConfig, policy: Policy) -> Result<Parts, AppFault> {
        let mirrors = Arc::new(Mirrors::default());
        let service = format!("{}:{}", self.service, config.name);
        let provider = config.provider;
        let trust = Trust::read(provider.ca_file.as_deref()).map_err(AppFault::Tls)?;
        let reach = Reach { max_idle: provider.max_idle, connect_timeout: provider.connect_timeout };
        let endpoint = endpoint(&provider.url, "/")?;
        let text =
            |text: &str| HeaderValue::from_str(text).map_err(|fault| AppFault::UpstreamUrl(fault.into()));
        let host = text(endpoint.authority().map_or("", |authority| authority.as_str()))?;
        let road = Road {
            upstream: Upstream::new(&reach, trust),
            // What the provider says of its own places stands: they are the public ones.
            front: headers::Front {
                proto: text(endpoint.scheme_str().unwrap_or("https"))?,
                host: host.clone(),
                forward_authorization: true,
            },
            provider: Some(Provider { host, hears_trace: provider.forward_traceparent }),
            endpoint,
            editor: Editor { meter: Arc::clone(&self.meter), mirrors: Arc::clone(&mirrors) },
            seal: Seal::new(self.secrets.clone(), &service),
            service,
            given: Given::default(),
            timeout: provider.timeout,
        };
        self.gate(Own {
            policy,
            road,
            mirrors,
            sites: Sites::of_programs(config.allowed_hosts),
            mcp_path: None,
            forwards_token: true,
            asks: false,
            resource: None,
        })
    }

    fn gate(&self, own: Own) -> Result<Parts, AppFault> {
        let (road, limits) = (Arc::new(own.road), &self.limits);
        self.meter.know(&road.service, &own.policy);
        let court = Arc::new(Court {
            policy: Arc::new(ArcSwap::from_pointee(own.policy)),
            fingerprinter: Fingerprinter::new(self.secrets.clone()),
            seal: road.seal.clone(),
            given: road.given.clone(),
            mirrors: own.mirrors,
            service: road.service.clone(),
            verifier: Arc::clone(&self.verifier),
        });
        let stored_response = usize::try_from(limits.stored_response).unwrap_or(usize::MAX);
        let reconciler = own.asks.then(|| {
            let (store, road, court) = (Arc::clone(&self.store), Arc::clone(&road), Arc::clone(&court));
            Arc::new(Reconciler::new(store, road, court, Arc::clone(&self.meter), stored_response))
        });
        let clerk = Clerk {
            reconciler,
            store: Arc::clone(&self.store),
            court: Arc::clone(&court),
            service: road.service.clone(),
            tasks: TaskTracker::new(),
            running: Running::default(),
            flights: Flights::default(),
            herd: self.herd()?,
            journal: self.journal.clone(),
            upstream_timeout: road.timeout,
            stored_response,
            forwards_token: own.forwards_token,
        };
        let room = Room::new(Measures {
            places: limits.concurrent_calls,
            queue: limits.queued_calls,
            queue_time: limits.queue_time,
        });
        self.count(&room, &road.service);
        Ok(Parts {
            post: Post {
                room: room.clone(),
                meter: Arc::clone(&self.meter),
                tracer: self.tracer.clone(),
                service: road.service.as_str().into(),
            },
            desk: Arc::new(Desk {
                service: road.service.clone(),
                resource: own.resource,
                mcp_path: own.mcp_path.clone(),
                authorization_servers: Arc::new(ArcSwap::from_pointee(self.authorization_servers.clone())),
                court: Arc::clone(&court),
                journal: self.journal.clone(),
                stopping: room.closed().clone(),
            }),
            sites: Arc::new(own.sites),
            verifier: Arc::clone(&self.verifier),
            glance: Arc::new(Glance::new(limits.request_body)),
            bounds: Arc::new(Bounds {
                mcp_path: own.mcp_path,
                request_body: limits.request_body,
                body_time: limits.body_time,
                policy: Arc::clone(&court.policy),
            }),
            court,
            clerk: Arc::new(clerk),
            road,
        })
    }

    /// Has its room counted.
    fn count(&self, room: &Room, service: &str) {
        let measures = room.measures();
        self.meter.read(service, Reading::Places, move || measures.places);
        self.meter.read(service, Reading::QueuePlaces, move || measures.queue);
        for what in [Reading::Running, Reading::Queued] {
            let room = room.clone();
            self.meter.read(service, what, move || {
                let census = room.census();
                if what == Reading::Queued { census.queued } else { census.running }
            });
        }
    }

    fn herd(&self) -> Result<Herd, AppFault> {
        self.herd.as_deref().map_or_else(|| Ok(Herd::default()), Herd::at).map_err(AppFault::Herd)
    }

    /// Whoever looks after a gate's claims that nobody else does.
    pub(super) fn janitor(&self, clerk: &Clerk) -> Janitor {
        Janitor {
            store: Arc::clone(&clerk.store),
            court: Arc::clone(&clerk.court),
            reconciler: clerk.reconciler.clone(),
            meter: Arc::clone(&self.meter),
            service: clerk.service.clone(),
        }
    }
}

/// A place at an upstream.
fn endpoint(url: &Uri, path: &str) -> Result<Uri, AppFault> {
    let mut parts = url.clone().into_parts();
    let bad_path = |fault: InvalidUri| AppFault::UpstreamUrl(fault.into());
    parts.path_and_query = Some(path.parse().map_err(bad_path)?);
    Uri::from_parts(parts).map_err(|fault: InvalidUriParts| AppFault::UpstreamUrl(fault.into()))
}
