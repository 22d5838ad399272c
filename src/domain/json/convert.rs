//! Making JSON values in code.

use super::{Json, Number, Object};

impl Json {
    /// An object of these members, in this order: `Json::object([("ok", true.into())])`. Of two members with one
    /// name the later value counts.
    pub fn object<N: Into<String>>(members: impl IntoIterator<Item = (N, Json)>) -> Self {
        Self::Object(members.into_iter().collect())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Number> for Json {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Vec<Json>> for Json {
    fn from(elements: Vec<Json>) -> Self {
        Self::Array(elements)
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(Number::from(value))
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(Number::from(value))
    }
}

impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Self::from(i64::from(value))
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::from(u64::from(value))
    }
}

impl From<u16> for Json {
    fn from(value: u16) -> Self {
        Self::from(u64::from(value))
    }
}

/// Nothing is `null`.
impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
