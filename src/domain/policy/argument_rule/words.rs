//! A rule's parts as text.
//!
//! Promises: what is written reads back as the same term, whatever brackets and blanks the policy has.

use std::fmt;

use super::term::{Find, Order, Part, Sum, Term};
use crate::domain::json::Decimal;

impl fmt::Display for Term {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => to.write_str("null"),
            Self::Bool(value) => write!(to, "{value}"),
            Self::Number(number) => write_number(*number, to),
            Self::Text(text) => write_text(text, to),
            Self::List(terms) => {
                to.write_str("[")?;
                for (at, term) in terms.iter().enumerate() {
                    write!(to, "{}{term}", if at == 0 { "" } else { ", " })?;
                }
                to.write_str("]")
            }
            Self::Arguments => to.write_str("args"),
            Self::Actor(part) => write!(to, "actor.{}", name_of(*part)),
            Self::Member(of, name) => write_member(of, name, to),
            Self::Element(of, at) => write!(to, "{of}[{at}]"),
            // `has()` takes names only.
            Self::Has(of, name) if is_name(name) => write!(to, "has({of}.{name})"),
            Self::Has(of, name) => {
                write_text(name, to)?;
                write!(to, " in {of}")
            }
            Self::HasSession => to.write_str("has(actor.session)"),
            Self::Not(one) => write!(to, "!{}", Inner(one)),
            Self::And(one, other) => write!(to, "{} && {}", Inner(one), Inner(other)),
            Self::Or(one, other) => write!(to, "{} || {}", Inner(one), Inner(other)),
            Self::Choice(choice) => {
                let [when, then, otherwise] = choice.as_ref();
                write!(to, "{} ? {} : {}", Inner(when), Inner(then), Inner(otherwise))
            }
            Self::Order(order, one, other) => {
                write!(to, "{} {} {}", Inner(one), sign_of(*order), Inner(other))
            }
            Self::Equal(not, one, other) => {
                write!(to, "{} {} {}", Inner(one), if *not { "!=" } else { "==" }, Inner(other))
            }
            Self::In(one, other) => write!(to, "{} in {}", Inner(one), Inner(other)),
            Self::Sum(sum, one, other) => {
                write!(to, "{} {} {}", Inner(one), sum_sign(*sum), Inner(other))
            }
            Self::Negative(one) => write!(to, "-{}", Inner(one)),
            Self::Size(one) => write!(to, "size({one})"),
            Self::ToNumber(whole, one) => write!(to, "{}({one})", if *whole { "int" } else { "double" }),
            Self::Find(find, one, other) => {
                let name = match find {
                    Find::Start => "startsWith",
                    Find::End => "endsWith",
                    Find::Anywhere => "contains",
                };
                write!(to, "{}.{name}({other})", Inner(one))
            }
        }
    }
}

/// A term in another one: in brackets where it is more than one word.
struct Inner<'a>(&'a Term);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = self.0;
        match term {
            Term::And(..)
            | Term::Or(..)
            | Term::Choice(_)
            | Term::Order(..)
            | Term::Equal(..)
            | Term::In(..)
            | Term::Sum(..)
            | Term::Negative(_) => write!(to, "({term})"),
            Term::Has(_, name) if !is_name(name) => write!(to, "({term})"),
            Term::Null
            | Term::Bool(_)
            | Term::Number(_)
            | Term::Text(_)
            | Term::List(_)
            | Term::Arguments
            | Term::Actor(_)
            | Term::Member(..)
            | Term::Element(..)
            | Term::Has(..)
            | Term::HasSession
            | Term::Not(_)
            | Term::Size(_)
            | Term::ToNumber(..)
            | Term::Find(..) => write!(to, "{term}"),
        }
    }
}

fn write_member(of: &Term, name: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    if is_name(name) {
        return write!(to, "{of}.{name}");
    }
    write!(to, "{of}[")?;
    write_text(name, to)?;
    to.write_str("]")
}

fn write_text(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    to.write_str("'")?;
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => write!(to, "\\{letter}")?,
            '\n' => to.write_str("\\n")?,
            control if control.is_control() => write!(to, "\\u{:04x}", u32::from(control))?,
            other => write!(to, "{other}")?,
        }
    }
    to.write_str("'")
}

/// CEL's own whole numbers end with 64 bits.
fn write_number(number: Decimal, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = number.to_string();
    let wide = !text.contains(['.', 'e']) && text.parse::<i64>().is_err();
    write!(to, "{text}{}", if wide { ".0" } else { "" })
}

/// Whether a member can be named behind a point.
fn is_name(name: &str) -> bool {
    const WORDS: [&str; 4] = ["in", "true", "false", "null"];
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !WORDS.contains(&name)
}

fn name_of(part: Part) -> &'static str {
    Part::NAMES.iter().find(|(_, known)| *known == part).map_or("", |(name, _)| name)
}

const fn sign_of(order: Order) -> &'static str {
    match order {
        Order::Less => "<",
        Order::AtMost => "<=",
        Order::More => ">",
        Order::AtLeast => ">=",
    }
}

const fn sum_sign(sum: Sum) -> &'static str {
    match sum {
        Sum::Plus => "+",
        Sum::Minus => "-",
        Sum::Times => "*",
        Sum::Rest => "%",
    }
}
