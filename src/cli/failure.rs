//! How a command fails: its exit code, and what it says.
//!
//! Promises: 1 for what failed, 2 for a wrong command line, 78 for a configuration that cannot be used; the whole
//! chain of causes is printed once, on standard error, and here only.

use std::error::Error;
use std::process::ExitCode;

use super::screen::tell;
use crate::store::StoreError;

/// Why a command did not do what was asked.
pub(super) struct Failure {
    code: u8,
    error: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// The thing asked for failed.
    pub(super) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code: 1, error: error.into() }
    }

    /// The command line cannot be understood.
    pub(super) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code: 2, error: error.into() }
    }

    /// The configuration cannot be used (`EX_CONFIG` of sysexits).
    pub(super) fn config(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code: 78, error: error.into() }
    }

    /// Says it as a line of the log, for whoever collects those, and gives the exit code.
    pub(super) fn report_in_json(&self) -> ExitCode {
        let (mut because, mut cause) = (Vec::new(), self.error.source());
        while let Some(error) = cause {
            because.push(error.to_string());
            cause = error.source();
        }
        let line = serde_json::json!({
            "timestamp": jiff::Timestamp::now().to_string(),
            "level": "ERROR",
            "message": self.error.to_string(),
            "because": because,
            "exit_code": self.code,
        });
        tell(&line.to_string());
        ExitCode::from(self.code)
    }

    /// Says it, and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        let mut text = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            text.push_str("\n  because: ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        tell(&text);
        ExitCode::from(self.code)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unfit(_) => Self::config(error),
            StoreError::Unavailable(_) | StoreError::Uncertain(_) | StoreError::Corrupt(_) => {
                Self::failed(error)
            }
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}
