//! The console's door: from which place somebody may ask, who is let in, and how somebody signs in and out.
//!
//! Promises: a request is for this listener by a name that no stranger's DNS can point here, or it is refused. Whoever
//! posts comes from a page of this listener, as only a browser can say. Tokens are compared in constant time; where too
//! many were wrong, the form hears none for a while. A session's cookie opens pages that are read, and nothing else.
//!
//! Absent on purpose: trust in a proxy's word. Whether the browser came by TLS is what its `Origin` says.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use uuid::Uuid;

use super::sessions::{Guesses, LASTS, Sessions};
use crate::admin::operators::{OperatorsToken, bears};
use crate::domain::site::Sites;

/// The cookie's name, and its name where it came by TLS: browsers keep that one to this host and to TLS.
const COOKIES: [&str; 2] = ["oncegate", "__Host-oncegate"];

/// What browsers say of where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest token that is looked at.
const LONGEST: usize = 4096;

/// The door.
pub(super) struct Door {
    /// As it is by now: a session of an earlier one opens nothing.
    token: OperatorsToken,
    sites: Sites,
    sessions: Mutex<Sessions>,
    guesses: Mutex<Guesses>,
}

/// What came of an attempt to sign in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignedIn {
    /// It is the token: the cookie to set.
    Yes(String),
    /// It is not.
    Wrong,
    /// Too many were not: none is heard for so long.
    Later(Duration),
}

impl Door {
    /// One that this token opens, at a listener with these names.
    pub(super) fn new(token: OperatorsToken, sites: Sites) -> Self {
        let guesses = Mutex::new(Guesses::new(Instant::now()));
        Self { token, sites, sessions: Mutex::default(), guesses }
    }

    /// Whether the request is for this listener.
    pub(super) fn is_ours(&self, target: &Uri, headers: &HeaderMap) -> bool {
        let named = target.authority().map(|authority| authority.as_str().as_bytes());
        let named: Vec<_> =
            named.into_iter().chain(headers.get_all(HOST).iter().map(HeaderValue::as_bytes)).collect();
        let known =
            |name: &&[u8]| is_address(name) || self.sites.check_host(None, std::iter::once(*name)).is_ok();
        !named.is_empty() && headers.get_all(HOST).iter().count() < 2 && named.iter().all(known)
    }

    /// Whether it comes from a page of this listener: a browser says so of every request that may change something.
    pub(super) fn is_own_page(target: &Uri, headers: &HeaderMap) -> bool {
        let host = target.authority().map(Authority::as_str);
        let host = host.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
        let Some((_, from)) = origin(headers) else { return false };
        let site = headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin");
        site && host.is_some_and(|host| host.eq_ignore_ascii_case(from))
    }

    /// Whether somebody may read: by the token itself, or by a session.
    pub(super) fn lets_in(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(AUTHORIZATION) {
            return bears(headers, &self.token.load());
        }
        let (sessions, token, now) = (self.sessions(), self.token.load(), Instant::now());
        cookies(headers).any(|id| sessions.holds(id, token.text(), now))
    }

    /// Looks at a token that was typed.
    pub(super) fn sign_in(&self, given: &str, headers: &HeaderMap) -> SignedIn {
        let now = Instant::now();
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(wait) = guesses.may(now) {
            return SignedIn::Later(wait);
        }
        let token = self.token.load();
        if given.len() > LONGEST || !token.is(given.as_bytes()) {
            guesses.wrong();
            return SignedIn::Wrong;
        }
        let id = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        self.sessions().begin(&id, token.text(), now);
        SignedIn::Yes(cookie(headers, &id, LASTS))
    }

    /// Ends the session that a request brings, and gives the cookies that take its own away.
    pub(super) fn sign_out(&self, headers: &HeaderMap) -> String {
        let mut sessions = self.sessions();
        cookies(headers).for_each(|id| sessions.end(id));
        cookie(headers, "", Duration::ZERO)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An IP address, with a port or without: nobody's DNS was asked for it.
fn is_address(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.parse::<std::net::SocketAddr>().is_ok() || bare.parse::<std::net::IpAddr>().is_ok()
}

/// The only origin that a request names: its scheme and its host.
fn origin(headers: &HeaderMap) -> Option<(&str, &str)> {
    let mut named = headers.get_all(ORIGIN).iter();
    let (origin, another) = (named.next()?, named.next());
    let parts = origin.to_str().ok()?.split_once("://")?;
    (another.is_none() && matches!(parts.0, "http" | "https")).then_some(parts)
}

/// Every value that could be a session's id.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| COOKIES.contains(name)).map(|(_, value)| value)
}

/// For this host and this listener's pages only, and for no script.
fn cookie(headers: &HeaderMap, id: &str, lasts: Duration) -> String {
    let is_tls = origin(headers).is_some_and(|(scheme, _)| scheme == "https");
    let [plain, tls] = COOKIES;
    let (name, secure) = if is_tls { (tls, "; Secure") } else { (plain, "") };
    format!("{name}={id}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}", lasts.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;

    use super::*;
    use crate::config::AdminToken;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().expect("a header's value"))
        };
        pairs.iter().map(pair).collect()
    }

    fn door() -> Door {
        let sites = Sites::new("https://gate.example.com/mcp", Vec::new(), Vec::new()).expect("a host");
        let token = AdminToken::of_text("a-token-of-operators");
        Door::new(Arc::new(ArcSwap::from_pointee(token)), sites)
    }

    #[test]
    fn addresses_and_known_names_are_this_listener_and_a_strangers_name_is_not() {
        let (door, path) = (door(), Uri::from_static("/"));
        for host in
            ["127.0.0.1:9090", "localhost:1", "[::1]:9090", "10.1.2.3", "gate.example.com", "[fe80::1]"]
        {
            assert!(door.is_ours(&path, &headers(&[("host", host)])), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.1.2.3@evil"]
        {
            assert!(!door.is_ours(&path, &headers(&[("host", host)])), "{host}");
        }
        assert!(!door.is_ours(&path, &HeaderMap::new()));
        let mut two = headers(&[("host", "localhost")]);
        two.append("host", HeaderValue::from_static("localhost"));
        assert!(!door.is_ours(&path, &two));
        assert!(!door.is_ours(&Uri::from_static("http://evil.example/"), &headers(&[("host", "localhost")])));
    }

    #[test]
    fn only_a_page_of_this_listener_may_post() {
        let path = Uri::from_static("/");
        let posts = |origin: &str, site: &str| {
            let mut all = vec![("host", "localhost:9090")];
            all.extend((!origin.is_empty()).then_some(("origin", origin)));
            all.extend((!site.is_empty()).then_some(("sec-fetch-site", site)));
            Door::is_own_page(&path, &headers(&all))
        };
        assert!(posts("http://localhost:9090", "same-origin") && posts("https://localhost:9090", ""));
        for (origin, site) in [
            ("", ""),
            ("", "same-origin"),
            ("null", "same-origin"),
            ("http://localhost:3000", "same-site"),
            ("http://localhost", ""),
            ("http://localhost:9090", "cross-site"),
            ("http://evil.example", "cross-site"),
            ("file://localhost:9090", ""),
        ] {
            assert!(!posts(origin, site), "{origin} {site}");
        }
    }

    #[test]
    fn a_cookie_is_for_tls_where_the_browser_came_by_it() {
        let door = door();
        let over = |origin: &str| match door.sign_in("a-token-of-operators", &headers(&[("origin", origin)]))
        {
            SignedIn::Yes(cookie) => cookie,
            other @ (SignedIn::Wrong | SignedIn::Later(_)) => panic!("{other:?}"),
        };
        let plain = over("http://localhost:9090");
        assert!(plain.starts_with("oncegate=") && !plain.contains("Secure"), "{plain}");
        let tls = over("https://gate.example.com");
        assert!(tls.starts_with("__Host-oncegate=") && tls.ends_with("; Secure"), "{tls}");
        for cookie in [plain, tls] {
            assert!(
                cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("; Path=/;"),
                "{cookie}"
            );
            let pair = cookie.split(';').next().expect("a pair");
            let brought = headers(&[("cookie", &format!("theme=dark; {pair}"))]);
            assert!(door.lets_in(&brought));
            assert!(!door.lets_in(&headers(&[("cookie", &format!("{pair}0"))])));
            let gone = door.sign_out(&brought);
            assert!(gone.contains("Max-Age=0") && !door.lets_in(&brought), "{gone}");
        }
        assert_eq!(door.sign_in("a-token-of-operatorz", &HeaderMap::new()), SignedIn::Wrong);
    }
}
