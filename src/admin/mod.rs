//! What is asked of the gate besides calls: by an orchestrator, by whoever runs it, by whoever runs work later.
//!
//! Promises: two listeners, apart from that of the calls. [`health()`] has no token, and says only whether the gate lives,
//! whether it may be sent calls, and what it counted. [`admin()`] has none that is open: operators have a token, and there
//! things are done; workers have those of their services ([`jobs`]), and neither opens what the other's does. With the
//! operators' token a person signs in at the [`console`], and the session opens pages to read, and nothing else.

pub mod console;
pub mod drain;
mod health;
pub mod jobs;
mod operators;
pub mod policy;

pub use health::{Readiness, health};
pub use operators::{Operators, OperatorsToken};

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tower::service_fn;
use tower::util::ServiceFn;

use self::console::Console;
use self::jobs::JobsGate;
use crate::wire::envelope::Body;

/// An answer that may take a while.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The service of the listener for operators and workers.
pub fn admin(
    operators: Operators,
    console: Console,
    jobs: JobsGate,
) -> ServiceFn<impl FnMut(Request<Incoming>) -> Answering + Clone> {
    let (operators, console) = (Arc::new(operators), Arc::new(console));
    service_fn(move |request: Request<Incoming>| -> Answering {
        if request.uri().path().starts_with(jobs::PREFIX) {
            let jobs = jobs.clone();
            return Box::pin(async move { Ok(jobs.answer(request).await) });
        }
        if console.takes(&request) {
            let console = Arc::clone(&console);
            return Box::pin(async move { Ok(console.answer(request).await) });
        }
        Box::pin(std::future::ready(Ok(operators.answer(&request))))
    })
}
