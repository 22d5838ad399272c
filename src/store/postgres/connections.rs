//! Connections to Postgres: few, made when they are needed, given up when the server falls silent.
//!
//! Promises: a connection that serves writes belongs to a server that confirms a commit only once it is on disk; a
//! connection whose statement was not answered in time is never used again; an outage is found out once, and its end by
//! one task that keeps trying, whether or not anybody calls.
//!
//! Absent on purpose: session state. Statements are unnamed and typed, nothing is SET, so that a pooler in transaction
//! mode may stand between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;
use uuid::Uuid;

use super::fault::{Fault, READ_ONLY, Silent};
use super::{tls, url};
use crate::store::op::Cause;
use crate::store::standing::{Notice, Standing, Why};
use crate::store::{Role, StoreError, StoreOptions};

/// How long one may wait until another's statement frees a connection.
const WAIT: Duration = Duration::from_secs(4);

/// What a host may take, beyond the TCP connect, to let us in.
const GREETING: Duration = Duration::from_secs(2);

/// How long the server has to hear that nobody waits for a statement any more.
const CANCEL: Duration = Duration::from_secs(2);

/// The first pause between two tries to reach a server that is away; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest: hundreds of gates may be trying.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long a server that was there may be away before everybody is refused at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// The connections.
pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
    role: Role,
    notice: Notice,
    /// Whether a server was ever reached. One that was not is no short interruption.
    reached: AtomicBool,
}

impl Connections {
    /// Makes the pool; connects to nothing yet.
    pub(super) fn new(address: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let address = url::parse(address)?;
        let tls = tls::connector(&address.trust)?;
        let create = create_timeout(&address.config);
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config, tls.clone(), config);
        let mut builder = Pool::builder(manager)
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(create))
            .recycle_timeout(Some(GREETING));
        if options.role == Role::Serve {
            builder = builder.post_create(Hook::async_fn(|client, _| Box::pin(can_serve(client))));
        }
        let pool = builder.build().map_err(|error| StoreError::Unfit(error.to_string()))?;
        Ok(Self { pool, tls, role: options.role, notice: Notice::new(), reached: AtomicBool::new(false) })
    }

    /// How the store stands.
    pub(super) fn standing(&self) -> Standing {
        self.notice.standing()
    }

    /// Why nobody need ask, where the server is away for long.
    pub(super) fn long_away(&self) -> Option<Why> {
        self.notice.long_away()
    }

    /// A connection. Waits while the server is away for a moment; in a longer outage it fails at once.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Object, Fault> {
        let first = Instant::now();
        loop {
            self.notice.bridged().await?;
            let begun = Instant::now();
            let fault = match self.pool.get().await {
                Ok(client) => {
                    self.reached.store(true, Ordering::Relaxed);
                    return Ok(client);
                }
                Err(error) => Fault::from(error),
            };
            if matches!(fault, Fault::NoneFree(_)) {
                return Err(fault);
            }
            self.away(begun, &fault);
            if first.elapsed() >= PATIENCE {
                return Err(fault);
            }
        }
    }

    /// Gives up a connection that this fault ended.
    pub(super) fn give_up(self: &Arc<Self>, client: Object, fault: &Fault) {
        if matches!(fault, Fault::Elsewhere(_)) {
            drop(Object::take(client));
            self.away(Instant::now(), fault);
        } else {
            self.discard(client);
        }
    }

    /// Notes that the server is away, and sees to it that its return is noticed.
    fn away(self: &Arc<Self>, since: Instant, fault: &Fault) {
        let passing = matches!(fault, Fault::Unreached(_) | Fault::Elsewhere(_));
        let bridged = if passing && self.reached.load(Ordering::Relaxed) { PATIENCE } else { Duration::ZERO };
        if self.notice.away(since, bridged, fault.why()) {
            // Whatever stands idle leads to where the fault came from.
            drop(self.pool.retain(|_, _| false));
            tokio::spawn(reconnect(Arc::downgrade(self)));
        }
    }

    /// Whether a server is there that can take writes.
    async fn try_reach(&self) -> Result<(), Fault> {
        let client = self.pool.get().await?;
        let checked = timeout(GREETING, async {
            match self.role {
                Role::Serve => can_serve(&client).await,
                Role::Inspect => client.simple_query("SELECT 1").await.map(drop).map_err(HookError::Backend),
            }
        });
        let fault = match checked.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Fault::from(PoolError::PostCreateHook(error)),
            Err(_elapsed) => Fault::Unreached(Cause::new(Silent(GREETING))),
        };
        drop(Object::take(client));
        Err(fault)
    }

    /// Gives up a connection that fell silent, and asks the server to stop what nobody waits for.
    fn discard(&self, client: Object) {
        let client = Object::take(client);
        let (token, tls) = (client.cancel_token(), self.tls.clone());
        // Closed first: PgBouncer then finds nobody whom a cancel is for. Its releases up to 1.18 can crash on one
        // that it passes on. Behind it the statement ends by itself, and finds or leaves a row that is known again.
        drop(client);
        tokio::spawn(async move {
            let told = timeout(CANCEL, token.cancel_query(tls)).await;
            debug!(heard = matches!(told, Ok(Ok(()))), "A statement without an answer was cancelled.");
        });
    }

    /// Closes them all once they are given back.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// Tries to reach the server until it is there, for everybody who waits and for whoever comes meanwhile.
async fn reconnect(connections: Weak<Connections>) {
    let mut pause = FIRST_PAUSE;
    loop {
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let Some(connections) = connections.upgrade().filter(|connections| !connections.pool.is_closed())
        else {
            return;
        };
        let begun = Instant::now();
        match connections.try_reach().await {
            Ok(()) => {
                connections.reached.store(true, Ordering::Relaxed);
                return connections.notice.there();
            }
            // All are in use: whoever uses them will find out.
            Err(Fault::NoneFree(_)) => {}
            Err(fault) => connections.away(begun, &fault),
        }
    }
}

/// Between half of it and the whole, so that gates that lost their server together do not come back together.
fn jittered(pause: Duration) -> Duration {
    let random = u32::from(Uuid::new_v4().as_bytes().first().copied().unwrap_or_default());
    pause / 2 + pause * random / 512
}

/// Runs `work`, for so long at most.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    match timeout(limit, work).await {
        Ok(done) => Ok(done?),
        Err(_elapsed) => Err(Fault::Lost(Cause::new(Silent(limit)))),
    }
}

/// Hosts are tried one after the other: each has its time.
fn create_timeout(config: &Config) -> Duration {
    let hosts = u32::try_from(config.get_hosts().len().max(config.get_hostaddrs().len()).max(1));
    let each = config.get_connect_timeout().copied().unwrap_or(GREETING) + GREETING;
    each.saturating_mul(hosts.unwrap_or(u32::MAX))
}

/// Whether a connection leads to a server that takes writes, and confirms them only once they are on disk.
async fn can_serve(client: &Client) -> Result<(), HookError> {
    let question = "SELECT current_setting('synchronous_commit'), current_setting('transaction_read_only')";
    let rows = client.query_typed(question, &[]).await.map_err(HookError::Backend)?;
    let setting = |place| -> Result<String, HookError> {
        rows.first().map_or(Ok(String::new()), |row| row.try_get(place).map_err(HookError::Backend))
    };
    if setting(0)? == "off" {
        let told = "synchronous_commit is off: a commit that Postgres confirmed could vanish, and its call run twice";
        return Err(HookError::message(told));
    }
    if setting(1)? == "on" {
        return Err(HookError::message(READ_ONLY));
    }
    Ok(())
}
