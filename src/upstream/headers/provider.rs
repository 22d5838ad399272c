//! The headers of what goes out to somebody else's API.
//!
//! Promises: the provider hears its client and nothing of this house: not whose call it is, not who stands between, not its
//! trace unless that is wanted. Its host is its own; what the client sends for it (`Authorization`) passes; the key is the
//! operation's, the same at every try.
//!
//! Absent on purpose: cookies. What the provider sets stays here as well.

use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue, VIA,
};

use super::{HOP_BY_HOP, IDEMPOTENCY_KEY, OURS, REROUTING, TRACEPARENT, foldable, nominated, put};

/// What proxies say of those before them begins so.
const FORWARDED_OURS: &str = "x-forwarded-";

/// The gate says these itself, or wants nobody to.
const HELD_BACK: [HeaderName; 8] =
    [HOST, EXPECT, COOKIE, FORWARDED, VIA, IDEMPOTENCY_KEY, CONTENT_LENGTH, ACCEPT_ENCODING];

/// W3C trace context, and what travels with it.
const TRACE: [HeaderName; 3] =
    [TRACEPARENT, HeaderName::from_static("tracestate"), HeaderName::from_static("baggage")];

/// Somebody else's API.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its host, as it wants to be called.
    pub host: HeaderValue,
    /// Whether it hears of the call's trace.
    pub hears_trace: bool,
}

/// What belongs to one call.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The call's trace.
    pub traceparent: &'a str,
    /// The key that goes with it.
    pub key: Option<&'a str>,
    /// Whether the answer may come compressed, since it passes unread.
    pub packed: bool,
}

impl Provider {
    /// The headers of one request to it.
    pub fn outbound(&self, client: &HeaderMap, said: Said<'_>) -> HeaderMap {
        let nominated = nominated(client);
        let mut headers = HeaderMap::with_capacity(client.len() + 3);
        for (name, value) in client {
            let text = name.as_str();
            let stays = HOP_BY_HOP.contains(name)
                || HELD_BACK.contains(name)
                || TRACE.contains(name) && !self.hears_trace
                || REROUTING.contains(&text)
                || text.starts_with(OURS)
                || text.starts_with(FORWARDED_OURS)
                || nominated.contains(name)
                || foldable(name);
            if !stays {
                headers.append(name, value.clone());
            }
        }
        headers.insert(HOST, self.host.clone());
        if said.packed {
            for value in client.get_all(ACCEPT_ENCODING) {
                headers.append(ACCEPT_ENCODING, value.clone());
            }
        } else {
            // The gate reads answers: it must not have to unpack them.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if self.hears_trace {
            put(&mut headers, TRACEPARENT, said.traceparent);
        }
        if let Some(key) = said.key {
            put(&mut headers, IDEMPOTENCY_KEY, key);
        }
        headers
    }
}
