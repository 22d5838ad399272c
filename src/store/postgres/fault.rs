//! What went wrong with a statement, by what may be done about it.
//!
//! Promises: only what the server said it rolled back, or what was never sent, counts as not done.

use std::time::Duration;

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::store::StoreError;
use crate::store::op::Cause;

/// What went wrong.
#[derive(Debug)]
pub(super) enum Fault {
    /// No server that can take it was reached: it was not done, and another connection may help.
    Unreached(Cause),
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

impl Fault {
    /// What somebody is told for whom nothing was written.
    pub(super) fn error(&self) -> StoreError {
        match self {
            Self::Unreached(cause)
            | Self::Lost(cause)
            | Self::Clash(cause)
            | Self::Refused(cause)
            | Self::Hopeless(cause) => cause.unavailable(),
            Self::Corrupt(what) => StoreError::Corrupt(what.clone()),
            Self::Unfit(what) => StoreError::Unfit(what.clone()),
        }
    }

    /// What somebody is told whose write may have been committed.
    pub(super) fn uncertain(&self) -> StoreError {
        match self {
            Self::Unreached(cause)
            | Self::Lost(cause)
            | Self::Clash(cause)
            | Self::Refused(cause)
            | Self::Hopeless(cause) => cause.uncertain(),
            Self::Corrupt(_) | Self::Unfit(_) => StoreError::Uncertain(Box::new(self.error())),
        }
    }

    /// A row's column that cannot be read.
    pub(super) fn unreadable(error: &tokio_postgres::Error) -> Self {
        let source =
            std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
        Self::Corrupt(format!("{error}{source}"))
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let kind = error.as_db_error().map(Kind::of);
        let cause = Cause::new(error);
        match kind {
            None | Some(Kind::Gone) => Self::Lost(cause),
            Some(Kind::Clash) => Self::Clash(cause),
            Some(Kind::Elsewhere) => Self::Unreached(cause),
            Some(Kind::Statement) => Self::Hopeless(cause),
            Some(Kind::Content) => Self::Refused(cause),
        }
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::PostCreateHook(HookError::Message(what)) => Self::Unfit(what.into_owned()),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::Unreached(Cause::new(error))
            }
            other @ (PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified) => {
                Self::Unreached(Cause::new(other))
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
    Elsewhere,
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
        } else if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
            Self::Clash
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            Self::Elsewhere
        } else if code.code().starts_with("42") || code.code().starts_with("3F") {
            Self::Statement
        } else {
            Self::Content
        }
    }
}
