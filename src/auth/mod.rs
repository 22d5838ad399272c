//! From a bearer token to an actor, and what clients are told about where tokens come from.
//!
//! Promises: an [`Actor`](crate::domain::actor::Actor) comes from a token whose signature, issuer, audience, times
//! and claims all held, where the key's own type decides about the algorithm, never the token; or from a token that the
//! configuration gives to a service ([`Services`]).
//!
//! Absent on purpose: the HTTP of it. [`Verifier`] takes a token's text; the challenges of [`Resource`] are values.

mod claims;
pub mod clock;
mod fetch;
mod issue;
mod keyring;
mod keys;
pub mod porter;
mod resource;
mod service;
mod settings;
mod token;
mod verifier;

pub use clock::{Clock, UnixSeconds};
pub use issue::{Bearer, IssueFault, issue};
pub use keys::KeyFault;
pub use resource::{NotAResource, Resource, WELL_KNOWN};
pub use service::{Service, ServiceFault, Services};
pub use settings::{AuthSetupFault, ClaimNames, KeySource, MIN_SECRET_BYTES, Pace, Settings};
pub use token::{MAX_TOKEN_BYTES, TokenFault};
pub use verifier::{AuthFault, Newer, Verified, Verifier, bearer};
