//! An answer as the ledger keeps it, and its encoding.
//!
//! Promises: what [`Kept::decode`] returns is what [`Kept::encode`] was given, byte for byte; only headers on the
//! allow-list are ever kept.
//!
//! The encoding is one line of JSON (what kind of answer, status, headers), a line feed, then the body's bytes as
//! they are. Bodies are never re-encoded, so a replay is exact.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The response headers that may be kept and replayed. Everything else (cookies, challenges, lengths, encodings,
/// anything that belongs to one connection) is dropped.
pub const KEPT_HEADERS: [&str; 8] = [
    "content-type",
    "content-language",
    "content-location",
    "etag",
    "last-modified",
    "link",
    "location",
    "preference-applied",
];

/// What else is kept with a plain answer: these say how its bytes are to be read, and the bytes are kept as they came.
pub const KEPT_WITH_BYTES: [&str; 2] = ["content-encoding", "content-disposition"];

/// What the body of a kept answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The `result` member of a JSON-RPC response.
    Result,
    /// The `error` member of a JSON-RPC response.
    Error,
    /// The body of a plain HTTP response, as it came.
    Plain,
}

/// An answer to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What the body is.
    pub kind: Kind,
    /// The upstream's HTTP status.
    pub status: u16,
    /// Allow-listed headers, in their order.
    pub headers: Vec<(String, String)>,
    /// The bytes that the first client got.
    pub body: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Head {
    kind: Kind,
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
}

/// Why stored bytes are not an answer.
#[derive(Debug, thiserror::Error)]
#[error("the stored answer is not in a form that this version knows")]
pub struct NotAnAnswer;

impl Kept {
    /// The bytes for the column `response`.
    pub fn encode(&self) -> Bytes {
        let head = Head { kind: self.kind, status: self.status, headers: self.headers.clone() };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        Bytes::from(bytes)
    }

    /// The answer that the column holds.
    pub fn decode(column: &Bytes) -> Result<Self, NotAnAnswer> {
        let end = column.iter().position(|byte| *byte == b'\n').ok_or(NotAnAnswer)?;
        let head: Head = serde_json::from_slice(&column.slice(..end)).map_err(|_| NotAnAnswer)?;
        Ok(Self {
            kind: head.kind,
            status: head.status,
            headers: head.headers,
            body: column.slice(end + 1..),
        })
    }
}

impl Kind {
    /// Whether a response header may be kept with such an answer.
    pub fn keeps(self, name: &str) -> bool {
        let among = |list: &[&str]| list.iter().any(|kept| kept.eq_ignore_ascii_case(name));
        among(&KEPT_HEADERS) || (self == Self::Plain && among(&KEPT_WITH_BYTES))
    }
}

/// An encoded answer inside of JSON.
pub(in crate::domain) mod as_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde asks for this shape")]
    pub(in crate::domain) fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| STANDARD.decode(text).map(Bytes::from).map_err(D::Error::custom)).transpose()
    }
}
