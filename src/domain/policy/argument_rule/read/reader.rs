//! From CEL's tree to a [`Term`]: what rules have, and what they do not have.
//!
//! Promises: what is not known here is a mistake. Two sorts that can never fit are found.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, operators};

use super::{Fault, Ways};
use crate::domain::json::Decimal;
use crate::domain::mistake::nearest;
use crate::domain::policy::argument_rule::term::{Find, Order, Part, Sort, Sum, Term};

/// What rules may call.
const FUNCTIONS: [&str; 7] = ["has", "size", "startsWith", "endsWith", "contains", "int", "double"];

/// The reader of one rule.
pub(super) struct Reader {
    source: SourceInfo,
    ways: Ways,
}

impl Reader {
    /// The term of a whole rule, and the ways into the arguments that it looks at.
    pub(super) fn read(expression: &IdedExpr, source: SourceInfo) -> Result<(Term, Ways), Fault> {
        let mut reader = Self { source, ways: Vec::new() };
        let term = reader.of_sort(expression, Sort::Bool)?;
        Ok((term, reader.ways))
    }

    fn at(&self, expression: &IdedExpr) -> usize {
        self.source.offset_for(expression.id).map_or(0, |(start, _)| usize::try_from(start).unwrap_or(0))
    }

    fn fault<T>(&self, expression: &IdedExpr, message: impl Into<String>, help: &str) -> Result<T, Fault> {
        let help = Some(help.to_owned()).filter(|help| !help.is_empty());
        Err(Fault { at: self.at(expression), message: message.into(), help })
    }

    /// A term that may be of this sort.
    fn of_sort(&mut self, expression: &IdedExpr, sort: Sort) -> Result<Term, Fault> {
        let term = self.term(expression)?;
        if term.sort() == sort || term.sort() == Sort::Any {
            return Ok(term);
        }
        let message = format!("\"{term}\" is {}, where {} is due", named(term.sort()), named(sort));
        self.fault(expression, message, "")
    }

    fn boxed(&mut self, expression: &IdedExpr, sort: Sort) -> Result<Box<Term>, Fault> {
        self.of_sort(expression, sort).map(Box::new)
    }

    fn term(&mut self, expression: &IdedExpr) -> Result<Term, Fault> {
        match &expression.expr {
            Expr::Literal(literal) => self.literal(expression, literal),
            Expr::Ident(name) => match name.as_str() {
                "args" => {
                    self.looks(Vec::new(), self.at(expression));
                    Ok(Term::Arguments)
                }
                "actor" => {
                    let help = "it may be actor.tenant, actor.user, actor.session or actor.scopes";
                    self.fault(expression, "\"actor\" alone says nothing", help)
                }
                other => {
                    let help = nearest(other, &["args", "actor"]).unwrap_or_default();
                    self.fault(expression, format!("unknown variable \"{other}\""), &help)
                }
            },
            Expr::Select(select) => self.select(expression, select),
            Expr::List(list) => {
                let terms = list.elements.iter().map(|element| self.term(element));
                Ok(Term::List(terms.collect::<Result<_, _>>()?))
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(_) => {
                let help = "a caller could send any number of elements; a rule says what one member must be";
                self.fault(expression, "rules have no loops (all, exists, exists_one, map, filter)", help)
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                self.fault(expression, "rules have no objects of their own", "compare the members one by one")
            }
        }
    }

    fn literal(&self, expression: &IdedExpr, literal: &LiteralValue) -> Result<Term, Fault> {
        Ok(match literal {
            LiteralValue::Null => Term::Null,
            LiteralValue::Boolean(value) => Term::Bool(*value.inner()),
            LiteralValue::Int(number) => Term::Number(Decimal::from(*number.inner())),
            LiteralValue::UInt(_) => {
                return self.fault(expression, "numbers are of one kind here", "leave the \"u\" out");
            }
            LiteralValue::Double(number) => {
                // The text itself: a float may be another number already.
                let (start, end) = self.source.offset_for(expression.id).unwrap_or_default();
                let place = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0) + 1;
                let text = self.source.source.get(place).unwrap_or_default();
                let negative = number.inner().is_sign_negative() && !text.starts_with('-');
                match Decimal::parse(text) {
                    Some(number) => Term::Number(if negative { -number } else { number }),
                    None => {
                        return self.fault(
                            expression,
                            format!("\"{text}\" is no number to compute with"),
                            "",
                        );
                    }
                }
            }
            LiteralValue::String(text) => Term::Text(text.inner().to_owned()),
            LiteralValue::Bytes(_) => {
                return self.fault(expression, "no argument is made of bytes", "leave the \"b\" out");
            }
        })
    }

    /// `of.name`, `has(of.name)`.
    fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Result<Term, Fault> {
        let name = select.field.as_str();
        if matches!(&select.operand.expr, Expr::Ident(root) if root == "actor") {
            return match (Part::NAMES.iter().find(|(known, _)| *known == name), select.test) {
                (Some((_, part)), false) => Ok(Term::Actor(*part)),
                (Some((_, Part::Session)), true) => Ok(Term::HasSession),
                (Some(_), true) => {
                    self.fault(expression, format!("every actor has a {name}"), "leave it out")
                }
                (None, _) => {
                    let known = Part::NAMES.map(|(name, _)| name);
                    let help = nearest(name, &known).unwrap_or_default();
                    self.fault(expression, format!("an actor has no \"{name}\""), &help)
                }
            };
        }
        self.member(expression, &select.operand, name, select.test)
    }

    /// A member, or whether there is one.
    fn member(&mut self, at: &IdedExpr, of: &IdedExpr, name: &str, test: bool) -> Result<Term, Fault> {
        let known = self.ways.len();
        let of = self.term(of)?;
        if of.sort() != Sort::Any {
            return self.fault(at, format!("\"{of}\" is {}, and has no members", named(of.sort())), "");
        }
        // What leads to the member is not looked at for itself.
        if let Some(way) = way_of(&of) {
            self.ways.truncate(known);
            let way = way.into_iter().chain([name.to_owned()]).collect();
            self.looks(way, self.at(at));
        }
        let (of, name) = (Box::new(of), name.to_owned());
        Ok(if test { Term::Has(of, name) } else { Term::Member(of, name) })
    }

    fn looks(&mut self, way: Vec<String>, at: usize) {
        self.ways.push((way, at));
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Result<Term, Fault> {
        match (call.target.as_deref(), call.args.as_slice()) {
            (None, [one]) => self.call_of_one(at, &call.func_name, one),
            (None, [one, other]) => self.call_of_two(at, &call.func_name, one, other),
            (None, [when, then, otherwise]) if call.func_name == operators::CONDITIONAL => {
                let when = self.of_sort(when, Sort::Bool)?;
                Ok(Term::Choice(Box::new([when, self.term(then)?, self.term(otherwise)?])))
            }
            (Some(target), []) if call.func_name == "size" => self.call_of_one(at, "size", target),
            (Some(target), [one]) => {
                let find = match call.func_name.as_str() {
                    "startsWith" => Find::Start,
                    "endsWith" => Find::End,
                    "contains" => Find::Anywhere,
                    other => return self.unknown(at, other),
                };
                Ok(Term::Find(find, self.boxed(target, Sort::Text)?, self.boxed(one, Sort::Text)?))
            }
            (..) => self.unknown(at, &call.func_name),
        }
    }

    fn unknown(&self, at: &IdedExpr, name: &str) -> Result<Term, Fault> {
        if name == "matches" {
            let help = "startsWith, endsWith and contains cost what they look at";
            return self.fault(at, "rules have no patterns", help);
        }
        if FUNCTIONS.contains(&name) {
            return self.fault(
                at,
                format!("\"{name}\" is called in another way"),
                "see the policy's reference",
            );
        }
        let help = nearest(name, &FUNCTIONS).unwrap_or_default();
        self.fault(at, format!("unknown function \"{name}\""), &help)
    }

    fn call_of_one(&mut self, at: &IdedExpr, name: &str, one: &IdedExpr) -> Result<Term, Fault> {
        Ok(match name {
            operators::LOGICAL_NOT => Term::Not(self.boxed(one, Sort::Bool)?),
            operators::NEGATE => {
                let term = self.of_sort(one, Sort::Number)?;
                if let Term::Number(number) = term {
                    Term::Number(-number)
                } else {
                    Term::Negative(Box::new(term))
                }
            }
            "size" => {
                let term = self.term(one)?;
                match term.sort() {
                    Sort::Text | Sort::List | Sort::Any => Term::Size(Box::new(term)),
                    sort @ (Sort::Null | Sort::Bool | Sort::Number) => {
                        return self.fault(at, format!("{} has no size", named(sort)), "");
                    }
                }
            }
            "int" | "double" => {
                let term = self.term(one)?;
                match term.sort() {
                    Sort::Text | Sort::Number | Sort::Any => Term::ToNumber(name == "int", Box::new(term)),
                    sort @ (Sort::Null | Sort::Bool | Sort::List) => {
                        return self.fault(at, format!("{} is no number", named(sort)), "");
                    }
                }
            }
            other => return self.unknown(at, other),
        })
    }

    fn call_of_two(
        &mut self,
        at: &IdedExpr,
        name: &str,
        one: &IdedExpr,
        other: &IdedExpr,
    ) -> Result<Term, Fault> {
        let order = |order| move |(one, other)| Term::Order(order, one, other);
        let sum = |sum| move |(one, other)| Term::Sum(sum, one, other);
        Ok(match name {
            operators::LOGICAL_AND => Term::And(self.boxed(one, Sort::Bool)?, self.boxed(other, Sort::Bool)?),
            operators::LOGICAL_OR => Term::Or(self.boxed(one, Sort::Bool)?, self.boxed(other, Sort::Bool)?),
            operators::EQUALS | operators::NOT_EQUALS => {
                let (one, other) = self.alike(at, one, other, &[])?;
                Term::Equal(name == operators::NOT_EQUALS, one, other)
            }
            operators::LESS => {
                self.alike(at, one, other, &[Sort::Number, Sort::Text]).map(order(Order::Less))?
            }
            operators::LESS_EQUALS => {
                self.alike(at, one, other, &[Sort::Number, Sort::Text]).map(order(Order::AtMost))?
            }
            operators::GREATER => {
                self.alike(at, one, other, &[Sort::Number, Sort::Text]).map(order(Order::More))?
            }
            operators::GREATER_EQUALS => {
                self.alike(at, one, other, &[Sort::Number, Sort::Text]).map(order(Order::AtLeast))?
            }
            operators::ADD => self.alike(at, one, other, &[Sort::Number, Sort::Text]).map(sum(Sum::Plus))?,
            operators::SUBSTRACT => self.alike(at, one, other, &[Sort::Number]).map(sum(Sum::Minus))?,
            operators::MULTIPLY => self.alike(at, one, other, &[Sort::Number]).map(sum(Sum::Times))?,
            operators::MODULO => self.alike(at, one, other, &[Sort::Number]).map(sum(Sum::Rest))?,
            operators::DIVIDE => {
                let help = "multiply the other side: \"args.part * 2 <= args.whole\"";
                return self.fault(at, "rules do not divide: the result would have to be rounded", help);
            }
            operators::IN => self.within(at, one, other)?,
            operators::INDEX => self.index(at, one, other)?,
            other => return self.unknown(at, other),
        })
    }

    /// Two terms that may be of one sort, and of one of these; of any sort where none is named.
    fn alike(
        &mut self,
        at: &IdedExpr,
        one: &IdedExpr,
        other: &IdedExpr,
        sorts: &[Sort],
    ) -> Result<(Box<Term>, Box<Term>), Fault> {
        let (one, other) = (self.term(one)?, self.term(other)?);
        let pair = (one.sort(), other.sort());
        let equality = sorts.is_empty();
        let free = |sort| sort == Sort::Any || (equality && sort == Sort::Null);
        let fits = |sort| sort == Sort::Any || equality || sorts.contains(&sort);
        if !fits(pair.0) || !fits(pair.1) || (pair.0 != pair.1 && !free(pair.0) && !free(pair.1)) {
            let message = format!("\"{one}\" is {}, and \"{other}\" is {}", named(pair.0), named(pair.1));
            return self.fault(at, message, "both sides are to be of one kind");
        }
        Ok((Box::new(one), Box::new(other)))
    }

    /// `'name' in args`, `args.currency in ['EUR', 'USD']`.
    fn within(&mut self, at: &IdedExpr, one: &IdedExpr, other: &IdedExpr) -> Result<Term, Fault> {
        if let Expr::Literal(LiteralValue::String(name)) = &one.expr
            && !matches!(other.expr, Expr::List(_))
        {
            let known = self.ways.len();
            let list = self.term(other)?;
            // In a list it is an element, and in an object a member: which one a call brings is seen then.
            if let Some(way) = way_of(&list) {
                self.ways.truncate(known);
                self.looks(way.into_iter().chain([name.inner().to_owned()]).collect(), self.at(at));
            }
            if list.sort() == Sort::Any {
                return Ok(Term::In(Box::new(Term::Text(name.inner().to_owned())), Box::new(list)));
            }
        }
        let one = self.term(one)?;
        let list = self.of_sort(other, Sort::List)?;
        Ok(Term::In(Box::new(one), Box::new(list)))
    }

    fn index(&mut self, at: &IdedExpr, of: &IdedExpr, index: &IdedExpr) -> Result<Term, Fault> {
        if let Expr::Literal(LiteralValue::String(name)) = &index.expr {
            if matches!(&of.expr, Expr::Ident(root) if root == "actor") {
                return self.fault(at, "write it with a point", "\"actor.tenant\"");
            }
            return self.member(at, of, name.inner(), false);
        }
        if let Expr::Literal(LiteralValue::Int(number)) = &index.expr
            && let Ok(place) = usize::try_from(*number.inner())
        {
            return Ok(Term::Element(self.boxed(of, Sort::List)?, place));
        }
        self.fault(index, "what stands in brackets must be written out", "a name, or a number from 0")
    }
}

/// The names that lead to a term from the arguments; none where it does not stand there.
fn way_of(term: &Term) -> Option<Vec<String>> {
    if let Term::Member(of, name) = term {
        let mut way = way_of(of)?;
        way.push(name.clone());
        return Some(way);
    }
    if let Term::Element(of, at) = term {
        let mut way = way_of(of)?;
        way.push(at.to_string());
        return Some(way);
    }
    matches!(term, Term::Arguments).then(Vec::new)
}

const fn named(sort: Sort) -> &'static str {
    match sort {
        Sort::Null => "null",
        Sort::Bool => "true or false",
        Sort::Number => "a number",
        Sort::Text => "a text",
        Sort::List => "a list",
        Sort::Any => "anything",
    }
}
