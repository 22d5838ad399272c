//! The key that the app hears, made from the client's by a template.
//!
//! Promises: two calls that differ in any part that the template names never forward the same key; what is rendered
//! can stand in a header.
//!
//! The first promise is why names of tenants and tools are percent-encoded, why `{key}`, which is not, may stand but
//! once, and why something that the encoding never leaves must stand between two variables. A bare `{key}` is
//! forwarded as it came.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// What a template may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Key,
    Tenant,
    Tool,
    Digest,
}

const VARIABLES: [(&str, Variable); 4] = [
    ("key", Variable::Key),
    ("tenant", Variable::Tenant),
    ("tool", Variable::Tool),
    ("digest", Variable::Digest),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
}

/// A checked template, and how its result is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardKey {
    template: String,
    parts: Vec<Part>,
    quoted: bool,
}

/// The call that a key is forwarded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// The gate's `service`.
    pub service: &'a str,
    /// The actor's tenant.
    pub tenant: &'a str,
    /// The operation.
    pub tool: &'a str,
    /// The client's key.
    pub key: &'a str,
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardKeyFault {
    /// A brace without its partner.
    #[error("a brace has no partner")]
    Brace,
    /// A name that is no variable.
    #[error("unknown variable {{{0}}}; there are {{key}}, {{tenant}}, {{tool}} and {{digest}}")]
    Unknown(String),
    /// It would be the same for every key.
    #[error("it must contain {{key}} or {{digest}}, or every call would forward the same key")]
    Constant,
    /// A variable stands twice.
    #[error("{{{0}}} may stand only once")]
    Twice(&'static str),
    /// Nothing stands between two variables, or only what could belong to them.
    #[error("a separator such as \"/\" must stand between two variables, or two calls could forward one key")]
    Unseparated,
    /// Text that cannot stand in a header.
    #[error("only printable ASCII without blanks can stand in a header")]
    Unprintable,
}

impl ForwardKey {
    /// The key as it came, bare: what an operation forwards that says nothing else.
    pub fn bare() -> Self {
        Self { template: "{key}".to_owned(), parts: vec![Part::Variable(Variable::Key)], quoted: false }
    }

    /// The template that `text` writes. `quoted`: written as a structured field's string.
    pub fn parse(text: &str, quoted: bool) -> Result<Self, ForwardKeyFault> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, next) = after.split_once('}').ok_or(ForwardKeyFault::Brace)?;
            push_text(&mut parts, before)?;
            let (_, variable) = VARIABLES
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or_else(|| ForwardKeyFault::Unknown(name.to_owned()))?;
            parts.push(Part::Variable(*variable));
            rest = next;
        }
        push_text(&mut parts, rest)?;
        let made = Self { template: text.to_owned(), parts, quoted };
        made.tell_calls_apart()?;
        Ok(made)
    }

    fn tell_calls_apart(&self) -> Result<(), ForwardKeyFault> {
        for (name, variable) in VARIABLES {
            if self.parts.iter().filter(|part| **part == Part::Variable(variable)).count() > 1 {
                return Err(ForwardKeyFault::Twice(name));
            }
        }
        if !self.names(Variable::Key) && !self.names(Variable::Digest) {
            return Err(ForwardKeyFault::Constant);
        }
        let mut separated = true;
        for part in &self.parts {
            match part {
                Part::Text(text) => separated |= text.bytes().any(|byte| !stays(byte) && byte != b'%'),
                Part::Variable(_) if !separated => return Err(ForwardKeyFault::Unseparated),
                Part::Variable(_) => separated = false,
            }
        }
        Ok(())
    }

    /// As the policy writes it.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Whether two tenants' calls forward different keys.
    pub fn tells_tenants_apart(&self) -> bool {
        self.names(Variable::Tenant) || self.names(Variable::Digest)
    }

    /// Whether two tools' calls forward different keys.
    pub fn tells_tools_apart(&self) -> bool {
        self.names(Variable::Tool) || self.names(Variable::Digest)
    }

    /// Whether it is written as a structured field's string.
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    fn names(&self, variable: Variable) -> bool {
        self.parts.contains(&Part::Variable(variable))
    }

    /// The key for this call, without quotes.
    pub fn render(&self, call: Forwarded<'_>) -> String {
        let mut key = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Variable(Variable::Key) => key.push_str(call.key),
                Part::Variable(Variable::Tenant) => encode(&mut key, call.tenant),
                Part::Variable(Variable::Tool) => encode(&mut key, call.tool),
                Part::Variable(Variable::Digest) => key.push_str(&digest(call)),
            }
        }
        key
    }

    /// The value of the `Idempotency-Key` header for this call.
    pub fn header_value(&self, call: Forwarded<'_>) -> String {
        let key = self.render(call);
        if !self.quoted {
            return key;
        }
        format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) -> Result<(), ForwardKeyFault> {
    if text.contains('}') {
        return Err(ForwardKeyFault::Brace);
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ForwardKeyFault::Unprintable);
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Ok(())
}

/// What percent-encoding leaves as it is. Everything else separates.
const fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn encode(into: &mut String, text: &str) {
    for byte in text.bytes() {
        if stays(byte) {
            into.push(char::from(byte));
        } else {
            let written = write!(into, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
    }
}

/// Each part behind its length, so that no two calls hash the same bytes.
fn digest(call: Forwarded<'_>) -> String {
    let mut hash = Sha256::new();
    for part in [call.service, call.tenant, call.tool, call.key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}
