//! (being built) A strict JSON reader and an exact writer.

/// A JSON value. Objects keep their order, numbers their text.
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

/// A number's text, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(String);

/// Members in their order; no name twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Json)>);
