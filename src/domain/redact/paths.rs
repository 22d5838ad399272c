//! Where the policy says that something private stands.

use super::MASK;
use crate::domain::json::Json;

/// Member names from a root to a value, through arrays without naming them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    /// The path that a dotted text names.
    pub(super) fn new(dotted: &str) -> Self {
        Self(dotted.split('.').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
    }

    /// As it is written.
    pub(super) fn dotted(&self) -> String {
        self.0.join(".")
    }

    /// Masks what stands at the path below `root`, everywhere that it leads to. Says whether anything was there.
    pub(super) fn mask(&self, root: &mut Json) -> bool {
        mask_at(root, &self.0)
    }

    /// What stands at the path below `root`: the value, or where arrays are on the way, an array of all values.
    pub(super) fn find(&self, root: &Json) -> Option<Json> {
        find_at(root, &self.0)
    }

    /// Masks in `found`, which stands at `self`, what `private` leads to.
    pub(super) fn mask_found(&self, found: &mut Json, private: &Self) {
        if let Some(rest) = private.0.strip_prefix(self.0.as_slice()) {
            mask_at(found, rest);
        } else if self.0.starts_with(&private.0) {
            blank(found);
        }
    }
}

fn mask_at(value: &mut Json, names: &[String]) -> bool {
    let Some((first, rest)) = names.split_first() else {
        blank(value);
        return true;
    };
    match value {
        Json::Array(elements) => {
            elements.iter_mut().map(|element| usize::from(mask_at(element, names))).sum::<usize>() > 0
        }
        Json::Object(object) => object.get_mut(first).is_some_and(|member| mask_at(member, rest)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

fn find_at(value: &Json, names: &[String]) -> Option<Json> {
    let Some((first, rest)) = names.split_first() else { return Some(value.clone()) };
    match value {
        Json::Array(elements) => {
            let found: Vec<_> = elements.iter().filter_map(|element| find_at(element, names)).collect();
            (!found.is_empty()).then_some(Json::Array(found))
        }
        Json::Object(object) => find_at(object.get(first)?, rest),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// Masks a value leaf by leaf: types, members and lengths of arrays stay.
pub(super) fn blank(value: &mut Json) {
    match value {
        Json::Null => {}
        Json::Bool(flag) => *flag = false,
        Json::Number(_) => *value = Json::from(0),
        Json::String(text) => MASK.clone_into(text),
        Json::Array(elements) => elements.iter_mut().for_each(blank),
        Json::Object(object) => object.iter_mut().for_each(|(_, member)| blank(member)),
    }
}
