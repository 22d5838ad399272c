//! Who calls: tenant, user, session, scopes.
//!
//! Promises: an [`Actor`] has a tenant and a user, and each of its parts can stand in an HTTP header and in a
//! database as it is.
//!
//! Absent on purpose: any way to change one. What a token said is what every later step sees.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The longest identifier, in bytes, that is taken from a token.
pub const MAX_IDENTIFIER_BYTES: usize = 255;

/// One verified caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    tenant: String,
    user: String,
    session: Option<String>,
    scopes: BTreeSet<String>,
}

/// Why no actor could be made of what a token said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActorFault {
    /// A part that every actor needs is missing or empty.
    #[error("the {part} is missing")]
    Missing {
        /// `tenant` or `user`.
        part: &'static str,
    },
    /// A part is longer than [`MAX_IDENTIFIER_BYTES`].
    #[error("the {part} is longer than {MAX_IDENTIFIER_BYTES} bytes")]
    TooLong {
        /// Which part.
        part: &'static str,
    },
    /// A part has control characters, or blanks at its ends: it would not survive a header.
    #[error("the {part} has control characters or blanks around it")]
    Unprintable {
        /// Which part.
        part: &'static str,
    },
    /// A scope holds a blank, so that joined with others it would read as two.
    #[error("a scope is empty, or has a blank or another character that no scope has")]
    BadScope,
}

impl Actor {
    /// An actor of checked parts. `session` may be absent; `scopes` may be empty.
    pub fn new(
        tenant: &str,
        user: &str,
        session: Option<&str>,
        scopes: impl IntoIterator<Item = String>,
    ) -> Result<Self, ActorFault> {
        let scopes: BTreeSet<String> = scopes.into_iter().collect();
        if scopes.iter().any(|scope| !is_scope(scope)) {
            return Err(ActorFault::BadScope);
        }
        Ok(Self {
            tenant: identifier("tenant", tenant)?,
            user: identifier("user", user)?,
            session: session.map(|text| identifier("session", text)).transpose()?,
            scopes,
        })
    }

    /// The caller that no token names: tenant and user `anonymous`, no session, no scopes.
    pub fn anonymous() -> Self {
        let nobody = || "anonymous".to_owned();
        Self { tenant: nobody(), user: nobody(), session: None, scopes: BTreeSet::new() }
    }

    /// The tenant (customer account) that the call is for.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The user, unique within the tenant.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The login session or token id, where the token names one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Every scope, sorted.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(String::as_str)
    }

    /// Whether the actor holds this scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    /// The scopes as one header value: sorted, separated by single blanks.
    pub fn scopes_joined(&self) -> String {
        self.scopes.iter().fold(String::new(), |mut joined, scope| {
            let gap = if joined.is_empty() { "" } else { " " };
            let written = write!(joined, "{gap}{scope}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
            joined
        })
    }
}

/// A text that can be the tenant of an actor, or why it cannot.
pub fn as_tenant(text: &str) -> Result<String, ActorFault> {
    identifier("tenant", text)
}

fn identifier(part: &'static str, text: &str) -> Result<String, ActorFault> {
    if text.is_empty() {
        return Err(ActorFault::Missing { part });
    }
    if text.len() > MAX_IDENTIFIER_BYTES {
        return Err(ActorFault::TooLong { part });
    }
    if text.chars().any(char::is_control) || text.trim() != text {
        return Err(ActorFault::Unprintable { part });
    }
    Ok(text.to_owned())
}

/// Whether a text is one scope: RFC 6749's scope-token: printable ASCII without blank, quote and backslash.
pub fn is_scope(scope: &str) -> bool {
    !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}
