//! What is taken out of a call before it goes on, and put into it.
//!
//! Promises: after [`take`] and [`take_mirrors`] neither key nor tenant is left in what is forwarded; what the fingerprint
//! is taken of is what remains.

use http::{HeaderMap, HeaderValue};

use crate::domain::call::take_key;
use crate::domain::json::{Json, Object};
use crate::domain::key::Key;
use crate::domain::policy::{Kind, Operation};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::mcp::headers;
use crate::mcp::message::Request;
use crate::mcp::mirrors::Mirrors;
use crate::upstream::headers::IDEMPOTENCY_KEY;

/// Takes the headers out that mirror what [`take`] takes out of a tool's arguments.
pub(super) fn take_mirrors(
    head: &mut Head,
    mirrors: &Mirrors,
    request: &Request,
    kind: Kind,
    rule: Option<&Operation>,
) -> Result<(), Refusal> {
    let Some(rule) = rule.filter(|_| kind == Kind::Tool) else { return Ok(()) };
    let taken: Vec<&str> = rule.taken_arguments().collect();
    let arguments = request.params().and_then(|params| params.get("arguments")).and_then(Json::as_object);
    headers::take_mirrors(&mut head.headers, head.era, &taken, &mirrors.of(rule.name()), arguments)
}

/// Takes key and tenant out of what will be forwarded, whatever is wrong with the key: a read goes on all the same.
pub(super) fn take(
    request: &mut Request,
    headers: &HeaderMap,
    rule: Option<&Operation>,
) -> Result<Option<Key>, Refusal> {
    let Some(params) = request.body.get_mut("params").and_then(Json::as_object_mut) else {
        return key_in_header(headers);
    };
    let values: Result<Vec<&str>, _> =
        headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::to_str).collect();
    let unprintable = values.is_err();
    let values = values.unwrap_or_default();
    let taken = match rule {
        Some(rule) => rule.take_out(params, &values),
        None => take_key(params, &values, None),
    };
    printable(unprintable, taken)
}

/// The key in the header, where no other place can have one.
pub(super) fn key_in_header(headers: &HeaderMap) -> Result<Option<Key>, Refusal> {
    let values: Result<Vec<&str>, _> =
        headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::to_str).collect();
    let unprintable = values.is_err();
    printable(unprintable, take_key(&mut Object::default(), &values.unwrap_or_default(), None))
}

/// A header that is no text cannot agree with what else names a key.
fn printable(unprintable: bool, taken: Result<Option<Key>, Refusal>) -> Result<Option<Key>, Refusal> {
    if unprintable {
        let detail = "the Idempotency-Key header is not printable ASCII".to_owned();
        return Err(Refusal::KeyInvalid { detail });
    }
    taken
}

/// What the fingerprint is taken of: a tool's arguments, a method's parameters without what is about the call itself.
pub(super) fn subject_of(request: &Request, kind: Kind) -> Option<Json> {
    let params = request.params()?;
    match kind {
        Kind::Tool => params.get("arguments").cloned(),
        Kind::Method | Kind::Route | Kind::Job => {
            let mut params = params.clone();
            params.remove("_meta");
            if has_rounds(&request.method) {
                params.remove("inputResponses");
                params.remove("requestState");
            }
            Some(Json::Object(params))
        }
    }
}

/// Whether the upstream may answer with questions, so that the same call comes again with what answers them. What
/// `tasks/update` brings under the same name is what it is about.
pub(super) fn has_rounds(method: &str) -> bool {
    !method.starts_with("tasks/")
}

/// The app's own tool wants the key: it gets it where its schema has it.
pub(super) fn put_argument(request: &mut Request, argument: &str, key: &str) {
    let Some(params) = request.params_mut() else { return };
    if params.get("arguments").and_then(Json::as_object).is_none() {
        params.insert("arguments", Json::Object(Object::default()));
    }
    if let Some(arguments) = params.get_mut("arguments").and_then(Json::as_object_mut) {
        arguments.insert(argument, Json::from(key));
    }
}
