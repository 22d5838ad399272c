//! What the gate tells clients about itself as a protected resource (RFC 9728), and its challenges (RFC 6750).
//!
//! Promises: every challenge names the metadata document of the gate's own public URL, never the upstream's; nothing
//! in a challenge can end its quoted string.
//!
//! Absent on purpose: status codes and bodies. They stand in [`crate::wire`].

use http::{HeaderValue, Uri};
use serde_json::{Value, json};

/// Where such a document is found, by RFC 9728: between the host and the resource's own path. Clients that do not
/// find it there ask here.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The gate as clients dial it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    url: String,
    metadata_url: String,
    metadata_path: String,
}

/// Why a URL cannot be a resource's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public URL must be an absolute http or https URL without a fragment or a user")]
pub struct NotAResource;

impl Resource {
    /// The resource at this URL.
    pub fn new(public_url: &str) -> Result<Self, NotAResource> {
        let uri: Uri = public_url.parse().map_err(|_| NotAResource)?;
        let scheme =
            uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or(NotAResource)?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(NotAResource)?;
        // `http::Uri` drops fragments silently; a quote or a backslash would end a challenge's quoted string.
        if public_url.contains(['#', '"', '\\']) || !public_url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NotAResource);
        }
        let own = uri.path_and_query().map_or("/", |own| own.as_str());
        let own =
            own.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?')).unwrap_or(own);
        let metadata_path = format!("{WELL_KNOWN}{}", own.split('?').next().unwrap_or_default());
        let metadata_url = format!("{scheme}://{authority}{WELL_KNOWN}{own}");
        Ok(Self { url: public_url.to_owned(), metadata_url, metadata_path })
    }

    /// The URL that clients dial.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where clients find the metadata document.
    pub fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// The path at which the gate must serve it. Clients also ask at the same path without the resource's own.
    pub fn metadata_path(&self) -> &str {
        &self.metadata_path
    }

    /// The metadata document.
    pub fn metadata<'a>(
        &self,
        authorization_servers: &[String],
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> Value {
        json!({
            "resource": self.url,
            "authorization_servers": authorization_servers,
            "scopes_supported": scopes.into_iter().collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
        })
    }

    /// `WWW-Authenticate` of a 401. `fault` is there where a token was given, and says what is wrong with it.
    pub fn unauthorized<'a>(
        &self,
        scopes: impl IntoIterator<Item = &'a str>,
        fault: Option<&str>,
    ) -> HeaderValue {
        let error = fault.map(|fault| ("invalid_token", fault));
        self.challenge(error, scopes)
    }

    /// `WWW-Authenticate` of a 403: every scope that the call needs.
    pub fn insufficient_scope<'a>(&self, needed: impl IntoIterator<Item = &'a str>) -> HeaderValue {
        self.challenge(Some(("insufficient_scope", "the token lacks a scope that this call needs")), needed)
    }

    fn challenge<'a>(
        &self,
        error: Option<(&str, &str)>,
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> HeaderValue {
        let mut parts = Vec::new();
        if let Some((code, description)) = error {
            parts.push(format!("error=\"{code}\""));
            parts.push(format!("error_description=\"{}\"", quotable(description)));
        }
        parts.push(format!("resource_metadata=\"{}\"", self.metadata_url));
        let scopes = scopes.into_iter().collect::<Vec<_>>().join(" ");
        if !scopes.is_empty() {
            parts.push(format!("scope=\"{}\"", quotable(&scopes)));
        }
        HeaderValue::from_str(&format!("Bearer {}", parts.join(", ")))
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

/// RFC 6750 allows printable ASCII without quote and backslash.
fn quotable(text: &str) -> String {
    let fits = |character: &char| (' '..='~').contains(character) && !matches!(character, '"' | '\\');
    text.chars().filter(fits).collect()
}
