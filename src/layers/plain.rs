//! A plain HTTP request on its way through the steps.
//!
//! Promises: what goes out is what was checked: the same method, target and bytes. A body that is not read whole can come
//! from the client only once, and brings no trailers along.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::policy::{Operation, Policy};
use crate::domain::redact::{has_secret, text_has_secret};
use crate::domain::refusal::Refusal;
use crate::http::content::Content;
use crate::http::scanned::Finding;
use crate::upstream::{AnyError, Source};

/// A request that a route matches, read as far as its operation needs.
#[derive(Debug)]
pub struct Matched {
    /// The policy that was asked: it decides all of this call.
    pub policy: Arc<Policy>,
    /// The route's operation.
    pub operation: Arc<Operation>,
    /// What stands at the places of the route's parameters.
    pub parameters: Vec<(String, String)>,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// The body.
    pub body: MatchedBody,
}

/// The body of such a request.
#[derive(Debug)]
pub enum MatchedBody {
    /// All of it, checked.
    Whole(Content),
    /// It goes through as it comes.
    Coming {
        /// What comes.
        source: Source,
        /// Where it will stand why it was cut on the way, if it is looked through.
        finding: Option<Finding>,
    },
}

/// A plain request, whole, as it goes out.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// The body.
    pub body: Bytes,
}

/// A plain request that may go out once only.
#[derive(Debug)]
pub struct Going {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// The body.
    pub body: GoingBody,
}

/// Its body.
#[derive(Debug)]
pub enum GoingBody {
    /// These bytes.
    Whole(Bytes),
    /// What comes, as it comes.
    Coming {
        /// That.
        source: Source,
        /// Where it will stand why it was cut on the way, if it is looked through.
        finding: Option<Finding>,
    },
}

impl From<Plain> for Going {
    fn from(Plain { method, target, body }: Plain) -> Self {
        Self { method, target, body: GoingBody::Whole(body) }
    }
}

/// A plain request that goes on without a claim.
#[derive(Debug)]
pub struct Open {
    /// What goes out.
    pub going: Going,
    /// Its rule.
    pub operation: Arc<Operation>,
    /// Why it needs none.
    pub ground: Ground,
}

/// Why a plain request goes on without a claim.
#[derive(Debug)]
pub enum Ground {
    /// It changes nothing.
    Read,
    /// It brings no key, and its route does not ask for one.
    Unkeyed,
    /// Its operation is only observed: it would have been refused.
    Unenforced(Refusal),
}

/// A client's body as it comes, without its trailers: backends take those for headers that nobody checked.
pub(super) fn coming<B>(body: B) -> Source
where
    B: Body<Data = Bytes, Error: Into<AnyError>> + Send + 'static,
{
    DataOnly(Box::pin(body)).map_err(Into::into).boxed_unsync()
}

struct DataOnly<B>(Pin<Box<B>>);

impl<B: Body<Data = Bytes>> Body for DataOnly<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let next = std::task::ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(next.filter(|frame| !matches!(frame, Ok(frame) if frame.is_trailers())))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// A body as its client may see it.
pub(super) struct Shown {
    /// Its bytes: as they came, unless something in them was masked.
    pub(super) bytes: Bytes,
    /// Whether a secret's pattern remains in it.
    pub(super) has_secret: bool,
    /// A few redacted fields of it, for the row.
    pub(super) summary: Option<String>,
}

/// The body of an answer with these headers. Where the policy masks something in it, a body that cannot be searched is
/// not shown at all. The headers that say what the body was are taken away where it is not that any more.
pub(super) fn shown(operation: &Operation, headers: &mut HeaderMap, bytes: Bytes) -> Shown {
    let json = is_json(headers).then(|| Json::parse(&bytes, MAX_DEPTH).ok()).flatten();
    let Some(mut json) = json else {
        let withheld = !operation.redactor().has_no_paths() && !bytes.is_empty();
        if withheld {
            for name in [ETAG, CONTENT_TYPE, CONTENT_ENCODING] {
                headers.remove(name);
            }
        }
        let bytes = if withheld { Bytes::new() } else { bytes };
        let has_secret = std::str::from_utf8(&bytes).is_ok_and(text_has_secret);
        return Shown { bytes, has_secret, summary: None };
    };
    let masked = operation.redactor().mask(&mut json);
    if masked {
        headers.remove(ETAG);
    }
    let (has_secret, summary) = (has_secret(&json), operation.summary_of(&json));
    Shown { bytes: if masked { json.to_bytes().into() } else { bytes }, has_secret, summary }
}

/// Whether a body can be searched.
fn is_json(headers: &HeaderMap) -> bool {
    let unpacked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    headers.get_all(CONTENT_ENCODING).iter().all(unpacked)
        && (media == "application/json" || media.ends_with("+json"))
}
