//! JSON as the gate checks it and passes it on.
//!
//! Promises: what [`Json::parse`] accepts means one thing to every reader (strict RFC 8259, no member twice, no
//! broken text), and [`Json::to_bytes`] writes just that: members in their order, numbers as they were written.
//! Reading takes time linear in the input and never more stack than [`MAX_DEPTH`] levels need.
//!
//! Absent on purpose: floating point. A number is its text; [`Json::canonical`] compares numbers by exact value
//! without computing one, and a [`Decimal`] computes exactly or not at all.

mod canonical;
mod convert;
mod decimal;
mod fault;
mod folded;
mod number;
mod object;
mod parse;
mod write;

pub use decimal::{Decimal, MOST_DIGITS};
pub use fault::{FaultKind, JsonFault};
pub use folded::folded;
pub use number::Number;
pub use object::Object;
pub use parse::MAX_DEPTH;

/// A JSON value. Objects keep their order, numbers their text.
///
/// Equality is that of the text: `1` and `1.0` differ, and so do two orders of one object's members. Compare
/// [`Json::canonical`] forms where the meaning counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as it was written.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

impl Json {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The value of `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// A number that is written as an integer and fits; `1.0` and `1e0` are not.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The number.
    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The elements of an array, to change.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Json>> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The members of an object, to change.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The member of this name, where this is an object that has one.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// The member of this name, to change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.as_object_mut()?.get_mut(name)
    }

    /// What stands at the end of a way through nested objects; the value itself for an empty one.
    pub fn path(&self, names: &[&str]) -> Option<&Json> {
        names.iter().try_fold(self, |value, name| value.get(name))
    }
}
