//! The header of one part.
//!
//! Promises: a name that is one text to everybody: UTF-8, nothing escaped, nothing encoded, given once. A part that is
//! neither encoded nor a multipart itself.
//!
//! Absent on purpose: headers that a form's part has no use for. RFC 7578, 4.8 has readers ignore them.

use super::MultipartFault;
use crate::http::media::{is_token, is_utf_8, parse};

/// What a part says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The field's name.
    pub name: String,
    /// The file's, as it is written: readers differ in what a backslash or a percent sign means in it.
    pub filename: Option<String>,
    /// The file's in its extended form, as it is written. RFC 7578 forbids it, and .NET's client sends it beside the other.
    pub extended: Option<String>,
    /// The media type, as it is written.
    pub media: Option<String>,
}

impl Part {
    /// Whether some backend takes it for a file.
    pub fn is_file(&self) -> bool {
        self.filename.is_some() || self.extended.is_some()
    }
}

/// A header on its way.
#[derive(Debug, Default)]
pub(super) struct PartHead {
    disposition: Option<Disposition>,
    media: Option<String>,
    encoding: Option<()>,
    packing: Option<()>,
    length: Option<u64>,
}

#[derive(Debug, Default)]
struct Disposition {
    name: Option<String>,
    filename: Option<String>,
    extended: Option<String>,
}

impl PartHead {
    /// Takes one line, without its end; the part's name, where the line says it.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<&str>, MultipartFault> {
        let text = std::str::from_utf8(line).map_err(|_| MultipartFault::Header)?;
        // A folded line has no name before its colon.
        let (name, value) = text.split_once(':').ok_or(MultipartFault::Header)?;
        if !is_token(name) || value.chars().any(|letter| letter != '\t' && letter.is_control()) {
            return Err(MultipartFault::Header);
        }
        let value = value.trim_matches([' ', '\t']);
        match name.to_ascii_lowercase().as_str() {
            "content-disposition" => {
                once(&mut self.disposition, Disposition::of(value)?)?;
                return Ok(self.disposition.as_ref().and_then(|read| read.name.as_deref()));
            }
            "content-type" => once(&mut self.media, media(value)?),
            // Go and Python decode it, the others do not.
            "content-transfer-encoding" => {
                let as_it_is = ["7bit", "8bit", "binary"].iter().any(|one| value.eq_ignore_ascii_case(one));
                once(&mut self.encoding, as_it_is.then_some(()).ok_or(MultipartFault::Encoded)?)
            }
            "content-encoding" => {
                let as_it_is = value.eq_ignore_ascii_case("identity");
                once(&mut self.packing, as_it_is.then_some(()).ok_or(MultipartFault::Encoded)?)
            }
            "content-length" => {
                let digits = Some(value).filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
                let length = digits.and_then(|digits| digits.parse().ok()).ok_or(MultipartFault::Length)?;
                once(&mut self.length, length)
            }
            _ => Ok(()),
        }?;
        Ok(None)
    }

    /// The whole header, and the length that it says.
    pub(super) fn part(self) -> Result<(Part, Option<u64>), MultipartFault> {
        let Disposition { name, filename, extended } = self.disposition.ok_or(MultipartFault::Nameless)?;
        let name = name.filter(|name| !name.is_empty()).ok_or(MultipartFault::Nameless)?;
        Ok((Part { name, filename, extended, media: self.media }, self.length))
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), MultipartFault> {
    if slot.replace(value).is_some() { Err(MultipartFault::Twice) } else { Ok(()) }
}

fn media(value: &str) -> Result<String, MultipartFault> {
    let (essence, parameters) = parse(value).ok_or(MultipartFault::Media)?;
    let nested = essence.starts_with("multipart/") || essence.starts_with("message/");
    let charset = parameters.iter().find(|(name, _)| name == "charset").map(|(_, value)| value.as_str());
    let readable = charset.is_none_or(|name| is_utf_8(name) || name.eq_ignore_ascii_case("us-ascii"));
    if nested || !readable { Err(MultipartFault::Media) } else { Ok(value.to_owned()) }
}

impl Disposition {
    fn of(value: &str) -> Result<Self, MultipartFault> {
        let mut rest = value.strip_prefix("form-data").ok_or(MultipartFault::Disposition)?;
        let mut read = Self::default();
        while !rest.is_empty() {
            let next = rest.trim_start_matches(' ').strip_prefix(';').ok_or(MultipartFault::Disposition)?;
            let (name, after) =
                next.trim_start_matches(' ').split_once('=').ok_or(MultipartFault::Disposition)?;
            let (slot, taken) = match name.to_ascii_lowercase().as_str() {
                "name" => (&mut read.name, plain_name(after)),
                "filename" => (&mut read.filename, filename(after)),
                "filename*" => (&mut read.extended, extended(after)),
                _ => return Err(MultipartFault::Disposition),
            };
            let (value, after) = taken.ok_or(MultipartFault::Disposition)?;
            once(slot, value.to_owned()).map_err(|_| MultipartFault::Disposition)?;
            rest = after;
        }
        Ok(read)
    }
}

/// A name without anything that some parser decodes: no quoted pair, no encoded word of RFC 2047 (Java's upload
/// parsers).
fn plain_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = either(text)?;
    (!name.contains('\\') && !name.contains("=?")).then_some((name, rest))
}

/// A file's name: with backslashes, as old browsers send whole paths, but none before a quote, which ends the text to
/// some and not to others.
fn filename(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = either(text)?;
    (!name.ends_with('\\')).then_some((name, rest))
}

/// `UTF-8'en'na%C3%AFve` (RFC 8187).
fn extended(text: &str) -> Option<(&str, &str)> {
    let (value, rest) = unquoted(text);
    let mut pieces = value.split('\'');
    let (charset, language, name) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let known =
        is_utf_8(charset) && language.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (known && is_token(name) && pieces.next().is_none()).then_some((value, rest))
}

/// A quoted text, or a token without `'`, which quotes for PHP.
fn either(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.split_once('"');
    }
    Some(unquoted(text)).filter(|(token, _)| is_token(token) && !token.contains('\''))
}

fn unquoted(text: &str) -> (&str, &str) {
    text.split_at(text.find([';', ' ']).unwrap_or(text.len()))
}
