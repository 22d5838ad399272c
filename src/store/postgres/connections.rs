//! Connections to Postgres: few, made when they are needed, given up when the server falls silent.
//!
//! Promises: a connection that serves writes belongs to a server that confirms a commit only once it is on disk; a
//! connection whose statement was not answered in time is never used again.
//!
//! Absent on purpose: session state. Statements are unnamed and typed, nothing is SET, so that a pooler in transaction
//! mode may stand between.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::time::timeout;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use super::fault::{Fault, Silent};
use super::{tls, url};
use crate::store::op::Cause;
use crate::store::{Role, StoreError, StoreOptions};

/// How long one may wait until another's statement frees a connection.
const WAIT: Duration = Duration::from_secs(4);

/// What a host may take, beyond the TCP connect, to let us in.
const GREETING: Duration = Duration::from_secs(2);

/// How long the server has to hear that nobody waits for a statement any more.
const CANCEL: Duration = Duration::from_secs(2);

/// The connections.
pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
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
            builder = builder.post_create(Hook::async_fn(|client, _| Box::pin(confirms_on_disk(client))));
        }
        let pool = builder.build().map_err(|error| StoreError::Unfit(error.to_string()))?;
        Ok(Self { pool, tls })
    }

    /// A connection.
    pub(super) async fn get(&self) -> Result<Object, Fault> {
        Ok(self.pool.get().await?)
    }

    /// Gives up a connection that fell silent, and asks the server to stop what nobody waits for.
    pub(super) fn discard(&self, client: Object) {
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

async fn confirms_on_disk(client: &Client) -> Result<(), HookError> {
    let rows = client
        .query_typed("SELECT current_setting('synchronous_commit')", &[])
        .await
        .map_err(HookError::Backend)?;
    let setting: String = match rows.first() {
        Some(row) => row.try_get(0).map_err(HookError::Backend)?,
        None => String::new(),
    };
    if setting == "off" {
        let told = "synchronous_commit is off: a commit that Postgres confirmed could vanish, and its call run twice";
        return Err(HookError::message(told));
    }
    Ok(())
}
