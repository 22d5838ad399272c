//! One whole body of a plain request, checked against its media type.
//!
//! Promises: a body that is accepted is what its type says, to every reader, and names no other method. Its canonical
//! form is the same for two bodies exactly if they mean the same: JSON by value, form fields in any order of different
//! names, multipart by its parts and not by its boundary, anything else by its bytes.
//!
//! Absent on purpose: a body that was put together again. What goes on is [`Content::bytes`].

use bytes::Bytes;
use http::HeaderMap;

use super::fields::{Fields, is_spelled};
use super::form;
use super::media::{Media, Shape};
use super::multipart::{Boundary, Event, Parser, Part};
use super::names::{Readings, plain};
use super::told::told;
use super::{put, put_option};
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::refusal::Refusal;

/// A body that was read; by default an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    bytes: Bytes,
    media: String,
    body: Body,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Body {
    #[default]
    Empty,
    Json(Json),
    Form(Fields),
    Parts(Vec<(Part, Vec<u8>)>),
    Other,
}

impl Content {
    /// Reads the body behind these headers. An empty one is empty whatever its type.
    pub fn read(headers: &HeaderMap, bytes: Bytes) -> Result<Self, Refusal> {
        let media = Media::of(headers)?;
        let essence = media.as_ref().map_or("", Media::essence).to_owned();
        let body = match media.map(Media::into_shape) {
            _ if bytes.is_empty() => Body::Empty,
            None => {
                // Rack would take it for a form.
                let detail = "it has no Content-Type".to_owned();
                return Err(Refusal::UnsupportedMedia { detail });
            }
            Some(Shape::Json) => Body::Json(read_json(&bytes)?),
            Some(Shape::Form) => Body::Form(form::read(&bytes)?),
            Some(Shape::Multipart(boundary)) => Body::Parts(read_parts(boundary, &bytes)?),
            Some(Shape::Other) => Body::Other,
        };
        Ok(Self { bytes, media: essence, body })
    }

    /// The body as it came.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its media type, in small letters and without parameters; empty where none was named.
    pub fn media(&self) -> &str {
        &self.media
    }

    /// What a fingerprint is taken of. The media type does not stand in it.
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.body {
            Body::Empty => out.extend_from_slice(b"empty\n"),
            Body::Json(json) => {
                out.extend_from_slice(b"json\n");
                out.extend(json.canonical());
            }
            Body::Form(fields) => {
                out.extend_from_slice(b"form\n");
                fields.write_canonical(&mut out);
            }
            Body::Parts(parts) => {
                out.extend_from_slice(b"parts\n");
                for (part, content) in parts {
                    put(part.name.as_bytes(), &mut out);
                    for said in [&part.filename, &part.extended, &part.media] {
                        put_option(said.as_deref().map(str::as_bytes), &mut out);
                    }
                    put(content, &mut out);
                }
            }
            Body::Other => {
                out.extend_from_slice(b"bytes\n");
                out.extend_from_slice(&self.bytes);
            }
        }
        out
    }

    /// For the audit: JSON as it is; fields as an object, in which a name that stands more than once has an array; of
    /// files their names, types and sizes. None where the gate does not look into the body.
    pub fn told(&self) -> Option<Json> {
        match &self.body {
            Body::Empty | Body::Other => None,
            Body::Json(json) => Some(json.clone()),
            Body::Form(fields) => Some(fields.told()),
            Body::Parts(parts) => {
                Some(told(parts.iter().map(|(part, content)| (part.name.clone(), told_part(part, content)))))
            }
        }
    }

    /// Every value that some backend may read under this name: among the members of the JSON object, the fields, the
    /// parts. None for one that is no text and no whole number.
    pub fn values(&self, name: &str) -> Vec<Option<String>> {
        let name = &plain(name);
        match &self.body {
            Body::Empty | Body::Other => Vec::new(),
            Body::Json(json) => {
                let named = members(json).filter(|(member, _)| Readings::of(member.as_bytes()).include(name));
                named.map(|(_, value)| as_text(value)).collect()
            }
            Body::Form(fields) => fields.values(name),
            Body::Parts(parts) => {
                let named = parts.iter().filter(|(part, _)| Readings::of(part.name.as_bytes()).include(name));
                named.map(|(_, content)| String::from_utf8(content.clone()).ok()).collect()
            }
        }
    }

    /// Whether every backend reads under this name what [`Content::told`] has there: no other spelling of it stands
    /// beside it. `further` where what is looked for stands in it: `card[number]`.
    pub fn is_clear(&self, name: &str, further: bool) -> bool {
        let reading = plain(name);
        match &self.body {
            Body::Empty | Body::Other => true,
            Body::Json(json) => {
                let mut named =
                    members(json).filter(|(member, _)| Readings::of(member.as_bytes()).include(&reading));
                named.all(|(member, _)| member == name)
            }
            Body::Form(fields) => fields.is_clear(name, further),
            Body::Parts(parts) => {
                let mut named =
                    parts.iter().filter(|(part, _)| Readings::of(part.name.as_bytes()).include(&reading));
                named.all(|(part, _)| is_spelled(&part.name, name, further))
            }
        }
    }
}

fn read_json(bytes: &[u8]) -> Result<Json, Refusal> {
    let json = Json::parse(bytes, MAX_DEPTH)
        .map_err(|fault| Refusal::BodyUnreadable { detail: fault.to_string() })?;
    if members(&json).any(|(name, _)| Readings::of(name.as_bytes()).override_the_method()) {
        return Err(Refusal::MethodOverride);
    }
    Ok(json)
}

fn read_parts(boundary: Boundary, bytes: &[u8]) -> Result<Vec<(Part, Vec<u8>)>, Refusal> {
    let mut parts: Vec<(Part, Vec<u8>)> = Vec::new();
    let mut parser = Parser::new(boundary);
    parser.feed(bytes, &mut |event| {
        match event {
            Event::Named(name) => refuse_method(name)?,
            Event::Begins(part) => {
                parts.push((part.clone(), Vec::new()));
            }
            Event::Content(content) => {
                if let Some((_, all)) = parts.last_mut() {
                    all.extend_from_slice(content);
                }
            }
            Event::Ends => {}
        }
        Ok::<_, Refusal>(())
    })?;
    parser.finish()?;
    Ok(parts)
}

/// Refuses a part by whose name some backend takes another method.
pub(super) fn refuse_method(name: &str) -> Result<(), Refusal> {
    if Readings::of(name.as_bytes()).override_the_method() {
        return Err(Refusal::MethodOverride);
    }
    Ok(())
}

/// The members of the object, or of the objects of the array: some take a list for its elements' fields.
fn members(json: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let elements = json.as_array().unwrap_or(std::slice::from_ref(json));
    elements.iter().filter_map(Json::as_object).flat_map(Object::iter)
}

fn as_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => number.as_i64().map(|number| number.to_string()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

fn told_part(part: &Part, content: &[u8]) -> Json {
    if !part.is_file() {
        return Json::from(String::from_utf8_lossy(content).into_owned());
    }
    Json::object([
        ("filename", Json::from(part.filename.clone().or_else(|| part.extended.clone()))),
        ("type", part.media.clone().into()),
        ("bytes", (content.len() as u64).into()),
    ])
}
