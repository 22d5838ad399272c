//! The request headers that mirror the body, held against it.
//!
//! Promises: in the modern era a request whose `MCP-Protocol-Version`, `Mcp-Method` or `Mcp-Name` is missing, repeated
//! or says something else than its body is refused, and so is a header that mirrors an argument which the gate takes out
//! and says something else; in the legacy era the body alone counts.
//!
//! Absent on purpose: any decision taken from a header. They can only make a request fail.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName};

use super::message::{Era, FIRST_MODERN, Request};
use super::mirrors::{ARGUMENT, Mirror};
use crate::domain::json::{Json, Object};
use crate::domain::refusal::Refusal;

/// `MCP-Protocol-Version`.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Method`.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Whether whoever sent these headers says that it takes an event stream.
pub fn takes_events(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media =
        texts.flat_map(|text| text.split(',')).map(|one| one.split(';').next().unwrap_or_default());
    media.any(|media| media.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The era that a message belongs to, once its headers were seen to agree with it.
///
/// A message is modern when its body names a version, or when its header names a modern one: claiming either is
/// enough to be held to the modern rules, so that nobody escapes them by leaving one out.
pub fn agree(request: &Request, headers: &HeaderMap) -> Result<Era, Refusal> {
    let in_header = one(headers, &VERSION)?;
    let in_body = request.version();
    let claims_modern =
        in_body.is_some() || in_header.as_deref().is_some_and(|version| version >= FIRST_MODERN);
    if !claims_modern {
        return Ok(Era::Legacy);
    }
    if in_body.is_none() && request.id.is_none() {
        // A notification need not carry `_meta`; its method is checked all the same.
        same(&METHOD, one(headers, &METHOD)?.as_deref(), Some(&request.method))?;
        return Ok(Era::Modern);
    }
    // Not a mismatch to the specification, which wants to hear of the member that is missing.
    let in_body = in_body.ok_or(Refusal::VersionMissing)?;
    same(&VERSION, in_header.as_deref(), Some(in_body))?;
    same(&METHOD, one(headers, &METHOD)?.as_deref(), Some(&request.method))?;
    let name = one(headers, &NAME)?.map(|text| decoded(&NAME, &text)).transpose()?;
    if name.is_some() || (mirrors_subject(&request.method) && request.subject().is_some()) {
        same(&NAME, name.as_deref(), request.subject())?;
    }
    Ok(Era::Modern)
}

/// Whether a client has to mirror what the method is about. The modern era knows no other methods of tasks; where a
/// header comes with one all the same, it must agree.
fn mirrors_subject(method: &str) -> bool {
    matches!(
        method,
        "tools/call" | "prompts/get" | "resources/read" | "tasks/get" | "tasks/update" | "tasks/cancel"
    )
}

fn same(header: &HeaderName, in_header: Option<&str>, in_body: Option<&str>) -> Result<(), Refusal> {
    match (in_header, in_body) {
        (Some(left), Some(right)) if left == right => Ok(()),
        (None, _) => Err(mismatch(header, "the header is missing")),
        (Some(_), None) => Err(mismatch(header, "the body does not say what the header says")),
        (Some(_), Some(_)) => Err(mismatch(header, "the header and the body disagree")),
    }
}

fn one(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(mismatch(name, "the header is repeated"));
    }
    let text =
        std::str::from_utf8(value.as_bytes()).map_err(|_| mismatch(name, "the header is not UTF-8"))?;
    Ok(Some(text.trim().to_owned()))
}

/// Takes out the headers that mirror arguments which do not go on to the app: it would miss what they mirror, or
/// believe them. In the modern era each must have said what its argument says, and what was not said in the body may
/// not be said in a header.
///
/// The header's name is the tool's choice. Usually it is the argument's own, so case, `-` and `_` do not count; another
/// one must be `known` from a tools list.
pub fn take_mirrors(
    headers: &mut HeaderMap,
    era: Era,
    taken: &[&str],
    known: &[Mirror],
    arguments: Option<&Object>,
) -> Result<(), Refusal> {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    let mut agreed = Ok(());
    for name in names {
        let Some(mirrored) = name.as_str().strip_prefix(ARGUMENT).map(folded) else { continue };
        let known = known.iter().filter(|mirror| mirror.header == name);
        let listed = known.map(|mirror| mirror.argument.as_str()).find(|argument| taken.contains(argument));
        let alike = || taken.iter().copied().find(|argument| folded(argument) == mirrored);
        let Some(argument) = listed.or_else(alike) else { continue };
        if era == Era::Modern && agreed.is_ok() {
            let value = arguments.and_then(|arguments| arguments.get(argument)).and_then(text_of);
            agreed = one(headers, &name).and_then(|text| says(&name, text.as_deref(), value.as_deref()));
        }
        headers.remove(&name);
    }
    agreed
}

/// Whether a header says this value of an argument. Blanks around it do not count: HTTP loses them.
fn says(header: &HeaderName, text: Option<&str>, value: Option<&str>) -> Result<(), Refusal> {
    let text = text.map(|text| decoded(header, text)).transpose()?;
    same(header, text.as_deref().map(str::trim), value.map(str::trim))
}

fn folded(name: &str) -> String {
    name.chars()
        .filter(|letter| !matches!(letter, '-' | '_'))
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// An argument as a header says it.
fn text_of(argument: &Json) -> Option<String> {
    match argument {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.as_str().to_owned()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Has the header that names a request's subject, where there is one, say something else.
pub fn set_name(headers: &mut HeaderMap, name: &str) {
    if headers.contains_key(&NAME)
        && let Ok(value) = encoded(name).try_into()
    {
        headers.insert(NAME, value);
    }
}

/// As a header can say it: in base64 what would not arrive as it is.
fn encoded(text: &str) -> String {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.is_empty()
        && !text.starts_with("=?base64?");
    if plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

/// `=?base64?…?=` decoded; anything else as it is.
fn decoded(header: &HeaderName, text: &str) -> Result<String, Refusal> {
    let Some(inner) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(text.to_owned());
    };
    let bytes = STANDARD.decode(inner).map_err(|_| mismatch(header, "the header's base64 form is broken"))?;
    String::from_utf8(bytes).map_err(|_| mismatch(header, "the header's base64 form is not UTF-8"))
}

fn mismatch(header: &HeaderName, detail: &str) -> Refusal {
    Refusal::HeaderMismatch { header: header.as_str().to_owned(), detail: detail.to_owned() }
}
