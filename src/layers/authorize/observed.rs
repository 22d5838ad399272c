//! A call of an operation that is only observed, in a gate that enforces the rest.
//!
//! Promises: token, session, tasks and form of the call were checked as ever; what is not carried out is the operation's
//! own decision. The call goes on with its key and tenant arguments, its mirroring headers and its own key header, as its
//! client wrote them.
//!
//! Absent on purpose: calls inside of a tool that runs others. They are taken apart, keyed and carried out one by one,
//! which nothing does that lets things be; inside, an observed operation is enforced.

use std::sync::Arc;

use http::HeaderMap;

use super::{AllowedWhat, Sends};
use crate::domain::policy::Operation;
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::mcp::message::Request;

/// The call as it came, but for ids that were opened.
pub(super) struct Kept {
    operation: Arc<Operation>,
    request: Request,
    headers: HeaderMap,
}

impl Kept {
    /// Keeps a call before anything is taken out of it; none where its operation is enforced.
    pub(super) fn of(rule: Option<&Arc<Operation>>, request: &Request, head: &Head) -> Option<Self> {
        let operation = rule.filter(|rule| rule.is_observed())?;
        Some(Self {
            operation: Arc::clone(operation),
            request: request.clone(),
            headers: head.headers.clone(),
        })
    }

    /// The call, whatever was decided about it.
    pub(super) fn whatever(self, head: &mut Head, decided: Result<AllowedWhat, Refusal>) -> AllowedWhat {
        let Self { operation, request, headers } = self;
        head.headers = headers;
        head.keeps_key = true;
        match decided {
            Err(would) => AllowedWhat::Unenforced { request, operation, would },
            Ok(AllowedWhat::Mutation(mut mutation)) => {
                mutation.sends = Sends::Message(request);
                AllowedWhat::Recorded(mutation)
            }
            Ok(AllowedWhat::Read { .. }) => AllowedWhat::Read { request, operation },
            Ok(other) => other,
        }
    }
}
