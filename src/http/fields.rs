//! The name and value pairs of a query or of a form's body.
//!
//! Promises: every byte of every name and value counts in the canonical form, the order of different names does not;
//! the order of names that one backend takes for one does. Looked through for a name, both ways of cutting are tried:
//! at `&` as everybody does, and at `;` too as some older readers do.
//!
//! Absent on purpose: a judgement of escapes that are none. A form refuses them, a query keeps them as they are.

use super::names::{Readings, plain};
use super::told::told;
use super::{put, put_option};
use crate::domain::json::Json;

/// Pairs in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pairs: Vec<Pair>,
    /// The same text cut at `;` as well; empty where it has none.
    finer: Vec<Pair>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    name: Vec<u8>,
    /// None where no `=` follows the name.
    value: Option<Vec<u8>>,
    /// The value to a reader that leaves `+` as it is, where that is another.
    with_plus: Option<Vec<u8>>,
}

impl Fields {
    /// The pairs of a text, which may be empty.
    pub(super) fn of(text: &[u8]) -> Self {
        let cut = |ends: &[u8]| {
            let pieces = text.split(|byte| ends.contains(byte)).filter(|piece| !piece.is_empty());
            pieces.map(Pair::of).collect()
        };
        Self { pairs: cut(b"&"), finer: if text.contains(&b';') { cut(b"&;") } else { Vec::new() } }
    }

    /// Appends the pairs, sorted by name.
    pub(super) fn write_canonical(&self, out: &mut Vec<u8>) {
        // PHP makes one field of `a.b` and `a_b`, and the later one counts: so these keep their order.
        let mut sorted: Vec<_> =
            self.pairs.iter().map(|pair| (plain(&String::from_utf8_lossy(&pair.name)), pair)).collect();
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (_, pair) in sorted {
            put(&pair.name, out);
            put_option(pair.value.as_deref(), out);
        }
    }

    /// For the audit: an object; the values of a name that stands more than once as an array.
    pub(super) fn told(&self) -> Json {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        told(self.pairs.iter().map(|pair| (text(&pair.name), pair.value.as_deref().map(text).into())))
    }

    /// Every value that some backend may read under this name; none for one that is no text.
    pub(super) fn values(&self, name: &str) -> Vec<Option<String>> {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
        let name = plain(name);
        let named = self.every().filter(|pair| Readings::of(&pair.name).include(&name));
        named
            .flat_map(|pair| [Some(pair.value.as_deref().unwrap_or_default()), pair.with_plus.as_deref()])
            .flatten()
            .map(text)
            .collect()
    }

    /// Whether every backend reads under this name what [`Fields::told`] has there: no other spelling of it stands
    /// here, and cut at `;` it is the same. `further` where what is looked for stands in it: `card[number]`.
    pub(super) fn is_clear(&self, name: &str, further: bool) -> bool {
        let plain = plain(name);
        let named = |pairs: &[Pair]| -> Vec<Pair> {
            pairs.iter().filter(|pair| Readings::of(&pair.name).include(&plain)).cloned().collect()
        };
        let found = named(&self.pairs);
        let is_it = |pair: &Pair| is_spelled(&String::from_utf8_lossy(&pair.name), name, further);
        found.iter().all(is_it) && (self.finer.is_empty() || named(&self.finer) == found)
    }

    /// Whether some backend takes another method from one of them.
    pub(super) fn override_the_method(&self) -> bool {
        self.every().any(|pair| Readings::of(&pair.name).override_the_method())
    }

    fn every(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().chain(&self.finer)
    }
}

/// Whether a field's name is this one, or begins with it where more of it may follow.
pub(super) fn is_spelled(own: &str, name: &str, further: bool) -> bool {
    let more = own.strip_prefix(name).filter(|more| more.starts_with(['[', '.']));
    own == name || (further && more.is_some())
}

impl Pair {
    fn of(text: &[u8]) -> Self {
        let at = text.iter().position(|byte| *byte == b'=');
        let (name, rest) = text.split_at(at.unwrap_or(text.len()));
        let value = rest.get(1..);
        let with_plus = value.filter(|value| value.contains(&b'+'));
        Self {
            name: decoded(name, b' '),
            value: value.map(|value| decoded(value, b' ')),
            with_plus: with_plus.map(|value| decoded(value, b'+')),
        }
    }
}

/// With percent-escapes decoded and `+` as what it stands for. What is no escape stays as it is.
fn decoded(text: &[u8], plus: u8) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { plus } else { *byte }).collect();
    percent_encoding::percent_decode(&spaced).collect()
}
