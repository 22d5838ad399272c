//! The headers of what passes as it came: a gate that observes is not noticed.
//!
//! Promises: a request loses what belongs to one connection, and what could pass for a name of the gate's own; it gains
//! the verified actor, where there is one, and nothing else. A response loses what belongs to one connection; the
//! upstream's own address is never told.
//!
//! Absent on purpose: the rules of a gate that enforces. Cookies, tokens and challenges cross: the app has been
//! authenticating by itself so far.

use http::HeaderMap;
use http::header::{
    CONTENT_LENGTH, CONTENT_LOCATION, COOKIE, EXPECT, HeaderName, HeaderValue, LINK, LOCATION,
    WWW_AUTHENTICATE,
};
use http::uri::{Authority, Scheme, Uri};

use super::{Front, HOP_BY_HOP, OURS, nominated, put_actor};
use crate::domain::actor::Actor;

/// Headers that tell of places.
const TELL_PLACES: [HeaderName; 4] = [LOCATION, CONTENT_LOCATION, LINK, WWW_AUTHENTICATE];

/// The headers of a request that goes on as it came. `length` is that of its body, where its client said it.
pub fn unchanged(client: &HeaderMap, actor: Option<&Actor>, length: Option<u64>) -> HeaderMap {
    let nominated = nominated(client);
    // The gate has answered an Expect already, by reading the body.
    let stays = |name: &HeaderName| {
        HOP_BY_HOP.contains(name) || nominated.contains(name) || *name == EXPECT || passes_for_ours(name)
    };
    let mut headers = HeaderMap::with_capacity(client.len() + 4);
    for (name, value) in client.iter().filter(|(name, _)| !stays(name)) {
        headers.append(name, value.clone());
    }
    // HTTP/2 sends them one by one, HTTP/1.1 knows one header only (RFC 9113, 8.2.3).
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let (true, Ok(joined)) = (cookies.len() > 1, HeaderValue::from_bytes(&cookies.join(&b"; "[..]))) {
        headers.insert(COOKIE, joined);
    }
    if let Some(length) = length.filter(|_| client.contains_key(CONTENT_LENGTH)) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let Some(actor) = actor {
        put_actor(&mut headers, actor);
    }
    headers
}

/// The headers of a response that comes back as it is. `has_length` says that its body is as long as they say, or that
/// it has none to measure.
pub fn returned(upstream: &HeaderMap, has_length: bool, inner: &Uri, front: &Front) -> HeaderMap {
    let nominated = nominated(upstream);
    let mut headers = HeaderMap::with_capacity(upstream.len());
    for (name, value) in upstream {
        let length = *name == CONTENT_LENGTH && has_length;
        if (HOP_BY_HOP.contains(name) || nominated.contains(name)) && !length {
            continue;
        }
        let told = if TELL_PLACES.contains(name) { outward(value, inner, front) } else { None };
        headers.append(name, told.unwrap_or_else(|| value.clone()));
    }
    headers
}

/// Puts the public address in place of the upstream's own in the headers that tell of places.
pub fn turn_outward(headers: &mut HeaderMap, inner: &Uri, front: &Front) {
    for (name, value) in headers.iter_mut() {
        let told = if TELL_PLACES.contains(name) { outward(value, inner, front) } else { None };
        if let Some(told) = told {
            *value = told;
        }
    }
}

/// Backends fold whatever is neither letter nor digit: `X_Oncegate.Tenant` is one of ours to them.
fn passes_for_ours(name: &HeaderName) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let mut bytes = name.as_str().bytes().map(fold);
    OURS.bytes().all(|own| bytes.next() == Some(own))
}

/// The same value with the public scheme and host where it says the upstream's own; none where it does not.
fn outward(value: &HeaderValue, inner: &Uri, front: &Front) -> Option<HeaderValue> {
    let text = value.to_str().ok()?;
    let authority = inner.authority().map(Authority::as_str)?;
    let own = format!("{}://{authority}", inner.scheme().map_or("http", Scheme::as_str));
    let public = format!("{}://{}", front.proto.to_str().ok()?, front.host.to_str().ok()?);
    let (mut told, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(own.as_str()) {
        // A longer port or name is another host.
        let ends =
            !after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "-.:@".contains(letter));
        told.push_str(before);
        told.push_str(if ends { &public } else { &own });
        rest = after;
    }
    told.push_str(rest);
    (told != text).then(|| told.parse().ok()).flatten()
}
