//! Values that a variable or a flag can only give as text: numbers, switches, lists.
//!
//! Promises: each is read from its TOML form and from the one text that means the same.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

/// A number that need not be whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio(pub(super) f64);

/// `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch(pub(super) bool);

/// One text, or a list of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Texts(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Number;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a whole number")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                u64::try_from(number).map(Number).map_err(|_| E::custom("the number cannot be negative"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Ratio;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a number")
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Ratio, E> {
                Ok(Ratio(number))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Ratio, E> {
                i32::try_from(number).map(|number| Ratio(number.into())).map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ratio, E> {
                text.parse().map(Ratio).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Switch;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("true or false")
            }
            fn visit_bool<E: de::Error>(self, switch: bool) -> Result<Switch, E> {
                Ok(Switch(switch))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Switch, E> {
                text.parse().map(Switch).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Texts;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a string or a list of strings")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        from.deserialize_any(Form)
    }
}
