//! Plain requests on their way out, and their answers.
//!
//! Promises: method, path, query and body go out as they were checked. A claimed request is sent once, within its attempt's
//! time, and its answer is read whole before anybody hears of it; any other answer streams, unless something in it must
//! be masked, or be told in its row.
//!
//! Absent on purpose: what an answer proves. That is the policy's to say, by its status.

mod moving;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, WWW_AUTHENTICATE};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;
use tracing::warn;

use self::moving::{Flowing, Pace};
use super::{Forwarded, Note, Road, SendFault, unsent_or_lost};
use crate::domain::policy::{Meaning, Operation};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::layers::plain::{Going, GoingBody, Plain, Shown, shown};
use crate::mcp::collect::{MAX_ANSWER_BYTES, Media, media};
use crate::upstream::headers;
use crate::upstream::headers::provider::Said;
use crate::wire::envelope::{AnyError, Body, full};

/// The answer to a claimed request.
#[derive(Debug)]
pub struct Heard {
    /// Its HTTP status.
    pub status: u16,
    /// What that says, by the policy.
    pub meaning: Meaning,
    /// Every header that the client may see.
    pub headers: HeaderMap,
    /// The body; none where it is too large to be read.
    pub body: Option<Bytes>,
}

/// What came of reading a body whole.
enum Whole {
    Read(Bytes),
    TooLarge,
    Cut,
}

impl Road {
    /// The exchange of a claimed request.
    pub(super) async fn exchange_plain(
        &self,
        head: &Head,
        plain: &Plain,
        operation: &Operation,
        key: &str,
    ) -> Forwarded {
        let headers = self.headers_of_plain(head, Some(key), false);
        let sent = match self.at(&plain.target) {
            Ok(uri) => self.upstream.send(&plain.method, &uri, &headers, &plain.body).await,
            Err(fault) => Err(fault),
        };
        let (parts, body) = match sent {
            Ok(response) => response.into_parts(),
            Err(fault) => return unsent_or_lost(&fault),
        };
        let status = parts.status.as_u16();
        let meaning = operation.mutation().map_or(Meaning::Unknown, |rule| rule.answers().of(status));
        // As they come they hold on to all that their connection has read.
        let headers = headers::detached(&self.passed_plain(&plain.method, &parts));
        drop(parts);
        let body = match whole(body).await {
            Whole::Read(body) => Some(body),
            Whole::TooLarge => None,
            Whole::Cut => {
                warn!(status, "The upstream's answer was cut off.");
                return Forwarded::Lost { status: Some(status) };
            }
        };
        Forwarded::Plain(Box::new(Heard { status, meaning, headers, body }))
    }

    /// A request without a claim.
    pub(super) async fn open(
        &self,
        head: &Head,
        going: Going,
        operation: &Operation,
    ) -> Result<Forwarded, Refusal> {
        let reads = operation.reads_results();
        let headers = self.headers_of_plain(head, None, !reads);
        let Going { method, target, body } = going;
        let uri = self.at(&target).map_err(|_| Refusal::UpstreamUnreachable)?;
        let (sent, finding) = match body {
            GoingBody::Whole(body) => {
                let sending = self.upstream.send(&method, &uri, &headers, &body);
                (Pace::standing().keep(self.timeout, sending).await, None)
            }
            GoingBody::Coming { source, finding } => {
                let (pace, source) = Pace::of(source);
                let sending = self.upstream.send_stream(&method, &uri, &headers, source);
                (pace.keep(self.timeout, sending).await, finding)
            }
        };
        // A body that was cut on purpose says why, whatever the upstream made of what came.
        if let Some(refusal) = finding.and_then(|finding| finding.refusal().cloned()) {
            return Err(refusal);
        }
        let response = match sent {
            Some(Ok(response)) => response,
            Some(Err(SendFault::NotSent(_))) => return Err(Refusal::UpstreamUnreachable),
            Some(Err(SendFault::Lost(_))) | None => return Err(Refusal::ReadFailed),
        };
        self.answer_open(&method, response, operation).await
    }

    async fn answer_open(
        &self,
        method: &Method,
        response: Response<Incoming>,
        operation: &Operation,
    ) -> Result<Forwarded, Refusal> {
        let (parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // A switch of protocols that nobody asked for: there is no answer behind it.
            return Err(Refusal::ReadFailed);
        }
        if parts.status == StatusCode::UNAUTHORIZED && !self.front.forward_authorization {
            // It speaks of a token that is none of the client's.
            return Err(Refusal::ExecutionFailed { detail: None });
        }
        let mut headers = self.passed_plain(method, &parts);
        let mut note = Note { status: parts.status.as_u16(), ..Note::default() };
        let body = if operation.reads_results() {
            let reading = timeout(self.timeout, whole(body)).await;
            let Ok(Whole::Read(bytes)) = reading else { return Err(Refusal::ReadFailed) };
            let Shown { bytes, summary, .. } = shown(operation, &mut headers, bytes);
            note.summary = summary;
            full(bytes)
        } else if media(&parts.headers) == Media::Events {
            // Silence is no fault in it.
            body.map_err(AnyError::from).boxed_unsync()
        } else {
            Flowing::new(body, self.timeout).boxed_unsync()
        };
        let mut response: Response<Body> = Response::new(body);
        *response.status_mut() = parts.status;
        *response.headers_mut() = headers;
        Ok(Forwarded::Passed { response, note })
    }

    fn headers_of_plain(&self, head: &Head, key: Option<&str>, packed: bool) -> HeaderMap {
        let (actor, traceparent) = (head.caller.actor(), head.asked.traceparent());
        let own = head.headers.get(headers::IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
        let key = if head.keeps_key { own } else { key };
        if let Some(provider) = &self.provider {
            return provider.outbound(&head.headers, Said { traceparent, key, packed });
        }
        let peer = head.asked.peer();
        headers::outbound_plain(&head.headers, &self.front, peer, actor, traceparent, key, packed)
    }

    /// The headers of an answer that its client may see. An upstream's challenge is its client's business only where it
    /// heard the client's own token.
    fn passed_plain(&self, method: &Method, parts: &Parts) -> HeaderMap {
        let mut headers = headers::passed(&parts.headers, None);
        let mut keep = |name: http::HeaderName| {
            for value in parts.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        };
        if self.front.forward_authorization {
            keep(WWW_AUTHENTICATE);
        }
        // The length of a body that does not come.
        if *method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED {
            keep(CONTENT_LENGTH);
        }
        headers::turn_outward(&mut headers, &self.endpoint, &self.front);
        headers
    }

    /// The upstream's own place for a target.
    pub(super) fn at(&self, target: &PathAndQuery) -> Result<Uri, SendFault> {
        let mut parts = self.endpoint.clone().into_parts();
        parts.path_and_query = Some(target.clone());
        Uri::from_parts(parts).map_err(|fault| SendFault::NotSent(fault.into()))
    }
}

/// Reads a body to its end.
async fn whole(mut body: Incoming) -> Whole {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Whole::Cut };
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_ANSWER_BYTES {
            return Whole::TooLarge;
        }
        bytes.extend_from_slice(&data);
    }
    Whole::Read(bytes.freeze())
}
