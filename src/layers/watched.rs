//! A request that goes on as it came, whatever was decided about it, and what that was.
//!
//! Promises: nothing in a [`Raw`] was changed by a decision. What a call would have come to travels beside it, for the
//! audit and the ledger only.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

use super::authorize::Mutation;
use crate::domain::json::Json;
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::upstream::Source;

/// An observed request.
#[derive(Debug)]
pub struct Watched {
    /// What goes upstream.
    pub raw: Raw,
    /// What would have come of it.
    pub would: Would,
}

/// A request as it came.
#[derive(Debug)]
pub struct Raw {
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub target: PathAndQuery,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as it comes.
    pub body: Source,
}

/// What would have come of an observed request.
#[derive(Debug)]
pub enum Would {
    /// It would have passed without a row, or is nothing that the gate knows.
    Pass,
    /// It would have been refused.
    Refuse(Refusal),
    /// A read, allowed.
    Read {
        /// The request's id.
        id: Json,
        /// Its rule; none where it follows a task up.
        operation: Option<Arc<Operation>>,
    },
    /// A mutation with a key: the ledger knows what it would have met.
    Claim(Box<Mutation>),
}
