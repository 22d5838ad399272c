//! Observed requests: out as they came, back as they come.
//!
//! Promises: nothing is changed on either way but what belongs to one connection. Bodies stream with back-pressure; the
//! client's hang-up ends the upstream's answer too, unless its [`Ear`] is to hear it to the end.
//!
//! Absent on purpose: time limits. The app's clients have waited as long as they liked so far.

mod tee;

use http::{Method, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;

pub use self::tee::{Ear, Hears, Tell};
use super::{Forwarded, Note, Road, unsent_or_lost};
use crate::layers::parse::Head;
use crate::layers::watched::Raw;
use crate::upstream::headers;
use crate::wire::envelope::{AnyError, Body};

impl Road {
    /// Sends an observed request.
    pub(super) async fn watch(&self, head: &Head, raw: Raw, ear: Option<Ear>) -> Forwarded {
        let Raw { method, target, headers, body } = raw;
        let actor = head.caller.verified().map(crate::auth::Verified::actor);
        let headers = headers::unchanged(&headers, actor, body.size_hint().exact());
        let sent = match self.at(&target) {
            Ok(uri) => self.upstream.send_stream(&method, &uri, &headers, body).await,
            Err(fault) => Err(fault),
        };
        match sent {
            Ok(response) => self.returned(&method, response, ear),
            Err(fault) => {
                let came = unsent_or_lost(&fault);
                if let Some(ear) = ear {
                    ear.tell(unsent_or_lost(&fault));
                }
                came
            }
        }
    }

    fn returned(&self, method: &Method, response: Response<Incoming>, ear: Option<Ear>) -> Forwarded {
        let (mut parts, body) = response.into_parts();
        let unmeasured = *method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED;
        let has_length = unmeasured || body.size_hint().exact().is_some();
        let headers = headers::returned(&parts.headers, has_length, &self.endpoint, &self.front);
        let note = Note { status: parts.status.as_u16(), ..Note::default() };
        let body = match ear {
            Some(ear) => ear.listen(&parts, body),
            None => body.map_err(AnyError::from).boxed_unsync(),
        };
        let mut response: Response<Body> = Response::new(body);
        *response.status_mut() = parts.status;
        *response.headers_mut() = headers;
        if let Some(reason) = parts.extensions.remove::<ReasonPhrase>() {
            response.extensions_mut().insert(reason);
        }
        Forwarded::Passed { response, note }
    }
}
