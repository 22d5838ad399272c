//! A plain request, matched and read.
//!
//! Promises: a request is matched by the path and the method of its own request line, the path in its normal form, and by
//! nothing else in it that a backend might take for either. Its body is read whole where it is claimed, where a
//! rule looks at it, or where a field in it could name another method or tenant; otherwise it is looked through, or streams.
//!
//! Absent on purpose: who may call. The step after this one asks the policy.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use http_body::Body;
use http_body_util::BodyExt as _;

use super::{Bounds, Head, Parsed, What, with_host};
use crate::auth::Verified;
use crate::domain::policy::{Effect, KeyRule, Kind, NormalPath, Operation, Policy, Routed};
use crate::domain::refusal::Refusal;
use crate::http::content::Content;
use crate::http::overrides::refuse_override;
use crate::http::reading::{Reading, reading};
use crate::http::scanned::{Scanned, Tenancy};
use crate::layers::Asked;
use crate::layers::body::forget;
use crate::layers::caller::Caller;
use crate::layers::plain::{Matched, MatchedBody, coming};
use crate::layers::subject::Subject;
use crate::mcp::message::Era;
use crate::mcp::tasks::Named;
use crate::upstream::headers::{IDEMPOTENCY_KEY, SESSION_ID};

/// What stands at the places of a route's parameters, by their names.
type Parameters = Vec<(String, String)>;

/// The route of a request, and what stands in its path.
pub(in crate::layers) struct Found {
    /// The policy that was asked.
    pub(in crate::layers) policy: Arc<Policy>,
    /// The route's operation.
    pub(in crate::layers) operation: Arc<Operation>,
    /// What stands at the places of its parameters.
    pub(in crate::layers) parameters: Vec<(String, String)>,
    /// Path and query.
    pub(in crate::layers) target: PathAndQuery,
    /// How its body is read.
    pub(in crate::layers) reading: Reading,
}

impl Bounds {
    /// Which route's a plain request is. Until that is known, its row says its method and path.
    pub(in crate::layers) fn find(&self, asked: &Asked, parts: &Parts) -> Result<Found, Refusal> {
        let policy = self.policy.load_full();
        let found = self.route(&policy, &parts.method, &parts.uri);
        let (operation, parameters) = found.inspect_err(|_| {
            asked.learn_wanted(Kind::Route, &format!("{} {}", parts.method, parts.uri.path()));
        })?;
        asked.learn_wanted(Kind::Route, operation.name());
        // A tunnel has no path.
        let target = parts.uri.path_and_query().cloned().ok_or(Refusal::NoSuchEndpoint)?;
        refuse_override(&target, &parts.headers)?;
        let claimed = operation.effect() == Effect::Mutation
            && (operation.route().is_some_and(|route| route.key() == KeyRule::Required)
                || parts.headers.contains_key(IDEMPOTENCY_KEY));
        let ruled = operation.argument_rule().is_some_and(|rule| rule.looks_at("body"));
        let reading = reading(&parts.headers, claimed || ruled)?;
        Ok(Found { policy, operation, parameters, target, reading })
    }

    fn route(
        &self,
        policy: &Policy,
        method: &Method,
        target: &Uri,
    ) -> Result<(Arc<Operation>, Parameters), Refusal> {
        if !policy.has_routes() {
            // A gate of an MCP server alone serves one path.
            return Err(Refusal::NoSuchEndpoint);
        }
        let path = NormalPath::parse(target.path())
            .map_err(|fault| Refusal::PathNotNormal { detail: fault.to_string() })?;
        if self.mcp_path.as_deref() == Some(path.as_str()) {
            // With a query it is nobody's: its messages are not plain requests.
            return Err(Refusal::NoSuchEndpoint);
        }
        if self.mcp_path.as_deref().is_some_and(|mcp_path| path.is_taken_for(mcp_path)) {
            // An app that takes it for its MCP endpoint would answer messages that nobody has read.
            return Err(Refusal::NotInPolicy);
        }
        match policy.route(method.as_str(), &path) {
            Routed::Matched { operation, parameters } => Ok((Arc::clone(operation), parameters)),
            Routed::OtherMethod { allow } => Err(Refusal::MethodNotAllowed { allow }),
            Routed::Lookalike | Routed::Unmatched => Err(Refusal::NotInPolicy),
        }
    }

    pub(super) async fn parse_plain<B>(
        &self,
        asked: Asked,
        verified: Verified,
        parts: Parts,
        body: B,
    ) -> Result<Parsed, Refusal>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let found = match self.find(&asked, &parts) {
            Ok(found) => found,
            Err(refusal) => {
                forget(body).await;
                return Err(refusal);
            }
        };
        let body = match found.reading {
            Reading::Streamed => MatchedBody::Coming { source: coming(body), finding: None },
            Reading::Scanned { boundary } => {
                let names = found.operation.tenant_arguments().to_vec();
                let tenancy = Tenancy { names, tenant: verified.actor().tenant().to_owned() };
                let scanned = Scanned::new(body, boundary, tenancy);
                let finding = Some(scanned.finding());
                MatchedBody::Coming { source: scanned.map_err(Into::into).boxed_unsync(), finding }
            }
            Reading::Whole => MatchedBody::Whole(Content::read(&parts.headers, self.whole(body).await?)?),
        };
        let Found { policy, operation, parameters, target, .. } = found;
        let matched = Matched { policy, operation, parameters, method: parts.method, target, body };
        let mut headers = with_host(parts.headers, &parts.uri);
        // Sessions are the MCP endpoint's.
        headers.remove(SESSION_ID);
        let (caller, tasks) = (Caller::Verified(verified), Named::default());
        let subject = Subject::default();
        let head = Head { asked, caller, headers, era: Era::Modern, tasks, keeps_key: false, subject };
        Ok(Parsed { head, what: What::Plain(Box::new(matched)) })
    }
}
