//! An error with all its causes, in one line.
//!
//! Promises: nothing is said twice; a log in any format shows why, not only what.

use std::error::Error;
use std::fmt;

/// Shows an error and what caused it, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(to, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
