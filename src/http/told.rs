//! Fields as the audit is told them.
//!
//! Promises: what the policy's paths name is found by them: `card[number]` and `card.number` stand as a `number` in `card`,
//! where a JSON body would have it, whatever else the client sends under that name.
//!
//! Absent on purpose: exactness. Whoever wants to know what was sent has the fingerprint.

use std::collections::HashMap;

use crate::domain::json::Json;

/// A name of more levels is told as it stands.
const MOST_LEVELS: usize = 16;

/// What is told under one name.
#[derive(Default)]
struct Node {
    values: Vec<Json>,
    members: Vec<(String, Node)>,
    places: HashMap<String, usize>,
}

/// An object of these fields; the values of a name that stands more than once as an array.
pub(super) fn told(fields: impl IntoIterator<Item = (String, Json)>) -> Json {
    let mut root = Node::default();
    for (name, value) in fields {
        let mut levels = levels(&name).into_iter();
        let Some(named) = root.at(levels.next().unwrap_or_default()) else { continue };
        let node =
            levels.try_fold(named, |node, level| if level.is_empty() { node.next() } else { node.at(level) });
        if let Some(node) = node {
            node.values.push(value);
        }
    }
    Json::object(root.members.into_iter().map(|(name, node)| (name, node.told())))
}

/// The levels of a name: `a[b][]` has three, and so has `a.b.`.
fn levels(name: &str) -> Vec<&str> {
    let (first, mut rest) = name.split_at(name.find(['[', '.']).unwrap_or(name.len()));
    let mut levels = vec![first];
    while !rest.is_empty() {
        let next = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']'),
            None => {
                rest.strip_prefix('.').map(|rest| rest.split_at(rest.find(['[', '.']).unwrap_or(rest.len())))
            }
        };
        match next.filter(|_| levels.len() < MOST_LEVELS) {
            Some((level, after)) => {
                levels.push(level);
                rest = after;
            }
            None => return vec![name],
        }
    }
    levels
}

impl Node {
    /// What stands under a name one level further in.
    fn at(&mut self, level: &str) -> Option<&mut Self> {
        let Some(place) = self.places.get(level) else {
            self.places.insert(level.to_owned(), self.members.len());
            self.members.push((level.to_owned(), Self::default()));
            return self.members.last_mut().map(|(_, node)| node);
        };
        self.members.get_mut(*place).map(|(_, node)| node)
    }

    /// A list's next element.
    fn next(&mut self) -> Option<&mut Self> {
        self.members.push((String::new(), Self::default()));
        self.members.last_mut().map(|(_, node)| node)
    }

    fn told(self) -> Json {
        let mut all = self.values;
        let (listed, named): (Vec<_>, Vec<_>) =
            self.members.into_iter().partition(|(name, _)| name.bytes().all(|byte| byte.is_ascii_digit()));
        let is_list = !listed.is_empty();
        all.extend(listed.into_iter().map(|(_, node)| node.told()));
        if !named.is_empty() {
            all.push(Json::object(named.into_iter().map(|(name, node)| (name, node.told()))));
        }
        if is_list {
            return Json::Array(all);
        }
        match all.pop() {
            Some(only) if all.is_empty() => only,
            last => Json::Array(all.into_iter().chain(last).collect()),
        }
    }
}
