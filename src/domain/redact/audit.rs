//! What is written down of arguments and results: redacted, shortened, bounded.
//!
//! Promises: no policy path, no secret's pattern, no member that names a secret, and no long or many-lined text (a mail's
//! body) gets into an audit row whole.

use sha2::{Digest, Sha256};

use super::paths::{Path, blank};
use super::{Redactor, mask_patterns, mask_text};
use crate::domain::json::{Json, MAX_DEPTH, Object};

/// The longest arguments that are written down, in bytes; of longer ones, size and hash.
pub const MAX_AUDIT_BYTES: usize = 8 * 1024;

/// The longest summary of a result, in bytes; of a longer one, size and hash.
const MAX_SUMMARY_BYTES: usize = 2 * 1024;

/// The longest string that is written down whole, in characters.
const LONGEST_STRING: usize = 128;

/// The longest one where it is prose: it has several lines, or its member's name says so.
const LONGEST_PROSE: usize = 24;

/// Members that hold prose.
const PROSE: [&str; 7] = ["body", "content", "html", "markdown", "message", "plain", "text"];

/// Members that hold secrets, written without `_` and `-`.
const SECRETS: [&str; 16] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "cvc",
    "cvv",
    "idtoken",
    "newpassword",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
];

impl Redactor {
    /// The JSON text of a call's arguments for the audit.
    pub fn audit_arguments(&self, arguments: &Json) -> String {
        let mut shown = arguments.clone();
        self.mask(&mut shown);
        bounded(&written(&shown), MAX_AUDIT_BYTES)
    }

    /// The JSON text of the named fields of a result, in an object whose members are the dotted paths. Each is looked
    /// for in `structuredContent`, then in the texts of `content` that are JSON, then at the root (a plain body).
    /// `None` where none is there.
    pub fn summary<S: AsRef<str>>(&self, result: &Json, fields: &[S]) -> Option<String> {
        if fields.is_empty() {
            return None;
        }
        let texts = result.get("content").and_then(Json::as_array).unwrap_or_default().iter();
        let texts: Vec<Json> = texts
            .filter_map(|part| Json::parse(part.get("text")?.as_str()?.as_bytes(), MAX_DEPTH).ok())
            .collect();
        let mut summary = Object::new();
        for field in fields {
            let path = Path::new(field.as_ref());
            let mut places = result.get("structuredContent").into_iter().chain(&texts).chain([result]);
            if let Some(mut found) = places.find_map(|place| path.find(place)) {
                for private in &self.paths {
                    path.mask_found(&mut found, private);
                }
                summary.insert(field.as_ref(), found);
            }
        }
        (!summary.is_empty()).then(|| bounded(&written(&Json::Object(summary)), MAX_SUMMARY_BYTES))
    }
}

/// A text for a person or an audit row: secrets masked, one line, at most `most` characters.
pub fn short(text: &str, most: usize) -> String {
    let masked = mask_text(text);
    let line = masked.split(char::is_control).filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join(" ");
    cut(&line, most)
}

/// What an operator says, as JSON text: secrets masked, and no string longer than `most` characters.
pub fn note(said: &Json, most: usize) -> String {
    let mut shown = mask_patterns(said);
    shorten(&mut shown, most);
    bounded(&shown, MAX_AUDIT_BYTES)
}

/// What stands in the audit for something too long or not JSON: its size in bytes, and a hash.
pub fn omitted(bytes: usize, hash: &str) -> String {
    let size = u64::try_from(bytes).unwrap_or(u64::MAX);
    Json::object([("omitted", Json::object([("bytes", size.into()), ("hash", hash.into())]))]).to_string()
}

/// The value as it may be written: patterns masked first, so that cutting cannot hide one from the scan.
fn written(value: &Json) -> Json {
    let mut shown = mask_patterns(value);
    shorten(&mut shown, LONGEST_STRING);
    shown
}

/// The JSON text, or its size and hash. The hash is taken of what was masked: nobody can test a guess against it.
fn bounded(value: &Json, most: usize) -> String {
    let text = value.to_string();
    if text.len() <= most {
        return text;
    }
    omitted(text.len(), &format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes()))))
}

/// Cuts long strings, and blanks members that name a secret.
fn shorten(value: &mut Json, most: usize) {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
        Json::String(text) => {
            let most = if text.contains(['\n', '\r']) { LONGEST_PROSE } else { most };
            *text = cut(text, most);
        }
        Json::Array(elements) => elements.iter_mut().for_each(|element| shorten(element, most)),
        Json::Object(object) => {
            for (name, member) in object.iter_mut() {
                let plain: String = name
                    .chars()
                    .filter(|c| !matches!(c, '_' | '-'))
                    .map(|c| c.to_ascii_lowercase())
                    .collect();
                if SECRETS.contains(&plain.as_str()) {
                    blank(member);
                } else {
                    let is_prose = PROSE.contains(&plain.as_str());
                    shorten(member, if is_prose { LONGEST_PROSE } else { most });
                }
            }
        }
    }
}

/// The text, or its beginning and its length in characters.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let beginning = text.get(..end).unwrap_or_default();
            format!("{beginning}… ({} characters)", text.chars().count())
        }
    }
}
