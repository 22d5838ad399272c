//! What a worker is told.
//!
//! Promises: what may go on is a JSON object with its `outcome`; everything else is a problem as the one table has it.
//! Nothing here may be kept by a cache.
//!
//! Absent on purpose: where tokens come from. A service's token comes from no authorization server: a challenge names
//! its scheme and nothing else.

use std::time::Duration;

use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use uuid::Uuid;

use crate::domain::json::{Json, Object};
use crate::domain::ledger::Status;
use crate::layers::claim::jobs::{Fresh, Handed, Reported};
use crate::wire::envelope::{Body, full};
use crate::wire::{Row, Shape, problem};

/// The description of this gate, in the words of `OpenAPI`.
const DESCRIPTION: &str = include_str!("openapi.json");

/// Says that an answer is the first one, again.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What was done that was asked.
pub(super) enum Done {
    /// The claim was decided.
    Handed(Handed),
    /// The lease is this long again.
    Renewed(Duration),
    /// The end is stored.
    Reported(Reported),
}

/// The answer to what was done.
pub(super) fn answer(done: &Done) -> Response<Body> {
    let members = match done {
        Done::Handed(Handed::Fresh(fresh)) => begun(fresh),
        Done::Handed(Handed::Replay(result)) => {
            vec![("outcome", Json::from("replay")), ("result", result.clone())]
        }
        Done::Renewed(lease) => vec![("outcome", Json::from("renewed")), ("lease_ms", millis(*lease))],
        Done::Reported(Reported { status: status @ Status::Completed, kept }) => {
            vec![("outcome", Json::from(status.as_str())), ("kept", Json::Bool(*kept))]
        }
        Done::Reported(Reported { status, .. }) => vec![("outcome", Json::from(status.as_str()))],
    };
    let object: Object = members.into_iter().collect();
    let mut response = json(Json::Object(object).to_bytes());
    if matches!(done, Done::Handed(Handed::Replay(_))) {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn begun(fresh: &Fresh) -> Vec<(&'static str, Json)> {
    let mut members = vec![
        ("outcome", Json::from("fresh")),
        ("attempt_id", Json::from(fresh.attempt.to_string())),
        ("lease_ms", millis(fresh.lease)),
        ("timeout_ms", millis(fresh.timeout)),
        ("forward_key", Json::from(fresh.forward_key.as_str())),
    ];
    members.extend(fresh.twin.as_deref().map(|key| ("possible_duplicate", Json::from(key))));
    members
}

fn millis(time: Duration) -> Json {
    Json::from(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// What this gate is.
pub(super) fn description() -> Response<Body> {
    json(DESCRIPTION)
}

/// A refusal. `instance` is its audit row's id.
pub(super) fn refusal(row: &Row, instance: Uuid) -> Response<Body> {
    let mut response = problem::response(row, instance, None);
    if matches!(row.shape, Shape::Challenge { .. }) {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn json(body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
