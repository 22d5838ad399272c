//! What went wrong with a statement, by what may be done about it.
//!
//! Promises: only what the server said it rolled back, or what was never sent, counts as not done.

use std::time::Duration;

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::store::StoreError;
use crate::store::op::Cause;
use crate::store::standing::Why;

/// What went wrong.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// No server was reached: it was not done.
    Unreached(Cause),
    /// A server was reached, and lets us in no more than it will in a second: it was not done.
    Barred(Cause),
    /// This process has no connection to spare: it was not done. The server may be well.
    NoneFree(Cause),
    /// This server takes no writes, or this connection nothing at all: it was not done, and another may help.
    Elsewhere(Cause),
    /// It was sent and no answer came: it may have been done.
    Lost(Cause),
    /// It was rolled back because of another that ran at the same time.
    Clash(Cause),
    /// The server refused it and rolled it back. Others in its group may be fine.
    Refused(Cause),
    /// The server refused the statement itself, whatever is in it: a missing table, a missing right.
    Hopeless(Cause),
    /// The answer cannot be read.
    Corrupt(String),
    /// The server is set up so that it cannot keep the promise.
    Unfit(String),
}

/// The server did not answer in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
pub(super) struct Silent(pub(super) Duration);

/// How the check of a new connection names a server that takes no writes.
pub(super) const READ_ONLY: &str = "read only";

/// A server that takes no writes: a standby, most likely, or a primary that is one now.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "this Postgres takes no writes: it is a standby, or read-only; list every host, with target_session_attrs=read-write"
)]
pub(super) struct ReadOnly;

/// A connection that is of no use, and why.
#[derive(Debug, thiserror::Error)]
enum NoUse {
    #[error("Postgres lets this user not in: see user and password in store.url, and pg_hba.conf there")]
    Login(#[source] tokio_postgres::Error),
    #[error("Postgres has no such database: see store.url")]
    Database(#[source] tokio_postgres::Error),
    #[error("Postgres has no connection left: lower store.connections, or raise its max_connections")]
    Crowded(#[source] tokio_postgres::Error),
    #[error("Postgres cannot be reached")]
    Unreached(#[source] tokio_postgres::Error),
    #[error("Postgres did not let us in in time")]
    Slow,
    #[error(
        "all connections to Postgres were in use for too long: a slow server, or too few (store.connections)"
    )]
    AllInUse,
    #[error("the connection was left in a transaction that had failed; it is given up")]
    Poisoned(#[source] tokio_postgres::Error),
}

impl Fault {
    /// What somebody is told for whom nothing was written.
    pub(super) fn error(&self) -> StoreError {
        self.why().error()
    }

    /// What somebody is told whose write may have been committed.
    pub(super) fn uncertain(&self) -> StoreError {
        match self.why() {
            Why::Cause(cause) => cause.uncertain(),
            Why::Corrupt(_) | Why::Unfit(_) => StoreError::Uncertain(Box::new(self.error())),
        }
    }

    /// The same, for whoever asks later.
    pub(super) fn why(&self) -> Why {
        match self {
            Self::Unreached(cause)
            | Self::Barred(cause)
            | Self::NoneFree(cause)
            | Self::Elsewhere(cause)
            | Self::Lost(cause)
            | Self::Clash(cause)
            | Self::Refused(cause)
            | Self::Hopeless(cause) => Why::Cause(cause.clone()),
            Self::Corrupt(what) => Why::Corrupt(what.clone()),
            Self::Unfit(what) => Why::Unfit(what.clone()),
        }
    }

    /// Whether the connection that it came on must not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Unreached(_) | Self::Elsewhere(_) | Self::Lost(_) => true,
            Self::Barred(_)
            | Self::NoneFree(_)
            | Self::Clash(_)
            | Self::Refused(_)
            | Self::Hopeless(_)
            | Self::Corrupt(_)
            | Self::Unfit(_) => false,
        }
    }

    /// A connection that could not be made or checked.
    pub(super) fn of_connecting(error: tokio_postgres::Error) -> Self {
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        match code.as_str() {
            "3D000" => Self::Barred(Cause::new(NoUse::Database(error))),
            "53300" => Self::Unreached(Cause::new(NoUse::Crowded(error))),
            code if code.starts_with("28") => Self::Barred(Cause::new(NoUse::Login(error))),
            _ => Self::Unreached(Cause::new(NoUse::Unreached(error))),
        }
    }

    /// A row's column that cannot be read.
    pub(super) fn unreadable(error: &tokio_postgres::Error) -> Self {
        let source =
            std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
        Self::Corrupt(format!("{error}{source}"))
    }
}

impl From<Why> for Fault {
    fn from(why: Why) -> Self {
        match why {
            Why::Cause(cause) => Self::Unreached(cause),
            Why::Corrupt(what) => Self::Corrupt(what),
            Why::Unfit(what) => Self::Unfit(what),
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error().map(Kind::of) {
            None | Some(Kind::Gone) => Self::Lost(Cause::new(error)),
            Some(Kind::Clash) => Self::Clash(Cause::new(error)),
            Some(Kind::ReadOnly) => Self::Elsewhere(Cause::new(ReadOnly)),
            Some(Kind::Poisoned) => Self::Elsewhere(Cause::new(NoUse::Poisoned(error))),
            Some(Kind::Statement) => Self::Hopeless(Cause::new(error)),
            Some(Kind::Content) => Self::Refused(Cause::new(error)),
        }
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::PostCreateHook(HookError::Message(what)) if what == READ_ONLY => {
                Self::Unreached(Cause::new(ReadOnly))
            }
            PoolError::PostCreateHook(HookError::Message(what)) => Self::Unfit(what.into_owned()),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::of_connecting(error)
            }
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
                Self::Unreached(Cause::new(NoUse::Slow))
            }
            PoolError::Timeout(TimeoutType::Wait) => Self::NoneFree(Cause::new(NoUse::AllInUse)),
            closed @ (PoolError::Closed | PoolError::NoRuntimeSpecified) => {
                Self::NoneFree(Cause::new(closed))
            }
        }
    }
}

enum Kind {
    /// The session ended, perhaps after the commit.
    Gone,
    /// Another transaction was in the way.
    Clash,
    /// This server takes no writes: another is the primary now.
    ReadOnly,
    /// An earlier statement left the connection in a broken transaction.
    Poisoned,
    /// Nothing in the parameters would help.
    Statement,
    /// Something in the parameters.
    Content,
}

impl Kind {
    fn of(error: &DbError) -> Self {
        let code = error.code();
        let ended = match error.parsed_severity() {
            Some(Severity::Fatal | Severity::Panic) => true,
            Some(_) => false,
            None => matches!(error.severity(), "FATAL" | "PANIC"),
        };
        // 08: the connection failed; 40003: the engine does not know whether it committed; 57P: it is shutting down.
        if ended || code.code().starts_with("08") || code.code().starts_with("57P") || code.code() == "40003"
        {
            Self::Gone
        } else if *code == SqlState::T_R_SERIALIZATION_FAILURE
            || *code == SqlState::T_R_DEADLOCK_DETECTED
            || *code == SqlState::LOCK_NOT_AVAILABLE
        {
            Self::Clash
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            Self::ReadOnly
        } else if code.code().starts_with("25") {
            Self::Poisoned
        } else if code.code().starts_with("42") || code.code().starts_with("3F") {
            Self::Statement
        } else {
            Self::Content
        }
    }
}
