//! Text on its way into a table, and questions about text in it.
//!
//! Promises: what goes into a column can be held by it (Postgres has no NUL, an index has no room for a long
//! entry); both homes hold the same text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The longest text, in bytes, that is put in an indexed column of `audit_events`. An index entry has about 2,700
/// bytes on Postgres; a refused call may name a "tool" of any length.
const INDEXED_BYTES: usize = 255;

/// `text` as a text column can hold it: a NUL becomes the six characters `\u0000`, as JSON writes it.
pub(super) fn held(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\\u0000")) } else { Cow::Borrowed(text) }
}

/// [`held`], where there is text.
pub(super) fn held_option(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| held(text))
}

/// [`held`], cut so that an index can hold it; a cut is marked by `…`.
pub(super) fn indexed(text: &str) -> Cow<'_, str> {
    let whole = held(text);
    if whole.len() <= INDEXED_BYTES {
        return whole;
    }
    let cut = whole.floor_char_boundary(INDEXED_BYTES - '…'.len_utf8());
    Cow::Owned(format!("{}…", whole.get(..cut).unwrap_or_default()))
}

/// Whether the JSON object `args` has all these members, by their text: a string's own, anything else as written. A
/// name that is no member's own is a path: `body.amount`.
pub(super) fn has_members(args: Option<&str>, wanted: &[(String, String)]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    args.is_some_and(|args| {
        wanted.iter().all(|(name, text)| member(args, name).is_some_and(|value| is_text_of(text, value)))
    })
}

fn member<'a>(object: &'a str, path: &str) -> Option<&'a str> {
    let members: BTreeMap<String, &'a RawValue> = serde_json::from_str(object).ok()?;
    if let Some(value) = members.get(path) {
        return Some(value.get());
    }
    let (name, rest) = path.split_once('.')?;
    member(members.get(name)?.get(), rest)
}

fn is_text_of(text: &str, json: &str) -> bool {
    serde_json::from_str::<String>(json).map_or(json == text, |string| string == text)
}

#[cfg(test)]
mod tests {
    use super::{has_members, held, indexed};

    #[test]
    fn a_nul_is_escaped_and_other_text_stays() {
        assert_eq!(held("a\0b"), "a\\u0000b");
        assert_eq!(held("a\\b\u{1}"), "a\\b\u{1}");
    }

    #[test]
    fn a_long_indexed_text_is_cut_between_characters() {
        assert_eq!(indexed("refund_order"), "refund_order");
        let cut = indexed(&"ü".repeat(200)).into_owned();
        assert!(cut.len() <= 255 && cut.ends_with('…'), "{cut}");
    }

    #[test]
    fn members_are_found_by_their_text() {
        let args = r#"{"order_id":"ord_9f2","amount":12.50,"note":"a\"b","deep":{"order_id":"x"}}"#;
        let has = |name: &str, text: &str| has_members(Some(args), &[(name.into(), text.into())]);
        assert!(has("order_id", "ord_9f2"));
        assert!(has("amount", "12.50"));
        assert!(has("note", "a\"b"));
        assert!(!has("order_id", "x"));
        assert!(has("deep.order_id", "x"));
        assert!(!has("deep.order_id.x", "x") && !has("deep.", "x"));
        assert!(!has("missing", "x"));
        assert!(!has_members(Some("not json"), &[("a".into(), "b".into())]));
        assert!(!has_members(None, &[("a".into(), "b".into())]));
        assert!(has_members(None, &[]));
    }
}
