//! Which hosts are this gate, and from which web pages it may be called.
//!
//! Promises: a request is taken only if it names exactly one host, one of this gate's, and no origin or one that is
//! allowed. A page that rebinds its own name to the gate's address names a host that is not the gate's; a page of
//! somebody else's names an origin that is not allowed.
//!
//! Always this gate's: the public URL's host and the loopback names, at any port. Always allowed: the public URL's
//! origin, and those of loopback names. Absent on purpose: patterns. A name is listed, or all are (`*`).

use std::net::Ipv6Addr;

use super::refusal::Refusal;

/// The host parts by which a machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The schemes of web pages, and the port that goes unsaid with each.
const WEB: [(&str, u16); 2] = [("http", 80), ("https", 443)];

/// A host and, where one is said, a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    /// In small letters, without the root's dot; an IPv6 address in its shortest form, in brackets.
    name: String,
    port: Option<u16>,
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        // Only an IPv6 address has colons of its own, inside its brackets.
        let end = text.find(']').map_or(0, |at| at + 1);
        let (name, port) = match text.get(end..)?.find(':') {
            Some(at) => (text.get(..end + at)?, Some(text.get(end + at + 1..)?)),
            None => (text, None),
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?),
            None => None,
        };
        if let Some(address) = name.strip_prefix('[') {
            let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
            return Some(Self { name: format!("[{address}]"), port });
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let name = Some(name).filter(|name| !name.is_empty() && name.bytes().all(sound))?;
        Some(Self { name: name.to_ascii_lowercase(), port })
    }

    fn is_loopback(&self) -> bool {
        LOOPBACK.contains(&self.name.as_str())
    }
}

/// One entry of `allowed_hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule(Option<Host>);

impl HostRule {
    /// `api.example.com`, at any port; `api.example.com:8443`, at this one; `*` for whatever is said.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" { Some(Self(None)) } else { Host::parse(text).map(|host| Self(Some(host))) }
    }

    fn covers(&self, said: &Host) -> bool {
        let Some(own) = &self.0 else { return true };
        // Which of the two ports goes unsaid, only whoever ended the client's TLS knows.
        let of_scheme = |port: u16| said.port.is_none() && WEB.iter().any(|(_, usual)| *usual == port);
        own.name == said.name && own.port.is_none_or(|port| said.port == Some(port) || of_scheme(port))
    }
}

/// One entry of `allowed_origins`, or an origin that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRule(Option<Origin>);

/// A page's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    /// Without the port that goes unsaid.
    host: Host,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, host) = text.split_once("://")?;
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if scheme.is_empty() || !scheme.bytes().all(sound) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let mut host = Host::parse(host)?;
        host.port = host.port.filter(|port| !WEB.contains(&(scheme.as_str(), *port)));
        Some(Self { scheme, host })
    }

    fn is_loopback(&self) -> bool {
        self.host.is_loopback() && WEB.iter().any(|(scheme, _)| *scheme == self.scheme)
    }
}

impl OriginRule {
    /// `https://app.example.com`, as browsers write it; `*` for every origin that is one.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" { Some(Self(None)) } else { Origin::parse(text).map(|origin| Self(Some(origin))) }
    }

    fn covers(&self, said: &Origin) -> bool {
        self.0.as_ref().is_none_or(|own| own == said)
    }
}

/// Where the gate may be called, and from where.
#[derive(Clone, Debug)]
pub struct Sites {
    hosts: Vec<HostRule>,
    origins: Vec<OriginRule>,
    takes_pages: bool,
}

/// A public URL that has no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public URL names no host that a client could send")]
pub struct NoHost;

impl Sites {
    /// Those of a gate with this public URL, and what its configuration adds.
    pub fn new(
        public_url: &str,
        mut hosts: Vec<HostRule>,
        mut origins: Vec<OriginRule>,
    ) -> Result<Self, NoHost> {
        let (scheme, rest) = public_url.split_once("://").ok_or(NoHost)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let own = Origin::parse(&format!("{scheme}://{authority}")).ok_or(NoHost)?;
        hosts.push(HostRule(Some(Host { name: own.host.name.clone(), port: None })));
        origins.push(OriginRule(Some(own)));
        Ok(Self { hosts, origins, takes_pages: true })
    }

    /// Those of a listener that only programs call: the loopback names, and what its configuration adds. No page may.
    pub fn of_programs(hosts: Vec<HostRule>) -> Self {
        Self { hosts, origins: Vec::new(), takes_pages: false }
    }

    /// Whether any web page may call.
    pub fn takes_pages(&self) -> bool {
        self.takes_pages
    }

    /// Whether a request is for this gate: `target` is the authority of its request line (`:authority` in HTTP/2),
    /// `headers` are all its `Host` headers. Two that differ are for nobody.
    pub fn check_host<'a>(
        &self,
        target: Option<&str>,
        headers: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Refusal> {
        let mut headers =
            headers.into_iter().map(|text| std::str::from_utf8(text).ok().and_then(Host::parse));
        let (header, another) = (headers.next(), headers.next());
        let said = match (target.map(Host::parse), header) {
            (Some(target), None) => target,
            (None, Some(header)) => header,
            (Some(target), Some(header)) if target == header => target,
            (Some(_), Some(_)) | (None, None) => None,
        };
        let known = |host: &Host| host.is_loopback() || self.hosts.iter().any(|rule| rule.covers(host));
        said.filter(|host| another.is_none() && known(host)).map(|_| ()).ok_or(Refusal::ForeignHost)
    }

    /// Whether whoever sent a request may: `headers` are all its `Origin` headers. No browser sent one without.
    pub fn check_origin<'a>(&self, headers: impl IntoIterator<Item = &'a [u8]>) -> Result<(), Refusal> {
        let mut headers = headers.into_iter();
        let Some(origin) = headers.next() else { return Ok(()) };
        let said = std::str::from_utf8(origin).ok().and_then(Origin::parse);
        let known = |origin: &Origin| {
            self.takes_pages && origin.is_loopback() || self.origins.iter().any(|rule| rule.covers(origin))
        };
        let alone = headers.next().is_none();
        said.filter(|origin| alone && known(origin)).map(|_| ()).ok_or(Refusal::ForeignOrigin)
    }
}
