//! The members of a JSON object.
//!
//! Promises: no name stands twice; the order is that of the text, or of insertion.
//!
//! Absent on purpose: an index. Objects in messages are small, and a search through a few names is faster than
//! hashing; the parser, which meets hostile ones, keeps its own set while it reads.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Json;

/// Members in their order; no name twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Json)>);

impl Object {
    /// An object without members.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An object of members that the parser found to be unique.
    pub(super) const fn of_unique(members: Vec<(String, Json)>) -> Self {
        Self(members)
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The member of this name, to change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.0.iter_mut().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Whether there is a member of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a member: in its place where the name is known (the old value is returned), else at the end.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        let name = name.into();
        let value = value.into();
        if let Some(slot) = self.get_mut(&name) {
            return Some(std::mem::replace(slot, value));
        }
        self.0.push((name, value));
        None
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes every member out whose name does not belong; the others keep their order.
    pub fn retain(&mut self, belongs: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| belongs(name));
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every member, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Every member, in order, its value to change.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Json)> {
        self.0.iter_mut().map(|(name, value)| (name.as_str(), value))
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Of two members with one name the later value counts. Linear, however many there are: they may be a hostile
/// client's.
impl<N: Into<String>> FromIterator<(N, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (N, Json)>>(members: I) -> Self {
        let mut object = Self::new();
        let mut places = HashMap::new();
        for (name, value) in members {
            match places.entry(name.into()) {
                Entry::Occupied(place) => {
                    if let Some((_, old)) = object.0.get_mut(*place.get()) {
                        *old = value;
                    }
                }
                Entry::Vacant(place) => {
                    object.0.push((place.key().clone(), value));
                    place.insert(object.0.len() - 1);
                }
            }
        }
        object
    }
}
