//! A body of `application/x-www-form-urlencoded`.
//!
//! Promises: what is accepted has no escape that readers decode differently, no encoding but UTF-8, and no field that
//! names another method.

use super::fields::Fields;
use crate::domain::refusal::Refusal;

/// The most fields of one form. PHP by itself takes 1,000; looking through very many takes longer than any app would.
const MOST: usize = 10_000;

/// Reads the whole body.
pub(super) fn read(body: &[u8]) -> Result<Fields, Refusal> {
    let unreadable = |detail: &str| Refusal::BodyUnreadable { detail: detail.to_owned() };
    if memchr::memchr2_iter(b'&', b';', body).nth(MOST).is_some() {
        return Err(unreadable("it has more than 10,000 fields"));
    }
    if !body.split(|byte| *byte == b'%').skip(1).all(begins_with_two_digits) {
        return Err(unreadable("a \"%\" in it begins no escape"));
    }
    let fields = Fields::of(body);
    if fields.override_the_method() {
        return Err(Refusal::MethodOverride);
    }
    // Some take the encoding of all other fields from this one.
    let utf_8 = |value: &Option<String>| value.as_deref().is_some_and(super::media::is_utf_8);
    if !fields.values("_charset_").iter().all(utf_8) {
        return Err(unreadable("its field _charset_ names another encoding than UTF-8"));
    }
    Ok(fields)
}

fn begins_with_two_digits(text: &[u8]) -> bool {
    text.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}
