//! What a rule says of one call.
//!
//! Promises: `&&` and `||` as CEL has them: what is unclear on one side does not matter where the other side decides. So
//! more that is unclear never makes more true. Everything that is looked at is counted, up to [`MOST_STEPS`].

use std::borrow::Cow;
use std::cmp::Ordering;

use super::MOST_STEPS;
use super::term::{Find, Order, Part, Sum, Term};
use super::value::{Unclear, Value, number, short};
use crate::domain::actor::Actor;
use crate::domain::json::{Decimal, Json, Object, folded};

/// So many bytes of text are looked at in one step.
const BYTES_A_STEP: usize = 64;

static NO_ARGUMENTS: Json = Json::Object(Object::new());

/// One asking of a rule.
pub(super) struct Evaluation<'a> {
    actor: &'a Actor,
    arguments: &'a Json,
    left: usize,
}

impl<'a> Evaluation<'a> {
    pub(super) fn of(actor: &'a Actor, arguments: Option<&'a Json>) -> Self {
        Self { actor, arguments: arguments.unwrap_or(&NO_ARGUMENTS), left: MOST_STEPS }
    }

    /// What a term says that is to be true or false.
    pub(super) fn truth(&mut self, term: &'a Term) -> Result<bool, Unclear> {
        match term {
            Term::Not(one) => Ok(!self.truth(one)?),
            Term::And(one, other) => self.both(one, other, false),
            Term::Or(one, other) => self.both(one, other, true),
            Term::Choice(choice) => {
                let [when, then, otherwise] = choice.as_ref();
                if self.truth(when)? { self.truth(then) } else { self.truth(otherwise) }
            }
            Term::Has(of, name) => {
                let of = self.object(of)?;
                Ok(self.find(of, name, term)?.is_some())
            }
            Term::HasSession => Ok(self.actor.session().is_some()),
            Term::Order(order, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                self.ordered(*order, &one, &other)
            }
            Term::Equal(not, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                Ok(self.equal(&one, &other)? != *not)
            }
            Term::In(one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                self.within(&one, &other, term)
            }
            Term::Find(find, one, other) => {
                let (one, other) = (self.text(one)?, self.text(other)?);
                self.spend(one.len().saturating_add(other.len()) / BYTES_A_STEP)?;
                Ok(match find {
                    Find::Start => one.starts_with(&*other),
                    Find::End => one.ends_with(&*other),
                    Find::Anywhere => one.contains(&*other),
                })
            }
            Term::Bool(value) => Ok(*value),
            Term::Null
            | Term::Number(_)
            | Term::Text(_)
            | Term::List(_)
            | Term::Arguments
            | Term::Actor(_)
            | Term::Member(..)
            | Term::Element(..)
            | Term::Sum(..)
            | Term::Negative(_)
            | Term::Size(_)
            | Term::ToNumber(..) => {
                let value = self.value(term)?;
                if let Value::Bool(said) = value { Ok(said) } else { Err(value.is_no("true or false")) }
            }
        }
    }

    /// `&&` where `decides` is false, `||` where it is true.
    fn both(&mut self, one: &'a Term, other: &'a Term, decides: bool) -> Result<bool, Unclear> {
        match self.truth(one) {
            Ok(said) if said == decides => Ok(said),
            Ok(_) => self.truth(other),
            Err(unclear) => match self.truth(other) {
                Ok(said) if said == decides => Ok(said),
                Ok(_) | Err(_) => Err(unclear),
            },
        }
    }

    fn value(&mut self, term: &'a Term) -> Result<Value<'a>, Unclear> {
        self.spend(1)?;
        Ok(match term {
            Term::Null => Value::Null,
            Term::Number(number) => Value::Number(*number),
            Term::Text(text) => Value::Text(Cow::Borrowed(text)),
            Term::List(terms) => {
                Value::List(terms.iter().map(|term| self.value(term)).collect::<Result<_, _>>()?)
            }
            Term::Arguments => self.json(self.arguments)?,
            Term::Actor(part) => self.part(*part, term)?,
            Term::Member(of, name) => {
                let of = self.object(of)?;
                let found = self.find(of, name, term)?;
                self.json(found.ok_or_else(|| Unclear::Missing(term.to_string()))?)?
            }
            Term::Element(of, at) => match self.value(of)? {
                Value::Array(elements) => {
                    let found = elements.get(*at);
                    self.json(found.ok_or_else(|| Unclear::Missing(term.to_string()))?)?
                }
                Value::List(values) => {
                    let found = values.into_iter().nth(*at);
                    found.ok_or_else(|| Unclear::Missing(term.to_string()))?
                }
                Value::Scopes => {
                    let found = self.actor.scopes().nth(*at);
                    Value::Text(Cow::Borrowed(found.ok_or_else(|| Unclear::Missing(term.to_string()))?))
                }
                other @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::Object(_)) => return Err(other.is_no("a list")),
            },
            Term::Choice(choice) => {
                let [when, then, otherwise] = choice.as_ref();
                if self.truth(when)? { self.value(then)? } else { self.value(otherwise)? }
            }
            Term::Sum(sum, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                self.sum(*sum, one, other)?
            }
            Term::Negative(one) => {
                let value = self.value(one)?;
                let Value::Number(number) = value else { return Err(value.is_no("a number")) };
                Value::Number(-number)
            }
            Term::Size(one) => {
                let size = match self.value(one)? {
                    Value::Text(text) => {
                        self.spend(text.len() / BYTES_A_STEP)?;
                        text.chars().count()
                    }
                    Value::Array(elements) => elements.len(),
                    Value::Object(object) => object.len(),
                    Value::List(values) => values.len(),
                    Value::Scopes => self.actor.scopes().count(),
                    other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => {
                        return Err(other.is_no("a text, a list or an object"));
                    }
                };
                Value::Number(Decimal::from(i64::try_from(size).unwrap_or(i64::MAX)))
            }
            Term::ToNumber(whole, one) => Value::Number(number(*whole, self.value(one)?)?),
            Term::Bool(_)
            | Term::Has(..)
            | Term::HasSession
            | Term::Not(_)
            | Term::And(..)
            | Term::Or(..)
            | Term::Order(..)
            | Term::Equal(..)
            | Term::In(..)
            | Term::Find(..) => Value::Bool(self.truth(term)?),
        })
    }

    fn part(&self, part: Part, what: &Term) -> Result<Value<'a>, Unclear> {
        let text = match part {
            Part::Scopes => return Ok(Value::Scopes),
            Part::Tenant => Some(self.actor.tenant()),
            Part::User => Some(self.actor.user()),
            Part::Session => self.actor.session(),
        };
        text.map(|text| Value::Text(Cow::Borrowed(text))).ok_or_else(|| Unclear::Missing(what.to_string()))
    }

    fn json(&mut self, json: &'a Json) -> Result<Value<'a>, Unclear> {
        Ok(match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => {
                self.spend(number.as_str().len() / BYTES_A_STEP)?;
                let exact = Decimal::of(number);
                Value::Number(exact.ok_or_else(|| Unclear::Number(short(number.as_str())))?)
            }
            Json::String(text) => Value::Text(Cow::Borrowed(text)),
            Json::Array(elements) => Value::Array(elements),
            Json::Object(object) => Value::Object(object),
        })
    }

    fn object(&mut self, term: &'a Term) -> Result<&'a Object, Unclear> {
        let Value::Object(object) = self.value(term)? else {
            return Err(Unclear::NoObject(term.to_string()));
        };
        Ok(object)
    }

    fn text(&mut self, term: &'a Term) -> Result<Cow<'a, str>, Unclear> {
        let value = self.value(term)?;
        if let Value::Text(text) = value { Ok(text) } else { Err(value.is_no("a text")) }
    }

    /// A member, where none stands beside it that some backend takes for it.
    fn find(&mut self, object: &'a Object, name: &str, what: &Term) -> Result<Option<&'a Json>, Unclear> {
        let plain = folded(name);
        let mut found = None;
        for (other, value) in object.iter() {
            self.spend(1 + other.len() / BYTES_A_STEP)?;
            if other == name {
                found = Some(value);
            } else if other.is_ascii() && other.len() == plain.len() {
                if other.eq_ignore_ascii_case(&plain) {
                    return Err(Unclear::Lookalike(what.to_string()));
                }
            } else if (!other.is_ascii() || other.contains('\0')) && folded(other) == plain {
                return Err(Unclear::Lookalike(what.to_string()));
            }
        }
        Ok(found)
    }

    fn ordered(&mut self, order: Order, one: &Value<'_>, other: &Value<'_>) -> Result<bool, Unclear> {
        let found = match (one, other) {
            (Value::Number(one), Value::Number(other)) => one.cmp(other),
            (Value::Text(one), Value::Text(other)) => {
                self.spend(one.len().min(other.len()) / BYTES_A_STEP)?;
                one.cmp(other)
            }
            (one, other) => return Err(Unclear::Kinds(one.kind(), other.kind())),
        };
        Ok(match order {
            Order::Less => found == Ordering::Less,
            Order::AtMost => found != Ordering::Greater,
            Order::More => found == Ordering::Greater,
            Order::AtLeast => found != Ordering::Less,
        })
    }

    /// Null is something else than everything; two other kinds cannot be compared at all: to say that they differ would
    /// let `args.currency != 'EUR'` be true of `["EUR"]`.
    fn equal(&mut self, one: &Value<'a>, other: &Value<'a>) -> Result<bool, Unclear> {
        self.spend(1)?;
        match (one, other) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Null, _) | (_, Value::Null) => Ok(false),
            (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
            (Value::Number(one), Value::Number(other)) => Ok(one == other),
            (Value::Text(one), Value::Text(other)) => {
                self.spend(one.len().min(other.len()) / BYTES_A_STEP)?;
                Ok(one == other)
            }
            (one, other) => match (self.elements(one)?, self.elements(other)?) {
                (Some(all), Some(others)) if all.len() != others.len() => Ok(false),
                (Some(all), Some(others)) => {
                    for (one, other) in all.iter().zip(&others) {
                        if !self.equal(one, other)? {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                }
                _ => Err(Unclear::Kinds(one.kind(), other.kind())),
            },
        }
    }

    /// The elements of a list; none of what is no list.
    fn elements(&mut self, value: &Value<'a>) -> Result<Option<Vec<Value<'a>>>, Unclear> {
        Ok(Some(match value {
            Value::Array(elements) => {
                self.spend(elements.len())?;
                elements.iter().map(|element| self.json(element)).collect::<Result<_, _>>()?
            }
            Value::List(values) => {
                self.spend(values.len())?;
                values.clone()
            }
            Value::Scopes => self.actor.scopes().map(|scope| Value::Text(Cow::Borrowed(scope))).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Object(_) => {
                return Ok(None);
            }
        }))
    }

    fn within(&mut self, one: &Value<'a>, all: &Value<'a>, what: &Term) -> Result<bool, Unclear> {
        match (one, all) {
            (Value::Text(scope), Value::Scopes) => return Ok(self.actor.has_scope(scope)),
            (Value::Text(name), Value::Object(object)) => {
                return Ok(self.find(object, name, what)?.is_some());
            }
            _ => {}
        }
        let elements = self.elements(all)?.ok_or(all.is_no("a list"))?;
        let mut unclear = None;
        for element in elements {
            match self.equal(one, &element) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(fault) => unclear = Some(fault),
            }
        }
        unclear.map_or(Ok(false), Err)
    }

    fn sum(&mut self, sum: Sum, one: Value<'a>, other: Value<'a>) -> Result<Value<'a>, Unclear> {
        let (one, other) = match (one, other) {
            (Value::Number(one), Value::Number(other)) => (one, other),
            (Value::Text(one), Value::Text(other)) if sum == Sum::Plus => {
                self.spend(one.len().saturating_add(other.len()) / BYTES_A_STEP)?;
                return Ok(Value::Text(Cow::Owned(one.into_owned() + &other)));
            }
            (one, other) => return Err(Unclear::Kinds(one.kind(), other.kind())),
        };
        let result = match sum {
            Sum::Plus => one.plus(other),
            Sum::Minus => one.minus(other),
            Sum::Times => one.times(other),
            Sum::Rest => one.rest(other),
        };
        result.map(Value::Number).ok_or(Unclear::TooLarge)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Unclear> {
        self.left = self.left.checked_sub(steps).ok_or(Unclear::TooMuch)?;
        Ok(())
    }

    /// What stands at a way, for a person to read: short, and without what looks like a secret.
    pub(super) fn shown(&mut self, way: &'a Term) -> String {
        match self.value(way) {
            Ok(Value::Null) => "null".to_owned(),
            Ok(Value::Bool(value)) => value.to_string(),
            Ok(Value::Number(number)) => number.to_string(),
            Ok(Value::Text(text)) => format!("\"{}\"", short(&text)),
            Ok(Value::Scopes) => self.actor.scopes_joined(),
            Ok(value @ (Value::Array(_) | Value::List(_) | Value::Object(_))) => value.kind().to_owned(),
            Err(unclear) => unclear.to_string(),
        }
    }
}
