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

/// `text` as it stands inside a JSON string.
pub(super) fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&quoted).to_owned()
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

/// Whether the JSON text `args` has all these members, at any depth, by their text: a string's own, anything else as
/// written; of an array, one element's. A name is a member's, or the end of its path: `amount`, `body.amount`.
pub(super) fn has_members(args: Option<&str>, wanted: &[(String, String)]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    args.is_some_and(|args| {
        let may_hold = |text: &str| part_of(text).is_none_or(|part| args.contains(part));
        wanted.iter().all(|(_, text)| may_hold(text))
            && wanted.iter().all(|(name, text)| is_somewhere(args, name, text))
    })
}

/// The longest part of a text that JSON writes as it is, whoever writes it: where this is not, the text is not.
pub(super) fn part_of(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-.:,;@+=#".contains(c);
    text.split(|c: char| !is_plain(c)).max_by_key(|part| part.len()).filter(|part| !part.is_empty())
}

/// What the members of an object, or the elements of an array, are written as.
enum Parts<'a> {
    Members(BTreeMap<String, &'a RawValue>),
    Elements(Vec<&'a RawValue>),
    None,
}

fn parts(json: &str) -> Parts<'_> {
    match json.trim_start().as_bytes().first() {
        Some(b'{') => serde_json::from_str(json).map_or(Parts::None, Parts::Members),
        Some(b'[') => serde_json::from_str(json).map_or(Parts::None, Parts::Elements),
        _ => Parts::None,
    }
}

/// Here, or deeper.
fn is_somewhere(json: &str, name: &str, text: &str) -> bool {
    is_here(json, name, text)
        || match parts(json) {
            Parts::Members(members) => members.values().any(|value| is_somewhere(value.get(), name, text)),
            Parts::Elements(elements) => elements.iter().any(|value| is_somewhere(value.get(), name, text)),
            Parts::None => false,
        }
}

fn is_here(json: &str, path: &str, text: &str) -> bool {
    match parts(json) {
        Parts::Members(members) => {
            members.iter().any(|(name, value)| match path.strip_prefix(name.as_str()) {
                Some("") => is_text_of(text, value.get()),
                Some(rest) => rest.strip_prefix('.').is_some_and(|rest| is_here(value.get(), rest, text)),
                None => false,
            })
        }
        Parts::Elements(elements) => elements.iter().any(|value| is_here(value.get(), path, text)),
        Parts::None => false,
    }
}

fn is_text_of(text: &str, json: &str) -> bool {
    match parts(json) {
        Parts::Elements(elements) => {
            json == text || elements.iter().any(|element| is_text_of(text, element.get()))
        }
        Parts::Members(_) | Parts::None => {
            json == text || serde_json::from_str::<String>(json).is_ok_and(|string| string == text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{has_members, held, indexed, part_of};

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
    fn members_are_found_by_their_text_at_any_depth() {
        let args = r#"{"order_id":"ord_9f2","amount":12.50,"note":"a\"b","deep":{"order_id":"x","refund.id":"r"},
            "lines":[{"sku":"s1"},{"sku":"s2"}],"form":["v1","v2"],"flag":true,"none":null}"#;
        let has = |name: &str, text: &str| has_members(Some(args), &[(name.into(), text.into())]);
        for (name, text) in [
            ("order_id", "ord_9f2"),
            ("order_id", "x"),
            ("deep.order_id", "x"),
            ("amount", "12.50"),
            ("note", "a\"b"),
            ("refund.id", "r"),
            ("deep.refund.id", "r"),
            ("sku", "s2"),
            ("lines.sku", "s1"),
            ("form", "v2"),
            ("form", r#"["v1","v2"]"#),
            ("flag", "true"),
            ("none", "null"),
        ] {
            assert!(has(name, text), "{name}={text}");
        }
        for (name, text) in [
            ("order_id", "ord_9f"),
            ("order", "ord_9f2"),
            ("_id", "x"),
            ("deep.order_id.x", "x"),
            ("deep.", "x"),
            ("", "x"),
            ("amount", "12.5"),
            ("lines.sku", "s3"),
            ("missing", "x"),
        ] {
            assert!(!has(name, text), "{name}={text}");
        }
        assert!(!has_members(Some("not json"), &[("a".into(), "b".into())]));
        assert!(!has_members(None, &[("a".into(), "b".into())]));
        assert!(has_members(None, &[]));
    }

    #[test]
    fn a_part_is_what_every_writer_of_json_writes_as_it_is() {
        for (text, part) in [
            ("ord_9f2", Some("ord_9f2")),
            ("12.50", Some("12.50")),
            ("a/longer \"quote\"", Some("longer ")),
            ("m\u{fc}ller", Some("ller")),
            ("\u{fc}\"", None),
            ("", None),
        ] {
            assert_eq!(part_of(text), part, "{text}");
        }
    }
}
