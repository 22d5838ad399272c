//! A call's path, top to bottom, and why each step stands at its height.
//!
//! Promises: each step's request type can be made by the step above it only, so a stack with a step left out, or in
//! another order, does not compile. Between [`Reply`] and [`Forward`] every step answers with an
//! [`Answer`](crate::layers::Answer) or a [`Refusal`](crate::domain::refusal::Refusal); only [`Reply`] turns them into
//! responses.
//!
//! The order is held by the compiler. This is the stack's inner end:
//!
//! ```
//! # use std::sync::Arc;
//! # use oncegate::layers::{authorize::{Authorize, Court}, claim::{Claim, Clerk}, forward::{Forward, Road}, parse::Parsed};
//! # use oncegate::layers::Answer;
//! # use oncegate::domain::refusal::Refusal;
//! # use tower::Service;
//! fn guarded(_: impl Service<Parsed, Response = Answer, Error = Refusal>) {}
//! # fn build(court: Arc<Court>, clerk: Arc<Clerk>, road: Arc<Road>) {
//! guarded(Authorize::new(Claim::new(Forward::new(road), clerk), court));
//! # }
//! ```
//!
//! Without the claim it is refused, and so it is without the policy, or without a place among the concurrent calls:
//!
//! ```compile_fail,E0277
//! # use std::sync::Arc;
//! # use oncegate::layers::{authorize::{Authorize, Court}, claim::{Claim, Clerk}, forward::{Forward, Road}, parse::Parsed};
//! # use oncegate::layers::Answer;
//! # use oncegate::domain::refusal::Refusal;
//! # use tower::Service;
//! fn guarded(_: impl Service<Parsed, Response = Answer, Error = Refusal>) {}
//! # fn build(court: Arc<Court>, clerk: Arc<Clerk>, road: Arc<Road>) {
//! guarded(Authorize::new(Forward::new(road), court));
//! # }
//! ```
//!
//! ```compile_fail,E0277
//! # use std::sync::Arc;
//! # use oncegate::layers::{authorize::{Authorize, Court}, claim::{Claim, Clerk}, forward::{Forward, Road}, parse::Parsed};
//! # use oncegate::layers::Answer;
//! # use oncegate::domain::refusal::Refusal;
//! # use tower::Service;
//! fn guarded(_: impl Service<Parsed, Response = Answer, Error = Refusal>) {}
//! # fn build(court: Arc<Court>, clerk: Arc<Clerk>, road: Arc<Road>) {
//! guarded(Claim::new(Forward::new(road), clerk));
//! # }
//! ```
//!
//! ```compile_fail,E0277
//! # use std::sync::Arc;
//! # use oncegate::layers::{authenticate::Authenticated, authorize::{Authorize, Court}, claim::{Claim, Clerk}};
//! # use oncegate::layers::{forward::{Forward, Road}, parse::{Bounds, Parse}};
//! # use oncegate::layers::Answer;
//! # use oncegate::domain::refusal::Refusal;
//! # use hyper::body::Incoming;
//! # use tower::Service;
//! fn known(_: impl Service<Authenticated<Incoming>, Response = Answer, Error = Refusal>) {}
//! # fn build(bounds: Arc<Bounds>, court: Arc<Court>, clerk: Arc<Clerk>, road: Arc<Road>) {
//! known(Parse::new(Authorize::new(Claim::new(Forward::new(road), clerk), court), bounds));
//! # }
//! ```
//!
//! At a listener towards somebody else's API nobody is let in either without being known:
//!
//! ```compile_fail,E0277
//! # use std::sync::Arc;
//! # use oncegate::auth::porter::Porter;
//! # use oncegate::layers::{address::Addressed, authenticate::identify::Identify, authorize::{Authorize, Court}};
//! # use oncegate::layers::{claim::{Claim, Clerk}, forward::{Forward, Road}, parse::{Bounds, Parse}, queue::Queue};
//! # use oncegate::layers::{Answer, glance::Glance};
//! # use oncegate::domain::refusal::Refusal;
//! # use hyper::body::Incoming;
//! # use tower::Service;
//! fn for_us(_: impl Service<Addressed<Incoming>, Response = Answer, Error = Refusal>) {}
//! # fn build(glance: Arc<Glance>, bounds: Arc<Bounds>, court: Arc<Court>, clerk: Arc<Clerk>, road: Arc<Road>) {
//! let guarded = Authorize::new(Claim::new(Forward::new(road), clerk), court);
//! for_us(Queue::new(Parse::new(guarded, bounds), glance));
//! # }
//! ```
//!
//! Absent on purpose: timeouts and body limits as layers. They would drop a call that must finish, or answer it in
//! a shape that ends some clients' sessions; each is a step's own business.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tower::{Service, ServiceBuilder};

use crate::auth::Verifier;
use crate::auth::porter::Porter;
use crate::domain::site::Sites;
use crate::layers::address::Address;
use crate::layers::authenticate::Authenticate;
use crate::layers::authenticate::identify::Identify;
use crate::layers::authorize::{Authorize, Court};
use crate::layers::claim::{Claim, Clerk};
use crate::layers::forward::{Forward, Road};
use crate::layers::glance::Glance;
use crate::layers::observe::{Observe, Post};
use crate::layers::parse::{Bounds, Parse};
use crate::layers::queue::Queue;
use crate::layers::reply::{Desk, Reply};
use crate::layers::watch::{Eye, Watch};
use crate::wire::envelope::Body;

/// What the steps are made of.
#[derive(Clone)]
pub struct Parts {
    /// Where calls are observed from.
    pub post: Post,
    /// Answers.
    pub desk: Arc<Desk>,
    /// Where the gate may be called, and from where.
    pub sites: Arc<Sites>,
    /// Knows actors.
    pub verifier: Arc<Verifier>,
    /// Looks at what is refused before it is read.
    pub glance: Arc<Glance>,
    /// What is read.
    pub bounds: Arc<Bounds>,
    /// Decides by the policy.
    pub court: Arc<Court>,
    /// Keeps the ledger.
    pub clerk: Arc<Clerk>,
    /// Leads to the upstream.
    pub road: Arc<Road>,
}

/// The whole stack.
pub fn stack(
    parts: Parts,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let Parts { post, desk, sites, verifier, glance, bounds, court, clerk, road } = parts;
    ServiceBuilder::new()
        .layer_fn(move |inner| Observe::new(inner, post.clone())) // outermost: sees every answer, gives none
        .layer_fn(move |inner| Reply::new(inner, Arc::clone(&desk))) // the only one that answers; catches panics below
        .layer_fn(move |inner| Address::new(inner, Arc::clone(&sites))) // before the token: a page that is not for us learns nothing
        .layer_fn(move |inner| Authenticate::new(inner, Arc::clone(&verifier))) // before anything a stranger sent is read
        .layer_fn(move |inner| Queue::new(inner, Arc::clone(&glance))) // after the token: turns are the tenants'; before anything is read
        .layer_fn(move |inner| Parse::new(inner, Arc::clone(&bounds))) // one parse; all below decide by its result
        .layer_fn(move |inner| Authorize::new(inner, Arc::clone(&court))) // before the claim: a replay needs the scope too
        .layer_fn(move |inner| Claim::new(inner, Arc::clone(&clerk))) // from here on the caller may hang up
        .service(Forward::new(road)) // innermost: the first byte goes out after the claim is committed
}

/// The stack of a listener towards somebody else's API. Of its steps only one is another: who calls is not said by a JWT.
pub fn outward(
    parts: Parts,
    porter: Arc<Porter>,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let Parts { post, desk, sites, verifier: _, glance, bounds, court, clerk, road } = parts;
    ServiceBuilder::new()
        .layer_fn(move |inner| Observe::new(inner, post.clone())) // outermost, as above
        .layer_fn(move |inner| Reply::outward(inner, Arc::clone(&desk))) // the only one that answers
        .layer_fn(move |inner| Address::new(inner, Arc::clone(&sites))) // before anybody is known: no page gets further
        .layer_fn(move |inner| Identify::new(inner, Arc::clone(&porter))) // takes out what is shown here, so that it never goes out
        .layer_fn(move |inner| Queue::new(inner, Arc::clone(&glance))) // a room of its own: who came in by the gate waits for these
        .layer_fn(move |inner| Parse::new(inner, Arc::clone(&bounds))) // plain requests only: here is no MCP endpoint
        .layer_fn(move |inner| Authorize::new(inner, Arc::clone(&court))) // by the listener's own policy
        .layer_fn(move |inner| Claim::new(inner, Arc::clone(&clerk))) // under the listener's own name
        .service(Forward::new(road)) // innermost, as above
}

/// The stack of a gate that observes. It refuses nothing: one step decides what the others would have decided.
pub fn watching(
    parts: Parts,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let Parts { post, desk, sites, verifier, glance: _, bounds, court, clerk, road } = parts;
    let eye = Arc::new(Eye { sites, verifier, bounds, court });
    ServiceBuilder::new()
        .layer_fn(move |inner| Observe::new(inner, post.clone())) // as above
        .layer_fn(move |inner| Reply::watching(inner, Arc::clone(&desk))) // answers what cannot be forwarded
        .layer_fn(move |inner| Watch::new(inner, Arc::clone(&eye))) // what comes out of it is observed, by its type
        .layer_fn(move |inner| Claim::new(inner, Arc::clone(&clerk))) // records what would have been claimed
        .service(Forward::new(road)) // innermost, as above
}
