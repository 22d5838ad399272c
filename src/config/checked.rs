//! The settings as the program uses them: checked, complete, read from their files.
//!
//! Promises: a value of these types was made by [`super::Layers`] and nothing in it needs another check.
//!
//! Absent on purpose: `Deserialize`, and `Debug` on whatever holds a secret or a URL with a password.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, Uri};

use super::files::{AdminToken, Secret, ServiceToken};
use super::retention::RetentionConfig;
use crate::domain::fingerprint::Secrets;
use crate::domain::mistake::Mistake;
use crate::domain::mode::{Mode, WhenStoreDown};
use crate::domain::site::{HostRule, OriginRule};
use crate::domain::tenants::Tenants;

/// Everything that `serve` needs.
#[non_exhaustive]
pub struct ServeConfig {
    /// The app that this gate guards.
    pub service: String,
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// For fingerprints; the first signs.
    pub secrets: Secrets,
    /// Where calls come in.
    pub listen: SocketAddr,
    /// Where health and metrics are.
    pub health_listen: SocketAddr,
    /// Where operators' requests come in; none where nobody is to listen there.
    pub admin: Option<AdminConfig>,
    /// The MCP endpoint as clients dial it: an absolute http or https URL.
    pub public_url: String,
    /// Hosts by which clients may call the gate, besides that of `public_url` and the loopback names.
    pub allowed_hosts: Vec<HostRule>,
    /// Origins of web pages that may call the gate, besides that of `public_url` and loopback ones.
    pub allowed_origins: Vec<OriginRule>,
    /// The app.
    pub upstream: UpstreamConfig,
    /// Whose tokens are taken.
    pub auth: AuthConfig,
    /// Who calls in a service's name, by the names of the services.
    pub service_tokens: Vec<ServiceTokenConfig>,
    /// Where claims and audit rows are.
    pub store: StoreConfig,
    /// The Redis before it, where there is one: its URL may hold a password.
    pub herd: Option<String>,
    /// What happens to rows that the store cannot take.
    pub audit: AuditConfig,
    /// Where traces go; none where nobody wants them.
    pub traces: Option<TracesConfig>,
    /// How long is kept what was written.
    pub retention: RetentionConfig,
    /// The folder of the policy.
    pub policy_dir: PathBuf,
    /// How much at once.
    pub limits: Limits,
    /// The ways out, to somebody else's APIs.
    pub listeners: Vec<ListenerConfig>,
    /// What may be used and is still not what anybody wants.
    pub warnings: Vec<Mistake>,
}

/// A way out: calls of the app and of its jobs come in here, and go to somebody else's API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// 1 to 32 of `a`-`z`, `0`-`9` and `-`, and no other listener's.
    pub name: String,
    /// Where calls come in.
    pub listen: SocketAddr,
    /// Hosts by which it may be called, besides the loopback names.
    pub allowed_hosts: Vec<HostRule>,
    /// Whose API it is.
    pub provider: ProviderConfig,
    /// The folder of its policy.
    pub policy_dir: PathBuf,
    /// Who calls; none where service tokens say it.
    pub identity: Option<IdentityConfig>,
}

/// Somebody else's API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// Scheme, host and port; no path.
    pub url: Uri,
    /// A call's whole time.
    pub timeout: Duration,
    /// Until a connection stands; not longer than `timeout`.
    pub connect_timeout: Duration,
    /// How long a connection may have been idle that a mutation goes out on; zero: always a new one.
    pub max_idle: Duration,
    /// Certificates (PEM) that may sign the provider's, where not the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the provider hears of the call's trace.
    pub forward_traceparent: bool,
}

/// Whoever reaches a listener is this: the pod itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityConfig {
    /// For whom it calls.
    pub tenants: Tenants,
    /// The user of every call.
    pub user: String,
    /// The scopes of every call.
    pub scopes: Vec<String>,
}

/// The listener for operators.
#[non_exhaustive]
pub struct AdminConfig {
    /// Where it is.
    pub listen: SocketAddr,
    /// What every request there must carry.
    pub token: AdminToken,
}

/// A service that calls in its own name.
#[non_exhaustive]
pub struct ServiceTokenConfig {
    /// The user that it is.
    pub name: String,
    /// What it presents: any of these.
    pub tokens: Vec<ServiceToken>,
    /// What it may do; at least one.
    pub scopes: Vec<String>,
    /// For whom.
    pub tenants: Tenants,
}

/// The app.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Scheme, host and port; no path.
    pub url: Uri,
    /// The path of the MCP endpoint, beginning with a slash.
    pub mcp_path: String,
    /// A call's whole time.
    pub timeout: Duration,
    /// Until a connection stands; not longer than `timeout`.
    pub connect_timeout: Duration,
    /// How long a connection may have been idle that a mutation goes out on; zero: always a new one.
    pub max_idle: Duration,
    /// Certificates (PEM) that may sign the app's, where not the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the token is passed on.
    pub forward_authorization: bool,
}

/// Whose tokens are taken, and where the actor stands in them.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthConfig {
    /// Compared exactly.
    pub issuer: String,
    /// At least one.
    pub audiences: Vec<String>,
    /// At least one.
    pub authorization_servers: Vec<String>,
    /// Where the keys are.
    pub keys: KeySource,
    /// How far the issuer's clock may be off.
    pub leeway: Duration,
    /// How long after sign-in a token is taken.
    pub max_session_age: Duration,
    /// Where the actor stands.
    pub claims: ClaimNames,
    /// The scopes that each role brings.
    pub roles: BTreeMap<String, Vec<String>>,
}

/// Where the keys are that tokens are checked with.
#[derive(Clone)]
pub enum KeySource {
    /// The secret itself: HS256.
    Hs256(Secret),
    /// The text of a PEM file with one public key.
    Pem(Vec<u8>),
    /// A key set in a file that may change.
    JwksFile(PathBuf),
    /// A key set at an https URL.
    JwksUrl {
        /// Where.
        url: String,
        /// Certificates (PEM) that may sign its server's, where not the system's.
        ca_file: Option<PathBuf>,
    },
}

/// The names of the claims that make an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimNames {
    /// The tenant.
    pub tenant: String,
    /// The user.
    pub user: String,
    /// The session.
    pub session: String,
    /// The scopes.
    pub scopes: String,
    /// The roles.
    pub roles: String,
}

/// Where claims and audit rows are.
#[non_exhaustive]
pub struct StoreConfig {
    /// `postgres://…` or `sqlite:FILE`; may hold a password.
    pub url: String,
    /// How many connections to Postgres.
    pub connections: usize,
}

/// What happens to rows that the store cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditConfig {
    /// What becomes of reads.
    pub when_store_down: WhenStoreDown,
    /// Where rows and settlements wait; with `spool` there always is one.
    pub spool: Option<SpoolConfig>,
}

/// The file in which rows and settlements wait for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpoolConfig {
    /// Where.
    pub file: PathBuf,
    /// The largest that it becomes, in bytes.
    pub limit: u64,
}

/// Where traces go. Its headers may be access.
#[non_exhaustive]
pub struct TracesConfig {
    /// The collector's address for traces, path and all.
    pub url: Uri,
    /// What every request there carries besides.
    pub headers: HeaderMap,
    /// Certificates (PEM) that may sign the collector's, where not the system's.
    pub ca_file: Option<PathBuf>,
    /// Of traces that begin here, so many are told: 0 to 1.
    pub sample_ratio: f64,
}

/// How much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest request body, in bytes.
    pub request_body: u64,
    /// The largest answer that is kept for replays, in bytes.
    pub stored_response: u64,
    /// How long a client may take to send a body.
    pub body_time: Duration,
    /// Calls at one time.
    pub concurrent_calls: usize,
    /// Calls that may wait.
    pub queued_calls: usize,
    /// How long one may wait.
    pub queue_time: Duration,
    /// Connections at one time.
    pub connections: usize,
}
