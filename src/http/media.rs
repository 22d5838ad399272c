//! What a request's headers say that its body is.
//!
//! Promises: one media type, well formed, that no backend takes for another. Frameworks look for `json`, `form` and
//! `multipart` in the header in many loose ways: a type that only some of them would take for one is refused, or
//! read as the stricter one.
//!
//! Absent on purpose: guesses by the body's bytes.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

use super::multipart::Boundary;
use crate::domain::refusal::Refusal;

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// A checked `Content-Type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Media {
    essence: String,
    shape: Shape,
}

/// How a body of this type is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One JSON text.
    Json,
    /// Fields, URL-encoded.
    Form,
    /// Fields and files, in parts.
    Multipart(Boundary),
    /// By its bytes.
    Other,
}

impl Media {
    /// That of a request; none where no type is named.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let mut values = headers.get_all(CONTENT_TYPE).iter();
        let value = values.next();
        if values.next().is_some() {
            return refuse("it names more than one Content-Type");
        }
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
        let Some((essence, parameters)) = value.to_str().ok().and_then(parse) else {
            return refuse("its Content-Type is not well formed");
        };
        let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
        let shape = shape(&essence, &parameters, &text)?;
        if shape != Shape::Other {
            let charsets = parameters.iter().filter(|(name, _)| name == "charset");
            if !charsets.into_iter().all(|(_, value)| is_utf_8(value)) {
                return refuse("it must be UTF-8");
            }
            let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
            if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
                return refuse(
                    "it is compressed, and could not be looked into; send it with no Content-Encoding",
                );
            }
        }
        Ok(Some(Self { essence, shape }))
    }

    /// `type/subtype`, in small letters.
    pub(super) fn essence(&self) -> &str {
        &self.essence
    }

    /// How it is read.
    pub(super) fn into_shape(self) -> Shape {
        self.shape
    }
}

/// Whether this is a name of UTF-8.
pub(super) fn is_utf_8(name: &str) -> bool {
    name.eq_ignore_ascii_case("utf-8") || name.eq_ignore_ascii_case("utf8")
}

fn refuse<T>(detail: &str) -> Result<T, Refusal> {
    Err(Refusal::UnsupportedMedia { detail: detail.to_owned() })
}

fn shape(essence: &str, parameters: &[(String, String)], text: &str) -> Result<Shape, Refusal> {
    let only = |known: &[&str]| parameters.iter().all(|(name, _)| known.contains(&name.as_str()));
    if essence == FORM {
        // By a parameter that says `+json` Laravel takes a form for JSON.
        return if only(&["charset"]) {
            Ok(Shape::Form)
        } else {
            refuse("a form's Content-Type may have no parameter but charset")
        };
    }
    if essence == MULTIPART {
        // PHP takes the first text `boundary` anywhere for the name, Rack the last.
        let boundary = parameters.iter().find(|(name, _)| name == "boundary").map(|(_, value)| value);
        let boundary =
            boundary.filter(|_| only(&["boundary", "charset"])).and_then(|text| Boundary::new(text));
        return match boundary {
            Some(boundary) => Ok(Shape::Multipart(boundary)),
            None => refuse(
                "its Content-Type needs a boundary of 1 to 70 plain characters, and no other parameter",
            ),
        };
    }
    // Rack takes fields from every kind of multipart; some look only at how the type begins, or for a part of it.
    if essence.starts_with("multipart/") || text.contains(FORM) || text.contains(MULTIPART) {
        return refuse("its Content-Type is neither a form's nor certainly another");
    }
    // Laravel takes for JSON whatever says one of the first two anywhere.
    if ["/json", "+json", "x-json"].iter().any(|mark| text.contains(mark)) {
        return Ok(Shape::Json);
    }
    Ok(Shape::Other)
}

/// The type and its parameters, names in small letters; none where it is not well formed (RFC 9110, 8.3.1), or where a
/// parameter stands twice or in several pieces.
pub(super) fn parse(text: &str) -> Option<(String, Vec<(String, String)>)> {
    let text = text.trim_matches([' ', '\t']);
    let (essence, mut rest) = text.split_at(text.find([';', ' ', '\t']).unwrap_or(text.len()));
    let (kind, subtype) = essence.split_once('/')?;
    if !is_token(kind) || !is_token(subtype) {
        return None;
    }
    let mut parameters: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t']).strip_prefix(';')?.trim_start_matches([' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let name = name.to_ascii_lowercase();
        if !is_token(&name) || name.contains('*') || parameters.iter().any(|(other, _)| *other == name) {
            return None;
        }
        let (value, after) = value(after)?;
        parameters.push((name, value.to_owned()));
        rest = after;
    }
    Some((essence.to_ascii_lowercase(), parameters))
}

/// A token, or a quoted text without anything to unquote in it, and what follows.
fn value(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"')?;
        return (!value.contains('\\')).then_some((value, rest));
    }
    let (value, rest) = text.split_at(text.find([';', ' ', '\t']).unwrap_or(text.len()));
    is_token(value).then_some((value, rest))
}

/// A token of RFC 9110, 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
