//! Which headers cross the gate, and which are the gate's own.
//!
//! Promises: a session id leaves under a seal for its actor, or not at all; before the gate sets a header of its own it
//! drops what the client sent under that name, and every name that a backend could fold into one of them
//! (`X_Oncegate_Tenant`, `X.Oncegate.Tenant`). Hop-by-hop headers, those that `Connection` nominates, cookies and
//! trailers stay on their side.
//!
//! Absent on purpose: `Authorization`, unless the configuration says that gate and app are one audience.

pub mod provider;
mod unchanged;

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
    COOKIE, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};

use crate::domain::actor::Actor;
use crate::domain::answer::Kind;
use crate::domain::seal::{Handle, Seal};

pub use unchanged::{returned, turn_outward, unchanged};

/// The key that the backend hears.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The session of the legacy era.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

const OURS: &str = "x-oncegate-";
const ANSWERS_OURS: &str = "oncegate-";
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const TENANT: HeaderName = HeaderName::from_static("x-oncegate-tenant");
const USER: HeaderName = HeaderName::from_static("x-oncegate-user");
const SESSION: HeaderName = HeaderName::from_static("x-oncegate-session");
const SCOPES: HeaderName = HeaderName::from_static("x-oncegate-scopes");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Belongs to one connection.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    CONTENT_LENGTH,
];

/// The gate says these itself, or wants nobody to.
const REPLACED: [HeaderName; 11] = [
    HOST,
    EXPECT,
    COOKIE,
    FORWARDED,
    FORWARDED_PROTO,
    FORWARDED_HOST,
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    CONTENT_TYPE,
    ACCEPT_ENCODING,
    // Appended to: the chain of proxies before the gate must not get lost.
    FORWARDED_FOR,
];

/// By these some frameworks and servers take another path or method than the request line's, or answer with another file:
/// what was checked would not be what is run. The port is the public URL's.
const REROUTING: [&str; 14] = [
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-forwarded-prefix",
    "x-forwarded-path",
    "x-forwarded-uri",
    "x-forwarded-port",
    "x-script-name",
    // Rack lets the server before it send the file that such a mapping leads to.
    "x-sendfile-type",
    "x-accel-mapping",
];

/// What the gate says of itself on every request.
#[derive(Clone, Debug)]
pub struct Front {
    /// `https` or `http`, of the public URL.
    pub proto: HeaderValue,
    /// Host and port of the public URL.
    pub host: HeaderValue,
    /// Whether the client's token goes on to the app.
    pub forward_authorization: bool,
}

/// The headers of one request to the upstream.
pub fn outbound(
    client: &HeaderMap,
    front: &Front,
    peer: IpAddr,
    actor: &Actor,
    traceparent: &str,
    key: Option<&str>,
) -> HeaderMap {
    let nominated = nominated(client);
    let mut headers = HeaderMap::with_capacity(client.len() + 8);
    for (name, value) in client {
        let ours =
            name.as_str().starts_with(OURS) || REPLACED.contains(name) || REROUTING.contains(&name.as_str());
        let token = *name == AUTHORIZATION && !front.forward_authorization;
        if !ours && !token && !foldable(name) && !HOP_BY_HOP.contains(name) && !nominated.contains(name) {
            headers.append(name, value.clone());
        }
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The gate reads answers: it must not have to unpack them.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(HOST, client.get(HOST).unwrap_or(&front.host).clone());
    headers.insert(FORWARDED_HOST, front.host.clone());
    headers.insert(FORWARDED_PROTO, front.proto.clone());
    put(&mut headers, FORWARDED_FOR, &chain(client, peer));
    put(&mut headers, TRACEPARENT, traceparent);
    put_actor(&mut headers, actor);
    if let Some(key) = key {
        put(&mut headers, IDEMPOTENCY_KEY, key);
    }
    headers
}

/// The same for a plain request: what it says of its own body, and of the answers that it takes, stands. `packed`: the
/// answer passes unread, so that it may come compressed.
pub fn outbound_plain(
    client: &HeaderMap,
    front: &Front,
    peer: IpAddr,
    actor: &Actor,
    traceparent: &str,
    key: Option<&str>,
    packed: bool,
) -> HeaderMap {
    let mut headers = outbound(client, front, peer, actor, traceparent, key);
    for name in [ACCEPT, CONTENT_TYPE, ACCEPT_ENCODING] {
        if name == ACCEPT_ENCODING && !packed {
            continue;
        }
        headers.remove(&name);
        for value in client.get_all(&name) {
            headers.append(&name, value.clone());
        }
    }
    headers
}

/// Whose a session is that the upstream opens.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    /// What binds it.
    pub seal: &'a Seal,
    /// To whom.
    pub actor: &'a Actor,
}

impl Bound<'_> {
    /// A session id for this actor. Only what the protocol allows as one: visible ASCII.
    fn sealed(self, raw: &HeaderValue) -> Option<HeaderValue> {
        let raw = raw.to_str().ok().filter(|raw| raw.bytes().all(|byte| byte.is_ascii_graphic()))?;
        HeaderValue::try_from(self.seal.seal(Handle::Session, self.actor, raw, &[])).ok()
    }
}

/// The upstream's response headers that a client may see. Challenges are the gate's own business. A session id is
/// sealed for `bound`, and stays here where there is nobody to bind it to.
pub fn passed(upstream: &HeaderMap, bound: Option<Bound<'_>>) -> HeaderMap {
    let nominated = nominated(upstream);
    let stays = |name: &HeaderName| {
        HOP_BY_HOP.contains(name)
            || nominated.contains(name)
            || [SET_COOKIE, WWW_AUTHENTICATE, REPLAYED].contains(name)
            || name.as_str().starts_with(OURS)
            || name.as_str().starts_with(ANSWERS_OURS)
    };
    let mut headers = HeaderMap::with_capacity(upstream.len());
    for (name, value) in upstream {
        if *name == SESSION_ID {
            if let Some(sealed) = bound.and_then(|bound| bound.sealed(value)) {
                headers.append(name, sealed);
            }
        } else if !stays(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// The same headers, with values of their own: as they come, they are pieces of their connection's read buffer, and hold
/// all of it.
pub fn detached(headers: &HeaderMap) -> HeaderMap {
    let own = |value: &HeaderValue| {
        let mut own = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        own.set_sensitive(value.is_sensitive());
        Some(own)
    };
    headers.iter().filter_map(|(name, value)| Some((name.clone(), own(value)?))).collect()
}

/// The upstream's response headers that may be kept with an answer of this kind.
pub fn kept(upstream: &HeaderMap, kind: Kind) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
    let kept = upstream.iter().filter(|(name, _)| kind.keeps(name.as_str()));
    kept.filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?))).collect()
}

/// The scopes that a challenge of the upstream's names.
pub fn challenged_scope(upstream: &HeaderMap) -> Option<String> {
    let text = upstream.get(WWW_AUTHENTICATE)?.to_str().ok()?;
    let (_, rest) = text.split_once("scope=\"")?;
    let (scope, _) = rest.split_once('"')?;
    Some(scope.to_owned())
}

/// Backends fold whatever is neither letter nor digit (CGI variables: all of them into `_`): a name with anything but
/// `-` between its words could pass for one of the gate's own.
fn foldable(name: &HeaderName) -> bool {
    !name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What belongs to one connection because `Connection` says so; never what says how the body is to be read, since a body
/// that was checked as one thing would go on as another.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|text| text.split(',')).filter_map(|name| name.trim().parse().ok());
    names.filter(|name| ![CONTENT_TYPE, CONTENT_ENCODING].contains(name)).collect()
}

fn chain(client: &HeaderMap, peer: IpAddr) -> String {
    let before = client.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut chain: Vec<String> = before.map(str::to_owned).collect();
    chain.push(peer.to_string());
    chain.join(", ")
}

fn put_actor(headers: &mut HeaderMap, actor: &Actor) {
    put(headers, TENANT, actor.tenant());
    put(headers, USER, actor.user());
    put(headers, SCOPES, &actor.scopes_joined());
    if let Some(session) = actor.session() {
        put(headers, SESSION, session);
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    // Every value here was checked to be free of control characters where it came from.
    if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
        headers.insert(name, value);
    }
}
