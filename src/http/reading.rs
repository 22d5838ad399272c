//! How much of a plain request's body has to be read before it may go on.
//!
//! Promises: whatever could name a method or a tenant is looked through, and so is whatever is claimed; only a body that
//! no framework takes fields from passes unread.

use http::HeaderMap;

use super::media::{Media, Shape};
use super::multipart::Boundary;
use crate::domain::refusal::Refusal;

/// How a body is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Whole, bounded, before anything goes on: [`super::content::Content::read`] says what it is.
    Whole,
    /// As it passes, by [`super::scanned::Scanned`].
    Scanned {
        /// Between its parts.
        boundary: Boundary,
    },
    /// Not at all.
    Streamed,
}

/// How the body behind these headers is read.
pub fn reading(headers: &HeaderMap, claimed: bool) -> Result<Reading, Refusal> {
    match Media::of(headers)? {
        // Rack takes a body without a type for a form.
        None => Ok(Reading::Whole),
        Some(_) if claimed => Ok(Reading::Whole),
        Some(media) => Ok(match media.into_shape() {
            Shape::Json | Shape::Form => Reading::Whole,
            Shape::Multipart(boundary) => Reading::Scanned { boundary },
            Shape::Other => Reading::Streamed,
        }),
    }
}
