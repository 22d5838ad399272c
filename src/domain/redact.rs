//! What may be seen of a call: by the client, by the ledger, by the audit.
//!
//! Two means. **Paths** come from the policy (`customer.email`): what stands there is masked in the arguments that are
//! written down, and in results for everybody, the first client too. **Patterns** are secrets wherever they stand
//! (card numbers, bearer tokens, JWTs, API keys, private keys): they are masked in whatever is written down, and a
//! result that holds one is passed on but not kept ([`has_secret`]).
//!
//! Promises: what is kept is what the first client got; masking keeps every value's type; all scans take linear time.
//!
//! Limits, stated where the policy's author reads them: a path reaches into a text only where the whole text is
//! one JSON value, never into prose; a secret that is split, encoded or spelt in words is not seen.

mod audit;
mod cards;
mod keys;
mod paths;
mod patterns;

use std::borrow::Cow;

use crate::domain::json::{FaultKind, Json, MAX_DEPTH};

pub use audit::{MAX_AUDIT_BYTES, note, omitted, short};

use paths::Path;

/// What stands in a string's place.
const MASK: &str = "***";

/// One operation's redaction: its policy paths, and the patterns of secrets.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    paths: Vec<Path>,
}

impl Redactor {
    /// A redactor for these dotted paths. Each starts at the root of the arguments, of `structuredContent`, of a text
    /// that is JSON, or of a plain body, and goes through arrays without naming them: `items.card`.
    pub fn new<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Self {
        Self { paths: paths.into_iter().map(|path| Path::new(path.as_ref())).collect() }
    }

    /// Whether it has no paths: results pass it as they are.
    pub fn has_no_paths(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths, as the policy writes them.
    pub fn paths(&self) -> Vec<String> {
        self.paths.iter().map(Path::dotted).collect()
    }

    /// Masks the paths in a value as it stands: arguments, or the body of a plain answer. Says whether anything
    /// was there.
    pub fn mask(&self, value: &mut Json) -> bool {
        self.paths.iter().filter(|path| path.mask(value)).count() > 0
    }

    /// Masks the paths in an MCP result, for the client as for the ledger: in `structuredContent`, and in the texts of
    /// `content` (or `contents`) that are JSON. Says whether anything was there.
    pub fn mask_result(&self, result: &mut Json) -> bool {
        if self.paths.is_empty() {
            return false;
        }
        let mut masked = result.get_mut("structuredContent").is_some_and(|content| self.mask(content));
        for name in ["content", "contents"] {
            for part in result.get_mut(name).and_then(Json::as_array_mut).into_iter().flatten() {
                masked |= part.get_mut("text").is_some_and(|text| self.mask_text(text));
                let embedded = part.get_mut("resource").and_then(|resource| resource.get_mut("text"));
                masked |= embedded.is_some_and(|text| self.mask_text(text));
            }
        }
        masked
    }

    /// Masks the paths in a JSON-RPC error: in its `data`.
    pub fn mask_error(&self, error: &mut Json) -> bool {
        error.get_mut("data").is_some_and(|data| self.mask(data))
    }

    /// Masks the paths in a text that is JSON. A text that is JSON to some readers only (a member named twice, too
    /// deep) cannot be searched, and is masked whole.
    fn mask_text(&self, value: &mut Json) -> bool {
        let Json::String(text) = value else { return false };
        let masked = match Json::parse(text.as_bytes(), MAX_DEPTH) {
            Ok(mut inner) => {
                if !self.mask(&mut inner) {
                    return false;
                }
                inner.to_string()
            }
            Err(fault) if fault.is_duplicate() || matches!(fault.kind, FaultKind::TooDeep { .. }) => {
                MASK.to_owned()
            }
            Err(_) => return false,
        };
        *text = masked;
        true
    }
}

/// Whether a secret's pattern stands anywhere in it: in a string, a member's name, or a number. Such an answer is
/// passed on and not kept.
pub fn has_secret(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(_) => false,
        Json::Number(number) => cards::is_card_number(number),
        Json::String(text) => text_has_secret(text),
        Json::Array(elements) => elements.iter().any(has_secret),
        Json::Object(object) => object.iter().any(|(name, value)| text_has_secret(name) || has_secret(value)),
    }
}

/// Whether a secret's pattern stands anywhere in the text.
pub fn text_has_secret(text: &str) -> bool {
    !patterns::spans(text).is_empty()
}

/// The text with every secret's pattern masked.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    let spans = patterns::spans(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        masked.push_str(text.get(from..span.start).unwrap_or_default());
        masked.push_str(MASK);
        from = span.end;
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(masked)
}

/// The value with every secret's pattern masked, types kept. Members whose names become one by it are folded.
fn mask_patterns(value: &Json) -> Json {
    match value {
        Json::Number(number) if cards::is_card_number(number) => Json::from(0),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        Json::String(text) => Json::String(mask_text(text).into_owned()),
        Json::Array(elements) => Json::Array(elements.iter().map(mask_patterns).collect()),
        Json::Object(object) => Json::object(
            object.iter().map(|(name, value)| (mask_text(name).into_owned(), mask_patterns(value))),
        ),
    }
}
