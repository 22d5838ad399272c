//! Requests that ask for another method than their request line says.
//!
//! Promises: no header and no field of the query that some framework takes a method from gets past. Bodies are looked
//! through where they are read ([`super::content`], [`super::scanned`]).

use http::HeaderMap;
use http::header::HeaderName;
use http::uri::PathAndQuery;

use super::query::Query;
use crate::domain::refusal::Refusal;

/// Headers that some framework or proxy takes the method from.
const HEADERS: [&str; 6] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-method",
    "x-forwarded-method",
    "x-http-verb",
];

/// Refuses a head that names another method than its request line.
pub fn refuse_override(target: &PathAndQuery, headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.keys().any(names_a_method) || Query::of(target).overrides_the_method() {
        return Err(Refusal::MethodOverride);
    }
    Ok(())
}

/// Backends fold whatever is neither letter nor digit.
fn names_a_method(name: &HeaderName) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    HEADERS.iter().any(|one| one.bytes().eq(name.as_str().bytes().map(fold)))
}
