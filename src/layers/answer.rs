//! What a call is answered with, before it becomes bytes on the wire.
//!
//! Promises: an answer to a claimed call is the member (`result` or `error`) that was kept, or what would have been
//! kept; who it is addressed to and how it is marked is added last, in [`crate::wire::render`].

use http::{HeaderMap, Response};

use super::words::Spoken;
use crate::domain::answer::Kept;
use crate::wire::envelope::{Body, Marks};

/// The answer that a step hands outwards.
#[derive(Debug)]
pub enum Answer {
    /// As the upstream gave it, headers filtered.
    Passed(Response<Body>),
    /// The answer to a claimed call, now or again.
    Claimed {
        /// What it says.
        kept: Kept,
        /// How it is marked.
        marks: Marks,
        /// What the first client hears beside what is kept: a replay has none of it.
        beside: HeaderMap,
    },
    /// Piece by piece, on an event stream.
    Spoken(Spoken),
    /// Heard, and nothing to say: 202.
    Accepted,
}

impl Answer {
    /// The answer to a claimed call, with nothing beside it.
    pub fn claimed(kept: Kept, marks: Marks) -> Self {
        Self::Claimed { kept, marks, beside: HeaderMap::new() }
    }
}
