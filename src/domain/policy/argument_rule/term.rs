//! A rule as it is evaluated.
//!
//! Promises: closed: what cannot be evaluated at a bounded cost cannot be written as a [`Term`].

use crate::domain::json::Decimal;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Term>),
    /// All arguments.
    Arguments,
    /// A part of the actor.
    Actor(Part),
    /// A member of an object.
    Member(Box<Term>, String),
    /// An element of a list, counted from 0.
    Element(Box<Term>, usize),
    /// Whether an object has a member.
    Has(Box<Term>, String),
    /// A part of the actor that may be missing.
    HasSession,
    Not(Box<Term>),
    And(Box<Term>, Box<Term>),
    Or(Box<Term>, Box<Term>),
    Choice(Box<[Term; 3]>),
    Order(Order, Box<Term>, Box<Term>),
    /// Equal, or not equal where `true` stands in it.
    Equal(bool, Box<Term>, Box<Term>),
    In(Box<Term>, Box<Term>),
    Sum(Sum, Box<Term>, Box<Term>),
    Negative(Box<Term>),
    Size(Box<Term>),
    /// A number that a text writes, or that is there already; whole where `true` stands in it.
    ToNumber(bool, Box<Term>),
    Find(Find, Box<Term>, Box<Term>),
}

/// What is known of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Tenant,
    User,
    Session,
    Scopes,
}

impl Part {
    pub(super) const NAMES: [(&str, Self); 4] = [
        ("tenant", Self::Tenant),
        ("user", Self::User),
        ("session", Self::Session),
        ("scopes", Self::Scopes),
    ];
}

/// How two numbers or two texts are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Plus,
    Minus,
    Times,
    Rest,
}

/// Where one text stands in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Find {
    Start,
    End,
    Anywhere,
}

/// What can be said of a term before anybody calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Null,
    Bool,
    Number,
    Text,
    List,
    /// That is seen when a call comes.
    Any,
}

impl Term {
    pub(super) fn sort(&self) -> Sort {
        match self {
            Self::Null => Sort::Null,
            Self::Bool(_)
            | Self::Has(..)
            | Self::HasSession
            | Self::Not(_)
            | Self::And(..)
            | Self::Or(..)
            | Self::Order(..)
            | Self::Equal(..)
            | Self::In(..)
            | Self::Find(..) => Sort::Bool,
            Self::Number(_)
            | Self::Negative(_)
            | Self::Size(_)
            | Self::ToNumber(..)
            | Self::Sum(Sum::Minus | Sum::Times | Sum::Rest, ..) => Sort::Number,
            Self::Text(_) | Self::Actor(Part::Tenant | Part::User | Part::Session) => Sort::Text,
            Self::List(_) | Self::Actor(Part::Scopes) => Sort::List,
            Self::Arguments | Self::Member(..) | Self::Element(..) => Sort::Any,
            Self::Choice(choice) => {
                let [_, then, otherwise] = choice.as_ref();
                if then.sort() == otherwise.sort() { then.sort() } else { Sort::Any }
            }
            Self::Sum(Sum::Plus, one, other) => match (one.sort(), other.sort()) {
                (Sort::Any, sort) | (sort, _) => sort,
            },
        }
    }

    /// The parts that `&&`, `||`, `!` and `?:` join.
    pub(super) fn parts<'a>(&'a self, found: &mut Vec<&'a Self>) {
        match self {
            Self::And(one, other) | Self::Or(one, other) => {
                one.parts(found);
                other.parts(found);
            }
            Self::Not(inner) => inner.parts(found),
            Self::Choice(choice) => choice.iter().for_each(|part| part.parts(found)),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::List(_)
            | Self::Arguments
            | Self::Actor(_)
            | Self::Member(..)
            | Self::Element(..)
            | Self::Has(..)
            | Self::HasSession
            | Self::Order(..)
            | Self::Equal(..)
            | Self::In(..)
            | Self::Sum(..)
            | Self::Negative(_)
            | Self::Size(_)
            | Self::ToNumber(..)
            | Self::Find(..) => found.push(self),
        }
    }

    /// The terms that lead to something a call or its actor has: the longest only.
    pub(super) fn ways<'a>(&'a self, found: &mut Vec<&'a Self>) {
        match self {
            Self::Arguments | Self::Actor(_) | Self::Member(..) | Self::Element(..) => {
                if !found.contains(&self) {
                    found.push(self);
                }
            }
            Self::Has(of, _) => of.ways(found),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::HasSession => {}
            Self::List(terms) => terms.iter().for_each(|term| term.ways(found)),
            Self::Choice(choice) => choice.iter().for_each(|term| term.ways(found)),
            Self::Not(one) | Self::Negative(one) | Self::Size(one) | Self::ToNumber(_, one) => {
                one.ways(found);
            }
            Self::And(one, other)
            | Self::Or(one, other)
            | Self::Order(_, one, other)
            | Self::Equal(_, one, other)
            | Self::In(one, other)
            | Self::Sum(_, one, other)
            | Self::Find(_, one, other) => {
                one.ways(found);
                other.ways(found);
            }
        }
    }
}
